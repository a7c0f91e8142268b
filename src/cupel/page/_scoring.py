"""Describe a policy's scorers to the page's script, so that it can compute scores under other weights and pins."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import isfinite
from typing import Any, Final

from cupel._documents import plain_number
from cupel._relations import are_related
from cupel.model import ContextItem
from cupel.pipeline import PreparedSelection
from cupel.scorers import (
    CompositeScorer,
    DecayScorer,
    FixedClock,
    FrequencyScorer,
    KindScorer,
    MetadataKeyScorer,
    MetadataTrustScorer,
    PriorityScorer,
    RecencyScorer,
    ReflexiveScorer,
    ScaledScorer,
    Scorer,
    TagScorer,
)

_RANKS: Final[dict[type[Scorer], str]] = {RecencyScorer: "when", PriorityScorer: "priority"}
_PEERLESS: Final = (DecayScorer, KindScorer, MetadataKeyScorer, MetadataTrustScorer, ReflexiveScorer, TagScorer)
_LARGEST: Final = 1_000_000
"""A score up to here stays a whole number that a double holds, even scaled for the knapsack and summed."""
_EXACT: Final = 2**53


def scoring(
    prepared: PreparedSelection, items: Sequence[ContextItem], scores: Sequence[float], *, replayed: bool
) -> dict[str, Any]:
    """Describe the scorers, by the items' positions, and say why weights or pins cannot be changed, if they cannot."""
    scorer = prepared.pipeline.scorer
    forms = _Forms(prepared, items)
    form = forms.of(scorer)
    why = "" if replayed else "This policy has a strategy of its own, which the page cannot run."
    if are_related(list(items)):
        why = "Some items are forms of one thing or belong together, which the page cannot decide."
    why = why or _inexact(items, form)
    if not why and forms.column(scorer, forms.scoreable) != [scores[at] for at in forms.scoreable]:
        why = "Its scores change from run to run, with the clock for instance."
    alone = "" if type(scorer) is CompositeScorer else "There is one scorer, so there are no weights."
    among = next((one["name"] for one in _leaves(form) if one["type"] == "fixed"), None)
    peers = (
        among and f"{among} compares each item with all others: pins would change scores that the page cannot compute."
    )
    return {
        "form": form,
        "ruled": _ruled(prepared, items),
        "deduplicate": prepared.pipeline.deduplicate,
        "no_weights": why or alone,
        "no_pins": why or peers or "",
    }


class _Forms:
    """Describes scorers for the page: by their scores, or, if these depend on peers, by how to compute them."""

    def __init__(self, prepared: PreparedSelection, items: Sequence[ContextItem]) -> None:
        pinned = set(map(id, prepared.pinned))
        self._items = items
        self._counted = [at for at, item in enumerate(items) if item.tokens >= 0]
        self.scoreable = [at for at in self._counted if id(items[at]) not in pinned]

    def of(self, scorer: Scorer) -> dict[str, Any]:
        """Return the form of a scorer, with those inside it."""
        kind = type(scorer)
        named = {"name": kind.__name__.removesuffix("Scorer") or kind.__name__}
        if isinstance(scorer, CompositeScorer) and kind is CompositeScorer:
            heard = [(at, *scorer.entries[at]) for at, share in enumerate(scorer.normalized_weights) if share]
            return named | {
                "type": "composite",
                "places": [at for at, _, _ in heard],  # in the policy document, where one that abstains has a place too
                "weights": [weight for _, _, weight in heard],
                "inner": [self.of(child) for _, child, _ in heard],
            }
        if isinstance(scorer, ScaledScorer) and kind is ScaledScorer:
            return named | {"type": "scaled", "inner": [self.of(scorer.inner)]}
        if kind in _RANKS:
            return named | {"type": "rank", "by": _RANKS[kind]}
        if kind is FrequencyScorer:
            return named | {"type": "frequency"}
        peerless = kind in _PEERLESS and not _reads_a_clock(scorer)
        places = self._counted if peerless else self.scoreable
        scores: list[float | str | None] = [None] * len(self._items)
        for at, score in zip(places, self.column(scorer, places), strict=True):
            scores[at] = plain_number(score)
        return named | {"type": "column" if peerless else "fixed", "scores": scores}

    def column(self, scorer: Scorer, places: Sequence[int]) -> list[float]:
        """Return a scorer's scores for the items at some positions."""
        return scorer.checked_scores([self._items[at] for at in places]) if places else []


def _reads_a_clock(scorer: Scorer) -> bool:
    return isinstance(scorer, DecayScorer) and not isinstance(scorer.clock, FixedClock)


def _inexact(items: Sequence[ContextItem], form: dict[str, Any]) -> str:
    """Return a sentence on the numbers that the script would round; empty if it rounds none."""
    numbers = chain.from_iterable(one.get("scores", ()) for one in _leaves(form))
    if not all(number is None or _is_moderate(number) for number in numbers):
        return "Its scores are too large to be exact here."
    if any(item.tokens >= _EXACT or abs(item.priority or 0) >= _EXACT for item in items):
        return "Some token counts or priorities are too large to be exact here."
    return ""


def _is_moderate(number: float | str) -> bool:
    return not isinstance(number, str) and isfinite(number) and abs(number) <= _LARGEST


def _leaves(form: dict[str, Any]) -> list[dict[str, Any]]:
    inner: list[dict[str, Any]] = form.get("inner", [])
    return [leaf for one in inner for leaf in _leaves(one)] if inner else [form]


def _ruled(prepared: PreparedSelection, items: Sequence[ContextItem]) -> list[int]:
    """Return the positions that rules of the policy pin, whatever the items say."""
    counted = [at for at, item in enumerate(items) if item.tokens >= 0]
    found = [rule.positions([items[at] for at in counted]) for rule in prepared.pipeline.pins]
    return sorted({counted[at] for positions in found for at in positions})
