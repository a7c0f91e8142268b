"""Slicers that cannot be built say which field, which value, and what was expected."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest

from cupel import (
    ConfigurationWarning,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    KnapsackSlice,
    QuotaEntry,
    QuotaSlice,
    ScarcityBehavior,
    SlicerConfigError,
)

anything: Any = None
CASES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: KnapsackSlice(0), SlicerConfigError, "bucket_size must be >= 1, got 0"),
    (lambda: KnapsackSlice(-5), SlicerConfigError, "bucket_size must be >= 1, got -5"),
    (lambda: KnapsackSlice(True), TypeError, "bucket_size must be an integer or 'auto', got bool"),
    (lambda: KnapsackSlice(1.5), TypeError, "bucket_size must be an integer or 'auto', got float"),  # type: ignore[arg-type]
    (lambda: KnapsackSlice(max_cells=0), SlicerConfigError, "max_cells must be >= 1, got 0"),
    (lambda: KnapsackSlice(max_cells="1"), TypeError, "max_cells must be an integer or None, got str"),  # type: ignore[arg-type]
    (lambda: QuotaEntry("a", -1), SlicerConfigError, "require for kind 'a' must be from 0 to 100, got -1"),
    (lambda: QuotaEntry("a", 0, 101), SlicerConfigError, "cap for kind 'a' must be from 0 to 100, got 101"),
    (lambda: QuotaEntry("a", nan), SlicerConfigError, "require for kind 'a' must be from 0 to 100, got nan"),
    (lambda: QuotaEntry("a", inf), SlicerConfigError, "require for kind 'a' must be from 0 to 100, got inf"),
    (lambda: QuotaEntry("a", 0, inf), SlicerConfigError, "cap for kind 'a' must be from 0 to 100, got inf"),
    (lambda: QuotaEntry("a", 0, nan), SlicerConfigError, "cap for kind 'a' must be from 0 to 100, got nan"),
    (lambda: QuotaEntry("a", 50, 40), SlicerConfigError, "require must not exceed cap for kind 'a', got require=50.0"),
    (lambda: QuotaEntry("a", anything), TypeError, "require must be a number, got NoneType"),
    (lambda: QuotaEntry("a", cap=True), TypeError, "cap must be a number, got bool"),
    (lambda: QuotaEntry(" "), SlicerConfigError, "kind must not be blank"),
    (lambda: QuotaEntry(anything), TypeError, "kind must be a string, got NoneType"),
    (lambda: QuotaSlice([QuotaEntry("a", 60), QuotaEntry("b", 41)]), SlicerConfigError, "more than 100, got 101.0"),
    (
        lambda: QuotaSlice([QuotaEntry("a"), QuotaEntry("A")]),
        SlicerConfigError,
        r"quotas\[1\]: kind 'A' has an entry already \('a'\)",
    ),
    (lambda: QuotaSlice(["a"]), TypeError, r"quotas\[0\] must be a QuotaEntry, got str"),  # type: ignore[list-item]
    (lambda: QuotaSlice(5), TypeError, "quotas must be a list of QuotaEntry, got int"),  # type: ignore[arg-type]
    (lambda: QuotaSlice([], anything), TypeError, "inner must be a Slicer, got NoneType"),
    (lambda: CountQuotaEntry("a", -1, 2), SlicerConfigError, "require_count for kind 'a' must be >= 0, got -1"),
    (lambda: CountQuotaEntry("a", 0, -1), SlicerConfigError, "cap_count for kind 'a' must be >= 0, got -1"),
    (lambda: CountQuotaEntry("a", 1, 0), SlicerConfigError, "require_count must not exceed cap_count for kind 'a'"),
    (lambda: CountQuotaEntry("a", True, 2), TypeError, "require_count must be an integer, got bool"),
    (lambda: CountQuotaEntry("a", 1, 2.0), TypeError, "cap_count must be an integer, got float"),  # type: ignore[arg-type]
    (lambda: CountQuotaEntry("a", None), TypeError, "require_count must be an integer, got NoneType"),  # type: ignore[arg-type]
    (
        lambda: CountQuotaSlice([], leftover="leave"),  # type: ignore[arg-type]
        SlicerConfigError,
        "leftover must be 'unused' or 'share', got 'leave'",
    ),
    (lambda: CountQuotaSlice([], leftover=True), TypeError, "leftover must be a string, got bool"),  # type: ignore[arg-type]
    (lambda: CountQuotaEntry("", 1, 2), SlicerConfigError, "kind must not be blank"),
    (
        lambda: CountQuotaSlice([CountQuotaEntry("a", 0, 1), CountQuotaEntry("A", 0, 2)]),
        SlicerConfigError,
        r"entries\[1\]: kind 'A' has an entry already",
    ),
    (
        lambda: CountConstrainedKnapsackSlice([CountQuotaEntry("a", 0, 1), CountQuotaEntry("A", 0, 2)]),
        SlicerConfigError,
        r"entries\[1\]: kind 'A' has an entry already",
    ),
    (
        lambda: CountQuotaSlice([], KnapsackSlice()),
        SlicerConfigError,
        "CountQuotaSlice does not work with KnapsackSlice; use GreedySlice.*CountConstrainedKnapsackSlice",
    ),
    (lambda: CountQuotaSlice([], anything), TypeError, "inner must be a Slicer, got NoneType"),
    (lambda: CountQuotaSlice([], scarcity="throw"), TypeError, "scarcity must be a ScarcityBehavior, got str"),  # type: ignore[arg-type]
    (lambda: CountConstrainedKnapsackSlice([], GreedySlice()), TypeError, "knapsack must be a KnapsackSlice"),  # type: ignore[arg-type]
    (lambda: CountConstrainedKnapsackSlice([], scarcity=anything), TypeError, "scarcity must be a ScarcityBehavior"),
    (lambda: CountConstrainedKnapsackSlice([1]), TypeError, r"entries\[0\] must be a CountQuotaEntry"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("build", "error", "says"), CASES)
def test_refused(build: Callable[[], object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        build()


def test_other_inner_slicers_are_legal() -> None:
    assert QuotaSlice([], KnapsackSlice()).inner == KnapsackSlice()
    assert CountQuotaSlice([], CountConstrainedKnapsackSlice([])).inner == CountConstrainedKnapsackSlice([])


def test_the_limits_themselves_are_legal() -> None:
    assert QuotaSlice([QuotaEntry("a", 40, 40), QuotaEntry("b", 60, 100)]).quotas[0] == QuotaEntry("A", 40.0, 40.0)
    assert CountQuotaEntry("a", 2, 2).require_count == 2
    assert CountQuotaEntry("a", 0, 0).cap_count == 0
    assert (KnapsackSlice(1).bucket_size, KnapsackSlice(max_cells=1).max_cells) == (1, 1)
    assert (KnapsackSlice().bucket_size, KnapsackSlice().max_cells) == (100, 50_000_000)


def test_one_sided_quotas_have_defaults() -> None:
    assert (QuotaEntry("a", require=5).cap, QuotaEntry("a", cap=5).require) == (100.0, 0.0)


SLICERS = [
    GreedySlice(),
    KnapsackSlice(),
    KnapsackSlice(10, max_cells=None),
    QuotaSlice([QuotaEntry("a", 1, 2)], KnapsackSlice()),
    CountQuotaSlice([CountQuotaEntry("a", 1, 2)], scarcity=ScarcityBehavior.THROW),
    CountConstrainedKnapsackSlice([CountQuotaEntry("a", 1, 2)], KnapsackSlice(5)),
]


@pytest.mark.parametrize("slicer", SLICERS, ids=lambda slicer: type(slicer).__name__)
def test_slicers_are_frozen_values(slicer: Any) -> None:
    for twin in (pickle.loads(pickle.dumps(slicer)), copy.deepcopy(slicer)):
        assert twin == slicer
        assert repr(twin) == repr(slicer)
        assert hash(twin) == hash(slicer)
    assert not hasattr(slicer, "__dict__")
    for name in (*slicer.__dataclass_fields__, "anything"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(slicer, name, 1)
    assert sum(slicer == other for other in SLICERS) == 1


@pytest.mark.parametrize(("field", "value", "meant"), [("require", 0.3, "30"), ("cap", 0.07, "7")])
def test_a_share_below_one_percent_is_probably_a_fraction(field: str, value: float, meant: str) -> None:
    says = f"{field} for kind 'Memory' is {value} percent of the target; for a share of {value} write {meant}$"
    with pytest.warns(ConfigurationWarning, match=says) as told:
        QuotaEntry("Memory", **{field: value})
    assert [one.filename for one in told] == [__file__]


def test_whole_percentages_and_nothing_at_all_are_meant() -> None:
    for percent in (0, 1, 1.5, 100):
        QuotaEntry("Memory", cap=percent)
