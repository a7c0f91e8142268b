"""What a run of vectors found, as plain records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast

from cupel._documents import plain_number
from cupel.conformance._vector import VectorError, VectorLevel


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
        """The level of conformance these vectors show; it says nothing about vectors that were not run."""
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
    """Replace what JSON cannot carry: non-finite numbers by their names, and whatever else a file held by its text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in cast("list[Any]", value)]
    return plain_number(value) if isinstance(value, float) else str(value)
