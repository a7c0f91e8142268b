"""Selections that are measured: cases with known needs, recorded conversations, and policies tuned on them."""

from cupel.evaluation._cases import Case, EvaluationError, read_cases
from cupel.evaluation._evaluate import Comparison, Estimate, Evaluation, Outcome, compare, evaluate
from cupel.evaluation._recordings import Recording, read_recordings
from cupel.evaluation._replay import Figures, Replay, Turn, replay
from cupel.evaluation._retention import Retention
from cupel.evaluation._strategies import AppendWay, Fill, FitWay, SessionWay, TailWay, Way
from cupel.evaluation._tune import Point, Tuning, tune

__all__ = [
    "AppendWay",
    "Case",
    "Comparison",
    "Estimate",
    "Evaluation",
    "EvaluationError",
    "Figures",
    "Fill",
    "FitWay",
    "Outcome",
    "Point",
    "Recording",
    "Replay",
    "Retention",
    "SessionWay",
    "TailWay",
    "Tuning",
    "Turn",
    "Way",
    "compare",
    "evaluate",
    "read_cases",
    "read_recordings",
    "replay",
    "tune",
]
