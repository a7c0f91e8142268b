"""Scores by the words of a query."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, Self

from cupel._checks import as_finite, as_flag, as_text, as_tuple, shown, wrong_type
from cupel.errors import ScorerConfigError
from cupel.scorers._base import PassScorer
from cupel.scorers._bm25 import Indexes, Weighting
from cupel.scorers._query import checked_query, required_query
from cupel.scorers._words import ENGLISH, check_language, stop_words, terms_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel.model import ContextItem

_LARGEST_K1: Final = 1000.0


@dataclass(frozen=True, slots=True)
class RelevanceScorer(PassScorer):
    """Scores by how well an item's words answer the query, by BM25 over the pool; the best item scores 1.

    The query belongs to the run: `pipeline.run(items, budget, query="…")`. With `neighbours`, each item also gets that
    share of the scores of the items beside it, its square of those two steps away, and so on: in the order of time,
    within one source, undated items in the order given. 0.5 suits conversations, 0.2 code and documents. `dates` lets a
    query find an item by the month, day and year of its timestamp (in UTC). A run without a query is refused, unless
    relevance is `optional`: then every item scores 0, and a composite goes by its other scorers.

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
    stop: frozenset[str] = field(default=ENGLISH, kw_only=True, repr=False)
    dates: bool = field(default=True, kw_only=True)
    query: str | None = field(default=None, kw_only=True)
    """The query this scorer is bound to; `bind` sets it."""
    optional: bool = field(default=False, kw_only=True)
    _indexes: Indexes = field(default_factory=Indexes, init=False, repr=False, compare=False)

    if TYPE_CHECKING:

        def __init__(
            self,
            method: Literal["bm25"] = ...,
            *,
            neighbours: float = ...,
            k1: float = ...,
            b: float = ...,
            stem: bool | str = ...,
            stop: Iterable[str] = ...,
            dates: bool = ...,
            query: str | None = ...,
            optional: bool = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        if as_text("method", self.method) != "bm25":
            msg = f"method must be 'bm25', got {shown(self.method)}"
            raise ScorerConfigError(msg)
        neighbours = as_finite("neighbours", self.neighbours, error=ScorerConfigError, least=0.0, most=1.0)
        if neighbours == 1.0:
            msg = "neighbours must be below 1, or scores would not fade with distance, got 1.0"
            raise ScorerConfigError(msg)
        if not isinstance(self.stem, (bool, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("stem", "True, False or the name of a language", self.stem)
        words = as_tuple("stop", self.stop, str, expected="an iterable of strings")
        as_flag("dates", self.dates)
        as_flag("optional", self.optional)
        for name, value in (
            ("neighbours", neighbours),
            ("k1", as_finite("k1", self.k1, error=ScorerConfigError, least=0.0, most=_LARGEST_K1)),
            ("b", as_finite("b", self.b, error=ScorerConfigError, least=0.0, most=1.0)),
            ("stop", self.stop if self.stop is ENGLISH else stop_words(frozenset(words))),
            ("query", None if self.query is None else checked_query(self.query)),
        ):
            object.__setattr__(self, name, value)
        if self._language is not None:
            check_language(self._language)

    @property
    def _language(self) -> str | None:
        if isinstance(self.stem, str):
            return self.stem
        return "english" if self.stem else None

    @property
    def abstains(self) -> bool:
        """Whether there is no query and there need not be one."""
        return self.optional and self.query is None

    def bind(self, query: str) -> Self:
        """Return this scorer for one query; the two share what they know about the words of a pool."""
        bound = replace(self, query=query)
        indexes = Indexes(self._indexes) if self.query is None else self._indexes
        object.__setattr__(bound, "_indexes", indexes)
        return bound

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        if self.abstains:
            return [0.0] * len(items)
        query = required_query(self, self.query)
        terms = terms_for(self._language, self.stop)
        weighting = Weighting(self.k1, self.b, self.neighbours)
        return self._indexes.scores(items, query, weighting, terms, dates=self.dates)
