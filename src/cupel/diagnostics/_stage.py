"""The stages a run reports on."""

from __future__ import annotations

from enum import Enum

import msgspec


class PipelineStage(Enum):
    """A stage that emits an event; sorting is internal and emits none."""

    CLASSIFY = "Classify"
    SCORE = "Score"
    DEDUPLICATE = "Deduplicate"
    SLICE = "Slice"
    PLACE = "Place"


class UnknownStage(msgspec.Struct, frozen=True):
    """A stage name from a newer producer, kept as it was read."""

    value: str
