"""What a run records as it goes."""

from __future__ import annotations

import msgspec

from cupel.diagnostics._stage import PipelineStage, UnknownStage
from cupel.model import ContextBudget, ContextItem


class TraceEvent(msgspec.Struct, frozen=True):
    """One observation: a finished stage, or one item within a stage (then `duration_ms` is 0 and `item_count` 1).

    For a stage, `item_count` is how many items left it.
    """

    stage: PipelineStage | UnknownStage
    duration_ms: float
    item_count: int
    message: str | None = None


class OverflowEvent(msgspec.Struct, frozen=True):
    """What `on_overflow` receives: by how much the selection exceeds the target, with which items, of which budget."""

    tokens_over_budget: int
    overflowing_items: tuple[ContextItem, ...]
    budget: ContextBudget


class CountRequirementShortfall(msgspec.Struct, frozen=True):
    """A count quota that asked for more items of a kind than there were candidates."""

    kind: str
    required_count: int
    satisfied_count: int
