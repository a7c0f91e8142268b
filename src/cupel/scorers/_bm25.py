"""An index of a pool's words, and scores by BM25."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from math import log
from operator import is_
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from cupel.scorers._words import Terms, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem

_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


class Weighting(NamedTuple):
    """What turns an index into scores."""

    k1: float
    b: float
    neighbours: float


class Index:
    """How often each term stands in which item of one pool.

    Counts are kept, not weights: they do not change when the pool grows. A pool that ends otherwise than the last one
    costs no more than the difference.
    """

    __slots__ = ("_dates", "_items", "_lanes", "_lengths", "_lock", "_norms", "_postings", "_terms", "_twins")

    def __init__(self, terms: Terms, *, dates: bool) -> None:
        self._terms = terms
        self._dates = dates
        self._items: list[ContextItem] = []
        self._lengths: list[int] = []
        self._postings: dict[str, tuple[list[int], list[int]]] = {}
        self._lanes: list[list[int]] | None = None
        self._twins: list[int] | None = None
        """Where an object listed twice stands last, for every item; None if there is none such."""
        self._norms: tuple[float, float, list[float]] | None = None
        self._lock = Lock()

    def scores(self, items: Sequence[ContextItem], query: str, weighting: Weighting) -> list[float] | None:
        """Score a pool, the best item 1; None if it has too little in common with the pool that was indexed last."""
        with self._lock:
            if not self._follow(items):
                return None
            scores = self._own(query, weighting.k1, weighting.b)
            if weighting.neighbours:
                scores = self._spread(scores, weighting.neighbours)
        best = max(scores, default=0.0)
        return [score / best for score in scores] if best > 0.0 else scores

    def _follow(self, items: Sequence[ContextItem]) -> bool:
        known = self._items
        if all(map(is_, known, items)):
            kept = min(len(known), len(items))
            if kept == len(known) == len(items):
                return True
        else:
            kept = next(at for at, (old, new) in enumerate(zip(known, items, strict=False)) if old is not new)
        if len(known) - kept > kept:
            return False
        while len(known) > kept:
            self._remove_last()
        for item in items[kept:]:
            self._add(item)
        self._lanes = self._norms = None
        return True

    def _add(self, item: ContextItem) -> None:
        position, postings = len(self._items), self._postings
        terms = self._terms_of(item)
        for term, count in Counter(terms).items():
            posting = postings.get(term)
            if posting is None:
                postings[term] = ([position], [count])
            else:
                posting[0].append(position)
                posting[1].append(count)
        self._items.append(item)
        self._lengths.append(len(terms))

    def _remove_last(self) -> None:
        self._lengths.pop()
        for term in set(self._terms_of(self._items.pop())):
            positions, counts = self._postings[term]
            positions.pop()
            counts.pop()
            if not positions:
                del self._postings[term]

    def _terms_of(self, item: ContextItem) -> list[str]:
        terms = self._terms
        found = list(chain.from_iterable(map(terms.__getitem__, words_of(item.content))))
        if self._dates and (when := item.timestamp) is not None:
            found += terms[_MONTHS[when.month - 1]]
            found += (str(when.day), str(when.year))
        return found

    def _own(self, query: str, k1: float, b: float) -> list[float]:
        count = len(self._items)
        own, norms = [0.0] * count, self._length_norms(k1, b)
        wanted = Counter(chain.from_iterable(map(self._terms.__getitem__, words_of(query))))
        for term, times in wanted.items():
            positions, counts = self._postings.get(term, ((), ()))
            found = len(positions)
            weight = times * log(1.0 + (count - found + 0.5) / (found + 0.5)) * (k1 + 1.0)
            for position, frequency in zip(positions, counts, strict=True):
                own[position] += weight * frequency / (frequency + norms[position])
        return own

    def _length_norms(self, k1: float, b: float) -> list[float]:
        if self._norms is None or self._norms[:2] != (k1, b):
            lengths = self._lengths
            mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
            self._norms = (k1, b, [k1 * (1.0 - b + b * length / mean) for length in lengths])
        return self._norms[2]

    def _spread(self, own: list[float], share: float) -> list[float]:
        """Let each score decay into the items before and after it, in two passes over each lane."""
        if self._lanes is None:
            self._lanes, self._twins = _lanes(self._items), _twins(self._items)
        scores = own.copy()
        for lane in self._lanes:
            # In a column of its own: back and forth over a large pool in another order, every step misses the cache.
            column = [own[position] for position in lane]
            before, after = _carried(column, share), _carried(column[::-1], share)
            for position, one, left, right in zip(lane, column, before, reversed(after), strict=True):
                scores[position] = one + left + right
        # An object listed twice has one score, that of its last place.
        return scores if self._twins is None else [scores[position] for position in self._twins]


def _carried(column: list[float], share: float) -> list[float]:
    """Return, for each score, what those before it pass on to it."""
    found: list[float] = []
    carried = 0.0
    for score in column:
        found.append(carried)
        carried = share * (carried + score)
    return found


def _twins(items: list[ContextItem]) -> list[int] | None:
    last = {id(item): position for position, item in enumerate(items)}
    return None if len(last) == len(items) else [last[id(item)] for item in items]


def _lanes(items: list[ContextItem]) -> list[list[int]]:
    """Return the positions of each source in the order of time; undated items follow each other as they were given."""
    dated: dict[str, list[int]] = {}
    undated: dict[str, list[int]] = {}
    for position, item in enumerate(items):
        lanes = undated if item.timestamp is None else dated
        lanes.setdefault(item.source.key, []).append(position)
    for lane in dated.values():
        lane.sort(key=lambda position: items[position].timestamp)  # type: ignore[arg-type, return-value]
    return [*dated.values(), *undated.values()]


class Indexes:
    """Where a scorer finds its index again.

    A scorer that knows no query has the index of the pool it saw last; each binding starts from that and keeps its own,
    so that prepared selections over different pools do not take it from each other. Copies start without one.
    """

    __slots__ = ("_parent", "index")

    def __init__(self, parent: Indexes | None = None) -> None:
        self._parent = parent
        self.index: Index | None = None

    def scores(
        self, items: Sequence[ContextItem], query: str, weighting: Weighting, terms: Terms, *, dates: bool
    ) -> list[float]:
        """Score a pool with an index that fits it, or with a new one."""
        for holder in (self, self._parent):
            if holder is not None and holder.index is not None:
                scores = holder.index.scores(items, query, weighting)
                if scores is not None:
                    self.index = holder.index
                    return scores
        index = Index(terms, dates=dates)
        scores = index.scores(items, query, weighting) or []  # a new index takes any pool
        self.index = index
        if self._parent is not None:
            self._parent.index = index
        return scores

    def __reduce__(self) -> tuple[type[Indexes], tuple[()]]:
        return Indexes, ()
