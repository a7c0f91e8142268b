"""The fixed pipeline: classify, score, deduplicate, sort, slice, place."""

from cupel.pipeline._origin import Origin
from cupel.pipeline._pins import PinRule
from cupel.pipeline._pipeline import Pipeline
from cupel.pipeline._prepared import PreparedSelection
from cupel.pipeline._result import ContextResult
from cupel.pipeline._slice import effective_budget
from cupel.pipeline._sources import ItemSource, SourceError, SourceFailure, SourceLike

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
