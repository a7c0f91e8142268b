"""Run vectors and collect what they show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike

from cupel import errors
from cupel._checks import as_instance, shown
from cupel.conformance import _pipelines, _simulations, _stages
from cupel.conformance._compare import Check, Mismatch
from cupel.conformance._results import SuiteReport, VectorResult
from cupel.conformance._vector import TomlTable, Vector, VectorError, find_vectors, load_vector

STAGES: Mapping[str, Callable[[TomlTable], Check]] = {
    "scoring": _stages.scoring,
    "slicing": _stages.slicing,
    "placing": _stages.placing,
    "pipeline": _pipelines.pipeline,
    "simulation": _simulations.simulation,
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
    if mismatch is None:
        return VectorResult(vector.path, vector.name, vector.stage, vector.level, passed=True)
    return VectorResult(
        vector.path,
        vector.name,
        vector.stage,
        vector.level,
        passed=False,
        message=mismatch.what,
        expected=mismatch.expected,
        actual=mismatch.actual,
    )


def _first_difference(vector: Vector) -> Mismatch | None:
    wanted = _expected_errors(vector.document.table("test"))
    try:
        check = STAGES[vector.stage](vector.document)
        mismatch = check()
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
