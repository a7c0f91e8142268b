"""Scores by the words of a query (BM25)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, pairwise
from math import log
from operator import is_
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from unicodedata import normalize

from cupel._internal.checks import as_finite, as_flag, as_text, as_tuple, shown, wrong_type
from cupel.errors import MissingExtraError, ScorerConfigError
from cupel.scorers._base import PassScorer, checked_query, required_query

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from cupel.model import ContextItem


_ENGLISH: Final = """
    a about also am an and any are as at be been being but by can could d did do does done for from had has have having
    he her hers him his how i if in into is it its just ll m me might more most must my no not of on or other our re s
    shall she should so some such t than that the their them then there these they this to too us ve very was we were
    what when where which who whom whose why will with would you your yours
"""
ENGLISH: Final = frozenset(_ENGLISH.split())
"""English words that say nothing about a subject; "may" is not among them, because it is also a month."""

_SPACELESS: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Scripts that do not put spaces between words: their characters and pairs of characters are the terms."""
_MARKS: Final = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff\u200c\u200d"
)
"""Vowel signs and accents, which `\\w` leaves out and which would tear words of many scripts apart."""
_WORD: Final = re.compile(rf"[\w{_MARKS}{_SPACELESS}]+(?:\.[\w{_MARKS}]+)*")
_SPACELESS_RUN: Final = re.compile(f"[{_SPACELESS}]+")
_PART: Final = re.compile(r"U+(?!l)|U?l+|0+")
_LONGEST: Final = 100
"""Longer words are data (keys, hashes, encoded files): compared whole, never split, stemmed or cached."""
_MOST_WORDS: Final = 200_000


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are written; dots and underscores inside a word belong to it.

    >>> words_of("Call os.path.join, then my_helper.")
    ['Call', 'os.path.join', 'then', 'my_helper']
    """
    found: list[str] = _WORD.findall(text if text.isascii() else normalize("NFKC", text))
    return found


class Terms(dict[str, tuple[str, ...]]):
    """The terms of each word, found once for all pools.

    >>> Terms(str, frozenset({"is"}))["is_HTTPServer2"]
    ('is_httpserver2', 'http', 'server', '2')
    """

    __slots__ = ("_lock", "_stem", "_stop")

    def __init__(self, stem: Callable[[str], str], stop: frozenset[str]) -> None:
        super().__init__()
        self._stem = stem
        self._stop = stop
        self._lock = Lock()  # a stemmer keeps its state in its fields

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(word) > _LONGEST and not _SPACELESS_RUN.search(word):
            return (word.lower(),)
        with self._lock:
            if len(self) >= _MOST_WORDS:
                self.clear()
            terms = tuple(map(self._stem, dict.fromkeys(part for part in _parts(word) if part not in self._stop)))
            if len(word) <= _LONGEST:
                self[word] = terms
        return terms


def _parts(word: str) -> list[str]:
    """Return a word in lower case and, if it is made of several, its parts."""
    if word.isascii() and word.isalpha() and (word[1:].islower() or word.islower() or word.isupper()):
        return [word.lower()]
    parts: list[str] = []
    rest = word
    for run in _SPACELESS_RUN.findall(word):
        parts += [*run, *map("".join, pairwise(run))]
    if parts:
        rest = _SPACELESS_RUN.sub(".", word)
    shape = "".join(map(_shape, rest))
    pieces = [rest[found.start() : found.end()].lower() for found in _PART.finditer(shape)]
    whole = [] if parts or pieces == [word.lower()] else [word.lower()]
    return whole + pieces + parts


def _shape(character: str) -> str:
    if character in "._":
        return "."
    return "0" if character.isdigit() else "U" if character.isupper() else "l"


@cache
def terms_for(language: str | None, stop: frozenset[str]) -> Terms:
    """Return the one collection of terms for a language and its stop words."""
    return Terms(_plain if language is None else _stemmer(language), stop)


def _plain(word: str) -> str:
    return word


def _stemmer(language: str) -> Callable[[str], str]:
    try:
        import snowballstemmer  # pyright: ignore[reportMissingTypeStubs] - an extra, and slow to import
    except ImportError:
        raise MissingExtraError("snowballstemmer", "relevance") from None
    untyped: Any = snowballstemmer
    known: list[str] = sorted(untyped.algorithms())
    if language not in known:
        raise ScorerConfigError(f"stem must be True, False or one of {', '.join(known)}, got {shown(language)}")
    stem: Callable[[str], str] = untyped.stemmer(language).stemWord
    return stem


_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


class Index:
    """Term counts of each item in the pool that a scorer, bound to whichever query, scored last. Copies start empty.

    The index holds counts, not weights, because counts do not change when the pool grows. Pools that share a prefix are
    re-indexed incrementally.
    """

    __slots__ = ("_items", "_lanes", "_lengths", "_lock", "_norms", "_postings", "_twins")

    def __init__(self) -> None:
        self._items: list[ContextItem] = []
        self._lengths: list[int] = []
        self._postings: dict[str, tuple[list[int], list[int]]] = {}
        self._lanes: list[list[int]] | None = None
        self._twins: list[int] | None = None
        """For each item, the last position at which the same object is listed; None if no object is listed twice."""
        self._norms: tuple[float, float, list[float]] | None = None
        self._lock = Lock()

    def scores(self, items: Sequence[ContextItem], query: str, scorer: RelevanceScorer, terms: Terms) -> list[float]:
        """Score a pool, the best item 1."""
        with self._lock:
            self._follow(items, terms, dates=scorer.dates)
            wanted = Counter(chain.from_iterable(map(terms.__getitem__, words_of(query))))
            scores = self._own(wanted, scorer.k1, scorer.b)
            if scorer.neighbours:
                scores = self._spread(scores, scorer.neighbours)
        best = max(scores, default=0.0)
        return [score / best for score in scores] if best > 0.0 else scores

    def _follow(self, items: Sequence[ContextItem], terms: Terms, *, dates: bool) -> None:
        """Index a pool: the items that it adds to the last one, or all if the two share too little."""
        known = self._items
        if all(map(is_, known, items)):
            kept = min(len(known), len(items))
            if kept == len(known) == len(items):
                return
        else:
            kept = next(at for at, (old, new) in enumerate(zip(known, items, strict=False)) if old is not new)
        if len(known) - kept > kept:
            kept = 0
            known.clear()
            self._lengths.clear()
            self._postings.clear()
        while len(known) > kept:
            self._remove_last(_terms_of(known[-1], terms, dates=dates))
        for item in items[kept:]:
            self._add(item, _terms_of(item, terms, dates=dates))
        self._lanes = self._norms = None

    def _add(self, item: ContextItem, terms: list[str]) -> None:
        position, postings = len(self._items), self._postings
        for term, count in Counter(terms).items():
            posting = postings.get(term)
            if posting is None:
                postings[term] = ([position], [count])
            else:
                posting[0].append(position)
                posting[1].append(count)
        self._items.append(item)
        self._lengths.append(len(terms))

    def _remove_last(self, terms: list[str]) -> None:
        self._items.pop()
        self._lengths.pop()
        for term in set(terms):
            positions, counts = self._postings[term]
            positions.pop()
            counts.pop()
            if not positions:
                del self._postings[term]

    def _own(self, wanted: Counter[str], k1: float, b: float) -> list[float]:
        count = len(self._items)
        own, norms = [0.0] * count, self._length_norms(k1, b)
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

    def __reduce__(self) -> tuple[type[Index], tuple[()]]:
        return Index, ()


def _terms_of(item: ContextItem, terms: Terms, *, dates: bool) -> list[str]:
    found = list(chain.from_iterable(map(terms.__getitem__, words_of(item.content))))
    if dates and (when := item.timestamp) is not None:
        found += terms[_MONTHS[when.month - 1]]
        found += (str(when.day), str(when.year))
    return found


def _carried(column: list[float], share: float) -> list[float]:
    """Return, for each score, the share that it gets of the scores before it."""
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


_LARGEST_K1: Final = 1000.0


@dataclass(frozen=True, slots=True)
class RelevanceScorer(PassScorer):
    """Scores by the words that an item shares with the query, by BM25 over the pool; the best item scores 1.

    The query belongs to the run: `pipeline.run(items, budget, query="…")`. With `neighbours`, each item also gets that
    share of the scores of the items beside it, its square of those two steps away, and so on: in the order of time,
    within one source, undated items in the order given. 0.5 suits conversations, 0.8 to 0.9 questions about a whole
    discussion, 0.2 code and documents. `dates` lets a
    query find an item by the month, day and year of its timestamp (in UTC). A run without a query is refused, unless
    relevance is `optional`: then every item scores 0, and a composite uses its other scorers only.

    Words are compared in lower case and stemmed: in English, in the `stem` language of snowballstemmer, or with False
    not at all. Identifiers are found whole and by their parts. Scripts without spaces are found by characters.

    The words of the last pool stay indexed, so further queries, and pools that grow at the end, cost little.

    >>> from cupel import ContextItem
    >>> items = [ContextItem(text, 5) for text in ("The parser fails.", "Lunch?", "Parsing takes 2 ms.")]
    >>> scores = RelevanceScorer().bind("why does parsing fail?").score_all(items)
    >>> [round(score, 2) for score in scores]
    [1.0, 0.0, 0.73]
    """

    method: Literal["bm25"] = "bm25"
    neighbours: float = field(default=0.0, kw_only=True)
    k1: float = field(default=1.2, kw_only=True)
    b: float = field(default=0.75, kw_only=True)
    stem: bool | str = field(default=True, kw_only=True)
    stop: Collection[str] = field(default=ENGLISH, kw_only=True, repr=False)
    dates: bool = field(default=True, kw_only=True)
    query: str | None = field(default=None, kw_only=True)
    """The query this scorer is bound to; `bind` sets it."""
    optional: bool = field(default=False, kw_only=True)
    _index: Index = field(default_factory=Index, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if as_text("method", self.method) != "bm25":
            raise ScorerConfigError(f"method must be 'bm25', got {shown(self.method)}")
        neighbours = as_finite("neighbours", self.neighbours, error=ScorerConfigError, least=0.0, most=1.0)
        if neighbours == 1.0:
            raise ScorerConfigError("neighbours must be below 1, or scores would not fade with distance, got 1.0")
        if not isinstance(self.stem, (bool, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("stem", "True, False or the name of a language", self.stem)
        stop = as_tuple("stop", self.stop, str, expected="an iterable of strings")
        words = (normalize("NFKC", word).lower() for word in stop)  # as words are compared
        as_flag("dates", self.dates)
        as_flag("optional", self.optional)
        for name, value in (
            ("neighbours", neighbours),
            ("k1", as_finite("k1", self.k1, error=ScorerConfigError, least=0.0, most=_LARGEST_K1)),
            ("b", as_finite("b", self.b, error=ScorerConfigError, least=0.0, most=1.0)),
            ("stop", self.stop if self.stop is ENGLISH else frozenset(words)),
            ("query", None if self.query is None else checked_query(self.query)),
        ):
            object.__setattr__(self, name, value)
        self._terms()  # raises when words of this language cannot be stemmed

    def _terms(self) -> Terms:
        english = "english" if self.stem else None
        return terms_for(self.stem if isinstance(self.stem, str) else english, frozenset(self.stop))

    @property
    def abstains(self) -> bool:
        """Whether there is no query and there need not be one."""
        return self.optional and self.query is None

    def bind(self, query: str) -> Self:
        """Return this scorer for one query; both share the index of a pool."""
        bound = replace(self, query=query)
        object.__setattr__(bound, "_index", self._index)
        return bound

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        if self.abstains:
            return [0.0] * len(items)
        return self._index.scores(items, required_query(self, self.query), self, self._terms())
