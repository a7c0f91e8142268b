"""The comparison rules: what counts as equal, and how the first difference is told."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cupel.conformance._vector import TomlTable

DEFAULT_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first difference between a vector and what happened."""

    what: str
    expected: Any
    actual: Any


Check: TypeAlias = Callable[[], Mismatch | None]
"""Runs what a vector describes, which has been built by then."""


def same_score(actual: float, expected: float, epsilon: float) -> bool:
    """Compare scores: closer than epsilon, or the same non-finite value."""
    if not (math.isfinite(actual) and math.isfinite(expected)):
        return actual == expected or (math.isnan(actual) and math.isnan(expected))
    return abs(actual - expected) < epsilon


def epsilon_of(document: TomlTable) -> float:
    """Return the tolerance for scores that a vector asks for."""
    tolerance = document.table("tolerance")
    return tolerance.number("score_epsilon") if tolerance.has("score_epsilon") else DEFAULT_EPSILON


def compare_value(what: str, expected: Any, actual: Any) -> Mismatch | None:
    """Compare two values exactly."""
    return None if expected == actual else Mismatch(what, expected, actual)


def compare_multiset(what: str, expected: Sequence[Any], actual: Sequence[Any]) -> Mismatch | None:
    """Compare selections: order is free, repetition counts (ruling 11.4)."""
    return None if Counter(expected) == Counter(actual) else Mismatch(what, list(expected), list(actual))


def compare_rows(
    what: str, expected: Sequence[TomlTable], actual: Sequence[Mapping[str, Any]], epsilon: float = DEFAULT_EPSILON
) -> Mismatch | None:
    """Compare a list of tables with rows of the same length, in the fields that a table sets and any row has.

    A field called `score_approx` is compared with tolerance.
    """
    if len(expected) != len(actual):
        return Mismatch(what, _outline(table.values for table in expected), _outline(actual))
    known = {field for row in actual for field in row}
    for position, (table, row) in enumerate(zip(expected, actual, strict=True)):
        for field, wanted in table.values.items():
            if field not in known:
                continue
            got = row.get(field)
            same = same_score(row[field], table.number(field), epsilon) if field == "score_approx" else wanted == got
            if not same:
                return Mismatch(f"{what}[{position}].{field}", wanted, got)
    return None


def first(mismatches: Iterable[Mismatch | None]) -> Mismatch | None:
    """Return the first difference, looking no further once there is one."""
    return next((mismatch for mismatch in mismatches if mismatch is not None), None)


def _outline(rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Name the rows of a list by what identifies them."""
    return [next((row[key] for key in ("content", "kind", "stage") if key in row), "?") for row in rows]
