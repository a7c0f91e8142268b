"""Selections that are measured: cases with known needs, recorded conversations, and policies tuned on them."""

from cupel.evaluation._case import Case
from cupel.evaluation._compare import Comparison, compare
from cupel.evaluation._errors import EvaluationError
from cupel.evaluation._evaluate import Evaluation, Outcome, evaluate
from cupel.evaluation._intervals import Estimate
from cupel.evaluation._read_cases import read_cases
from cupel.evaluation._read_recordings import read_recordings
from cupel.evaluation._recording import Recording
from cupel.evaluation._replay import replay
from cupel.evaluation._retention import Retention
from cupel.evaluation._tune import tune
from cupel.evaluation._tuning import Point, Tuning
from cupel.evaluation._turns import Figures, Replay, Turn
from cupel.evaluation._ways import AppendWay, Fill, FitWay, SessionWay, TailWay, Way

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
