"""For tests: assertions about reports, and contracts for strategies.

`should` and the exceptions need nothing but the standard library. `check_scorer`, `check_slicer`, `check_placer` and
`cupel.testing.strategies` need Hypothesis: install `cupel-context[testing]`.
"""

from cupel.testing._assertions import (
    ContractViolation,
    SelectionReportAssertionChain,
    SelectionReportAssertionException,
    SnapshotMismatchError,
    should,
)
from cupel.testing._contracts import check_placer, check_scorer, check_slicer

__all__ = [
    "ContractViolation",
    "SelectionReportAssertionChain",
    "SelectionReportAssertionException",
    "SnapshotMismatchError",
    "check_placer",
    "check_scorer",
    "check_slicer",
    "should",
]
