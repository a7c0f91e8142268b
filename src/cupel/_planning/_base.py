"""The base class of both kinds of session."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from copy import copy
from math import floor
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from cupel._internal.checks import as_finite, as_instance
from cupel._planning._prices import Prices
from cupel._planning._state import State, settle
from cupel.errors import ConfigurationError, SelectionError

if TYPE_CHECKING:
    from cupel._planning._planner import Change
    from cupel._planning._prices import Bill
    from cupel.model import ContextBudget

_ALLOWANCE = 1.01
"""The provider's tokens for one of ours differ a little from request to request."""
_LEAST_WINDOW = 4
"""Whatever a provider reports, the window keeps 1 / `_LEAST_WINDOW` of the budget."""
_log = logging.getLogger("cupel")


class BaseSession:
    """A window that remembers its last request: one conversation, one writer."""

    def __init__(self, budget: ContextBudget, prices: Prices | None, worth: float) -> None:
        self._budget = budget
        self._prices = as_instance("prices", Prices.marked() if prices is None else prices, Prices)
        self._worth = as_finite("worth", worth, least=0, error=ConfigurationError)
        self._state = State()
        self._writing = Lock()

    @property
    def budget(self) -> ContextBudget:
        """The budget of each request."""
        return self._budget

    @property
    def total(self) -> Bill:
        """The bill of all requests so far."""
        return self._state.total

    def observe(self, usage: object, *, diagnostics: object = None) -> Bill | None:
        """Settle the last request's bill with the provider's own counts, learn from them, and return it.

        A request is settled once: a second usage changes nothing, and None is returned.

        Args:
            usage: the usage of a response of Anthropic's, OpenAI's, Gemini's or Bedrock's SDK, or a mapping like it.
            diagnostics: the cache diagnostics of a response of Anthropic's. If they say that the request differs from
                the one before where the bill expected it to be the same, `mistake` of the bill says so, and a warning
                is logged.
        """
        with self._only_writer():
            self._state, bill = settle(self._state, usage, self._prices, diagnostics)
        if bill is not None and bill.mistake:
            _log.warning("turn %d: the bill was wrong: %s", self._state.turns, bill.mistake)
        return bill

    def to_json(self) -> str:
        """Return the state that another process needs to continue: a few kilobytes, without contents.

        The only contents are the texts that a caller's `note` function returned.
        """
        return self._state.to_json()

    @classmethod
    def from_json(cls, state: str, /, *args: Any, **kwargs: Any) -> Self:
        """Continue from the text that `to_json` returned, with the arguments of the constructor.

        Entries of another conversation match nothing in this one, so nothing of them is counted as read.
        """
        session = cls(*args, **kwargs)
        session._state = State.from_json(state)
        return session

    def copy(self) -> Self:
        """Return a session that continues from here independently: a branch of the conversation."""
        with self._only_writer():
            return copy(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_writing"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._writing = Lock()
        self._begin()

    def __repr__(self) -> str:
        turns = self._state.turns
        plural = "" if turns == 1 else "s"
        return f"<{type(self).__name__}: {turns} turn{plural} of at most {self._budget.target_tokens} tokens>"

    def _begin(self) -> None:
        """Forget everything that was only kept to save time."""

    def _window(self, budget: ContextBudget) -> int:
        """Return how many of our tokens fit: the budget is counted in the provider's tokens."""
        window = min(budget.target_tokens, budget.max_tokens - budget.output_reserve)
        scale = self._state.scale
        if not self._state.usage or scale.predicted(window) <= window:
            return window
        ours = (window - scale.overhead) / (scale.ratio * (_ALLOWANCE if scale.ratio > 1 else 1.0))
        return max(floor(ours), window // _LEAST_WINDOW)

    def _keep(self, state: State, said: object, bill: Bill, changes: Iterable[Change]) -> None:
        """Remember a request as sent, and log it."""
        self._state = state
        if _log.isEnabledFor(logging.INFO):
            _log.info("turn %d: %s; %s", state.turns, said, bill)
        if _log.isEnabledFor(logging.DEBUG):
            for change in changes:
                _log.debug("turn %d: %s", state.turns, change)

    @contextmanager
    def _only_writer(self) -> Generator[None]:
        if not self._writing.acquire(blocking=False):
            msg = "the session is in use by another thread: a conversation has one writer; copy() starts a branch"
            raise SelectionError(msg)
        try:
            yield
        finally:
            self._writing.release()
