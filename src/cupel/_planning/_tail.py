"""What stands behind one cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cupel._planning._pool import Candidate, FormOption, Pool, TurnTerms


class Upgrade(NamedTuple):
    """A step from one form of a candidate, or from nothing, to the next longer one."""

    density: float
    """What each of its tokens is worth."""
    candidate: int
    option: FormOption
    below: FormOption | None
    """The shorter form that this one takes the place of."""
    tokens: int
    value: float


def pieces_of(index: int, candidate: Candidate) -> Iterator[Upgrade]:
    """Return the steps from nothing to the whole, each worth less for a token than the one before.

    Forms that would break that order are worth less than a mixture of their neighbours, and are left out.
    """
    hull: list[Upgrade] = []
    for option in candidate.options:
        step = _step(index, candidate, option, hull[-1].option if hull else None)
        while hull and step.density >= hull[-1].density:
            hull.pop()
            step = _step(index, candidate, option, hull[-1].option if hull else None)
        if step.value > 0 or not hull:
            hull.append(step)
    return iter(hull)


def _step(index: int, candidate: Candidate, option: FormOption, below: FormOption | None) -> Upgrade:
    tokens = option.tokens - (below.tokens if below else 0)
    value = candidate.value * (option.share - (below.share if below else 0.0))
    density = value / tokens if tokens > 0 else (inf if value > 0 else 0.0)
    return Upgrade(density, index, option, below, tokens, value)


class Tail:
    """What stands behind one cut: what is held, and what is worth its place."""

    __slots__ = ("chosen", "newest", "pool", "prefix", "rewritten", "tokens", "value")

    def __init__(self, pool: Pool, prefix: dict[int, FormOption], tokens: int, value: float, newest: int) -> None:
        self.pool = pool
        self.prefix = prefix
        self.newest = newest
        """The last place in the prefix; what has an earlier one cannot come behind it."""
        self.chosen: dict[int, FormOption] = {}
        self.tokens = tokens
        self.value = value
        self.rewritten = 0
        self.take(index for index in pool.held if index not in prefix)

    def take(self, indexes: Iterable[int]) -> None:
        """Add candidates in their longest forms."""
        for index in indexes:
            candidate = self.pool.candidates[index]
            option = self.chosen[index] = candidate.whole
            self.tokens += option.tokens
            self.value += candidate.value * option.share
            if not candidate.new:
                self.rewritten += option.tokens

    def fill(self, terms: TurnTerms) -> None:
        """Take pieces, best first, while each fits and is worth its place."""
        prefix, newest, chosen, candidates = self.prefix, self.newest, self.chosen, self.pool.candidates
        room, gain, place, tokens = terms.room, terms.gain, terms.place, self.tokens
        for density, index, option, below, cost, worth in self.pool.pieces:
            after = tokens + cost
            if after > room or index in prefix or (index < newest and not candidates[index].free):
                continue
            if below is not None and chosen.get(index) is not below:
                continue
            if gain * density < place(after):
                break
            chosen[index] = option
            tokens = after
            self.value += worth
            self.rewritten += cost
        self.tokens = tokens
