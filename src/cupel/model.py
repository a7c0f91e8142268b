"""The frozen values that flow through the pipeline: kinds, items, budgets, scored items, overflow strategies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast

import msgspec
from msgspec.structs import force_setattr

from cupel._internal.checks import (
    MOST_TOKENS,
    as_finite,
    as_flag,
    as_instance,
    as_integer,
    as_mapping,
    as_number,
    as_text,
    as_tuple,
    shown,
    wrong_type,
)
from cupel._internal.counter import TokenCounter, as_counter, count_tokens
from cupel._internal.folded import FoldedName, folded_map
from cupel._internal.frozen import EMPTY, FrozenDict
from cupel._internal.portable import Portable
from cupel.errors import InvalidBudgetError, InvalidItemError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "GROUP_KEY",
    "ID_KEY",
    "PRIORITY_KEY",
    "SOURCE_TYPE_KEY",
    "TRUST_KEY",
    "UNTIMED_KEY",
    "WORTH_KEY",
    "ContextBudget",
    "ContextItem",
    "ContextKind",
    "ContextSource",
    "OverflowStrategy",
    "ScoredItem",
]

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
UNTIMED_KEY = "cupel:untimed"
"""Metadata key: true if the timestamp is no time, but the item's place in its history; set by `to_items`."""


class ContextKind(FoldedName):
    """The type of an item, such as `Message` or `Document`: an open set of names, compared without ASCII case.

    Any non-blank string is a kind; the five well-known ones are class attributes.

    >>> ContextKind("Message") == ContextKind("mEsSaGe")
    True
    >>> str(ContextKind("mEsSaGe"))
    'mEsSaGe'
    """

    __slots__ = ()
    noun = "kind"

    MESSAGE: ClassVar[ContextKind]
    DOCUMENT: ClassVar[ContextKind]
    TOOL_OUTPUT: ClassVar[ContextKind]
    MEMORY: ClassVar[ContextKind]
    SYSTEM_PROMPT: ClassVar[ContextKind]


ContextKind.MESSAGE = ContextKind.of("Message")
ContextKind.DOCUMENT = ContextKind.of("Document")
ContextKind.TOOL_OUTPUT = ContextKind.of("ToolOutput")
ContextKind.MEMORY = ContextKind.of("Memory")
ContextKind.SYSTEM_PROMPT = ContextKind.of("SystemPrompt")


class ContextSource(FoldedName):
    """Where an item came from: an open set of names, compared without ASCII case.

    >>> ContextSource("RAG") == ContextSource.RAG
    True
    """

    __slots__ = ()
    noun = "source"

    CHAT: ClassVar[ContextSource]
    TOOL: ClassVar[ContextSource]
    RAG: ClassVar[ContextSource]


ContextSource.CHAT = ContextSource.of("Chat")
ContextSource.TOOL = ContextSource.of("Tool")
ContextSource.RAG = ContextSource.of("Rag")


_KINDS: Final = ContextKind.known
_SOURCES: Final = ContextSource.known


class _RequiredOfItem(msgspec.Struct, frozen=True, gc=False):
    """The two positional fields; a separate base because msgspec makes keyword-only fields per class."""

    content: str
    tokens: int = cast("int", msgspec.UNSET)  # an error that says how to count them


class ContextItem(_RequiredOfItem, Portable, frozen=True, kw_only=True, gc=False, repr_omit_defaults=True):
    """One piece of context that may enter the window; frozen, validated once.

    `tokens` is the caller's count, at most 2^53; negative counts are legal here and dropped by the pipeline.
    `timestamp` must be aware and becomes UTC. `metadata` is copied (one level) and read-only; keys that start with
    `cupel:` are reserved. Strings, numbers and timestamps of other libraries' types become plain ones. Two items are
    equal when all fields are, but the pipeline tells items apart by position, never by equality.

    >>> item = ContextItem("The build failed on step 3.", 7, kind="ToolOutput", tags=["ci"])
    >>> item.kind == ContextKind.TOOL_OUTPUT, item.tags
    (True, ('ci',))
    """

    _document = "cupel._internal.documents:ITEM"

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
        content, tokens = self.content, self.tokens
        if type(content) is not str or not content:
            force_setattr(self, "content", _content(content))
        if type(tokens) is not int or tokens > MOST_TOKENS:
            force_setattr(self, "tokens", _tokens(tokens))
        kind: ContextKind | str = self.kind
        if type(kind) is not ContextKind:
            force_setattr(self, "kind", (type(kind) is str and _KINDS.get(kind)) or ContextKind.of(kind))
        source: ContextSource | str = self.source
        if type(source) is not ContextSource:
            force_setattr(self, "source", (type(source) is str and _SOURCES.get(source)) or ContextSource.of(source))
        priority = self.priority
        if priority is not None and type(priority) is not int:
            force_setattr(self, "priority", as_integer("priority", priority))
        tags = self.tags
        if type(tags) is not tuple or tags:
            force_setattr(self, "tags", _frozen_tags(tags))
        metadata = self.metadata
        if metadata is not EMPTY:
            force_setattr(self, "metadata", _frozen_metadata(metadata))
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
        8
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
        raise TypeError("tokens is missing: count them, or use ContextItem.counted(content, counter)")
    return _count("tokens", value)


def _content(content: object) -> str:
    text = as_text("content", content)
    if not text:
        raise InvalidItemError("content must not be empty, got ''")
    return text


def _count(field: str, tokens: object) -> int:
    return as_integer(field, tokens, most=MOST_TOKENS, error=InvalidItemError)


# For few strings a loop of its own tests exact types faster than a function, a generator or a map.


def _frozen_tags(tags: Iterable[str]) -> tuple[str, ...]:
    if tags.__class__ is list or tags.__class__ is tuple:
        for tag in tags:
            if type(tag) is not str:
                break
        else:
            return tuple(tags)
    return tuple(map(str.__str__, as_tuple("tags", tags, str, expected="an iterable of strings")))


def _frozen_metadata(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    if metadata.__class__ is dict or metadata.__class__ is FrozenDict:
        for key in metadata:
            if type(key) is not str:
                break
        else:
            return FrozenDict(metadata) if metadata else EMPTY
    for key in as_mapping("metadata", metadata):
        if not isinstance(key, str):
            raise wrong_type("metadata keys", "strings", key)
    return FrozenDict({str.__str__(key): value for key, value in metadata.items()}) or EMPTY


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


_NO_MARGIN: Final = 0.0
_WHOLE: Final = cast("int", msgspec.UNSET)
"""The target of a budget that names none: the whole window."""


class _RequiredOfBudget(msgspec.Struct, frozen=True):
    """The two positional fields."""

    max_tokens: int
    target_tokens: int = _WHOLE


class ContextBudget(_RequiredOfBudget, Portable, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The token budget of a selection; frozen, validated once.

    `max_tokens` is the model's window, `target_tokens` the size that the selection aims for, by default the whole
    window, `output_reserve` the tokens that the answer needs. `reserved_slots` are token amounts held back per kind;
    they shrink the budget even if no such item exists. They may exceed the window: then nothing but pinned items is
    selected. `estimation_safety_margin_percent` shrinks the rest, for token counts that are estimates.

    >>> ContextBudget(8000, 6000, output_reserve=1000).unreserved_capacity
    7000
    """

    _document = "cupel._internal.documents:BUDGET"

    output_reserve: int = 0
    reserved_slots: Mapping[ContextKind, int] = EMPTY
    estimation_safety_margin_percent: float = _NO_MARGIN

    if TYPE_CHECKING:

        def __init__(
            self,
            max_tokens: int,
            target_tokens: int = ...,
            *,
            output_reserve: int = ...,
            reserved_slots: Mapping[ContextKind, int] | Mapping[str, int] = ...,
            estimation_safety_margin_percent: float = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        # A well-formed budget passes by comparisons alone, because every run makes some; the rest is for messages.
        if self.target_tokens is _WHOLE:
            force_setattr(self, "target_tokens", self.max_tokens)
        most, target, reserve = self.max_tokens, self.target_tokens, self.output_reserve
        is_whole = type(most) is type(target) is type(reserve) is int
        if not (is_whole and 0 <= target <= most <= MOST_TOKENS and 0 <= reserve <= most):
            for field, value in _checked(max_tokens=most, target_tokens=target, output_reserve=reserve).items():
                force_setattr(self, field, value)
        if self.reserved_slots is not EMPTY:
            slots = folded_map(
                self.reserved_slots,  # type: ignore[arg-type]
                ContextKind,
                lambda value, where: _whole(where, value),
                field="reserved_slots",
                error=InvalidBudgetError,
            )
            force_setattr(self, "reserved_slots", slots or EMPTY)  # the repr leaves out what is the default itself
        margin = self.estimation_safety_margin_percent
        if margin is not _NO_MARGIN:
            percent = as_finite(
                "estimation_safety_margin_percent", margin, error=InvalidBudgetError, least=0.0, most=100.0
            )
            force_setattr(self, "estimation_safety_margin_percent", percent or _NO_MARGIN)

    @classmethod
    def of(cls, budget: ContextBudget | int, *, name: str = "budget") -> ContextBudget:
        """Return the budget; turn an integer into a window of that many tokens with the same target.

        >>> ContextBudget.of(8000)
        ContextBudget(max_tokens=8000, target_tokens=8000)
        """
        if isinstance(budget, ContextBudget):
            return budget
        tokens = as_integer(name, budget, expected="a ContextBudget or an integer", least=0, error=InvalidBudgetError)
        return cls(tokens, tokens)

    @property
    def total_reserved(self) -> int:
        """Output reserve plus all reserved slots."""
        return self.output_reserve + sum(self.reserved_slots.values())

    @property
    def unreserved_capacity(self) -> int:
        """The tokens of the window that are not reserved; negative when the reservations exceed it."""
        return self.max_tokens - self.total_reserved

    @property
    def has_capacity(self) -> bool:
        """Whether anything is left after everything reserved."""
        return self.unreserved_capacity > 0

    def extended(self, tokens: int) -> ContextBudget:
        """Return the same budget with `tokens` more in both the window and the target (fewer when negative)."""
        more = as_integer("tokens", tokens)
        return self.replace(max_tokens=self.max_tokens + more, target_tokens=self.target_tokens + more)

    def replace(self, **changes: Any) -> Self:
        """Make a copy with some fields changed, checked like any budget.

        >>> ContextBudget(8000, 6000).replace(output_reserve=500)
        ContextBudget(max_tokens=8000, target_tokens=6000, output_reserve=500)
        """
        return msgspec.structs.replace(self, **changes)

    def __hash__(self) -> int:
        return hash((self.max_tokens, self.target_tokens, self.output_reserve, self.estimation_safety_margin_percent))


def _checked(**parts: object) -> dict[str, int]:
    checked = {field: _whole(field, value) for field, value in parts.items()}
    for field, value in checked.items():
        if value > checked["max_tokens"]:
            msg = f"{field} must not exceed max_tokens={shown(checked['max_tokens'])}, got {shown(value)}"
            raise InvalidBudgetError(msg)
    return checked


def _whole(field: str, value: object) -> int:
    return as_integer(field, value, least=0, most=MOST_TOKENS, error=InvalidBudgetError)


class ScoredItem(msgspec.Struct, frozen=True):
    """An item and its score, as slicers and placers receive them.

    >>> ScoredItem(ContextItem("hello", 1), 0.5).score
    0.5
    """

    item: ContextItem
    score: float

    def __post_init__(self) -> None:
        as_instance("item", self.item, ContextItem)
        if type(self.score) is not float:
            force_setattr(self, "score", as_number("score", self.score, error=InvalidItemError))


class OverflowStrategy(Enum):
    """How to handle pinned and selected items that together exceed `target_tokens`."""

    THROW = "throw"
    """Raise `BudgetOverflowError`."""
    TRUNCATE = "truncate"
    """Walk the selection from the highest score down and keep items that still fit; pinned items always stay."""
    PROCEED = "proceed"
    """Keep everything and tell the pipeline's `on_overflow` callback."""
