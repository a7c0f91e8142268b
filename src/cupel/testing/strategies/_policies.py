"""Scorers, slicers, placers, and the policies made of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from cupel.model import OverflowStrategy
from cupel.placers import ChronologicalPlacer, SystemFirst, UShapedPlacer
from cupel.policy import Policy
from cupel.scorers import (
    CompositeScorer,
    DecayScorer,
    EmbeddingScorer,
    Exponential,
    FixedClock,
    FrequencyScorer,
    KindScorer,
    MetadataKeyScorer,
    MetadataTrustScorer,
    PriorityScorer,
    RecencyScorer,
    ReflexiveScorer,
    RelevanceScorer,
    ScaledScorer,
    Scorer,
    Step,
    TagScorer,
    Window,
)
from cupel.slicers import (
    BestFirstSlice,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    KindLimit,
    KnapsackSlice,
    OptimalSlice,
    QuotaEntry,
    QuotaSlice,
    ScarcityBehavior,
    Slicer,
    StreamSlice,
)

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from cupel.placers import Placer

_NOW: Final = datetime(2026, 1, 1, 6, tzinfo=UTC)
_KINDS: Final = ("Message", "Document", "ToolOutput")
_WEIGHTS: Final = st.sampled_from([0.0, 0.5, 1.0, 2.0])
_UNITS: Final = st.sampled_from([0.0, 0.25, 0.5, 1.0])
_SHARES: Final = st.sampled_from([0.0, 0.5])
_SPANS: Final = st.integers(1, 12).map(lambda hours: timedelta(hours=hours))


def scorers(*, max_leaves: int = 4) -> SearchStrategy[Scorer]:
    """A built-in scorer, composites and scaled ones included; clocks are fixed, so every run gives the same scores.

    >>> from hypothesis import find
    >>> find(scorers(), lambda scorer: True)
    RecencyScorer()
    """
    curves = (
        st.builds(Exponential, _SPANS)
        | st.builds(Window, _SPANS)
        | st.builds(Step, st.lists(st.tuples(_SPANS, _UNITS), min_size=1, max_size=2))
    )
    leaves: SearchStrategy[Scorer] = st.one_of(
        st.sampled_from([RecencyScorer(), PriorityScorer(), FrequencyScorer(), ReflexiveScorer()]),
        st.builds(KindScorer, st.none() | st.dictionaries(st.sampled_from(_KINDS), _WEIGHTS)),
        st.builds(
            TagScorer, st.dictionaries(st.sampled_from(["urgent", "docs"]), _WEIGHTS), case_sensitive=st.booleans()
        ),
        st.builds(MetadataTrustScorer, _UNITS),
        st.builds(
            MetadataKeyScorer, st.just("cupel:priority"), st.sampled_from(["high", "low"]), st.sampled_from([1.5, 3.0])
        ),
        st.builds(EmbeddingScorer, st.just(_by_letters), query=st.sampled_from(["a", "b c"])),
        # Not stemmed, which would take an extra.
        st.builds(
            RelevanceScorer,
            neighbours=_SHARES,
            stem=st.just(value=False),
            dates=st.booleans(),
            query=st.sampled_from(["a", "b c", None]),
            optional=st.just(value=True),
        ),
        st.builds(DecayScorer, st.just(FixedClock(_NOW)), curves, null_timestamp_score=_UNITS),
    )
    return st.recursive(leaves, _combined, max_leaves=max_leaves)


def _by_letters(texts: list[str]) -> list[list[float]]:
    """A stand-in for a model: two texts are close if they are about as long and have as many letters a."""
    return [[float(len(text)), float(text.count("a"))] for text in texts]


def _combined(inner: SearchStrategy[Scorer]) -> SearchStrategy[Scorer]:
    weights = st.sampled_from([1.0, 0.5, 3.0])
    return st.builds(ScaledScorer, inner) | st.builds(
        CompositeScorer, st.lists(st.tuples(inner, weights), min_size=1, max_size=3)
    )


def slicers() -> SearchStrategy[Slicer]:
    """A built-in slicer, quotas and count quotas around others included; the latter may exceed a target or raise.

    >>> from hypothesis import find
    >>> find(slicers(), lambda slicer: True)
    GreedySlice()
    """
    knapsacks = st.builds(KnapsackSlice, st.sampled_from([1, 7, 100]))
    simple = st.sampled_from([GreedySlice(), BestFirstSlice()]) | knapsacks
    quotas = st.builds(QuotaSlice, _quotas(), simple, leftover=st.sampled_from(["leave", "share"]))
    scarcities = st.sampled_from(ScarcityBehavior)
    # CountQuotaSlice refuses a knapsack inside.
    counted = st.builds(
        CountQuotaSlice, _count_entries(), st.just(GreedySlice()) | quotas, scarcity=scarcities
    ) | st.builds(CountConstrainedKnapsackSlice, _count_entries(), knapsacks, scarcity=scarcities)
    # Not exact, which would take an extra.
    optimal = st.builds(OptimalSlice, _limits(), exact=st.just(value=False), scarcity=scarcities)
    return simple | optimal | st.builds(StreamSlice, st.sampled_from([1, 3, 32])) | quotas | counted


def placers() -> SearchStrategy[Placer]:
    """A built-in placer.

    >>> from hypothesis import find
    >>> find(placers(), lambda placer: True)
    ChronologicalPlacer()
    """
    return st.sampled_from([ChronologicalPlacer(), UShapedPlacer(), SystemFirst(), SystemFirst(UShapedPlacer())])


def policies(
    *,
    scorers: SearchStrategy[Scorer] | None = None,
    slicers: SearchStrategy[Slicer] | None = None,
    placers: SearchStrategy[Placer] | None = None,
    overflow: SearchStrategy[OverflowStrategy] | None = None,
) -> SearchStrategy[Policy]:
    """A policy of built-in strategies; each argument replaces the default for a part.

    >>> from hypothesis import find
    >>> find(policies(), lambda policy: not policy.deduplicate)
    Policy(scorer=RecencyScorer(), deduplicate=False)
    """
    return st.builds(
        Policy,
        scorers if scorers is not None else _scorers(),
        slicers if slicers is not None else _slicers(),
        placers if placers is not None else _placers(),
        st.sampled_from([True, False]),
        overflow if overflow is not None else st.sampled_from(OverflowStrategy),
    )


@st.composite
def _quotas(draw: DrawFn) -> list[QuotaEntry]:
    chosen = draw(st.lists(st.sampled_from(_KINDS), max_size=3, unique=True))
    # Requirements of a third each never add up to more than the whole.
    return [
        QuotaEntry(
            kind, require=draw(st.sampled_from([0.0, 10.0, 33.0])), cap=draw(st.sampled_from([100.0, 33.0, 60.0]))
        )
        for kind in chosen
    ]


@st.composite
def _count_entries(draw: DrawFn) -> list[CountQuotaEntry]:
    chosen = draw(st.lists(st.sampled_from(_KINDS), max_size=3, unique=True))
    caps = [draw(st.integers(0, 3)) for _ in chosen]
    return [CountQuotaEntry(kind, draw(st.integers(0, cap)), cap) for kind, cap in zip(chosen, caps, strict=True)]


@st.composite
def _limits(draw: DrawFn) -> list[KindLimit]:
    chosen = draw(st.lists(st.sampled_from(_KINDS), max_size=2, unique=True))
    return [
        KindLimit(
            kind,
            draw(st.integers(0, 1)),
            draw(st.sampled_from([None, 1, 3])),
            draw(st.sampled_from([0, 5])),
            draw(st.sampled_from([None, 20])),
        )
        for kind in chosen
    ]


# Parameters that bear the name of a strategy hide it.
_scorers, _slicers, _placers = scorers, slicers, placers
