"""What governing saved or cost, in words, and the budget at which it would not have cost more."""

from __future__ import annotations

from dataclasses import replace
from math import fsum
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from cupel._internal.text import plural
from cupel.errors import CupelError
from cupel.messages import MessageSession

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel.messages import Bill
    from cupel.watch._govern import LiveBranch

_EVERYTHING: Final = 2**50
_EQUAL: Final = 0.005
"""Prices that differ by less than this share are estimated to be the same."""
_GROWTH: Final = 1.25
"""The next budget that is tried is larger by this factor."""
_SECONDS: Final = 5.0
"""The search for a budget ends after this time."""


def verdict(spent: Bill, in_full: Bill) -> str:
    """Return how the price of governing compares with that of sending everything."""
    difference = spent.price - in_full.price
    share = abs(difference) / max(in_full.price, 1.0)
    if share < _EQUAL:
        return "governing cost as much as sending everything would have"
    return f"governing cost {share:.1%} {'more' if difference > 0 else 'less'} than sending everything would have"


def summary(changed: int, spent: Bill, in_full: Bill) -> str:
    """Return how many requests were changed, and the tokens and the price that this saved or lost."""
    tokens, price = in_full.sent - spent.sent, in_full.price - spent.price
    said = f"{abs(tokens):,} tokens {'saved' if tokens >= 0 else 'lost'}"
    said += f", a price of {abs(price):,.0f} uncached tokens {'saved' if price >= 0 else 'lost'}"
    return f"{plural(changed, 'request')} changed: {said}"


def suggested_budget(lives: Iterable[LiveBranch], budget: int) -> int | None:
    """Return a larger budget that would not have cost more than sending everything; None if none was found in time.

    The conversations are sent again to sessions with other budgets, by our count and at the prices of the cache that
    the provider turned out to have.
    """
    governed = [live for live in lives if any(turn.window is not None for turn in live.branch.turns)]
    largest = max((turn.appended.sent for live in governed for turn in live.branch.turns if turn.appended), default=0)
    until = monotonic() + _SECONDS
    try:
        in_full = fsum(_price(live, _EVERYTHING, until) for live in governed)
        while (budget := round(budget * _GROWTH)) < largest:
            if fsum(_price(live, budget, until) for live in governed) <= in_full:
                return budget
    except (CupelError, TypeError, TimeoutError):
        pass
    return None


def _price(live: LiveBranch, budget: int, until: float) -> float:
    """Return the price of a conversation under a budget in the provider's tokens."""
    branch, last, served = live.branch, live.branch.turns[-1], min(1.0, live.learned.served)
    prices = replace(live.prices, read=served * live.prices.read + (1 - served) * live.prices.write)
    options: dict[str, Any] = {"provider": branch.provider, "system": branch.system, "tools": branch.tools}
    ours = last.tokens / last.bill.sent if last.bill else 1.0
    session = MessageSession[Any](max(1, round(budget * ours)), prices=prices, **options)
    for turn in branch.turns:
        if monotonic() > until:
            raise TimeoutError
        if turn.action != "retry":
            session.fit(branch.messages[: turn.count])
    return session.total.price
