"""Run vectors and collect the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Any, cast

from cupel import errors
from cupel._internal.checks import as_instance, shown
from cupel._internal.documents import plain_number
from cupel.conformance import _runners
from cupel.conformance._vector import (
    Differences,
    Mismatch,
    TomlTable,
    Vector,
    VectorError,
    VectorLevel,
    find_vectors,
    load_vector,
)


class ConformanceLevel(Enum):
    """The claim that a set of results supports.

    >>> ConformanceLevel.CONFORMANT.value
    'Cupel Conformant'
    """

    FULLY_CONFORMANT = "Cupel Fully Conformant"
    """Every required and every optional vector passed, and there was at least one of each."""

    CONFORMANT = "Cupel Conformant"
    """Every required vector passed."""

    NOT_CONFORMANT = "not conformant"
    """A required vector failed or could not be read."""

    NOT_MEASURED = "no required vectors, no level"
    """Nothing under a directory called `required` was run."""


@dataclass(frozen=True, slots=True)
class VectorResult:
    """The outcome of one vector; `message`, `expected` and `actual` describe the first difference of a failing one.

    >>> VectorResult(Path("required/a.toml"), "a", "scoring", VectorLevel.REQUIRED, passed=True).to_dict()["level"]
    'required'
    """

    path: Path
    name: str
    stage: str
    level: VectorLevel
    passed: bool
    message: str | None = None
    expected: Any = None
    actual: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result as values that JSON can carry."""
        row: dict[str, Any] = {
            "path": str(self.path),
            "name": self.name,
            "stage": self.stage,
            "level": self.level.value,
            "passed": self.passed,
        }
        if not self.passed:
            row |= {"message": self.message, "expected": _plain(self.expected), "actual": _plain(self.actual)}
        return row


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """All results of a run, in path order, and the files that could not be read.

    >>> passed = VectorResult(Path("required/a.toml"), "a", "scoring", VectorLevel.REQUIRED, passed=True)
    >>> SuiteReport((passed,)).level
    <ConformanceLevel.CONFORMANT: 'Cupel Conformant'>
    """

    results: tuple[VectorResult, ...]
    unreadable: tuple[VectorError, ...] = ()

    @property
    def passed(self) -> tuple[VectorResult, ...]:
        """The vectors whose every expectation was met."""
        return tuple(result for result in self.results if result.passed)

    @property
    def failed(self) -> tuple[VectorResult, ...]:
        """The vectors with at least one difference."""
        return tuple(result for result in self.results if not result.passed)

    @property
    def level(self) -> ConformanceLevel:
        """The level of conformance that these vectors show; vectors that were not run do not count."""
        verdicts: dict[VectorLevel, list[bool]] = {level: [] for level in VectorLevel}
        for result in self.results:
            verdicts[result.level].append(result.passed)
        for error in self.unreadable:
            verdicts[VectorLevel.of(Path(error.path))].append(False)
        required, optional = verdicts[VectorLevel.REQUIRED], verdicts[VectorLevel.OPTIONAL]
        if not required:
            return ConformanceLevel.NOT_MEASURED
        if not all(required):
            return ConformanceLevel.NOT_CONFORMANT
        return ConformanceLevel.FULLY_CONFORMANT if optional and all(optional) else ConformanceLevel.CONFORMANT

    @property
    def categories(self) -> dict[tuple[VectorLevel, str], tuple[int, int]]:
        """Passed and total counts by level and stage, in the order the suite lists them."""
        total = Counter((result.level, result.stage) for result in self.results)
        passed = Counter((result.level, result.stage) for result in self.passed)
        rank = list(VectorLevel)
        return {key: (passed[key], total[key]) for key in sorted(total, key=lambda key: (rank.index(key[0]), key[1]))}

    def to_dict(self) -> dict[str, Any]:
        """Return the report as values that JSON can carry."""
        return {
            "level": self.level.value,
            "total": len(self.results),
            "passed": len(self.passed),
            "failed": len(self.failed),
            "categories": [
                {"level": level.value, "stage": stage, "passed": passed, "total": total}
                for (level, stage), (passed, total) in self.categories.items()
            ],
            "results": [result.to_dict() for result in self.results],
            "unreadable": [
                {"path": error.path, "field": error.field, "message": error.problem} for error in self.unreadable
            ],
        }


def _plain(value: Any) -> Any:
    """Replace values that JSON lacks: non-finite numbers by their names, all others by their text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in cast("list[Any]", value)]
    return plain_number(value) if isinstance(value, float) else str(value)


STAGES: Mapping[str, Callable[[TomlTable], Differences]] = {
    "scoring": _runners.scoring,
    "slicing": _runners.slicing,
    "placing": _runners.placing,
    "pipeline": _runners.pipeline,
    "simulation": _runners.simulation,
}
ERROR_KINDS: Mapping[str, type[Exception]] = {
    "invalid_item": errors.InvalidItemError,
    "invalid_budget": errors.InvalidBudgetError,
    "scorer_config": errors.ScorerConfigError,
    "slicer_config": errors.SlicerConfigError,
    "pipeline_config": errors.PipelineConfigError,
    "pinned_exceeds_budget": errors.PinnedExceedsBudgetError,
    "overflow": errors.BudgetOverflowError,
    "table_too_large": errors.TableTooLargeError,
    "scarcity": errors.ScarcityError,
    "wrong_type": TypeError,
}
RUN_ERRORS = ("pinned_exceeds_budget", "overflow", "table_too_large", "scarcity")


def run_suite(paths: Iterable[str | PathLike[str]]) -> SuiteReport:
    """Run every vector among the given files and below the given directories.

    Files that cannot be read are listed in the report; the others run all the same.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as directory:
    ...     _ = Path(directory, "nothing.toml").write_text('test = { stage = "placing", placer = "u-shaped" }')
    ...     report = run_suite([directory])
    >>> len(report.passed), report.level.value
    (1, 'no required vectors, no level')

    Raises:
        VectorError: A path does not exist, or a directory holds no vector.
    """
    results: list[VectorResult] = []
    unreadable: list[VectorError] = []
    for path in find_vectors(paths):
        try:
            results.append(run_vector(load_vector(path)))
        except VectorError as error:
            unreadable.append(error)
    return SuiteReport(tuple(results), tuple(unreadable))


def run_vector(vector: Vector) -> VectorResult:
    """Run one vector, usually one that `load_vector` has read.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as directory:
    ...     file = Path(directory, "too-much.toml")
    ...     _ = file.write_text('''
    ...         test = { name = "greedy", stage = "slicing", slicer = "greedy" }
    ...         budget = { target_tokens = 5 }
    ...         scored_items = [{ content = "a", tokens = 9, score = 1.0 }]
    ...         expected = { selected_contents = ["a"] }
    ...     ''')
    ...     result = run_vector(load_vector(file))
    >>> result.passed, result.message, result.expected, result.actual
    (False, 'selected_contents', ['a'], [])

    Raises:
        VectorError: A table or field the stage needs is missing or has the wrong shape.
    """
    mismatch = _first_difference(as_instance("vector", vector, Vector))
    found = () if mismatch is None else (mismatch.what, mismatch.expected, mismatch.actual)
    return VectorResult(vector.path, vector.name, vector.stage, vector.level, mismatch is None, *found)


def _first_difference(vector: Vector) -> Mismatch | None:
    wanted = _expected_errors(vector.document.table("test"))
    try:
        differences = STAGES[vector.stage](vector.document)
        mismatch = next((mismatch for mismatch in differences if mismatch is not None), None)
    except VectorError:
        raise
    except (errors.CupelError, TypeError) as error:
        return _error_difference(vector.document.table("test"), wanted, error)
    return Mismatch("error", " or ".join(wanted), "no error") if wanted else mismatch


def _expected_errors(test: TomlTable) -> tuple[str, ...]:
    """Return the kinds of error that would satisfy the vector; none when it expects to succeed."""
    if test.has("expect_error"):
        kind = test.text("expect_error")
        if kind not in ERROR_KINDS:
            raise test.error("expect_error", f"unknown kind {shown(kind)}, expected one of {', '.join(ERROR_KINDS)}")
        return (kind,)
    if test.option("expect_construction_error", default=False):
        return tuple(kind for kind in ERROR_KINDS if kind not in RUN_ERRORS)
    return ()


def _error_difference(test: TomlTable, wanted: tuple[str, ...], error: Exception) -> Mismatch | None:
    if not any(isinstance(error, ERROR_KINDS[kind]) for kind in wanted):
        return Mismatch("error", " or ".join(wanted) or "no error", f"{type(error).__name__}: {error}")
    if test.has("expect_error_message") and str(error) != test.text("expect_error_message"):
        return Mismatch("error message", test.text("expect_error_message"), str(error))
    return None
