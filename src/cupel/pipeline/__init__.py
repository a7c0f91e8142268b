"""The fixed pipeline: classify, score, deduplicate, sort, slice, place."""

from cupel.pipeline._observer import Origin
from cupel.pipeline._pins import PinRule
from cupel.pipeline._pipeline import Pipeline
from cupel.pipeline._prepared import ContextResult, PreparedSelection
from cupel.pipeline._sources import ItemSource, SourceError, SourceFailure, SourceLike
from cupel.pipeline._stages import effective_budget

__all__ = [
    "ContextResult",
    "ItemSource",
    "Origin",
    "PinRule",
    "Pipeline",
    "PreparedSelection",
    "SourceError",
    "SourceFailure",
    "SourceLike",
    "effective_budget",
]
