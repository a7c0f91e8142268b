"""The frozen values that flow through the pipeline."""

from cupel.model._budget import ContextBudget
from cupel.model._item import (
    GROUP_KEY,
    ID_KEY,
    PRIORITY_KEY,
    SOURCE_TYPE_KEY,
    TRUST_KEY,
    WORTH_KEY,
    ContextItem,
)
from cupel.model._kind import ContextKind, ContextSource
from cupel.model._scored import OverflowStrategy, ScoredItem

__all__ = [
    "GROUP_KEY",
    "ID_KEY",
    "PRIORITY_KEY",
    "SOURCE_TYPE_KEY",
    "TRUST_KEY",
    "WORTH_KEY",
    "ContextBudget",
    "ContextItem",
    "ContextKind",
    "ContextSource",
    "OverflowStrategy",
    "ScoredItem",
]
