"""Scorers decide how relevant each item is."""

from cupel.scorers._base import Scorer
from cupel.scorers._composite import CompositeScorer, ScaledScorer, ScoreBreakdown, ScorePart
from cupel.scorers._decay import Clock, Curve, DecayScorer, Exponential, FixedClock, Step, SystemClock, Window
from cupel.scorers._embedding import EmbeddingScorer
from cupel.scorers._fields import (
    DEFAULT_KIND_WEIGHTS,
    FrequencyScorer,
    KindScorer,
    MetadataKeyScorer,
    MetadataTrustScorer,
    PriorityScorer,
    RecencyScorer,
    ReflexiveScorer,
    TagScorer,
)
from cupel.scorers._relevance import ENGLISH, RelevanceScorer

__all__ = [
    "DEFAULT_KIND_WEIGHTS",
    "ENGLISH",
    "Clock",
    "CompositeScorer",
    "Curve",
    "DecayScorer",
    "EmbeddingScorer",
    "Exponential",
    "FixedClock",
    "FrequencyScorer",
    "KindScorer",
    "MetadataKeyScorer",
    "MetadataTrustScorer",
    "PriorityScorer",
    "RecencyScorer",
    "ReflexiveScorer",
    "RelevanceScorer",
    "ScaledScorer",
    "ScoreBreakdown",
    "ScorePart",
    "Scorer",
    "Step",
    "SystemClock",
    "TagScorer",
    "Window",
]
