"""What a session remembers between two requests, without any content."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cupel._checks import as_text, shown
from cupel._planning._bill import Bill
from cupel._planning._pool import Entry
from cupel.errors import ConfigurationError

VERSION = 1

_Amount = Annotated[float, msgspec.Meta(ge=0)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last request, and what was learned so far; a few kilobytes as JSON."""

    version: int = VERSION
    turns: _Count = 0
    opening: str = ""
    """A digest of what stands before the entries: tools and system prompt."""
    last: tuple[Entry, ...] = ()
    anew: _Amount = 0.0
    """The smoothed value of a window chosen anew."""
    growth: _Amount = 0.0
    """Smoothed tokens that a turn adds."""
    expiry: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """How often the cache was found cold, smoothed."""
    ratio: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    """The provider's tokens for one of ours."""
    observed: _Count = 0
    """How many requests the provider has settled."""
    pending: Bill | None = None
    """The last request's bill, as long as the provider has not settled it."""
    before: Bill = msgspec.field(default_factory=Bill)
    """The sum of all others."""

    @property
    def total(self) -> Bill:
        """The bill of all requests so far."""
        return self.before if self.pending is None else self.before + self.pending

    def to_json(self) -> str:
        """Write the state."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> State:
        """Read a state; one of another version, or anything else, is refused."""
        try:
            version = msgspec.json.decode(as_text("state", text), type=_Versioned).version
            if version != VERSION:
                msg = f"state is of version {version}, this is version {VERSION}: start a new session"
                raise ConfigurationError(msg)
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            msg = f"state must be what to_json wrote, got {shown(text)}: {error}"
            raise ConfigurationError(msg) from error


class _Versioned(msgspec.Struct):
    version: int
