"""Where a report comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cupel.diagnostics import StageSnapshot
    from cupel.model import ContextBudget
    from cupel.pipeline._prepared import PreparedSelection


class Origin(NamedTuple):
    """The run that a report is about, so that it can be asked what another budget would have done."""

    prepared: PreparedSelection
    budget: ContextBudget
    stages: tuple[StageSnapshot, ...]
