"""The fixed pipeline: classify, score, deduplicate, sort, slice, place."""

from cupel.pipeline._pipeline import Pipeline, PreparedSelection
from cupel.pipeline._result import ContextResult
from cupel.pipeline._slice import effective_budget
from cupel.pipeline._sources import ItemSource, SourceError, SourceFailure, SourceLike

__all__ = [
    "ContextResult",
    "ItemSource",
    "Pipeline",
    "PreparedSelection",
    "SourceError",
    "SourceFailure",
    "SourceLike",
    "effective_budget",
]
