"""Cache breakpoints on the content blocks of messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from cupel.messages._plain import fields, is_sequence

if TYPE_CHECKING:
    from collections.abc import Mapping

CACHE_KEYS: Final = frozenset(("cache_control", "prompt_cache_breakpoint"))


class Mark(Protocol):
    """Sets the cache breakpoints of a format."""

    @property
    def needed(self) -> bool:
        """Whether nothing is cached without breakpoints; if so, those that messages brought along are removed."""
        ...

    def marked(self, message: Any, *, here: bool) -> Any:
        """Return a message with one breakpoint, if it belongs `here`, and without any other."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMark:
    """A cache breakpoint that is a field of a typed block, and the types of blocks that can carry it."""

    field: Mapping[str, Any]
    text: str
    """The type of a text block, for messages whose content is a string."""
    blocks: frozenset[str] | None = None
    """Types of blocks that can carry it; None for all but `refused`."""
    refused: frozenset[str] = frozenset()
    needed: bool = False

    def marked(self, message: Any, *, here: bool) -> Any:
        """Return a message with one breakpoint, on the last block that can carry one, if it belongs `here`.

        Other breakpoints are removed. The message itself comes back where nothing changes.
        """
        clean: object = unmarked(message)
        body = fields(clean)
        name = "output" if "output" in body else "content"
        if (
            not here
            or not body
            or (name == "content" and self.text == "input_text" and body.get("role") == "assistant")
        ):
            return clean
        content: object = body.get(name)
        if isinstance(content, str):
            block = {"type": self.text, "text": content, **self.field}
            return {**body, name: [block]} if content.strip() else clean
        blocks = list(content) if is_sequence(content) else []
        for at in reversed(range(len(blocks))):
            if self._can_carry(fields(blocks[at])):
                return {**body, name: [*blocks[:at], {**fields(blocks[at]), **self.field}, *blocks[at + 1 :]]}
        return clean

    def _can_carry(self, block: dict[str, Any]) -> bool:
        kind = block.get("type")
        if not block or block.get("text") == "" or kind in self.refused:
            return False
        return self.blocks is None or kind in self.blocks


def count_marks(value: object) -> int:
    """Return the number of breakpoints that a message carries."""
    if entries := fields(value):
        own = len(CACHE_KEYS & entries.keys()) + ("cachePoint" in entries)
        return own + sum(map(count_marks, entries.values()))
    return sum(map(count_marks, value)) if is_sequence(value) else 0


def unmarked(value: object) -> Any:
    """Return a message without the breakpoints it carries; itself, if it carries none."""
    if entries := fields(value):
        kept = {key: inner for key, inner in entries.items() if key not in CACHE_KEYS}
        copy = {key: unmarked(inner) if key in ("content", "output") else inner for key, inner in kept.items()}
        return value if len(copy) == len(entries) and all(copy[key] is entries[key] for key in copy) else copy
    if is_sequence(value):
        copies = [unmarked(inner) for inner in value]
        return value if all(one is other for one, other in zip(copies, value, strict=True)) else copies
    return value
