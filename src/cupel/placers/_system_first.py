"""System prompts first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cupel._checks import as_instance
from cupel.model import ContextKind
from cupel.placers._base import ArrangingPlacer, Placer
from cupel.placers._chronological import ChronologicalPlacer

if TYPE_CHECKING:
    from cupel._columns import Candidates


@dataclass(frozen=True, slots=True)
class SystemFirst(ArrangingPlacer):
    """Puts items of kind SystemPrompt first, in the order they came in, and lets `inner` order the rest.

    Without it, a system prompt has no timestamp and `ChronologicalPlacer` puts it last.

    >>> from cupel import ContextItem, ScoredItem
    >>> system, user = ContextItem("Be brief.", 3, kind="SystemPrompt", pinned=True), ContextItem("Hello!", 2)
    >>> [item.content for item in SystemFirst().place([ScoredItem(user, 0.5), ScoredItem(system, 1.0)])]
    ['Be brief.', 'Hello!']
    """

    inner: Placer = field(default_factory=ChronologicalPlacer)

    def __post_init__(self) -> None:
        as_instance("inner", self.inner, Placer)

    def _arrange(self, selected: Candidates) -> list[int]:
        """Return the positions of the system prompts, then those of the rest as the inner placer orders them."""
        first: list[int] = []
        rest: list[int] = []
        for position, item in enumerate(selected.items):
            (first if item.kind == ContextKind.SYSTEM_PROMPT else rest).append(position)
        return first + [rest[index] for index in self.inner.arrange(selected.at(rest))]
