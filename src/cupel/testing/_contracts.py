"""Check the contracts of custom strategies."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from cupel._checks import as_instance
from cupel.errors import MissingExtraError
from cupel.placers import Placer
from cupel.scorers import Scorer
from cupel.slicers import Slicer

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from cupel.model import ContextItem


def require_hypothesis() -> None:
    """Raise if Hypothesis is not installed, saying which extra brings it."""
    try:
        found = find_spec("hypothesis")
    except ValueError:  # a module that stands in for it and has no spec
        found = None
    if found is None:
        raise MissingExtraError("hypothesis", "testing")


__tracebackhide__ = True  # pytest leaves these frames out of a failure


def check_scorer(
    scorer: Scorer,
    *,
    items: SearchStrategy[ContextItem] | None = None,
    allow_nan: bool = False,
    unit_interval: bool = False,
    max_examples: int | None = None,
) -> None:
    """Search for a case in which a scorer breaks its contract, and raise `ContractViolation` with the smallest found.

    The laws: it does not raise; `score_all` gives one number an item, bit for bit what `score` gives; never NaN unless
    `allow_nan`; from 0 to 1 if `unit_interval`; the same list gives the same scores whatever was scored before; what it
    was given is left unchanged. `items` replaces the kind of items it is tried on, and `max_examples` the number of
    cases, otherwise that of the active Hypothesis profile.

    >>> from cupel import RecencyScorer
    >>> check_scorer(RecencyScorer(), unit_interval=True)
    """
    as_instance("scorer", scorer, Scorer)
    require_hypothesis()
    from cupel.testing._scorer_laws import search_scorer

    search_scorer(scorer, items, allow_nan=allow_nan, unit_interval=unit_interval, max_examples=max_examples)


def check_slicer(
    slicer: Slicer,
    *,
    items: SearchStrategy[ContextItem] | None = None,
    may_exceed_target: bool = False,
    non_finite_scores: bool = False,
    max_examples: int | None = None,
) -> None:
    """Search for a case in which a slicer breaks its contract, and raise `ContractViolation` with the smallest found.

    The laws: it does not raise; it returns items it was given, each at most once; nothing when there are no items or
    the target is 0; no more tokens than the target unless `may_exceed_target` (requirements may); the same case gives
    the same selection whatever was sliced before; what it was given is left unchanged; `fit`, where it is overridden,
    agrees with `slice`; among related items, what a pipeline selects keeps to the relations. A `SelectionError` is a
    refusal, not a breach. With `non_finite_scores` some scores are NaN or infinite, which custom scorers may produce.

    >>> from cupel import GreedySlice
    >>> check_slicer(GreedySlice(), non_finite_scores=True)
    """
    as_instance("slicer", slicer, Slicer)
    require_hypothesis()
    from cupel.testing._slicer_laws import search_slicer

    search_slicer(
        slicer,
        items,
        may_exceed_target=may_exceed_target,
        non_finite_scores=non_finite_scores,
        max_examples=max_examples,
    )


def check_placer(
    placer: Placer,
    *,
    items: SearchStrategy[ContextItem] | None = None,
    non_finite_scores: bool = False,
    max_examples: int | None = None,
) -> None:
    """Search for a case in which a placer breaks its contract, and raise `ContractViolation` with the smallest found.

    The laws: it does not raise; it returns exactly the items it was given, each as often; the same case gives the same
    order whatever was placed before; what it was given is left unchanged; `arrange`, where it is overridden, agrees
    with `place`.

    >>> from cupel import UShapedPlacer
    >>> check_placer(UShapedPlacer())
    """
    as_instance("placer", placer, Placer)
    require_hypothesis()
    from cupel.testing._placer_laws import search_placer

    search_placer(placer, items, non_finite_scores=non_finite_scores, max_examples=max_examples)
