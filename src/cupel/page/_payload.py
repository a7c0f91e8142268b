"""The data that the page is drawn from."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, Final

from msgspec import structs

import cupel.policy
from cupel._internal.documents import plain_number
from cupel._internal.relations import are_related, relation_of
from cupel._internal.text import CONTENT_LIMIT
from cupel._version import __version__
from cupel.diagnostics import InclusionReason, SelectionReport, vocabulary
from cupel.errors import PolicyConfigError, SelectionError
from cupel.model import (
    GROUP_KEY,
    ID_KEY,
    WORTH_KEY,
    ContextBudget,
    ContextItem,
    ContextKind,
    OverflowStrategy,
)
from cupel.page._stops import Positions, Slider, StopWriter, refused
from cupel.pipeline import Pipeline, PreparedSelection
from cupel.scorers import CompositeScorer, ScorePart
from cupel.slicers import GreedySlice

GENERATOR: Final = f"cupel {__version__}"
_METADATA_LIMIT: Final = 2_000
_RELATIONS: Final = (ID_KEY, WORTH_KEY, GROUP_KEY)
"""Metadata keys that the page shows in words."""
_USUAL: Final = (
    ContextKind.SYSTEM_PROMPT,
    ContextKind.MESSAGE,
    ContextKind.DOCUMENT,
    ContextKind.TOOL_OUTPUT,
    ContextKind.MEMORY,
)


def page_payload(
    items: Iterable[ContextItem],
    budget: ContextBudget,
    variants: Sequence[Variant],
    *,
    title: str,
    source: str | None,
    fixed_window: bool,
    on_progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """Compute the page's data: the items, and the selection of each policy at every stop of the slider.

    Args:
        items: The candidates.
        budget: The budget that the page opens with.
        variants: The policies to switch between; the page opens with the first.
        title: The page's heading.
        source: The name of the items on a command line, if they have one.
        fixed_window: Whether the slider moves the target under an unchanged `max_tokens`; otherwise both move together.
        on_progress: Called after each variant with the number of variants done and in all.

    >>> from cupel import presets
    >>> variants = [Variant(presets.chat(), "chat", "--policy chat")]
    >>> items = [ContextItem("hello", 2), ContextItem("a long farewell", 40)]
    >>> page = page_payload(items, ContextBudget(10, 10), variants, title="T", source="x.json", fixed_window=False)
    >>> len(page["slider"]["stops"]), len(page["policies"][0]["answers"])
    (101, 101)
    """
    candidates = distinct(items)
    positions = Positions(candidates)
    slider = Slider.covering(candidates, budget, [one.policy for one in variants], fixed_window=fixed_window)
    policies: list[dict[str, Any]] = []
    for variant in variants:
        policies.append(_variant(variant, variant.policy.prepare(candidates), positions, slider))
        if on_progress is not None:
            on_progress(len(policies), len(variants))
    return _page(policies, candidates, slider, title=title, source=source)


def distinct(items: Iterable[ContextItem]) -> list[ContextItem]:
    """Return the items as a list in which no object occurs twice, so that each has one position."""
    seen: set[int] = set()
    result: list[ContextItem] = []
    for item in items:
        one = copy.copy(item) if id(item) in seen else item
        seen.add(id(one))
        result.append(one)
    return result


@dataclass(frozen=True, slots=True)
class Variant:
    """A policy the page can switch to, and the words of a command line that choose it.

    >>> from cupel import presets
    >>> Variant(presets.chat(), "chat", "--policy chat").name
    'chat'
    """

    policy: Pipeline
    name: str
    flags: str


def _variant(variant: Variant, prepared: PreparedSelection, positions: Positions, slider: Slider) -> dict[str, Any]:
    """Return one policy with its scores, and its selections at all stops."""
    policy, writer = variant.policy, StopWriter(positions)
    return {
        "name": variant.name,
        "flags": variant.flags,
        "description": policy.description,
        "document": _document(policy),
        "weights": _weights(policy),
        **scoring(prepared, positions),
        "stages": stages(prepared, slider.at(slider.budget.target_tokens)),
        "answers": [selection(prepared, slider.at(stop), writer) for stop in slider.stops],
        "reasons": writer.reasons,
    }


def selection(prepared: PreparedSelection, budget: ContextBudget, writer: StopWriter) -> dict[str, Any]:
    """Write the selection for one budget, or the refusal."""
    try:
        return writer.write(prepared.dry_run(budget, warn=False))
    except SelectionError as error:
        return refused(error)


def scoring(prepared: PreparedSelection, positions: Positions) -> dict[str, Any]:
    """Return the pinned positions, the scores of all items, and the scores of every scorer inside the policy's own."""
    found = {positions.of(entry.item): entry.score for entry in _generous(prepared, positions.items)}
    rows = [
        None if breakdown is None else list(_inner(breakdown.part, 0))
        for breakdown in prepared.breakdowns(positions.items)
    ]
    return {
        "pinned": positions.all(prepared.pinned),
        "scores": [plain_number(found[position]) for position in range(len(positions.items))],
        "scorers": [described for described, _ in next((row for row in rows if row is not None), ())],
        "parts": [None if row is None else [score for _, score in row] for row in rows],
    }


def _inner(part: ScorePart, depth: int) -> Iterator[tuple[dict[str, Any], float | str]]:
    """Yield the scorers inside a part, each described and with its score."""
    total = fsum(one.weight or 0.0 for one in part.parts)
    for one in part.parts:
        share = None if one.weight is None else one.weight / total
        score = plain_number(float(f"{one.score:.9g}"))
        yield {"name": _scorer_name(one.scorer), "depth": depth, "share": share}, score
        yield from _inner(one, depth + 1)


def _scorer_name(name: str) -> str:
    return name.removesuffix("Scorer") or name


def _weights(policy: Pipeline) -> list[dict[str, Any]]:
    """Return the scorers of a composite that do not abstain, with their places in the policy document and weights."""
    scorer = policy.scorer
    if not isinstance(scorer, CompositeScorer):
        return []
    return [
        {"name": _scorer_name(type(child).__name__), "place": place, "weight": weight}
        for place, (child, weight) in enumerate(scorer.entries)
        if scorer.normalized_weights[place]
    ]


def _generous(prepared: PreparedSelection, items: Sequence[ContextItem]) -> SelectionReport:
    """Report a run that refuses nothing and leaves out only what no budget lets in; it shows every score."""
    room = sum(item.tokens for item in items if item.tokens > 0) + 1
    # The same preparation and not a second one: a scorer with a clock would give other scores.
    own = prepared.pipeline
    generous = replace(own, slicer=GreedySlice(), overflow=OverflowStrategy.PROCEED, on_overflow=None)
    return prepared.with_pipeline(generous).dry_run(ContextBudget(room, room))


def _document(policy: Pipeline) -> str:
    try:
        return cupel.policy.dumps(policy, indent=2)
    except PolicyConfigError:  # an unregistered strategy has no document; the page still has the rest
        return repr(policy)


def stages(prepared: PreparedSelection, budget: ContextBudget) -> list[dict[str, Any]]:
    """Return how many items enter and leave each stage; nothing if the budget is refused."""
    try:
        return _counts(prepared.dry_run(budget, warn=False), len(prepared.pinned))
    except SelectionError:
        return []


def _counts(report: SelectionReport, pinned: int) -> list[dict[str, Any]]:
    """Count the items of each stage; pinned items skip the stages from Score to Slice."""
    entering = report.total_candidates
    aside = {"Score": -pinned, "Place": pinned}
    rows: list[dict[str, Any]] = []
    for event in report.events:
        name = event.stage.value
        entering += aside.get(name, 0)
        rows.append({"name": name, "in": entering, "out": event.item_count})
        entering = event.item_count
    return rows


def _page(
    policies: list[dict[str, Any]], items: list[ContextItem], slider: Slider, *, title: str, source: str | None
) -> dict[str, Any]:
    kinds = _kinds(items)
    total_tokens = sum(item.tokens for item in items)
    numbers = {key: position for position, key in enumerate(kinds)}
    return {
        "title": title,
        "source": source,
        "generator": GENERATOR,
        "budget": slider.settings(),
        "slider": {"stops": list(slider.stops)},
        "start": 0,
        "kinds": list(kinds.values()),
        "reasons": vocabulary(),
        "total_tokens": total_tokens,
        "items": [_item(item, numbers) for item in items],
        "policies": policies,
    }


_ALONE: Final = "This page shows one report, without the run that made it."


def report_payload(report: SelectionReport, *, title: str) -> dict[str, Any]:
    """Compute the page's data from a report alone, at its own budget: it cannot be run again.

    >>> from cupel import Pipeline, RecencyScorer
    >>> report = Pipeline(scorer=RecencyScorer()).dry_run([ContextItem("hello", 2), ContextItem("world", 9)], 10)
    >>> page = report_payload(SelectionReport.from_json(report.to_json()), title="T")
    >>> page["policies"][0]["answers"][0]["placed"]
    [0, 0]
    """
    # One object listed twice is two items on the page.
    included = tuple(structs.replace(entry, item=copy.copy(entry.item)) for entry in report.included)
    excluded = tuple(structs.replace(entry, item=copy.copy(entry.item)) for entry in report.excluded)
    report = replace(report, included=included, excluded=excluded)
    items = [entry.item for entry in report]
    writer = StopWriter(Positions(items))
    pinned = [at for at, entry in enumerate(included) if entry.reason is InclusionReason.PINNED]
    used = report.total_tokens
    policy: dict[str, Any] = {
        "name": "this report",
        "flags": "",
        "description": _ALONE,
        "document": "",
        "weights": [],
        "pinned": pinned,
        "scores": [plain_number(entry.score) for entry in report],
        "scorers": [],
        "parts": [None] * len(items),
        "stages": _counts(report, len(pinned)),
        "answers": [writer.write(report)],
        "reasons": writer.reasons,
    }
    slider = Slider(ContextBudget(used, used), fixed_window=True, stops=(used,))
    return _page([policy], items, slider, title=title, source=None)


def _kinds(items: Sequence[ContextItem]) -> dict[str, str]:
    """Return the kinds by folded name: the well-known ones first, the others as they appear."""
    found: dict[str, str] = {}
    for item in items:
        found.setdefault(item.kind.key, item.kind.value)
    return {kind.key: found[kind.key] for kind in _USUAL if kind.key in found} | found


def _item(item: ContextItem, kinds: dict[str, int]) -> dict[str, Any]:
    length, hint = len(item.content), item.future_relevance_hint
    told = ", ".join(f"{key}: {value}" for key, value in item.metadata.items() if key not in _RELATIONS)
    row: dict[str, Any] = {
        "content": item.content[:CONTENT_LIMIT],
        "tokens": item.tokens,
        "kind": kinds[item.kind.key],
        "spelled": item.kind.value,
        "source": item.source.value,
    }
    more = {
        "clipped": length if length > CONTENT_LIMIT else None,
        "priority": item.priority,
        "tags": list(item.tags) or None,
        "time": None if item.timestamp is None else item.timestamp.isoformat().replace("+00:00", "Z"),
        "hint": None if hint is None else plain_number(hint),
        "pinned": item.pinned or None,
        "metadata": told[:_METADATA_LIMIT] or None,
    }
    return row | {name: value for name, value in more.items() if value is not None} | _relations(item)


def _relations(item: ContextItem) -> dict[str, Any]:
    """Return the entity and the group of an item."""
    if not are_related([item]):
        return {}
    relation = relation_of(item)
    worth = None if relation.worth == 1 else relation.worth
    found = {"entity": relation.id, "group": relation.group, "worth": worth}
    return {name: value for name, value in found.items() if value is not None}
