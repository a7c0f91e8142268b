"""A page whose budgets, weights and pins are answered while it is open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import structs

from cupel.analytics import counterfactuals
from cupel.errors import ConfigurationError, SelectionError
from cupel.model import ContextBudget, ContextItem
from cupel.page._payload import Variant, distinct, page_payload, scoring, selection, stages
from cupel.page._stops import Positions, Slider, StopWriter, difference, refused
from cupel.pipeline import Pipeline, PreparedSelection
from cupel.scorers import CompositeScorer

_KEPT: Final = 64
"""The number of preparations that are kept for the next question."""


_Natural = Annotated[int, msgspec.Meta(ge=0)]


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question of the page: a selection or, with `step` or `admit`, a budget."""

    budget: _Natural
    policy: _Natural = 0
    weights: dict[_Natural, list[float]] = {}
    """Weights of a policy's scorers, in the order of its data, by the policy's number."""
    pins: dict[_Natural, bool] = {}
    """Whether an item is pinned, by its position, where that differs from the item."""
    step: Literal[-1, 0, 1] = 0
    """Look for the nearest stop with another selection, downwards or upwards."""
    admit: list[_Natural] | None = None
    """Look for the smallest larger budgets that let these items in."""


class LivePage:
    """The data of a page, and the answers to its questions, which may come from several threads.

    >>> from cupel import presets
    >>> variants = [Variant(presets.chat(), "chat", "--policy chat")]
    >>> items = [ContextItem("hello", 2), ContextItem("a long farewell", 40)]
    >>> page = LivePage(items, ContextBudget(10, 10), variants, title="T", source=None, fixed_window=False)
    >>> page.answer(b'{"budget": 50, "pins": {"1": true}}')["policies"][0]["pinned"]
    [1]
    """

    def __init__(
        self,
        items: Iterable[ContextItem],
        budget: ContextBudget,
        variants: Sequence[Variant],
        *,
        title: str,
        source: str | None,
        fixed_window: bool,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> None:
        self._items = distinct(items)
        self._variants = variants
        data = page_payload(
            self._items,
            budget,
            variants,
            title=title,
            source=source,
            fixed_window=fixed_window,
            on_progress=on_progress,
        )
        self._slider = Slider(budget, fixed_window, tuple(data["slider"]["stops"]))
        self._places = [[one["place"] for one in policy["weights"]] for policy in data["policies"]]
        self._prepared: dict[str, _Prepared] = {}
        self.payload: dict[str, Any] = data | {"live": True}

    def answer(self, body: bytes) -> dict[str, Any]:
        """Answer a question that was sent as JSON.

        A malformed question raises `ConfigurationError`; a weight or budget with a wrong value the error of its family.
        """
        try:
            question = msgspec.json.decode(body, type=Question)
            chosen = self._prepare(question, question.policy)
            budget = self._slider.at(question.budget)
            if question.step:
                return {"budget": self._other_stop(chosen, question)}
            if question.admit is not None:
                return {"admitted": self._admitted(chosen, budget, question.admit)}
            return {"policies": [self._policy(question, budget, number) for number in range(len(self._variants))]}
        except (msgspec.DecodeError, IndexError) as error:
            raise ConfigurationError(f"not a question that this page can answer: {error}") from error

    def _policy(self, question: Question, budget: ContextBudget, number: int) -> dict[str, Any]:
        """Return the selection of one policy: with reasons if it is shown, with scores if they may have changed."""
        one = self._prepare(question, number)
        row = dict(one.scoring()) if question.pins or number in question.weights else {}
        if number != question.policy:
            return row | {"answer": one.placed(budget)}
        writer = StopWriter(one.positions)
        row |= {"stages": stages(one.prepared, budget), "stages_at": question.budget, "reasons": writer.reasons}
        return row | {"answer": selection(one.prepared, budget, writer)}

    def _other_stop(self, one: _Prepared, question: Question) -> int | None:
        def selected(target: int) -> object:
            found = one.placed(self._slider.at(target))
            return found["error"]["name"] if "error" in found else found["placed"]

        here, stops = selected(question.budget), self._slider.stops
        upwards = (stop for stop in stops if stop > question.budget)
        downwards = (stop for stop in reversed(stops) if stop < question.budget)
        return next((stop for stop in (upwards if question.step > 0 else downwards) if selected(stop) != here), None)

    def _admitted(self, one: _Prepared, budget: ContextBudget, asked: Sequence[int]) -> list[tuple[int, Any]]:
        """Return the asked positions with a budget or None; under a fixed window, where none is searched, nothing."""
        if self._slider.fixed_window:
            return []
        found = counterfactuals(one.prepared, budget, [one.positions.items[at] for at in asked])
        budgets = (
            None if each.budget is None else {"budget": each.budget.target_tokens, "exact": each.exact}
            for each in found
        )
        return list(zip(asked, budgets, strict=True))

    def _prepare(self, question: Question, number: int) -> _Prepared:
        """Return a policy prepared with the weights and pins of a question; the last ones are kept."""
        weights, pins = question.weights.get(number), sorted(question.pins.items())
        key = f"{number} {weights} {pins}"
        found = self._prepared.get(key)
        if found is None:
            policy, items = self._variants[number].policy, list(self._items)
            if weights is not None:
                policy = _weighted(policy, self._places[number], weights)
            for at, pinned in pins:
                items[at] = structs.replace(items[at], pinned=pinned)
            found = _Prepared(policy.prepare(items), Positions(items))
            if len(self._prepared) >= _KEPT:
                self._prepared.clear()
            self._prepared[key] = found
        return found


class _Prepared:
    """A policy with its scored items, ready for any budget."""

    def __init__(self, prepared: PreparedSelection, positions: Positions) -> None:
        self.prepared = prepared
        self.positions = positions
        self._scoring: dict[str, Any] | None = None

    def scoring(self) -> dict[str, Any]:
        """Return the scores, which do not depend on the budget."""
        if self._scoring is None:
            self._scoring = scoring(self.prepared, self.positions)
        return self._scoring

    def placed(self, budget: ContextBudget) -> dict[str, Any]:
        """Return the selected items alone."""
        try:
            return {"placed": difference([], self.positions.all(self.prepared.run(budget, warn=False)))}
        except SelectionError as error:
            return refused(error)


def _weighted(policy: Pipeline, places: Sequence[int], weights: Sequence[float]) -> Pipeline:
    """Return the policy with other weights at these places of its composite scorer."""
    if not isinstance(policy.scorer, CompositeScorer) or len(places) != len(weights):
        raise ConfigurationError(f"expected {len(places)} weights of {policy.name!r}, got {len(weights)}")
    entries = list(policy.scorer.entries)
    for place, weight in zip(places, weights, strict=True):
        entries[place] = (entries[place][0], weight)
    return replace(policy, scorer=CompositeScorer(entries))
