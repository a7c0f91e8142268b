"""What the analyses take: the same names mean the same types everywhere."""

from __future__ import annotations

from typing import Final

from cupel._checks import as_instance
from cupel.diagnostics import SelectionReport
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import Pipeline, PreparedSelection
from cupel.slicers import Slicer

_TYPES: Final[dict[str, type]] = {
    "budget": ContextBudget,
    "item": ContextItem,
    "pipeline": Pipeline,
    "prepared": PreparedSelection,
    "report": SelectionReport,
    "slicer": Slicer,
    "target_item": ContextItem,
}


def check(**given: object) -> None:
    """Refuse arguments that are not of the type their name says."""
    for name, value in given.items():
        as_instance(name, value, _TYPES[name])
