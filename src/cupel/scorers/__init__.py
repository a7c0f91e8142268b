"""Scorers decide how relevant each item is."""

from cupel.scorers._base import Scorer
from cupel.scorers._breakdown import ScoreBreakdown, ScorePart
from cupel.scorers._composite import CompositeScorer
from cupel.scorers._curves import Curve, Exponential, Step, Window
from cupel.scorers._decay import Clock, DecayScorer, FixedClock, SystemClock
from cupel.scorers._embedding import EmbeddingScorer
from cupel.scorers._frequency import FrequencyScorer
from cupel.scorers._kind import DEFAULT_KIND_WEIGHTS, KindScorer
from cupel.scorers._metadata_key import MetadataKeyScorer
from cupel.scorers._metadata_trust import MetadataTrustScorer
from cupel.scorers._priority import PriorityScorer
from cupel.scorers._recency import RecencyScorer
from cupel.scorers._reflexive import ReflexiveScorer
from cupel.scorers._relevance import RelevanceScorer
from cupel.scorers._scaled import ScaledScorer
from cupel.scorers._tag import TagScorer
from cupel.scorers._words import ENGLISH

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
