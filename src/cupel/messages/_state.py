"""The state of a session between two requests, and the corrections it learns from the provider's usage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Annotated, NamedTuple

import msgspec
from msgspec.structs import replace

from cupel._internal.checks import MOST_TOKENS, as_text, shown
from cupel.errors import ConfigurationError
from cupel.messages._gaps import Amount, Note
from cupel.messages._prices import AMOUNTS, Bill, Prices

VERSION = 2

_SAMPLES = 8
"""Observations that the scale is learned from."""
_LOWEST_RATIO, _HIGHEST_RATIO = 0.5, 3.0
"""Tokenizers differ by less than these factors; more than that is an overhead, or a usage of something else."""
_LIKELY_RATIO = 1.5
"""A first observation below this factor is attributed to the tokenizer; above it, to tokens that were not counted."""
_SURPRISE = 0.25
"""By how much of it the newest observation may exceed the others and still be believed."""
_APART = 0.2
"""Requests whose sizes differ by less than this share say nothing about the ratio."""


class Scale(NamedTuple):
    """How the provider counts: `overhead + ratio * ours`."""

    ratio: float = 1.0
    overhead: float = 0.0

    def predicted(self, ours: float) -> float:
        """Return the provider's count for one of ours."""
        return self.overhead + self.ratio * ours


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One message of the last request, without its content."""

    at: Amount
    """Its position in the history."""
    digest: str
    tokens: Amount
    limit: Amount | None = None
    """The most tokens of each of its texts, where they were cut."""
    bare: bool = False
    """Whether its thinking was removed; it must not come back."""
    called_again: bool = False
    """Whether its texts were cut because the same call was made again later."""
    asked: tuple[Amount, ...] = ()
    """The positions of the messages that told what mattered in its texts, where they were cut."""
    note: Note | None = None
    """The note that it holds, or that comes before it."""

    @property
    def size(self) -> int:
        """Tokens of the message with its note."""
        return self.tokens + (0 if self.note is None else self.note.tokens)


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last request and the corrections learned so far; a few kilobytes as JSON."""

    version: int = VERSION
    turns: Amount = 0
    opening: str = ""
    """A digest of tools and system prompt, which come before the messages."""
    last: tuple[Entry, ...] = ()
    seen: Amount = 0
    """The number of messages of the history that the last request was made of."""
    whole: Amount = 0
    """Tokens of that history; of a long one, those of its newest part."""
    written: tuple[str, ...] = ()
    """Signatures of the texts with a note that were sent, so that notes in a stored history are recognised."""
    quoted: tuple[str, ...] = ()
    """Those of them that the user or a tool quoted since."""
    waiting: tuple[Amount, ...] = ()
    """Positions of messages that could not be sent yet, such as a call without its result."""
    usage: Annotated[tuple[tuple[Amount, Amount], ...], msgspec.Meta(max_length=_SAMPLES)] = ()
    """The newest observations: our tokens of a request and the provider's."""
    pending: Bill | None = None
    """The last request's bill, as long as the provider has not settled it."""
    before: Bill = msgspec.field(default_factory=Bill)
    """The sum of all others."""

    @property
    def total(self) -> Bill:
        """The bill of all requests so far."""
        return self.before if self.pending is None else self.before + self.pending

    @property
    def scale(self) -> Scale:
        """How the provider counts, from the usage observed so far."""
        return learned(self.usage)

    def to_json(self) -> str:
        """Write the state."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> State:
        """Read a state; one of another version, or anything else, is refused."""
        try:
            version = msgspec.json.decode(as_text("state", text), type=_Versioned).version
            if version != VERSION:
                msg = f"state is of version {version}, this is version {VERSION}: begin a new session with the history"
                raise ConfigurationError(msg)
            state = msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            msg = f"state must be the text that to_json returned, got {shown(text)}: {error}"
            raise ConfigurationError(msg) from error
        for bill in (state.before, *(() if state.pending is None else (state.pending,))):
            _check(bill)
        return state


class _Versioned(msgspec.Struct):
    version: int


def _check(bill: Bill) -> None:
    """Refuse amounts that no session can have reached."""
    for name in AMOUNTS:
        if not 0 <= getattr(bill, name) <= MOST_TOKENS:
            got = shown(getattr(bill, name))
            msg = f"state must be the text that to_json returned: {name} of a bill is from 0 to 2**53, got {got}"
            raise ConfigurationError(msg)


def learned(usage: Sequence[tuple[int, int]]) -> Scale:
    """Return how the provider counts, by observations of our tokens and its own.

    The ratio is the median slope between requests of different sizes, so one usage of something else, such as a sum
    over many requests, changes little. The overhead is the rest: tools and prompts that were not counted.

    >>> learned([(8, 1508)])
    Scale(ratio=1.0, overhead=1500.0)
    >>> learned([(1000, 2700), (2000, 3900)])
    Scale(ratio=1.2, overhead=1500.0)
    """
    if not usage:
        return Scale()
    slopes = [
        (theirs - other_theirs) / (ours - other)
        for (ours, theirs), (other, other_theirs) in combinations(usage, 2)
        if abs(ours - other) > _APART * max(ours, other)
    ]
    first = median(theirs / max(ours, 1) for ours, theirs in usage)
    ratio = median(slopes) if slopes else (first if first <= _LIKELY_RATIO else 1.0)
    ratio = min(max(ratio, _LOWEST_RATIO), _HIGHEST_RATIO)
    found = Scale(ratio, max(0.0, median(theirs - ratio * ours for ours, theirs in usage)))
    ours, theirs = usage[-1]
    missing = theirs - found.predicted(ours)
    # More tokens than expected count at once: a request must not exceed the budget. Far more are not one request's.
    return found._replace(overhead=found.overhead + missing) if 0 < missing <= _SURPRISE * theirs else found


def median(numbers: Iterable[float]) -> float:
    """Return the middle one of some numbers, or the mean of the two in the middle."""
    ordered = sorted(numbers)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def settle(state: State, usage: object, prices: Prices, diagnostics: object = None) -> tuple[State, Bill | None]:
    """Return the state after the provider's usage of the last request, and the bill; None if it has one already."""
    estimate = state.pending
    bill = prices.settle(estimate or Bill(), usage, diagnostics)
    if estimate is None or not estimate.sent or not bill.sent:
        return state, None
    return replace(
        state, usage=_samples(state.usage, (estimate.sent, bill.sent)), pending=None, before=state.before + bill
    ), bill


def _samples(usage: Sequence[tuple[int, int]], newest: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Return the observations to keep: the newest, and of older ones the smallest and the largest request."""
    known = [*usage, newest]
    if len(known) > _SAMPLES:
        ends = (min(known), max(known))
        known.remove(next(one for one in known if one not in ends))
    return tuple(known)
