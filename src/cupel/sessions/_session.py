"""A window of items, turn by turn."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING

from cupel._checks import as_finite, as_function, as_tuple
from cupel._planning import BaseSession, Opening, decide
from cupel.errors import ConfigurationError, PinnedExceedsBudgetError
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import Pipeline
from cupel.sessions._turn import ItemTurn, Key, identity

if TYPE_CHECKING:
    from cupel._planning import Prices
    from cupel.sessions._turn import SessionResult


class Session(BaseSession):
    """Keeps a window of items from turn to turn: each selection changes the last one only where that pays.

    The pipeline's scorer gives items their worth; the planner compares it with the cost of keeping them. Items with a
    timestamp are sent in its order. Others, such as documents, stay where they were first sent, and those that come
    back come last. Forms of one item are alternatives; a group is kept or evicted as a whole, at the place of its first
    item.

    Args:
        policy: the pipeline whose scorer and pins are used.
        budget: the tokens of a selection.
        prices: how the provider caches, by default `Prices.marked()`.
        worth: raise it to keep more context at a higher cost.
        key: returns the identity of an item, by default a hash of its content and kind.

    >>> from cupel import ContextItem, Pipeline, ReflexiveScorer
    >>> session = Session(Pipeline(scorer=ReflexiveScorer()), 100)
    >>> notes = [ContextItem(f"note {n}", 30, future_relevance_hint=n / 10) for n in range(1, 6)]
    >>> [item.content for item in session.select(notes)]
    ['note 5', 'note 4', 'note 3']
    >>> result = session.select(notes, new=[ContextItem("a question", 10)])
    >>> [item.content for item in result], result.action, result.bill.read
    (['note 5', 'note 4', 'note 3', 'a question'], 'append', 90)
    """

    def __init__(
        self,
        policy: Pipeline,
        budget: int | ContextBudget,
        *,
        prices: Prices | None = None,
        worth: float = 1.0,
        key: Key | None = None,
    ) -> None:
        self._pipeline = Pipeline.of(policy)
        super().__init__(ContextBudget.of(budget), prices, worth)
        self._key: Key = identity if key is None else as_function("key", key)

    def select(
        self,
        items: Iterable[ContextItem],
        *,
        new: Iterable[ContextItem] = (),
        query: str | None = None,
        idle: float | None = None,
    ) -> SessionResult:
        """Return the next window, and remember it as sent.

        Args:
            items: all candidates.
            new: the items that came since the last selection; they are sent whole, and come last.
            query: the text that a scorer looks for.
            idle: how many seconds ago the last window was sent; after the `ttl` of the prices the provider has
                forgotten it.
        """
        old, added = as_tuple("items", items, ContextItem), as_tuple("new", new, ContextItem)
        if idle is not None:
            idle = as_finite("idle", idle, least=0, most=inf, error=ConfigurationError)
        with self._only_writer():
            turn = ItemTurn(self._pipeline, old, added, query, self._key)
            room = self._window(self._budget)
            step = decide(
                self._state,
                turn.candidates,
                prices=self._prices,
                worth=self._worth,
                room=room,
                opening=Opening("", 0),
                idle=idle,
            )
            if step is None:
                held = sum(candidate.whole.tokens for candidate in turn.candidates if candidate.held)
                raise PinnedExceedsBudgetError(held, room)
            result = turn.result(step, self._budget, room, self._prices.marks)
            self._keep(step)
        return result
