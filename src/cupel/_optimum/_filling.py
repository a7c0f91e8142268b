"""Filling a capacity step by step, never against a rule."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from cupel._optimum._problem import Choice, Member, Option, Problem


class Filling:
    """A choice that grows; floors are the caller's business."""

    def __init__(self, problem: Problem, start: Choice | None = None) -> None:
        self.choice: Choice = [None] * len(problem.blocks)
        self._problem = problem
        self._left = problem.capacity
        self._room = [[inf if most is None else most for most in cap] for cap in problem.caps]
        """For each kind the members and tokens that still fit."""
        self._taken_sets: set[int] = set()
        self._put({block: places for block, places in enumerate(start or ()) if places is not None})

    def fill(self, order: Iterable[int], best: Callable[[int], tuple[int, ...]]) -> None:
        """Take each block that adds value or costs nothing, in this order, then the larger forms there is room for."""
        choice, singles = self.choice, self._problem.singles
        for block in order:
            if choice[block] is not None:
                continue
            single = singles[block]
            if single is None:
                self._add(block, best)
            elif single.tokens <= self._left and (single.value or not single.tokens):
                choice[block] = (0,)
                self._left -= single.tokens
        self._upgrade_all()

    def _add(self, block: int, best: Callable[[int], tuple[int, ...]]) -> None:
        """Take a block with all it needs in their best options, or else in the largest that fit."""
        blocks = self._problem.closure(block, self.choice)
        if not self._is_worth_it(blocks) or not self._sets_allow(blocks):
            return
        wanted = {one: best(one) for one in blocks}
        if self._fits(wanted):
            self._put(wanted)
            return
        cheapest = {one: tuple(map(_cheapest, self._problem.blocks[one].members)) for one in blocks}
        if self._fits(cheapest):
            self._put(cheapest)
            for one in blocks:
                self._upgrade(one)

    def _is_worth_it(self, blocks: list[int]) -> bool:
        """Tell whether blocks add value or cost nothing."""
        members = [member for block in blocks for member in self._problem.blocks[block].members]
        return any(option.value for member in members for option in member.options) or not any(
            min(option.tokens for option in member.options) for member in members
        )

    def _sets_allow(self, blocks: list[int]) -> bool:
        sets = [one for block in blocks for one in self._problem.sets_of.get(block, ())]
        return len(set(sets)) == len(sets) and self._taken_sets.isdisjoint(sets)

    def _fits(self, taken: Mapping[int, tuple[int, ...]]) -> bool:
        left = self._left
        used: dict[int, tuple[int, int]] = {}
        for member, option in self._options(taken):
            left -= option.tokens
            if member.kind >= 0:
                members, tokens = used.get(member.kind, (0, 0))
                used[member.kind] = members + 1, tokens + option.tokens
        return left >= 0 and all(
            members <= self._room[kind][0] and tokens <= self._room[kind][1] for kind, (members, tokens) in used.items()
        )

    def _put(self, taken: Mapping[int, tuple[int, ...]]) -> None:
        for member, option in self._options(taken):
            self._spend(member.kind, 1, option.tokens)
        for block, places in taken.items():
            self.choice[block] = places
            self._taken_sets.update(self._problem.sets_of.get(block, ()))

    def _spend(self, kind: int, members: int, tokens: int) -> None:
        self._left -= tokens
        if kind >= 0:
            self._room[kind][0] -= members
            self._room[kind][1] -= tokens

    def _options(self, taken: Mapping[int, tuple[int, ...]]) -> Iterator[tuple[Member, Option]]:
        for block, places in taken.items():
            for member, place in zip(self._problem.blocks[block].members, places, strict=True):
                yield member, member.options[place]

    def _upgrade_all(self) -> None:
        """Change to options of more value where they fit, those with the greatest gain first."""
        steps: list[tuple[int, int]] = []
        for number, places in enumerate(self.choice):
            if places is not None:
                for member, place in zip(self._problem.blocks[number].members, places, strict=True):
                    if len(member.options) > 1:
                        top = max(option.value for option in member.options)
                        if top > member.options[place].value:
                            steps.append((member.options[place].value - top, number))
        for _, number in sorted(steps):
            self._upgrade(number)

    def _upgrade(self, block: int) -> None:
        """Give each member of a block that is in the option of the greatest value that fits, if it is worth more."""
        places = list(self.choice[block] or ())
        for number, (member, now) in enumerate(zip(self._problem.blocks[block].members, places, strict=True)):
            value, tokens, _ = member.options[now]
            for place in sorted(range(len(member.options)), key=lambda place: -member.options[place].value):
                option = member.options[place]
                if option.value <= value:
                    break
                extra = option.tokens - tokens
                if extra <= self._left and (member.kind < 0 or extra <= self._room[member.kind][1]):
                    self._spend(member.kind, 0, extra)
                    places[number] = place
                    break
        self.choice[block] = tuple(places)


def _cheapest(member: Member) -> int:
    return min(range(len(member.options)), key=lambda place: member.options[place].tokens)
