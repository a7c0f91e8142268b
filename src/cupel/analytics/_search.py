"""Find the smallest budget that selects an item."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from msgspec.structs import replace as with_fields

from cupel._internal.checks import MOST_TOKENS, as_tuple, shown, wrong_type
from cupel._internal.intervals import TooMuchWork, Work
from cupel._internal.relations import drop_violations
from cupel.errors import InvalidItemError, ScarcityError, TableTooLargeError
from cupel.model import ContextItem, OverflowStrategy
from cupel.pipeline import Pipeline, PreparedSelection, effective_budget

if TYPE_CHECKING:
    from cupel.model import ContextBudget


def quiet(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline without its callback, which what-if questions must not call."""
    return pipeline if pipeline.on_overflow is None else replace(pipeline, on_overflow=None)


def prepared_of(
    pipeline: Pipeline | PreparedSelection, items: Iterable[ContextItem] | None, query: str | None = None
) -> PreparedSelection:
    """Score, deduplicate and sort once, for any number of questions, unless that has been done for this query."""
    if isinstance(pipeline, PreparedSelection):
        if items is not None:
            raise TypeError("items must be None beside a PreparedSelection, which has its items already")
        prepared = with_fields(pipeline, pipeline=quiet(pipeline.pipeline))
        return prepared if query is None else prepared.with_query(query)
    if not isinstance(pipeline, Pipeline):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong_type("pipeline", "a Pipeline or a PreparedSelection", pipeline)
    return quiet(pipeline).prepare(as_items(items), query=query)


def as_items(items: Iterable[ContextItem] | None) -> tuple[ContextItem, ...]:
    """Return items as a tuple; None is refused here, because only a `PreparedSelection` allows it."""
    return as_tuple("items", cast("Iterable[ContextItem]", items), ContextItem)


def check_members(name: str, prepared: PreparedSelection, items: Iterable[ContextItem]) -> None:
    """Refuse an item that was not prepared: no budget selects it, which would be a misleading answer."""
    for item in prepared.strangers(items):
        raise InvalidItemError(f"{name} must be among the items that were prepared, got {shown(item)}")


_REFUSALS: Final = (TableTooLargeError, ScarcityError)
_RUN, _CANDIDATE, _UNKNOWN = 300_000, 1_000, 8  # the cost of a run, of each candidate, and a factor without spans


class Stop(NamedTuple):
    """The positions that one budget selects, and the next budget that may select others (None: there is none)."""

    positions: frozenset[int]
    pinned: bool
    following: int | None


_QUESTION, _FURTHER_ITEM, _SOME = 1_200_000_000, 300_000, 400_000_000  # about nanoseconds
_NEAR = 4_096  # many answers are near, and near ones are cheap
_ROUNDED_UP = 1_000  # no item is expected to be rounded up by more


class Found(NamedTuple):
    """The least extra tokens that select an item; None if no budget does.

    If it is not exact, the search stopped early: these tokens are enough, but fewer may be.
    """

    extra: int | None
    exact: bool = True


class Search:
    """Answers questions about one prepared selection and the budgets from `base` up, by at most `most` tokens.

    If the slicer returns intervals, they are used. Any other is run, one budget after the other, for a limited
    time; after that, doubling and halving finds some budget that selects the item. With `raising`, a budget that a run
    refuses ends the search with that error unless the answer comes before; otherwise it counts as selecting nothing.
    """

    def __init__(
        self, prepared: PreparedSelection, base: ContextBudget, *, most: int | None = None, raising: bool = False
    ) -> None:
        self._prepared = prepared
        self._base = base
        self._raising = raising
        largest = MOST_TOKENS - base.max_tokens
        self._most = largest if most is None else min(most, largest)
        self._first = max(0, prepared.pinned_tokens - (base.max_tokens - base.output_reserve))
        """The smallest extension whose window holds the pinned items."""
        self._everything = sum(prepared.candidates.tokens)
        self._where: dict[int, list[int]] = {}
        for position, item in enumerate(prepared.candidates.items):
            self._where.setdefault(id(item), []).append(position)
        self._pinned = {id(item) for item in prepared.pinned}

    def least(self, items: Iterable[ContextItem]) -> list[Found]:
        """Answer for each of these items."""
        asked = [id(item) for item in items]
        work = Work(_QUESTION + _FURTHER_ITEM * len(asked))
        found: dict[int, Found] = {}
        to_run: set[int] = set()
        for item in dict.fromkeys(asked):
            answer = self._by_intervals(item, work)
            if answer is None:
                to_run.add(item)
            else:
                found[item] = answer
        found.update(self._by_runs(to_run, work))
        further, seen = Work(_SOME), dict[int, Stop]()
        for item, answer in found.items():
            if not answer.exact:
                found[item] = Found(self._some(item, further, seen), exact=False)
        return [found[item] for item in asked]

    def _by_intervals(self, item: int, work: Work) -> Found | None:
        """Ask the slicer for the targets that choose the item; None if budgets have to be run instead."""
        if item in self._pinned:
            return None
        extras: list[int] = []
        try:
            for position in self._where.get(item, ()):
                found = self._first_extra(position, work)
                if found is None:
                    return None
                extras += [] if found.extra is None else [found.extra]
        except TooMuchWork:
            return Found(None, exact=False)
        return Found(min(extras, default=None))

    def _first_extra(self, position: int, work: Work) -> Found | None:
        """Find the first of the slicer's targets that a budget has, first among those nearby."""
        if self._first > self._most:
            return Found(None)
        lowest, last = (self._effective(extra).target_tokens for extra in (self._first, self._most))
        farthest = min(last, max(lowest, 1, self._everything))
        for highest in (min(lowest + _NEAR, farthest), farthest):
            intervals = self._prepared.chooser.intervals(position, highest, work)
            if intervals is None:
                return None
            at = intervals.next(lowest)
            while at is not None and at <= highest:
                extra = max(self._first, self._reaching(at) or 0)
                reached = self._effective(extra).target_tokens
                at = intervals.next(reached)
                if at == reached:
                    return Found(extra)
        return Found(None)

    def _by_runs(self, items: set[int], work: Work) -> dict[int, Found]:
        """Run budgets in ascending order until all the items have been selected; skip those that select the same."""
        found: dict[int, Found] = {}
        missing = set(items)
        extra: int | None = 0
        try:
            while missing and extra is not None and extra <= self._most:
                stop = self._run(extra, work, raising=self._raising)
                selected = {item for item in missing if self._is_in(item, stop)}
                found |= dict.fromkeys(selected, Found(extra))
                missing -= selected
                extra = stop.following
        except TooMuchWork:
            return found | dict.fromkeys(missing, Found(None, exact=False))
        return found | dict.fromkeys(missing, Found(None))

    def _some(self, item: int, work: Work, seen: dict[int, Stop]) -> int | None:
        """Find some extension that selects the item, not necessarily the smallest, by doubling and halving."""
        tokens = self._prepared.candidates.tokens
        enough = self._reaching(4 * (self._everything + _ROUNDED_UP * len(tokens)))
        most = self._most if enough is None else min(self._most, enough)
        low, high, works = -1, 0, None
        try:
            while works is None or works - low > 1:
                if high not in seen:
                    seen[high] = self._run(high, work, raising=False)
                if self._is_in(item, seen[high]):
                    works = high
                elif works is None and high >= most:
                    return None
                else:
                    low = high
                high = min(most, 2 * high + 1) if works is None else (low + works) // 2
        except TooMuchWork:
            pass
        return works

    def _run(self, extra: int, work: Work, *, raising: bool) -> Stop:
        """Run one budget; one that cannot be run selects nothing, unless its refusal is raised."""
        if extra < self._first:
            return Stop(frozenset(), pinned=False, following=self._first)  # ruling 9.6
        effective, chooser = self._effective(extra), self._prepared.chooser
        target, span = effective.target_tokens, chooser.span(effective)
        promises = span != (target, target + 1)
        work.spend((_RUN + _CANDIDATE * len(self._prepared.candidates)) * (1 if promises else _UNKNOWN))
        try:
            stop = self._settled(extra, chooser(effective).chosen)
        except (*_REFUSALS, MemoryError):  # a knapsack without a guard may want any table
            if raising:
                raise
            stop = Stop(frozenset(), pinned=False, following=None)
        end = (None if span.stop is None else self._reaching(span.stop)) if promises else extra + 1
        return stop._replace(following=min((at for at in (end, stop.following) if at is not None), default=None))

    def _settled(self, extra: int, chosen: list[int]) -> Stop:
        """Apply the overflow strategy, and find the budget at which its effect can change."""
        tokens, pinned_tokens = self._prepared.candidates.tokens, self._prepared.pinned_tokens
        target = self._base.target_tokens + extra
        total = pinned_tokens + sum(tokens[position] for position in chosen)
        overflow = self._prepared.pipeline.overflow
        if total <= target or overflow is OverflowStrategy.PROCEED:
            return Stop(frozenset(chosen), pinned=True, following=None)
        if overflow is OverflowStrategy.THROW:  # a budget that cannot be run selects nothing
            return Stop(frozenset(), pinned=False, following=extra + total - target)
        used, kept, following = pinned_tokens, set[int](), total
        for position in sorted(chosen):  # from the highest score down, as truncation goes
            needed = used + tokens[position]
            if needed <= target:
                used = needed
                kept.add(position)
            else:
                following = min(following, needed)
        relations = self._prepared.candidates.relations
        if relations is not None:  # a group that was truncated in part goes as a whole
            kept = set(drop_violations(relations, sorted(kept)))
        return Stop(frozenset(kept), pinned=True, following=extra + following - target)

    def _effective(self, extra: int) -> ContextBudget:
        """Return the slicer's part of the budget with `extra` more tokens; its target never falls as they grow."""
        return effective_budget(self._base.extended(extra), self._prepared.pinned_tokens)

    def _reaching(self, target: int) -> int | None:
        """Return the smallest extension whose effective target is at least `target`; None if no budget has it."""
        base, largest = self._base, MOST_TOKENS - self._base.max_tokens
        if target <= 0:
            return 0
        if base.estimation_safety_margin_percent:
            extra = bisect_left(range(largest + 1), target, key=lambda extra: self._effective(extra).target_tokens)
        else:
            unreserved = min(base.target_tokens, base.max_tokens - base.output_reserve)
            extra = max(0, target - unreserved + self._prepared.pinned_tokens + sum(base.reserved_slots.values()))
        return extra if extra <= largest else None

    def _is_in(self, item: int, stop: Stop) -> bool:
        return (stop.pinned and item in self._pinned) or any(at in stop.positions for at in self._where.get(item, ()))
