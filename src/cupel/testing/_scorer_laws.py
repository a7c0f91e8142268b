"""The laws of scorers."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from struct import pack
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from cupel.testing import strategies
from cupel.testing._search import attempt, copied, listed, search, unchanged, violation

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from cupel.model import ContextItem
    from cupel.scorers import Scorer


__tracebackhide__ = True  # pytest leaves these frames out of a failure


@dataclass(frozen=True, slots=True)
class _Case:
    items: list[ContextItem]
    others: list[ContextItem]

    @property
    def matters(self) -> bool:
        return bool(self.items)

    def __str__(self) -> str:
        return listed("items", self.items)


def search_scorer(
    scorer: Scorer,
    items: SearchStrategy[ContextItem] | None,
    *,
    allow_nan: bool,
    unit_interval: bool,
    max_examples: int | None,
) -> None:
    """Search for a case in which a scorer breaks a law."""
    # The pipeline scores neither pinned items nor negative counts.
    scoreable = items if items is not None else strategies.items(pinned=st.just(value=False))
    cases = st.builds(_Case, strategies.item_lists(scoreable, max_size=8), strategies.item_lists(scoreable, max_size=3))

    def laws(case: _Case) -> None:
        scores = _keeps_its_word(scorer, case)
        _has_no_memory(scorer, case, scores)
        _looks_at_values(scorer, case, scores)
        for position, score in enumerate(scores):
            if isnan(score) and not allow_nan:
                raise violation(scorer, "a score is a number", case, f"items[{position}] scores NaN")
            if unit_interval and not 0.0 <= score <= 1.0:
                raise violation(scorer, "a score lies between 0 and 1", case, f"items[{position}] scores {score!r}")

    search(cases, laws, scorer, max_examples)


def _keeps_its_word(scorer: Scorer, case: _Case) -> list[float]:
    with unchanged(scorer, case, "items", case.items) as given:
        scores = _score_all(scorer, case, given)
        for position, item in enumerate(case.items):
            one = attempt(scorer, case, lambda item=item: float(scorer.score(item, given)))  # type: ignore[misc]
            if _bits([one]) != _bits([scores[position]]):
                found = f"for items[{position}] score gives {one!r} and score_all {scores[position]!r}"
                raise violation(scorer, "score_all gives exactly what score gives", case, found)
    return scores


def _has_no_memory(scorer: Scorer, case: _Case, scores: list[float]) -> None:
    """Score the same again, then other items, then the same, all in one list: no cache may go by a list's identity."""
    other = _Case(case.others, [])
    reused = list(case.others)
    fresh = _score_all(scorer, other, reused)
    reused[:] = case.items
    again = _score_all(scorer, case, reused)
    _must_agree(scorer, case, scores, "again", again)
    reused[:] = case.others
    _must_agree(scorer, other, fresh, "in a list that held other items", _score_all(scorer, other, reused))
    reused[:] = case.items
    _must_agree(scorer, case, scores, "after other items", _score_all(scorer, case, reused))


def _looks_at_values(scorer: Scorer, case: _Case, scores: list[float]) -> None:
    """Score equal items that lie elsewhere in memory."""
    _must_agree(scorer, case, scores, "for equal copies", _score_all(scorer, case, copied(case.items)))


def _must_agree(scorer: Scorer, case: _Case, scores: list[float], when: str, repeated: list[float]) -> None:
    if _bits(repeated) != _bits(scores):
        found = f"scores: {scores!r}\nscores {when}: {repeated!r}"
        raise violation(scorer, "the same items always get the same scores", case, found)


def _score_all(scorer: Scorer, case: _Case, items: list[ContextItem]) -> list[float]:
    return attempt(scorer, case, lambda: scorer.checked_scores(items) if items else [])


def _bits(scores: list[float]) -> list[bytes]:
    return [pack("<d", score) for score in scores]
