"""Making an item: beside a frozen, slotted dataclass that validates the same fields in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from benchmarks.measure import garbage_collection, timed
from benchmarks.memory import allocated
from benchmarks.pools import FIRST
from cupel import ContextItem, ContextKind, ContextSource, InvalidItemError
from cupel._internal.checks import as_integer, as_number
from cupel._internal.frozen import EMPTY
from cupel.model import _content, _frozen_metadata, _frozen_tags, _utc

RICH: dict[str, Any] = {
    "kind": "Document",
    "source": "Rag",
    "priority": 3,
    "tags": ["a", "b", "c"],
    "metadata": {"cupel:trust": 0.5},
    "timestamp": FIRST,
    "future_relevance_hint": 0.5,
}


@dataclass(frozen=True, slots=True)
class DataclassItem:
    """The rival: the same fields, defaults and checks, with the tools of the standard library."""

    content: str
    tokens: int
    kind: ContextKind = ContextKind.MESSAGE
    source: ContextSource = ContextSource.CHAT
    priority: int | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = EMPTY
    timestamp: datetime | None = None
    future_relevance_hint: float | None = None
    pinned: bool = False
    original_tokens: int | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        if type(self.content) is not str or not self.content:
            put(self, "content", _content(self.content))
        if type(self.tokens) is not int:
            put(self, "tokens", as_integer("tokens", self.tokens))
        if type(self.kind) is not ContextKind:
            put(self, "kind", ContextKind.of(self.kind))
        if type(self.source) is not ContextSource:
            put(self, "source", ContextSource.of(self.source))
        if self.priority is not None and type(self.priority) is not int:
            put(self, "priority", as_integer("priority", self.priority))
        if self.tags != ():
            put(self, "tags", _frozen_tags(self.tags))
        if self.metadata is not EMPTY:
            put(self, "metadata", _frozen_metadata(self.metadata))
        if self.timestamp is not None:
            put(self, "timestamp", _utc(self.timestamp))
        hint = self.future_relevance_hint
        if hint is not None and type(hint) is not float:
            put(self, "future_relevance_hint", as_number("future_relevance_hint", hint, error=InvalidItemError))
        if self.pinned is not False and self.pinned is not True:
            msg = f"pinned must be True or False, got {self.pinned!r}"
            raise TypeError(msg)
        if self.original_tokens is not None and type(self.original_tokens) is not int:
            put(self, "original_tokens", as_integer("original_tokens", self.original_tokens))


def measure_construction(*, seconds: float = 0.5) -> list[dict[str, Any]]:
    """Nanoseconds and bytes for one item of each class, with the two fields only and with most of them."""
    rows = []
    for name, options in (("content and tokens", {}), ("nine fields", RICH)):
        row: dict[str, Any] = {"fields": name}
        for build in (ContextItem, DataclassItem):
            with garbage_collection(enabled=False):
                best = timed(lambda: build("text", 7, **options), seconds=seconds).best  # noqa: B023
            row[build.__name__] = {"ns": round(best * 1_000), "bytes": _bytes(build, options)}
        rows.append(row)
    return rows


def _bytes(build: Callable[..., object], options: dict[str, Any], count: int = 10_000) -> float:
    held, _ = allocated(lambda: [build("text", 7, **options) for _ in range(count)])
    return round(held / count, 1)
