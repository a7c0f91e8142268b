"""The orders of large pools: the same as those of small ones, by another way."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import ContextBudget, ContextItem, Pipeline, PriorityScorer, RecencyScorer, UShapedPlacer
from cupel._internal import columns
from cupel._internal.columns import descending
from cupel.scorers import _fields

if TYPE_CHECKING:
    from collections.abc import Iterator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
instants = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
instants += [instants[0] + timedelta(microseconds=1), instants[1] - timedelta(microseconds=1), EPOCH]
keys = st.floats(allow_nan=True) | st.sampled_from([0.0, -0.0, 0.5, 1.0])


@pytest.fixture(autouse=True, scope="module")
def everything_is_large() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (columns, _fields):
            patch.setattr(module, "LARGE", 0)
        yield


@given(st.lists(keys, max_size=80))
def test_descending_is_the_naive_order(keys: list[float]) -> None:
    naive = sorted(range(len(keys)), key=lambda i: (keys[i] != keys[i], -keys[i] if keys[i] == keys[i] else 0.0, i))
    assert descending(keys) == naive


@given(st.lists(st.none() | st.sampled_from(instants) | st.datetimes(timezones=st.just(UTC)), max_size=40))
def test_instants_of_any_year_are_ranked_to_the_microsecond(times: list[datetime | None]) -> None:
    large = _fields.time_scores(times)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_fields, "LARGE", 10**9)
        assert large == _fields.time_scores(times)


@pytest.mark.parametrize("scorer", [RecencyScorer(), PriorityScorer()], ids=lambda scorer: type(scorer).__name__)
@pytest.mark.parametrize("placer", [UShapedPlacer(), Pipeline(scorer=RecencyScorer()).placer])
def test_a_large_run_is_a_small_one(scorer: object, placer: object, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(7)
    items = [
        ContextItem(
            str(number),
            random.randrange(50),
            priority=random.choice([None, 1, 2, 3**90]),
            timestamp=random.choice([None, EPOCH + timedelta(seconds=random.randrange(300))]),
        )
        for number in range(400)
    ]
    pipeline = Pipeline(scorer=scorer, placer=placer)  # type: ignore[arg-type]
    large = pipeline.dry_run(items, ContextBudget(4000, 4000))
    for module in (columns, _fields):
        monkeypatch.setattr(module, "LARGE", 10**9)
    small = pipeline.dry_run(items, ContextBudget(4000, 4000))
    assert (large.included, large.excluded) == (small.included, small.excluded)


def test_numpy_is_loaded_for_large_pools_only() -> None:
    code = (
        "import sys\n"
        "from cupel._internal.columns import descending\n"
        "descending([0.5] * 49_999)\n"
        "before = 'numpy' in sys.modules\n"
        "assert descending([0.5] * 50_000) == list(range(50_000))\n"
        "print(before, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False True"
