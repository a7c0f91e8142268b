"""Find the smallest budget that selects an item."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, cast

from msgspec.structs import replace as with_fields

from cupel._checks import as_tuple, shown, wrong_type
from cupel._relations import lawful
from cupel._targets import NEVER, TooMuchWork, Wanted, Work
from cupel.errors import InvalidItemError, ScarcityError, TableTooLargeError
from cupel.model import ContextItem, OverflowStrategy
from cupel.pipeline import Pipeline, PreparedSelection, effective_budget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cupel._targets import Targets
    from cupel.model import ContextBudget
    from cupel.slicers import Reach


def quiet(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline without its callback: what-if questions are nobody's business."""
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
    """Return items as a tuple; None, which stands beside a `PreparedSelection`, is none here."""
    return as_tuple("items", cast("Iterable[ContextItem]", items), ContextItem)


def check_members(name: str, prepared: PreparedSelection, items: Iterable[ContextItem]) -> None:
    """Refuse an item that was not prepared: no budget selects it, which would be a misleading answer."""
    for item in prepared.strangers(items):
        msg = f"{name} must be among the items that were prepared, got {shown(item)}"
        raise InvalidItemError(msg)


@dataclass(frozen=True, slots=True)
class Extensions:
    """The budgets `base + extra` for every `extra` from 0 up, as the slicer sees them beside these pinned tokens."""

    base: ContextBudget
    pinned_tokens: int

    def at(self, extra: int) -> ContextBudget:
        """Return the budget with `extra` more tokens."""
        return self.base.extended(extra)

    def effective(self, extra: int) -> ContextBudget:
        """Return what that budget leaves to the slicer; the target never falls as `extra` grows."""
        return effective_budget(self.at(extra), self.pinned_tokens)

    def reaching(self, target: int) -> int | None:
        """Return the smallest `extra` whose effective target is at least `target`; None behind a full margin."""
        base = self.base
        if target <= 0:
            return 0
        unreserved = min(base.target_tokens, base.max_tokens - base.output_reserve)
        spare = unreserved - self.pinned_tokens - sum(base.reserved_slots.values())
        share = 1.0 - base.estimation_safety_margin_percent / 100.0
        if share <= 0.0:
            return None
        return max(0, target - spare) if share == 1.0 else self._behind_margin(target, Fraction(share), spare)

    def _behind_margin(self, target: int, share: Fraction, spare: int) -> int:
        """Search around the quotient: a product of floats may be off, by more the larger it is."""
        high, step = max(0, int(target / share) - spare), 1
        while self.effective(high).target_tokens < target:
            high, step = high + step, 2 * step
        low, step = high, 1
        while low >= 0 and self.effective(low).target_tokens >= target:
            low, step = low - step, 2 * step
        low = max(low, -1)
        while high - low > 1:
            middle = (low + high) // 2
            if self.effective(middle).target_tokens >= target:
                high = middle
            else:
                low = middle
        return high

    def holding_pins(self) -> int:
        """Return the smallest `extra` whose window holds the pinned items."""
        return max(0, self.pinned_tokens - (self.base.max_tokens - self.base.output_reserve))


_REFUSALS = (TableTooLargeError, ScarcityError)
_RUN, _CANDIDATE = 20_000, 300  # what a run costs, and what each candidate adds


class Stop(NamedTuple):
    """What one budget selects, and the next one that may select something else (None: there is none)."""

    extra: int
    positions: frozenset[int]
    pinned: bool
    following: int | None


@dataclass(frozen=True, slots=True)
class Walk:
    """Runs budgets in ascending order, and passes over those that are sure to select the same."""

    prepared: PreparedSelection
    extensions: Extensions
    raising: bool
    """Whether a refusal ends the walk; otherwise such a budget selects nothing."""

    def steps(self, last: int | None, work: Work) -> Iterator[Stop]:
        """Go from the first extension to the last."""
        extra: int | None = 0
        while extra is not None and (last is None or extra <= last):
            step = self.at(extra, work)
            yield step
            extra = step.following

    def at(self, extra: int, work: Work) -> Stop:
        """Run one budget; one that cannot be run selects nothing."""
        extensions, prepared = self.extensions, self.prepared
        pins_fit = extensions.holding_pins()
        if extra < pins_fit:
            return Stop(extra, frozenset(), pinned=False, following=pins_fit)  # ruling 9.6
        effective = extensions.effective(extra)
        effort = prepared.chooser.effort(effective.target_tokens)
        work.spend(_RUN + _CANDIDATE * len(prepared.candidates) + effort)
        try:
            chosen = prepared.chooser(effective).chosen
        except _REFUSALS:
            if self.raising:
                raise
            return Stop(extra, frozenset(), pinned=False, following=self._after_refusal(extra, work))
        step = self._settled(extra, chosen)
        span = prepared.chooser.span(effective)
        if span == (effective.target_tokens, effective.target_tokens + 1):  # a slicer that promises nothing
            return step._replace(following=extra + 1)
        stop = None if span.stop is None else extensions.reaching(span.stop)
        return step._replace(following=min((end for end in (stop, step.following) if end is not None), default=None))

    def _after_refusal(self, extra: int, work: Work) -> int | None:
        refused = self.prepared.chooser.refused(work)
        if refused is None:
            return extra + 1
        free = refused.next(self.extensions.effective(extra).target_tokens, inside=False)
        return None if free is None else max(extra + 1, self.extensions.reaching(free) or 0)

    def _settled(self, extra: int, chosen: list[int]) -> Stop:
        """Apply the overflow strategy, and say at which budget its effect can change."""
        tokens, pinned_tokens = self.prepared.candidates.tokens, self.extensions.pinned_tokens
        target = self.extensions.at(extra).target_tokens
        total = pinned_tokens + sum(tokens[position] for position in chosen)
        overflow = self.prepared.pipeline.overflow
        if total <= target or overflow is OverflowStrategy.PROCEED:
            return Stop(extra, frozenset(chosen), pinned=True, following=None)
        if overflow is OverflowStrategy.THROW:  # a budget that cannot be run selects nothing
            return Stop(extra, frozenset(), pinned=False, following=extra + total - target)
        used, kept, following = pinned_tokens, set[int](), total
        for position in sorted(chosen):  # from the highest score down, as truncation goes
            needed = used + tokens[position]
            if needed <= target:
                used = needed
                kept.add(position)
            else:
                following = min(following, needed)
        relations = self.prepared.candidates.relations
        if relations is not None:  # what depends on something truncated goes as well
            kept = set(lawful(relations, sorted(kept)))
        return Stop(extra, frozenset(kept), pinned=True, following=extra + following - target)


_QUESTION, _FURTHER_ITEM, _SOME = 1_800_000_000, 300_000, 400_000_000  # about nanoseconds
_NEAR = 4_096  # many answers are near, and near ones are cheap
_ROUNDED_UP = 1_000  # no item is expected to be rounded up by more


class Found(NamedTuple):
    """The least extra tokens that select an item; None if no budget does.

    An answer that is not exact says where the search stopped: its tokens are enough, but fewer may be.
    """

    extra: int | None
    exact: bool = True


class Search:
    """Questions about one prepared selection and the budgets from `base` up, by at most `most` tokens.

    Slicers that know their targets are asked for those (`Chooser.targets`). The others are run, one budget after the
    other, and so are budgets for which an overflow strategy may have a say. With `raising`, a budget that a run refuses
    ends the search with that error unless the answer comes before; otherwise it counts as one that selects nothing.
    """

    def __init__(
        self, prepared: PreparedSelection, base: ContextBudget, *, most: int | None = None, raising: bool = False
    ) -> None:
        self._prepared = prepared
        self._extensions = Extensions(base, prepared.pinned_tokens)
        self._most = most
        self._walk = Walk(prepared, self._extensions, raising=raising)
        self._reach = prepared.chooser.reach()
        # From this extension on the slicer keeps within its target, so that no overflow strategy has a say.
        self._first = self._extensions.reaching(max(1, 0 if self._reach is None else self._reach.within))
        self._where: dict[int, list[int]] = {}
        for position, item in enumerate(prepared.candidates.items):
            self._where.setdefault(id(item), []).append(position)
        self._pinned = {id(item) for item in prepared.pinned}

    def least(self, items: Iterable[ContextItem]) -> list[Found]:
        """Answer for each of these items."""
        asked = [id(item) for item in items]
        work = Work(_QUESTION + _FURTHER_ITEM * len(asked))
        found = self._early(set(asked), work)
        to_run: set[int] = set()
        for item in dict.fromkeys(asked):
            if item not in found:
                answer = self._by_targets(item, work)
                if answer is None:
                    to_run.add(item)
                else:
                    found[item] = answer
        found.update(self._by_runs(to_run, self._most, work))
        some = Work(_SOME)
        return [one if (one := found[item]).exact else Found(self._some(item, some), exact=False) for item in asked]

    def _early(self, items: set[int], work: Work) -> dict[int, Found]:
        """Run the budgets before those for which the slicer can be asked, if they may select any of the items."""
        if self._reach is None or not self._first or not self._reach.early:
            return {}
        early = {item for item in items if not self._reach.early.isdisjoint(self._where.get(item, ()))}
        last = self._first - 1 if self._most is None else min(self._first - 1, self._most)
        runs = self._by_runs(early, last, work)
        return {item: answer for item, answer in runs.items() if answer != Found(None)}

    def _by_targets(self, item: int, work: Work) -> Found | None:
        """Ask the slicer for the targets that choose the item; None if budgets have to be run instead."""
        if item in self._pinned:
            return None
        positions = self._where.get(item, [])
        chooser, reach = self._prepared.chooser, self._reach
        try:
            if reach is None:
                is_never = all(chooser.targets(Wanted(position), 1, work) is NEVER for position in positions)
                return Found(None) if is_never else None
            if self._first is None:  # no budget leaves anything to the slicer
                return Found(None)
            lowest = self._extensions.effective(self._first).target_tokens
            refused = chooser.refused(work)
            extras = [self._first_extra(position, reach, lowest, refused, work) for position in positions]
            answer = min((extra for extra in extras if extra is not None), default=None)
            self._raise_before(answer, refused, work)
        except TooMuchWork:
            return Found(None, exact=False)
        except _HasToBeRunError:
            return None
        return Found(answer)

    def _first_extra(self, position: int, reach: Reach, lowest: int, refused: Targets | None, work: Work) -> int | None:
        """Find the first of the slicer's targets that a budget can have, first among those nearby."""
        last = None if self._most is None else self._extensions.effective(self._most).target_tokens
        settled = max(lowest, reach.settled)
        farthest = settled if last is None else min(settled, last)
        for highest in (min(lowest + _NEAR, farthest), farthest):
            targets = self._prepared.chooser.targets(Wanted(position), highest, work)
            if targets is None:
                raise _HasToBeRunError
            at = _next_allowed(targets, refused, lowest)
            while at is not None and (at <= highest or highest >= settled) and (last is None or at <= last):
                extra = self._extensions.reaching(at) or 0
                reached = self._extensions.effective(extra).target_tokens
                if reached == at and (reach.sure or position in self._walk.at(extra, work).positions):
                    return extra
                at = _next_allowed(targets, refused, max(reached, at + (reached == at)))
        return None

    def _raise_before(self, extra: int | None, refused: Targets | None, work: Work) -> None:
        """Run the first budget that is refused, if the search has come to it."""
        if refused is None or not self._walk.raising:
            return
        target = refused.next(max(1, self._extensions.effective(0).target_tokens))
        refusing = None if target is None else self._extensions.reaching(target)
        ends = [end for end in (self._most, None if extra is None else extra - 1) if end is not None]
        if refusing is not None and all(refusing <= end for end in ends):
            self._walk.at(refusing, work)

    def _by_runs(self, items: set[int], last: int | None, work: Work) -> dict[int, Found]:
        """Run one budget after the other until all the items have been seen."""
        found: dict[int, Found] = {}
        missing = set(items)
        try:
            for step in self._walk.steps(last, work) if missing else ():
                for item in [item for item in missing if self._is_in(item, step.positions, pinned=step.pinned)]:
                    missing.remove(item)
                    found[item] = Found(step.extra)
                if not missing:
                    break
        except TooMuchWork:
            return found | dict.fromkeys(missing, Found(None, exact=False))
        return found | dict.fromkeys(missing, Found(None))

    def _is_in(self, item: int, positions: frozenset[int], *, pinned: bool) -> bool:
        return (pinned and item in self._pinned) or any(at in positions for at in self._where.get(item, ()))

    def _some(self, item: int, work: Work) -> int | None:
        """Find a budget that selects an item, not necessarily the smallest, by doubling and halving."""
        walk = Walk(self._prepared, self._extensions, raising=False)
        tokens = self._prepared.candidates.tokens
        far = self._extensions.reaching(4 * (sum(tokens) + _ROUNDED_UP * len(tokens))) or 0
        most = far if self._most is None else self._most
        low, high, works = -1, 0, None
        try:
            while works is None or works - low > 1:
                step = walk.at(high, work)
                if self._is_in(item, step.positions, pinned=step.pinned):
                    works = high
                elif works is None and high >= most:
                    return None
                else:
                    low = high
                high = min(most, 2 * high + 1) if works is None else (low + works) // 2
        except TooMuchWork:
            pass
        return works


class _HasToBeRunError(Exception):
    """The slicer cannot tell after all."""


def _next_allowed(targets: Targets, refused: Targets | None, target: int) -> int | None:
    """Return the least target from this one on that chooses and is not refused."""
    at = targets.next(target)
    while at is not None and refused is not None:
        allowed = refused.next(at, inside=False)
        if allowed is None or allowed == at:
            return allowed
        at = targets.next(allowed)
    return at
