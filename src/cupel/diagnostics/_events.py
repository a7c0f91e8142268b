"""What a run records as it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

from cupel._portable import Portable
from cupel.diagnostics._stage import PipelineStage, UnknownStage
from cupel.model import ContextBudget, ContextItem

if TYPE_CHECKING:
    from cupel._documents import WireForm


class TraceEvent(msgspec.Struct, Portable, frozen=True):
    """One observation: a finished stage, or one item within a stage (then `duration_ms` is 0 and `item_count` 1).

    For a stage, `item_count` is how many items left it.

    >>> TraceEvent.from_json('{"stage": "Score", "duration_ms": 1.5, "item_count": 3}').item_count
    3
    """

    stage: PipelineStage | UnknownStage
    duration_ms: float
    item_count: int
    message: str | None = None

    @classmethod
    def _form(cls) -> WireForm[Self]:
        from cupel.diagnostics._forms import EVENT  # only when one travels

        return EVENT


class OverflowEvent(msgspec.Struct, Portable, frozen=True):
    """What `on_overflow` receives: by how much the selection exceeds the target, with which items, of which budget.

    >>> budget = ContextBudget(4096, 3072)
    >>> OverflowEvent(384, (ContextItem("one too many", 3456),), budget).to_dict()["budget"]
    {'maxTokens': 4096, 'targetTokens': 3072}
    """

    tokens_over_budget: int
    overflowing_items: tuple[ContextItem, ...]
    budget: ContextBudget

    @classmethod
    def _form(cls) -> WireForm[Self]:
        from cupel.diagnostics._forms import OVERFLOW  # only when one travels

        return OVERFLOW


class CountRequirementShortfall(msgspec.Struct, frozen=True):
    """A count quota that asked for more items of a kind than there were candidates."""

    kind: str
    required_count: int
    satisfied_count: int
