"""What the page's script needs to repeat a policy's last two stages at any budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from cupel._columns import Candidates, descending
from cupel._ratios import scaled_score
from cupel.diagnostics import Deduplicated, NegativeTokens, SelectionReport
from cupel.model import ContextKind
from cupel.page._answers import excluded_rows
from cupel.page._positions import Positions
from cupel.pipeline import PreparedSelection
from cupel.placers import ChronologicalPlacer, Placer, SystemFirst, UShapedPlacer
from cupel.policy import Policy
from cupel.slicers import GreedySlice

_PLACERS: Final[dict[type[Placer], str]] = {ChronologicalPlacer: "chronological", UShapedPlacer: "u_shaped"}
_BEFORE_SLICING: Final = (NegativeTokens.__name__, Deduplicated.__name__)
_SAFE_INTEGER: Final = 2**53
_MOST_CELLS: Final = 2**31


def replayable(
    policy: Policy, prepared: PreparedSelection, kinds: dict[str, int], highest: int
) -> dict[str, Any] | None:
    """Describe the slicer to the script, if the script can do exactly what the policy does up to the highest budget."""
    form, candidates = prepared.chooser.replay(kinds), prepared.candidates
    if form is None or placing(policy.placer, kinds) is None:
        return None
    if not _has_knapsack(form):
        return form
    fits_a_double = sum(_values(candidates)) < _SAFE_INTEGER
    fits_an_index = len(prepared.items) * (highest // bucket_size(form) + 1) < _MOST_CELLS
    return form if fits_a_double and fits_an_index else None


def placing(placer: Placer, kinds: Mapping[str, int]) -> dict[str, Any] | None:
    """Describe the placer to the script; None if only Python can run it."""
    if type(placer) is not SystemFirst:
        return {"type": _PLACERS[type(placer)]} if type(placer) in _PLACERS else None
    inner = placing(placer.inner, kinds)
    return inner and {"type": "system_first", "kind": kinds.get(ContextKind.SYSTEM_PROMPT.key), "inner": inner}


def bucket_size(form: dict[str, Any] | None) -> int:
    """Return the bucket of the knapsack inside a slicer, 1 if there is none."""
    if form is None:
        return 1
    return int(form.get("bucket_size", 0)) or bucket_size(form.get("inner"))


def _has_knapsack(form: dict[str, Any]) -> bool:
    return form["type"] == "knapsack" or ("inner" in form and _has_knapsack(form["inner"]))


def ranks(
    candidates: Candidates, everything: SelectionReport, positions: Positions, scores: list[float]
) -> dict[str, Any]:
    """Return whole numbers instead of scores, so that the script compares none where nothing was changed."""
    dropped = [row for row in excluded_rows(everything, positions) if row["reason"] in _BEFORE_SLICING]
    return {
        "sorted": positions.all(candidates.items),
        "density": GreedySlice().fit(Candidates(candidates.items, candidates.scores, candidates.tokens)).order,
        "values": _values(candidates),
        "score_rank": _score_ranks(scores),
        # In the order of exclusion: stage by stage, and within a stage as the items came in (ruling 7.27).
        "dropped": sorted(dropped, key=lambda row: (_BEFORE_SLICING.index(row["reason"]), row["position"])),
    }


def _values(candidates: Candidates) -> list[int]:
    """Return scores as the knapsack sees them; the largest are too large for the script."""
    return [scaled_score(score) for score in candidates.scores]


def _score_ranks(scores: list[float]) -> list[int]:
    """Number the distinct scores from the highest down; all NaN share the last number."""
    numbers = [0] * len(scores)
    rank = -1
    previous: float | None = None
    for position in descending(scores):
        score = scores[position]
        if previous is None or not (score == previous or (math.isnan(score) and math.isnan(previous))):
            rank += 1
            previous = score
        numbers[position] = rank
    return numbers
