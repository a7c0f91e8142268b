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
from cupel.scorers._reuse import REUSE_KEY, ReuseScorer, trace_reuse

__all__ = [
    "DEFAULT_KIND_WEIGHTS",
    "ENGLISH",
    "REUSE_KEY",
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
    "ReuseScorer",
    "ScaledScorer",
    "ScoreBreakdown",
    "ScorePart",
    "Scorer",
    "Step",
    "SystemClock",
    "TagScorer",
    "Window",
    "trace_reuse",
]
