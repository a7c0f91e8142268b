"""The six stages of a run, in their order."""

from __future__ import annotations

from operator import countOf
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from cupel._checks import as_tuple
from cupel._columns import Candidates, descending
from cupel._ratios import floor_share
from cupel._relations import are_related, lawful, marks_of, read_relations
from cupel.diagnostics import OverflowEvent
from cupel.errors import BudgetOverflowError, PinnedExceedsBudgetError
from cupel.model import ContextBudget, ContextItem, OverflowStrategy
from cupel.pipeline._pins import pinned_positions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from cupel.pipeline._observer import Watch
    from cupel.pipeline._pins import PinRule
    from cupel.pipeline._pipeline import Pipeline


class Classified(msgspec.Struct, frozen=True):
    """All items and the three groups, each in input order; `tokens` belong to the scoreable items."""

    items: list[ContextItem]
    pinned: list[ContextItem]
    scoreable: list[ContextItem]
    tokens: list[int]
    negative: list[ContextItem]

    def __len__(self) -> int:
        return len(self.pinned) + len(self.scoreable)


def classify(items: Iterable[ContextItem], rules: tuple[PinRule, ...] = ()) -> Classified:
    """Split the candidates; a negative count drops an item even when it is pinned (ruling 3.4).

    The input is copied: whatever its owner, a callback or another thread does to it later, the run goes on with what
    it was given (ruling 3.5).
    """
    everything = given = [*items] if isinstance(items, (list, tuple)) else [*as_tuple("items", items, ContextItem)]
    if countOf(map(type, everything), ContextItem) != len(everything):
        as_tuple("items", everything, ContextItem)  # which names what is no item; those of a subclass are
    tokens = [item.tokens for item in everything]
    if tokens and min(tokens) < 0:
        negative = [item for item in everything if item.tokens < 0]
        everything = [item for item in everything if item.tokens >= 0]
        tokens = [item.tokens for item in everything]
    else:
        negative = []
    if rules:
        chosen = pinned_positions(everything, rules)
        pinned = [item for position, item in enumerate(everything) if position in chosen]
        scoreable = [item for position, item in enumerate(everything) if position not in chosen]
        return Classified(given, pinned, scoreable, [item.tokens for item in scoreable], negative)
    pinned = [item for item in everything if item.pinned]
    if not pinned:
        return Classified(given, pinned, everything, tokens, negative)
    scoreable = [item for item in everything if not item.pinned]
    return Classified(given, pinned, scoreable, [item.tokens for item in scoreable], negative)


def check_pinned(pinned_tokens: int, budget: ContextBudget) -> None:
    """Raise when the pinned items alone exceed the window less the output reserve; slots do not count (ruling 3.1)."""
    available = budget.max_tokens - budget.output_reserve
    if pinned_tokens > available:
        raise PinnedExceedsBudgetError(pinned_tokens, available)


if TYPE_CHECKING:
    _Identity: TypeAlias = "str | tuple[str, str | None, str | None]"


class Copies(NamedTuple):
    """Positions that stay and positions that go, both in input order."""

    kept: list[int]
    dropped: list[int]


def find_copies(candidates: Candidates, known: Collection[str] = (), *, related: bool = False) -> Copies | None:
    """Find items whose content another item has too, or is `known`; None when all contents differ.

    The highest score stays, of equal scores the first; contents are compared code point by code point (ruling 3.9).
    Where items are `related`, one content in two things or groups is no copy: either would be incomplete without it.
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
    marks = marks_of(item)
    return item.content if marks.id is marks.group is None else (item.content, marks.id, marks.group)


def effective_budget(budget: ContextBudget, pinned_tokens: int) -> ContextBudget:
    """Return what is left for the slicer after the output reserve, pinned items, reserved slots and safety margin."""
    margin = budget.estimation_safety_margin_percent
    if not (pinned_tokens or budget.output_reserve or budget.reserved_slots or margin):
        return budget  # most budgets hold nothing back, and in a small run another one is worth sparing
    committed = pinned_tokens + sum(budget.reserved_slots.values())
    maximum = max(0, budget.max_tokens - budget.output_reserve - committed)
    target = min(max(0, budget.target_tokens - committed), maximum)
    if margin > 0:
        share = 1.0 - margin / 100.0
        maximum = floor_share(maximum, share)
        target = min(floor_share(target, share), maximum)
    return ContextBudget(maximum, target)


PINNED_SCORE = 1.0


class Settled(msgspec.Struct, frozen=True):
    """The merged selection after overflow handling."""

    pinned: list[ContextItem]
    chosen: Candidates
    """What the slicer chose, by score."""
    merged: Candidates
    """Pinned items in input order, then the chosen ones by score."""
    selected: Candidates
    """What stays of `merged`."""
    truncated: list[int]
    """Positions in `merged` that truncation removed."""
    excess: int
    """By how many tokens `merged` exceeds the target; not positive when it fits."""


class Placed(msgspec.Struct, frozen=True):
    """A selection in its final order."""

    settled: Settled
    order: list[int]
    """Positions in `settled.selected`."""
    items: list[ContextItem]


def place(
    pipeline: Pipeline, pinned: list[ContextItem], chosen: Candidates, budget: ContextBudget, *, notify: bool = True
) -> Placed:
    """Merge pinned and chosen items, apply the overflow strategy, and let the placer order what stays."""
    settled = settle(pinned, chosen, budget.target_tokens, pipeline.overflow)
    selected = settled.selected
    if settled.excess > 0 and notify and pipeline.on_overflow is not None:
        pipeline.on_overflow(OverflowEvent(settled.excess, tuple(selected.items), budget))
    order = pipeline.placer.arrange(selected)
    return Placed(settled, order, [selected.items[position] for position in order])


def settle(pinned: list[ContextItem], chosen: Candidates, target_tokens: int, overflow: OverflowStrategy) -> Settled:
    """Merge pinned and chosen items and apply the overflow strategy; only the original target counts (ruling 3.18)."""
    merged = _merged(pinned, chosen) if pinned else chosen
    total = sum(merged.tokens)
    excess = total - target_tokens
    if excess > 0:
        if overflow is OverflowStrategy.THROW:
            raise BudgetOverflowError(total, target_tokens)
        if overflow is OverflowStrategy.TRUNCATE:
            kept, truncated = _truncated(merged, chosen, target_tokens)
            return Settled(pinned, chosen, merged, merged.at(kept), truncated, excess)
    return Settled(pinned, chosen, merged, merged, [], excess)


def _merged(pinned: list[ContextItem], chosen: Candidates) -> Candidates:
    """Put the pinned items, with score 1, before the chosen ones."""
    return Candidates(
        [*pinned, *chosen.items],
        [PINNED_SCORE] * len(pinned) + chosen.scores,
        [item.tokens for item in pinned] + chosen.tokens,
    )


def _truncated(merged: Candidates, chosen: Candidates, target_tokens: int) -> tuple[list[int], list[int]]:
    """Keep pinned items and then, from the highest score down, whatever still fits (ruling 3.19).

    What depends on something that does not fit goes as well.
    """
    pinned_count = len(merged) - len(chosen)
    used = 0
    kept: list[int] = []
    for position, cost in enumerate(merged.tokens):
        if position < pinned_count or used + cost <= target_tokens:
            kept.append(position)
            used += cost
    if chosen.relations is not None:
        staying = lawful(chosen.relations, [position - pinned_count for position in kept[pinned_count:]])
        kept = [*range(pinned_count), *(position + pinned_count for position in staying)]
    remaining = set(kept)
    return kept, [position for position in range(len(merged)) if position not in remaining]


def rank(pipeline: Pipeline, classified: Classified, watch: Watch, known: Collection[str] = ()) -> Candidates:
    """Score, deduplicate and sort what was classified; contents that are `known` count as copies."""
    scoreable = classified.scoreable
    # Without items the scorer is not called (ruling 3.7); it gets a list of its own, to do with as it likes.
    scores = pipeline.scorer.checked_scores([*scoreable]) if scoreable else []
    candidates = Candidates(scoreable, scores, classified.tokens)
    watch.scored(candidates)
    related = are_related(classified.pinned + classified.scoreable)
    copies = find_copies(candidates, known, related=related) if pipeline.deduplicate else None
    watch.deduplicated(candidates, copies)
    if copies is not None:
        candidates = candidates.at(copies.kept)
    candidates = candidates.at(descending(candidates.scores))  # equal scores keep their input order
    if related:
        relations = read_relations(candidates.items, candidates.scores, classified.pinned, classified.negative)
        candidates = msgspec.structs.replace(candidates, relations=relations)
    return candidates
