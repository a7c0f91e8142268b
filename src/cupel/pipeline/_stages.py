"""The six stages of a run, in their order: classify, score, deduplicate, sort, slice, place.

Stages are pure functions. They return the items they kept and dropped; `_observer` turns the latter into reasons.
"""

from __future__ import annotations

from math import floor
from operator import countOf
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from cupel._internal.checks import as_tuple, shown, warn
from cupel._internal.columns import Candidates, descending
from cupel._internal.relations import are_related, drop_violations, read_relations, relation_of
from cupel.diagnostics import OverflowEvent
from cupel.errors import BudgetOverflowError, BudgetWarning, InvalidItemError, PinnedExceedsBudgetError
from cupel.model import UNTIMED_KEY, ContextBudget, ContextItem, OverflowStrategy
from cupel.pipeline._pins import pinned_positions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cupel.pipeline._pins import PinRule
    from cupel.pipeline._pipeline import Pipeline


# --- 1. Classify ------------------------------------------------------------------------------------------------------


class Classified(msgspec.Struct, frozen=True):
    """All items and the three groups, each in input order; `tokens` are those of the scoreable items."""

    items: list[ContextItem]
    pinned: list[ContextItem]
    scoreable: list[ContextItem]
    tokens: list[int]
    negative: list[ContextItem]
    described: list[ContextItem]
    """Pinned and scoreable items that have metadata."""

    @property
    def is_related(self) -> bool:
        """Whether any item has a form or a group."""
        return are_related(self.described)

    def __len__(self) -> int:
        return len(self.pinned) + len(self.scoreable)


def classify(items: Iterable[ContextItem], rules: Sequence[PinRule] = ()) -> Classified:
    """Split items into pinned, scoreable and negative; a negative count drops even a pinned item (ruling 3.4).

    The input is copied, so that later changes to it by its owner, a callback or a thread have no effect (ruling 3.5).
    """
    everything = given = [*items] if isinstance(items, (list, tuple)) else [*as_tuple("items", items, ContextItem)]
    if countOf(map(type, everything), ContextItem) != len(everything):
        as_tuple("items", everything, ContextItem)  # accepts subclasses, and names anything that is no item
    tokens = [item.tokens for item in everything]
    if tokens and min(tokens) < 0:
        negative = [item for item in everything if item.tokens < 0]
        everything = [item for item in everything if item.tokens >= 0]
        tokens = [item.tokens for item in everything]
    else:
        negative = []
    described = [item for item in everything if item.metadata]
    if rules:
        chosen = pinned_positions(everything, rules)
        pinned = [item for position, item in enumerate(everything) if position in chosen]
        scoreable = [item for position, item in enumerate(everything) if position not in chosen]
        return Classified(given, pinned, scoreable, [item.tokens for item in scoreable], negative, described)
    pinned = [item for item in everything if item.pinned]
    if not pinned:
        return Classified(given, pinned, everything, tokens, negative, described)
    scoreable = [item for item in everything if not item.pinned]
    return Classified(given, pinned, scoreable, [item.tokens for item in scoreable], negative, described)


def check_pinned(pinned_tokens: int, budget: ContextBudget) -> None:
    """Raise if the pinned items alone exceed the window less the output reserve; slots do not count (ruling 3.1)."""
    available = budget.max_tokens - budget.output_reserve
    if pinned_tokens > available:
        raise PinnedExceedsBudgetError(pinned_tokens, available)


def check_times(classified: Classified) -> None:
    """Raise if a history without times is selected beside dated items: its timestamps are only an order."""
    ordered = [item for item in classified.described if item.metadata.get(UNTIMED_KEY)]
    if not ordered:
        return
    theirs = set(map(id, ordered))
    others = (item for item in classified.pinned + classified.scoreable if id(item) not in theirs)
    dated = next((item for item in others if item.timestamp is not None), None)
    if dated is not None and dated.timestamp is not None:
        raise InvalidItemError(
            f"{shown(ordered[0].content)} is a message without a time, and {shown(dated.content)} has the timestamp "
            f"{dated.timestamp.isoformat()}: nothing says which of them is newer; pass the times of the messages, "
            "to_items(messages, timestamps=[...]), or leave out the timestamps of the other items"
        )


# --- 2. Score ---------------------------------------------------------------------------------------------------------


def score(pipeline: Pipeline, classified: Classified) -> Candidates:
    """Score all scoreable items in one pass; without items the scorer is not called (ruling 3.7)."""
    scoreable = classified.scoreable
    scores = pipeline.scorer.checked_scores([*scoreable]) if scoreable else []  # a copy: scorers may change their list
    return Candidates(scoreable, scores, classified.tokens)


# --- 3. Deduplicate ---------------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    _Identity: TypeAlias = "str | tuple[str, str | None, str | None]"


class Copies(NamedTuple):
    """Positions to keep and positions to drop, both in input order."""

    kept: list[int]
    dropped: list[int]


def find_copies(candidates: Candidates, known: Collection[str] = (), *, related: bool = False) -> Copies | None:
    """Find items that repeat the content of another item or one of the `known` contents; None if there are none.

    The highest score is kept, and the first of equal scores; contents are compared by code point (ruling 3.9). Among
    `related` items, equal contents in two entities or groups are no copies: each would be incomplete without its own.
    """
    items = candidates.items
    distinct = {item.content for item in items}
    if len(distinct) == len(items) and distinct.isdisjoint(known):
        return None
    scores = candidates.scores
    best: dict[_Identity, int] = {}
    dropped: list[int] = []
    for position, item in enumerate(items):
        content = _identity(item) if related else item.content
        if content in known:
            dropped.append(position)
            continue
        rival = best.setdefault(content, position)
        if scores[position] > scores[rival]:  # never true of NaN, so the first copy stays then (ruling 1.5)
            best[content] = position
            dropped.append(rival)
        elif rival != position:
            dropped.append(position)
    gone = set(dropped)
    return Copies([position for position in range(len(items)) if position not in gone], sorted(dropped))


def _identity(item: ContextItem) -> _Identity:
    relation = relation_of(item)
    return item.content if relation.id is relation.group is None else (item.content, relation.id, relation.group)


# --- 4. Sort ----------------------------------------------------------------------------------------------------------


def sort(candidates: Candidates, copies: Copies | None, classified: Classified, *, related: bool) -> Candidates:
    """Leave out copies and sort by score, best first; read the relations of `related` items."""
    if copies is not None:
        candidates = candidates.at(copies.kept)
    candidates = candidates.at(descending(candidates.scores))  # equal scores keep their input order
    if related:
        relations = read_relations(candidates.items, candidates.scores, classified.pinned, classified.negative)
        candidates = msgspec.structs.replace(candidates, relations=relations)
    return candidates


# --- 5. Slice (by the chooser that the slicer prepared) ---------------------------------------------------------------


def effective_budget(budget: ContextBudget, pinned_tokens: int) -> ContextBudget:
    """Return the slicer's budget: without output reserve, pinned items, reserved slots and safety margin."""
    margin = budget.estimation_safety_margin_percent
    if not (pinned_tokens or budget.output_reserve or budget.reserved_slots or margin):
        return budget  # the common case, and building another budget shows in small runs
    committed = pinned_tokens + sum(budget.reserved_slots.values())
    maximum = max(0, budget.max_tokens - budget.output_reserve - committed)
    target = min(max(0, budget.target_tokens - committed), maximum)
    if margin > 0:
        share = 1.0 - margin / 100.0
        maximum = floor(maximum * share)
        target = min(floor(target * share), maximum)
    return ContextBudget(maximum, target)


# --- 6. Place ---------------------------------------------------------------------------------------------------------

PINNED_SCORE = 1.0


class Placed(msgspec.Struct, frozen=True):
    """Pinned and chosen items together, after overflow handling, and their final order."""

    pinned: list[ContextItem]
    chosen: Candidates
    """The slicer's choice, best score first."""
    everything: Candidates
    """Pinned items in input order, then the chosen ones by score."""
    selected: Candidates
    """`everything` without the truncated items."""
    truncated: list[int]
    """Positions in `everything` that truncation removed."""
    order: list[int]
    """Positions in `selected`."""
    items: list[ContextItem]


class Listeners(NamedTuple):
    """Who hears of a selection that is too large."""

    notify: bool = True
    """Whether `on_overflow` is called."""
    warn: bool = True
    """Whether `BudgetWarning` is emitted."""


ALL_LISTENERS: Final = Listeners()


def place(
    pipeline: Pipeline,
    pinned: list[ContextItem],
    chosen: Candidates,
    budget: ContextBudget,
    listeners: Listeners = ALL_LISTENERS,
) -> Placed:
    """Merge pinned and chosen items, apply the overflow strategy, and let the placer order the selection."""
    everything, selected, truncated = merge(pinned, chosen, budget.target_tokens, pipeline.overflow)
    available = budget.max_tokens - budget.output_reserve
    # Nothing else can be too large: of a target within the window, the other strategies leave no overflow.
    if pipeline.overflow is OverflowStrategy.PROCEED or budget.target_tokens > available:
        total = sum(selected.tokens)
        if listeners.notify and pipeline.on_overflow is not None and total > budget.target_tokens:
            pipeline.on_overflow(OverflowEvent(total - budget.target_tokens, tuple(selected.items), budget))
        if listeners.warn and total > available:
            warn(BudgetWarning(total, budget.max_tokens, budget.output_reserve))
    order = pipeline.placer.arrange(selected)
    items = [selected.items[position] for position in order]
    return Placed(pinned, chosen, everything, selected, truncated, order, items)


def merge(
    pinned: list[ContextItem], chosen: Candidates, target_tokens: int, overflow: OverflowStrategy
) -> tuple[Candidates, Candidates, list[int]]:
    """Apply the overflow strategy to pinned and chosen items against the original target (ruling 3.18).

    Returns all of them, those that stay, and the positions that truncation removes.
    """
    everything = _concatenated(pinned, chosen) if pinned else chosen
    total = sum(everything.tokens)
    if total > target_tokens:
        if overflow is OverflowStrategy.THROW:
            raise BudgetOverflowError(total, target_tokens)
        if overflow is OverflowStrategy.TRUNCATE:
            kept, truncated = _truncated(everything, chosen, target_tokens)
            return everything, everything.at(kept), truncated
    return everything, everything, []


def _concatenated(pinned: list[ContextItem], chosen: Candidates) -> Candidates:
    return Candidates(
        [*pinned, *chosen.items],
        [PINNED_SCORE] * len(pinned) + chosen.scores,
        [item.tokens for item in pinned] + chosen.tokens,
    )


def _truncated(everything: Candidates, chosen: Candidates, target_tokens: int) -> tuple[list[int], list[int]]:
    """Return kept and removed positions: pinned items, then by score what still fits (ruling 3.19).

    Members of a group that does not fit completely are removed as well.
    """
    pinned_count = len(everything) - len(chosen)
    used = 0
    kept: list[int] = []
    for position, cost in enumerate(everything.tokens):
        if position < pinned_count or used + cost <= target_tokens:
            kept.append(position)
            used += cost
    if chosen.relations is not None:
        staying = drop_violations(chosen.relations, [position - pinned_count for position in kept[pinned_count:]])
        kept = [*range(pinned_count), *(position + pinned_count for position in staying)]
    remaining = set(kept)
    return kept, [position for position in range(len(everything)) if position not in remaining]
