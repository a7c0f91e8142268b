"""Each placer's order, and what a placer must not do."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from math import nan
from typing import TYPE_CHECKING, Any

import pytest

from cupel import ChronologicalPlacer, ContextItem, Placer, ScoredItem, StrategyContractError, UShapedPlacer
from cupel._internal.columns import Candidates
from cupel.placers import _ArrangingPlacer

if TYPE_CHECKING:
    from collections.abc import Sequence

START = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("hours", "order"),
    [
        ([], []),
        ([5], [0]),
        ([None], [0]),
        ([3, 1, 2], [1, 2, 0]),
        ([2, None, 1, None], [2, 0, 1, 3]),
        ([1, 1, 0], [2, 0, 1]),
        ([None, None], [0, 1]),
    ],
)
def test_chronological(hours: list[int | None], order: list[int]) -> None:
    items = [
        ContextItem(str(position), 1, timestamp=None if hour is None else START + timedelta(hours=hour))
        for position, hour in enumerate(hours)
    ]
    placed = ChronologicalPlacer().place([ScoredItem(item, 0.1 * position) for position, item in enumerate(items)])
    assert [int(item.content) for item in placed] == order


@pytest.mark.parametrize(
    ("scores", "order"),
    [
        ([], []),
        ([0.5], [0]),
        ([0.1, 0.9], [1, 0]),
        ([0.9, 0.8, 0.7, 0.6, 0.5], [0, 2, 4, 3, 1]),
        ([0.5, 0.5, 0.5], [0, 2, 1]),
        ([0.2, nan, 0.1], [0, 1, 2]),
        ([1.0, 2.0, 1.0, 0.5], [1, 2, 3, 0]),
    ],
)
def test_u_shaped(scores: list[float], order: list[int]) -> None:
    scored = [ScoredItem(ContextItem(str(position), 1), score) for position, score in enumerate(scores)]
    assert [int(item.content) for item in UShapedPlacer().place(scored)] == order


class Custom(Placer):
    """Returns what it was told to, by position; -1 stands for an item from elsewhere."""

    def __init__(self, *positions: int) -> None:
        self.positions = positions

    def place(self, scored: Sequence[ScoredItem]) -> list[ContextItem]:
        return [ContextItem("foreign", 1) if p == -1 else scored[p].item for p in self.positions]


SELECTED = Candidates.of([ScoredItem(ContextItem("a", 1), 0.1), ScoredItem(ContextItem("b", 1), 0.2)])


def test_a_custom_placer_arranges() -> None:
    assert Custom(1, 0).arrange(SELECTED) == [1, 0]


@pytest.mark.parametrize(
    ("positions", "says"),
    [
        ((0,), "Custom broke its contract: place returned 1 of the 2 items it was given"),
        ((0, 1, -1), "Custom broke its contract: place returned an item it was not given"),
        ((0, 0), "Custom broke its contract: place returned an item more often than it was given"),
    ],
)
def test_a_placer_that_breaks_its_contract_is_named(positions: tuple[int, ...], says: str) -> None:
    with pytest.raises(StrategyContractError, match=says):
        Custom(*positions).arrange(SELECTED)


def test_a_custom_placer_may_order_hundreds() -> None:
    order = [*range(1, 400), 0]
    selected = Candidates.of([ScoredItem(ContextItem("a", 1), 0.1)] * 400)
    assert Custom(*order).arrange(selected) == list(range(400)), "one object listed often is found once each time"
    selected = Candidates.of([ScoredItem(ContextItem(str(position), 1), 0.1) for position in range(400)])
    assert Custom(*order).arrange(selected) == order


@pytest.mark.parametrize("base", [Placer, _ArrangingPlacer])
def test_a_placer_that_orders_nothing_cannot_be_built(base: type[Placer]) -> None:
    with pytest.raises(TypeError, match="abstract"):
        type("Idle", (base,), {})()


def test_what_is_no_scored_item_is_named() -> None:
    with pytest.raises(TypeError, match=r"scored\[1\] must be a ScoredItem, got ContextItem"):
        UShapedPlacer().place([ScoredItem(ContextItem("a", 1), 0.5), ContextItem("b", 1)])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="scored must be an iterable of ScoredItem, got int: 5"):
        ChronologicalPlacer().place(5)  # type: ignore[arg-type]


PLACERS = [ChronologicalPlacer(), UShapedPlacer()]


@pytest.mark.parametrize("placer", PLACERS, ids=lambda placer: type(placer).__name__)
def test_placers_are_frozen_values(placer: Any) -> None:
    twin = pickle.loads(pickle.dumps(placer))
    assert (twin, hash(twin), repr(twin)) == (placer, hash(placer), f"{type(placer).__name__}()")
    assert not hasattr(placer, "__dict__")
    with pytest.raises((AttributeError, TypeError)):
        placer.anything = 1
    assert sum(placer == other for other in PLACERS) == 1
