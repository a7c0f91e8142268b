"""The smallest budget that selects an item, without assuming that a larger budget keeps what a smaller one took."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cupel._targets import NEVER, TooMuchWork, Wanted, Work
from cupel.analytics._extensions import Extensions
from cupel.analytics._walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel._targets import Targets
    from cupel.model import ContextBudget, ContextItem
    from cupel.pipeline import PreparedSelection
    from cupel.slicers import Reach

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
