"""The candidate: one piece of context."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from operator import countOf
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec
from msgspec.structs import force_setattr

from cupel._checks import MOST_TOKENS, as_flag, as_integer, as_mapping, as_number, as_text, as_tuple, wrong_type
from cupel._counter import TokenCounter, as_counter, count_tokens
from cupel._frozen import EMPTY, FrozenDict
from cupel._portable import Portable
from cupel.errors import InvalidItemError
from cupel.model._kind import ContextKind, ContextSource

if TYPE_CHECKING:
    from collections.abc import Iterable

TRUST_KEY = "cupel:trust"
"""Metadata key: how far the caller trusts the item, from 0 to 1; read by `MetadataTrustScorer`."""
SOURCE_TYPE_KEY = "cupel:source-type"
"""Metadata key: a label for the origin, by convention `user`, `tool`, `external` or `system`; no scorer reads it."""
PRIORITY_KEY = "cupel:priority"
"""Metadata key: a priority label such as `high`; meant for `MetadataKeyScorer`."""
ID_KEY = "cupel:id"
"""Metadata key: the name of the entity that the item is a form of; set by `forms`."""
WORTH_KEY = "cupel:worth"
"""Metadata key: the share of its entity's score that a form keeps, from 0 to 1; set by `forms`."""
GROUP_KEY = "cupel:group"
"""Metadata key: a label; all entities that carry it are in, or none is."""


class _Required(msgspec.Struct, frozen=True, gc=False):
    """The two positional fields; a separate base because msgspec makes keyword-only fields per class."""

    content: str
    tokens: int = cast("int", msgspec.UNSET)  # an error that says how to count them


class ContextItem(_Required, Portable, frozen=True, kw_only=True, gc=False, repr_omit_defaults=True):
    """One piece of context that may enter the window; frozen, validated once.

    `tokens` is the caller's count, at most 2^53; negative counts are legal here and dropped by the pipeline.
    `timestamp` must be aware and becomes UTC. `metadata` is copied (one level) and read-only; keys that start with
    `cupel:` are reserved. Strings, numbers and timestamps of other libraries' types become plain ones. Two items are
    equal when all fields are, but the pipeline tells items apart by position, never by equality.

    >>> item = ContextItem("The build failed on step 3.", 7, kind="ToolOutput", tags=["ci"])
    >>> item.kind == ContextKind.TOOL_OUTPUT, item.tags
    (True, ('ci',))
    """

    _document = "cupel._documents:ITEM"

    kind: ContextKind = ContextKind.MESSAGE
    source: ContextSource = ContextSource.CHAT
    priority: int | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = EMPTY
    timestamp: datetime | None = None
    future_relevance_hint: float | None = None
    pinned: bool = False
    original_tokens: int | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            content: str,
            tokens: int,
            *,
            kind: ContextKind | str = ...,
            source: ContextSource | str = ...,
            priority: int | None = ...,
            tags: Iterable[str] = ...,
            metadata: Mapping[str, Any] = ...,
            timestamp: datetime | None = ...,
            future_relevance_hint: float | None = ...,
            pinned: bool = ...,
            original_tokens: int | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        # Each test is on the exact type first, so that a well-formed item costs one comparison a field.
        if type(self.content) is not str or not self.content:
            force_setattr(self, "content", _content(self.content))
        tokens = self.tokens
        if type(tokens) is not int or tokens > MOST_TOKENS:
            force_setattr(self, "tokens", _tokens(tokens))
        if type(self.kind) is not ContextKind:
            force_setattr(self, "kind", ContextKind.of(self.kind))
        if type(self.source) is not ContextSource:
            force_setattr(self, "source", ContextSource.of(self.source))
        if self.priority is not None and type(self.priority) is not int:
            force_setattr(self, "priority", as_integer("priority", self.priority))
        if type(self.tags) is not tuple or (self.tags and not _are_plain(self.tags)):
            force_setattr(self, "tags", _frozen_tags(self.tags))
        if self.metadata is not EMPTY:
            force_setattr(self, "metadata", _frozen_metadata(self.metadata))
        time = self.timestamp
        if time is not None and (type(time) is not datetime or time.tzinfo is not UTC):
            force_setattr(self, "timestamp", _utc(time))
        hint = self.future_relevance_hint
        if hint is not None and type(hint) is not float:
            force_setattr(
                self, "future_relevance_hint", as_number("future_relevance_hint", hint, error=InvalidItemError)
            )
        if self.pinned is not False and self.pinned is not True:
            as_flag("pinned", self.pinned)
        if self.original_tokens is not None:
            force_setattr(self, "original_tokens", _count("original_tokens", self.original_tokens))

    @classmethod
    def counted(cls, content: str, counter: TokenCounter, **fields: Any) -> Self:
        """Make an item whose tokens a counter counts; `fields` are those of the constructor.

        >>> from cupel.tokens import CharacterEstimate
        >>> ContextItem.counted("The build failed on step 3.", CharacterEstimate(), kind="ToolOutput").tokens
        7
        """
        return cls(content, count_tokens(as_counter("counter", counter), as_text("content", content)), **fields)

    def replace(self, **changes: Any) -> Self:
        """Make a copy with some fields changed, checked like any item.

        >>> ContextItem("hello", 1).replace(pinned=True).pinned
        True
        """
        return msgspec.structs.replace(self, **changes)

    def __hash__(self) -> int:
        return hash((self.content, self.tokens, self.kind, self.timestamp))


# NumPy's strings and numbers, pandas' timestamps, members of an enum are taken for the plain values they are: whatever
# they override has no say in a selection, and everything else may rely on exact types.


def _tokens(value: object) -> int:
    if value is msgspec.UNSET:
        hint = "count them, or use cupel.tokens.with_token_count(ContextItem(content, 0), counter)"
        raise TypeError(f"tokens is missing: {hint}")
    return _count("tokens", value)


def _content(content: object) -> str:
    text = as_text("content", content)
    if not text:
        raise InvalidItemError("content must not be empty, got ''")
    return text


def _count(field: str, tokens: object) -> int:
    return as_integer(field, tokens, most=MOST_TOKENS, error=InvalidItemError)


def _are_plain(strings: Any) -> bool:
    return countOf(map(type, strings), str) == len(strings)


def _frozen_tags(tags: Iterable[str]) -> tuple[str, ...]:
    if tags.__class__ is list and _are_plain(tags):
        return tuple(tags)
    return tuple(map(str.__str__, as_tuple("tags", tags, str, expected="an iterable of strings")))


def _frozen_metadata(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    if metadata.__class__ is not dict:
        as_mapping("metadata", metadata)
    if not _are_plain(metadata):
        for key in metadata:
            if not isinstance(key, str):
                raise wrong_type("metadata keys", "strings", key)
        metadata = {str.__str__(key): value for key, value in metadata.items()}
    return FrozenDict(metadata) if metadata else EMPTY


def _utc(timestamp: datetime) -> datetime:
    if not isinstance(timestamp, datetime):
        raise wrong_type("timestamp", "an aware datetime", timestamp)
    try:
        naive = timestamp.utcoffset() is None
        # Two datetimes with one tzinfo compare by wall clock, which DST folds; instants need UTC (ruling 2.8).
        instant = timestamp if naive else timestamp.astimezone(UTC)
    except (OverflowError, ValueError):  # the last evening of the year 9999 in the west; pandas' NaT
        msg = f"timestamp must be an instant from year 1 to 9999 in UTC, got {timestamp.isoformat()}"
        raise InvalidItemError(msg) from None
    if naive:
        raise InvalidItemError(f"timestamp must carry a time zone, got the naive {timestamp.isoformat()}")
    return instant if type(instant) is datetime else datetime.combine(instant.date(), instant.timetz())
