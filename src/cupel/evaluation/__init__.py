"""Selections that are measured: cases with known needs, recorded conversations, and policies tuned on them."""

from cupel.evaluation._case import Case
from cupel.evaluation._compare import Comparison, compare
from cupel.evaluation._errors import EvaluationError
from cupel.evaluation._evaluate import Evaluation, Outcome, evaluate
from cupel.evaluation._intervals import Estimate
from cupel.evaluation._read_cases import read_cases
from cupel.evaluation._tune import Point, Tuning, tune

__all__ = [
    "Case",
    "Comparison",
    "Estimate",
    "Evaluation",
    "EvaluationError",
    "Outcome",
    "Point",
    "Tuning",
    "compare",
    "evaluate",
    "read_cases",
    "tune",
]
