"""Check the contracts of custom strategies."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from cupel._internal.checks import as_instance
from cupel.errors import MissingExtraError
from cupel.placers import Placer
from cupel.scorers import Scorer
from cupel.slicers import Slicer

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from cupel.model import ContextItem


def require_hypothesis() -> None:
    """Raise `MissingExtraError` if Hypothesis is not installed."""
    try:
        found = find_spec("hypothesis")
    except ValueError:  # a replacement without a spec
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

    The laws: it does not raise; `score_all` returns one number per item, the same as `score` bit for bit; the same list
    gets the same scores, whatever was scored before; its input is left unchanged.

    Args:
        scorer: The scorer to check.
        items: Replaces the items it is tried on.
        allow_nan: Whether a score may be NaN.
        unit_interval: Whether scores must lie between 0 and 1.
        max_examples: The number of cases; by default that of the active Hypothesis profile.

    >>> from cupel import RecencyScorer
    >>> check_scorer(RecencyScorer(), unit_interval=True)
    """
    as_instance("scorer", scorer, Scorer)
    require_hypothesis()
    from cupel.testing import _laws

    laws = partial(_laws.check_scorer_case, scorer, allow_nan=allow_nan, unit_interval=unit_interval)
    _laws.search(scorer, _laws.scorer_cases(items), laws, max_examples)


def check_slicer(
    slicer: Slicer,
    *,
    items: SearchStrategy[ContextItem] | None = None,
    may_exceed_target: bool = False,
    non_finite_scores: bool = False,
    max_examples: int | None = None,
) -> None:
    """Search for a case in which a slicer breaks its contract, and raise `ContractViolation` with the smallest found.

    The laws: it does not raise; it returns items of its input, each at most once; nothing when there are no items or
    the target is 0; the same case gives the same selection whatever was sliced before; its input is left unchanged;
    `prepare`, if overridden, agrees with `slice`; a pipeline's selection of related items respects the relations.
    A `SelectionError` ends a case without breaking a law.

    Args:
        slicer: The slicer to check.
        items: Replaces the items it is tried on, related ones included.
        may_exceed_target: Whether a selection may exceed the target, as requirements can.
        non_finite_scores: Whether some scores are NaN or infinite, as custom scorers can produce.
        max_examples: The number of cases; by default that of the active Hypothesis profile.

    >>> from cupel import GreedySlice
    >>> check_slicer(GreedySlice(), non_finite_scores=True)
    """
    as_instance("slicer", slicer, Slicer)
    require_hypothesis()
    from cupel.testing import _laws

    laws = partial(_laws.check_slicer_case, slicer, may_exceed_target=may_exceed_target)
    _laws.search(slicer, _laws.slicer_cases(items, non_finite_scores=non_finite_scores), laws, max_examples)
    if items is None:  # a caller's items need not be related
        _laws.search(slicer, _laws.related_cases(), partial(_laws.check_related_case, slicer), max_examples)


def check_placer(
    placer: Placer,
    *,
    items: SearchStrategy[ContextItem] | None = None,
    non_finite_scores: bool = False,
    max_examples: int | None = None,
) -> None:
    """Search for a case in which a placer breaks its contract, and raise `ContractViolation` with the smallest found.

    The laws: it does not raise; it returns exactly the items of its input, each as often; the same case gives the same
    order whatever was placed before; its input is left unchanged; `arrange`, where it is overridden, agrees with
    `place`. The arguments are those of `check_slicer`.

    >>> from cupel import UShapedPlacer
    >>> check_placer(UShapedPlacer())
    """
    as_instance("placer", placer, Placer)
    require_hypothesis()
    from cupel.testing import _laws

    cases = _laws.placer_cases(items, non_finite_scores=non_finite_scores)
    _laws.search(placer, cases, partial(_laws.check_placer_case, placer), max_examples)
