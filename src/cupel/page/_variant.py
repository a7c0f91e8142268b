"""One policy on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from cupel._documents import plain_number
from cupel.diagnostics import SelectionReport
from cupel.errors import PolicyConfigError, SelectionError
from cupel.model import ContextBudget, ContextItem, OverflowStrategy
from cupel.page._answers import answer, check
from cupel.page._positions import Positions
from cupel.page._probes import Probes
from cupel.page._replay import placing, ranks, replayable
from cupel.page._scoring import scoring
from cupel.pipeline import PreparedSelection
from cupel.policy import Policy
from cupel.slicers import GreedySlice

_CHECKS: Final = (9, 33, 100_000)
_ANSWERS: Final = (11, 101, 200_000)
"""Fewest, most, and over how many items: each is a whole run, and a check runs again in the browser."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A policy the page can switch to, and the words of a command line that choose it.

    >>> from cupel import presets
    >>> Variant(presets.chat(), "chat", "--policy chat").name
    'chat'
    """

    policy: Policy
    name: str
    flags: str


def variant_payload(
    variant: Variant, prepared: PreparedSelection, items: list[ContextItem], kinds: dict[str, int], probes: Probes
) -> dict[str, Any]:
    """Compute what the page needs of one policy.

    A policy that the script can replay comes with ranks to replay it and the library's answers to check the replay
    against; any other comes with the library's answers at the budgets it was run at.
    """
    policy, positions = variant.policy, Positions(items)
    everything = _generous(prepared, items)
    found = {positions.of(entry.item): entry.score for entry in everything}
    scores = [found[position] for position in range(len(items))]
    slicer = replayable(policy, prepared, kinds, probes.highest)
    payload: dict[str, Any] = {
        "name": variant.name,
        "flags": variant.flags,
        "description": policy.description,
        "document": _document(policy),
        "overflow": policy.overflow.value,
        "scores": list(map(plain_number, scores)),
        "scoring": scoring(prepared, items, scores, replayed=slicer is not None),
        "pinned": positions.all(prepared.pinned),
        "stages": _stages(prepared, probes.at(probes.budget.target_tokens)),
        "slicer": slicer,
        "checks": [],
        "answers": [],
    }
    if slicer is not None:
        payload["checks"] = [check(prepared, budget, positions) for budget in probes.spread(_times(_CHECKS, items))]
        payload["placer"] = placing(policy.placer, kinds)
        return payload | ranks(prepared.candidates, everything, positions, scores)
    payload["answers"] = [answer(prepared, budget, positions) for budget in probes.spread(_times(_ANSWERS, items))]
    return payload


def _times(bounds: tuple[int, int, int], items: Sequence[ContextItem]) -> int:
    """Say at how many budgets the library is asked."""
    fewest, most, work = bounds
    return max(fewest, min(most, work // max(1, len(items))))


def _generous(prepared: PreparedSelection, items: list[ContextItem]) -> SelectionReport:
    """Report a run that refuses nothing and leaves out only what no budget lets in; it shows every score."""
    room = sum(item.tokens for item in items if item.tokens > 0) + 1
    # The same preparation and not a second one: a scorer with a clock would give other scores.
    own = prepared.pipeline
    generous = replace(own, slicer=GreedySlice(), overflow=OverflowStrategy.PROCEED, on_overflow=None)
    return prepared.with_pipeline(generous).dry_run(ContextBudget(room, room))


def _document(policy: Policy) -> str:
    try:
        return policy.to_json(indent=2)
    except PolicyConfigError:  # a strategy nobody registered has no document; the page still has the rest
        return repr(policy)


def _stages(prepared: PreparedSelection, budget: ContextBudget) -> list[dict[str, Any]]:
    """Return each stage's counts and time; pinned items step aside after Classify and come back for Place."""
    try:
        report = prepared.dry_run(budget)
    except SelectionError:
        return []
    entering = report.total_candidates
    aside = {"Score": -len(prepared.pinned), "Place": len(prepared.pinned)}
    rows: list[dict[str, Any]] = []
    for event in report.events:
        name = event.stage.value
        entering += aside.get(name, 0)
        rows.append({"name": name, "in": entering, "out": event.item_count, "ms": event.duration_ms})
        entering = event.item_count
    return rows
