"""The data that the page is drawn from."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

import cupel.policy
from cupel._columns import Candidates, densities, descending, scaled_score
from cupel._documents import plain_number
from cupel._relations import are_related, relation_of
from cupel._text import CONTENT_LIMIT
from cupel._version import __version__
from cupel.diagnostics import Deduplicated, InclusionReason, NegativeTokens, SelectionReport, vocabulary
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
from cupel.page._answers import Positions, answer, check, excluded_rows
from cupel.page._scoring import scoring
from cupel.pipeline import Pipeline, PreparedSelection
from cupel.placers import ChronologicalPlacer, Placer, SystemFirst, UShapedPlacer
from cupel.slicers import (
    BestFirstSlice,
    CountConstrainedKnapsackSlice,
    CountQuotaSlice,
    GreedySlice,
    KnapsackSlice,
    QuotaSlice,
    Slicer,
    StreamSlice,
)


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
class Probes:
    """The budgets a page covers: targets from `lowest` to `highest`, under a fixed window or with it moving along."""

    budget: ContextBudget
    fixed_window: bool
    lowest: int
    highest: int

    @classmethod
    def covering(
        cls, items: Sequence[ContextItem], budget: ContextBudget, buckets: Iterable[int], *, fixed_window: bool
    ) -> Probes:
        """Reach up to the window, or without a fixed one to where everything fits, counted in the coarsest buckets."""
        if fixed_window:
            return cls(budget, fixed_window, 0, budget.max_tokens)
        sizes = [item.tokens for item in items if item.tokens > 0]
        everything = max(sum(-(-size // bucket) * bucket for size in sizes) for bucket in {1, *buckets})
        share = 1.0 - budget.estimation_safety_margin_percent / 100.0
        needed = math.ceil(everything / share) if share > 0 else everything
        needed = max(needed + budget.total_reserved, budget.target_tokens, 100)
        step = 10 ** max(0, len(str(needed)) - 2)  # a round number reads better at the end of a scale
        return cls(budget, fixed_window, budget.output_reserve, -(-needed // step) * step)

    def settings(self) -> dict[str, Any]:
        """Return the values from which the page's script makes its budgets."""
        return {
            "target": self.budget.target_tokens,
            "max": self.budget.max_tokens,
            "max_follows": not self.fixed_window,
            "reserve": self.budget.output_reserve,
            "slots": sum(self.budget.reserved_slots.values()),
            "margin": self.budget.estimation_safety_margin_percent,
        }

    def at(self, target: int) -> ContextBudget:
        """Return the budget at a position of the slider."""
        window = self.budget.max_tokens if self.fixed_window else target
        return msgspec.structs.replace(self.budget, max_tokens=window, target_tokens=target)

    def spread(self, count: int) -> list[ContextBudget]:
        """Return about `count` budgets over the whole slider, the opening one among them."""
        span = self.highest - self.lowest
        targets = {self.lowest + span * number // (count - 1) for number in range(count)}
        return [self.at(target) for target in sorted(targets | {self.budget.target_tokens})]


_PLACERS: Final[dict[type[Placer], str]] = {ChronologicalPlacer: "chronological", UShapedPlacer: "u_shaped"}
_IN_ORDER: Final[dict[type[Slicer], str]] = {GreedySlice: "greedy", StreamSlice: "greedy", BestFirstSlice: "best_first"}
_BEFORE_SLICING: Final = (NegativeTokens.__name__, Deduplicated.__name__)
_SAFE_INTEGER: Final = 2**53
_MOST_CELLS: Final = 2**31


def replayable(
    policy: Pipeline, prepared: PreparedSelection, kinds: dict[str, int], highest: int
) -> dict[str, Any] | None:
    """Describe the slicer to the script, if the script can do exactly what the policy does up to the highest budget."""
    form, candidates = slicing(prepared, kinds), prepared.candidates
    if form is None or placing(policy.placer, kinds) is None:
        return None
    if not _has_knapsack(form):
        return form
    fits_a_double = sum(_values(candidates)) < _SAFE_INTEGER
    fits_an_index = len(prepared.items) * (highest // bucket_size(form) + 1) < _MOST_CELLS
    return form if fits_a_double and fits_an_index else None


def slicing(prepared: PreparedSelection, kinds: Mapping[str, int]) -> dict[str, Any] | None:
    """Describe the slicer to the script; None if only Python can run it."""
    return None if prepared.candidates.relations is not None else _slicing(prepared.pipeline.slicer, kinds)


def _slicing(slicer: Slicer, kinds: Mapping[str, int]) -> dict[str, Any] | None:
    # Subclasses may choose in another way, so that types are compared exactly.
    kind = type(slicer)
    if kind in _IN_ORDER:
        return {"type": _IN_ORDER[kind]}
    if isinstance(slicer, KnapsackSlice) and kind is KnapsackSlice and slicer.bucket_size != "auto":
        return {"type": "knapsack", "bucket_size": slicer.bucket_size, "max_cells": slicer.max_cells}
    if isinstance(slicer, QuotaSlice) and kind is QuotaSlice and slicer.leftover == "leave":
        inner = _slicing(slicer.inner, kinds)
        quotas = [
            {"kind": kinds.get(entry.kind.key, -1 - number), "require": entry.require, "cap": entry.cap}
            for number, entry in enumerate(slicer.quotas)
        ]
        return inner and {"type": "quota", "quotas": quotas, "inner": inner}
    if isinstance(slicer, CountQuotaSlice) and kind is CountQuotaSlice:
        return _counting(slicer, _slicing(slicer.inner, kinds), kinds, resort=False)
    if isinstance(slicer, CountConstrainedKnapsackSlice) and kind is CountConstrainedKnapsackSlice:
        return _counting(slicer, _slicing(slicer.knapsack, kinds), kinds, resort=True)
    return None


def _counting(
    slicer: CountQuotaSlice | CountConstrainedKnapsackSlice,
    inner: dict[str, Any] | None,
    kinds: Mapping[str, int],
    *,
    resort: bool,
) -> dict[str, Any] | None:
    entries = [
        {
            "kind": kinds.get(entry.kind.key, -1 - number),
            "name": entry.kind.value,
            "require_count": entry.require_count,
            "cap_count": entry.cap_count,
        }
        for number, entry in enumerate(slicer.entries)
    ]
    return inner and {
        "type": "count_quota",
        "label": type(slicer).__name__,
        "entries": entries,
        "inner": inner,
        "scarcity": slicer.scarcity.value,
        "resort": resort,
    }


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
        "density": descending(densities(candidates.scores, candidates.tokens)),
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

    policy: Pipeline
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
    """Return the number of budgets at which to run the library."""
    fewest, most, work = bounds
    return max(fewest, min(most, work // max(1, len(items))))


def _generous(prepared: PreparedSelection, items: list[ContextItem]) -> SelectionReport:
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


def _stages(prepared: PreparedSelection, budget: ContextBudget) -> list[dict[str, Any]]:
    try:
        return _counts(prepared.dry_run(budget), len(prepared.pinned))
    except SelectionError:
        return []


def _counts(report: SelectionReport, pinned: int) -> list[dict[str, Any]]:
    """Return how many items enter and leave each stage; pinned items skip the stages from Score to Slice."""
    entering = report.total_candidates
    aside = {"Score": -pinned, "Place": pinned}
    rows: list[dict[str, Any]] = []
    for event in report.events:
        name = event.stage.value
        entering += aside.get(name, 0)
        rows.append({"name": name, "in": entering, "out": event.item_count})
        entering = event.item_count
    return rows


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
    """Compute the page's data: the items, and for each policy the data to show it at any budget.

    With `fixed_window` the slider moves the target under an unchanged `max_tokens`, otherwise both move together.
    The page opens with the first variant; `source` is the name of the items on a command line, if they have one.
    `on_progress` is called after each variant with the number of variants done and in all.

    >>> from cupel import presets
    >>> variants = [Variant(presets.chat(), "chat", "--policy chat")]
    >>> items = [ContextItem("hello", 2), ContextItem("a long farewell", 40)]
    >>> page = page_payload(items, ContextBudget(10, 10), variants, title="T", source="x.json", fixed_window=False)
    >>> page["slider"]
    {'min': 0, 'max': 100}
    """
    candidates = distinct(items)
    kinds = _kinds(candidates)
    numbers = {key: position for position, key in enumerate(kinds)}
    prepared = [variant.policy.prepare(candidates) for variant in variants]
    buckets = (bucket_size(slicing(one, numbers)) for one in prepared)
    probes = Probes.covering(candidates, budget, buckets, fixed_window=fixed_window)
    policies: list[dict[str, Any]] = []
    for variant, one in zip(variants, prepared, strict=True):
        policies.append(variant_payload(variant, one, candidates, numbers, probes))
        if on_progress is not None:
            on_progress(len(policies), len(variants))
    slider = {"min": probes.lowest, "max": probes.highest}
    return _page(policies, candidates, kinds, probes.settings(), slider, title=title, source=source)


def _page(
    policies: list[dict[str, Any]],
    items: list[ContextItem],
    kinds: dict[str, str],
    budget: dict[str, Any],
    slider: dict[str, int],
    *,
    title: str,
    source: str | None,
) -> dict[str, Any]:
    numbers = {key: position for position, key in enumerate(kinds)}
    return {
        "title": title,
        "source": source,
        "generator": GENERATOR,
        "budget": budget,
        "slider": slider,
        "start": 0,
        "kinds": list(kinds.values()),
        "reasons": vocabulary(),
        "total_tokens": sum(item.tokens for item in items),
        "items": _items(items, numbers),
        "policies": policies,
    }


_ALONE: Final = "This page shows one report, without the run that made it: nothing can be tried."


def report_payload(report: SelectionReport, *, title: str) -> dict[str, Any]:
    """Compute the page's data from a report alone, at its own budget: it cannot be run again.

    >>> from cupel import Pipeline, RecencyScorer
    >>> report = Pipeline(scorer=RecencyScorer()).dry_run([ContextItem("hello", 2), ContextItem("world", 9)], 10)
    >>> page = report_payload(SelectionReport.from_json(report.to_json()), title="T")
    >>> page["policies"][0]["answers"][0]["placed"]
    [0]
    """
    entries = list(report)
    items = distinct(entry.item for entry in entries)
    kinds = _kinds(items)
    used = sum(entry.item.tokens for entry in report.included)
    included = len(report.included)
    pinned = [at for at in range(included) if report.included[at].reason is InclusionReason.PINNED]
    scores: list[Any] = [plain_number(entry.score) for entry in entries]
    excluded = [{"position": at, **entry.reason.to_dict()} for at, entry in enumerate(report.excluded, included)]
    policy: dict[str, Any] = {
        "name": "this report",
        "flags": "",
        "description": _ALONE,
        "document": "",
        "overflow": OverflowStrategy.THROW.value,
        "scores": scores,
        "scoring": {
            "form": {"name": "Score", "type": "fixed", "scores": scores},
            "ruled": [],
            "deduplicate": True,
            "no_weights": _ALONE,
            "no_pins": _ALONE,
        },
        "pinned": pinned,
        "stages": _counts(report, len(pinned)),
        "slicer": None,
        "checks": [],
        "answers": [{"budget": used, "placed": list(range(included)), "excluded": excluded, "tokens": used}],
    }
    settings = Probes(ContextBudget(used, used), fixed_window=True, lowest=used, highest=used).settings()
    return _page([policy], items, kinds, settings, {"min": used, "max": used}, title=title, source=None)


def _kinds(items: Sequence[ContextItem]) -> dict[str, str]:
    """Return the kinds by folded name: the well-known ones first, the others as they appear."""
    found: dict[str, str] = {}
    for item in items:
        found.setdefault(item.kind.key, item.kind.value)
    return {kind.key: found[kind.key] for kind in _USUAL if kind.key in found} | found


def _items(items: Sequence[ContextItem], kinds: dict[str, int]) -> list[dict[str, Any]]:
    """Return the items with what the script compares: when each is among the dated, and which have one text."""
    times = sorted({item.timestamp for item in items if item.timestamp is not None})
    ranks = {time: rank for rank, time in enumerate(times)}
    contents = Counter(item.content for item in items)
    texts = {content: number for number, content in enumerate(contents)}
    rows = [_item(item, kinds) for item in items]
    for row, item in zip(rows, items, strict=True):
        if item.timestamp is not None:
            row["when"] = ranks[item.timestamp]
        if contents[item.content] > 1:
            row["text"] = texts[item.content]
    return rows


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
