"""Scorers, slicers, placers, and the policies made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from cupel.model import OverflowStrategy
from cupel.policy import Policy
from cupel.testing.strategies._documents import built_in

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from cupel.placers import Placer
    from cupel.scorers import Scorer
    from cupel.slicers import Slicer


def scorers(*, max_leaves: int = 4) -> SearchStrategy[Scorer]:
    """A built-in scorer, composites and scaled ones included; clocks are fixed, so every run gives the same scores.

    >>> from hypothesis import find
    >>> find(scorers(), lambda scorer: True)
    RecencyScorer()
    """
    return built_in("scorer", max_leaves=max_leaves)


def slicers() -> SearchStrategy[Slicer]:
    """A built-in slicer, quotas and count quotas around others included; the latter may exceed a target or raise.

    >>> from hypothesis import find
    >>> find(slicers(), lambda slicer: True)
    GreedySlice()
    """
    return built_in("slicer", max_leaves=2)


def placers() -> SearchStrategy[Placer]:
    """A built-in placer.

    >>> from hypothesis import find
    >>> find(placers(), lambda placer: True)
    ChronologicalPlacer()
    """
    return built_in("placer", max_leaves=2)


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


# Parameters that bear the name of a strategy hide it.
_scorers, _slicers, _placers = scorers, slicers, placers
