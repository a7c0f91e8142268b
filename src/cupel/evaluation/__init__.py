"""Measure selections: on cases whose needed items are known, and on recorded conversations; tune pipelines on them."""

from cupel.evaluation._cases import Case, EvaluationError, read_cases
from cupel.evaluation._evaluate import Comparison, Estimate, Evaluation, Outcome, compare, evaluate
from cupel.evaluation._misses import LoggedCall
from cupel.evaluation._recordings import Recording, read_recordings
from cupel.evaluation._replay import Figures, Replay, ReplayedTurn, replay
from cupel.evaluation._retention import Retention
from cupel.evaluation._strategies import (
    EverythingStrategy,
    Fill,
    FitStrategy,
    LoggedStrategy,
    SessionStrategy,
    TailStrategy,
    WindowStrategy,
)
from cupel.evaluation._tune import Point, Tuning, tune

__all__ = [
    "Case",
    "Comparison",
    "Estimate",
    "Evaluation",
    "EvaluationError",
    "EverythingStrategy",
    "Figures",
    "Fill",
    "FitStrategy",
    "LoggedCall",
    "LoggedStrategy",
    "Outcome",
    "Point",
    "Recording",
    "Replay",
    "ReplayedTurn",
    "Retention",
    "SessionStrategy",
    "TailStrategy",
    "Tuning",
    "WindowStrategy",
    "compare",
    "evaluate",
    "read_cases",
    "read_recordings",
    "replay",
    "tune",
]
