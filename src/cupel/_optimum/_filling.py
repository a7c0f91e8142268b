"""Filling a capacity step by step, never against a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cupel._optimum._problem import Choice, Member, Problem


class Filling:
    """A choice that grows; floors are the caller's business."""

    __slots__ = ("_is_plain", "choice", "left", "problem", "room", "taken_sets")

    def __init__(self, problem: Problem, start: Choice | None = None) -> None:
        self.problem = problem
        self.choice: Choice = [None] * len(problem.blocks)
        self.left = problem.capacity
        self.room = [[cap.members, cap.tokens] for cap in problem.caps]
        """For each kind the members and tokens that still fit; None without a limit."""
        self.taken_sets: set[int] = set()
        self._is_plain = not problem.caps and not problem.exclusive
        for block, places in enumerate(start or ()):
            if places is not None:
                self._put([block], [places])

    def add(self, block: int, best: Callable[[int], tuple[int, ...]]) -> bool:
        """Take a block with all it needs in the options wanted, or else in the best that fit; False if none do."""
        problem = self.problem
        blocks = problem.closure(block, self.choice)
        if not self._is_plain and not self._sets_and_counts_allow(blocks):
            return False
        wanted = [best(one) for one in blocks]
        if not self._fits(blocks, wanted):
            cheapest = [tuple(map(_cheapest, problem.blocks[one].members)) for one in blocks]
            if cheapest == wanted or not self._fits(blocks, cheapest):
                return False
            wanted = cheapest
            self._put(blocks, wanted)
            for one in blocks:
                self._upgrade(one)
            return True
        self._put(blocks, wanted)
        return True

    def fill(self, order: Iterable[int], best: Callable[[int], tuple[int, ...]]) -> None:
        """Take each block that adds value or costs nothing, in this order, then the larger forms there is room for."""
        choice, singles = self.choice, self.problem.singles
        for block in order:
            if choice[block] is not None:
                continue
            single = singles[block]
            if single is None:
                if self._is_worth_it(block):
                    self.add(block, best)
            elif single.tokens <= self.left and (single.value or not single.tokens):
                choice[block] = (0,)
                self.left -= single.tokens
        self.upgrade()

    def upgrade(self) -> None:
        """Change to options of more value where they fit, those with the greatest gain first."""
        steps: list[tuple[int, int]] = []
        for number, places in enumerate(self.choice):
            if places is not None:
                for member, place in zip(self.problem.blocks[number].members, places, strict=True):
                    if len(member.options) > 1:
                        top = max(option.value for option in member.options)
                        if top > member.options[place].value:
                            steps.append((member.options[place].value - top, number))
        for _, number in sorted(steps):
            self._upgrade(number)

    def _is_worth_it(self, block: int) -> bool:
        """Tell whether a block and what it needs add value or cost nothing."""
        blocks = self.problem.blocks
        members = blocks[block].members
        if blocks[block].needs:
            members = tuple(
                member for one in self.problem.closure(block, self.choice) for member in blocks[one].members
            )
        return any(option.value for member in members for option in member.options) or not any(
            min(option.tokens for option in member.options) for member in members
        )

    def _upgrade(self, block: int) -> None:
        """Give each member of a block that is in the option of the greatest value that fits, if it is worth more."""
        members = self.problem.blocks[block].members
        for number, member in enumerate(members):
            if len(member.options) == 1:
                continue
            places = self.choice[block]
            assert places is not None  # noqa: S101
            now = member.options[places[number]]
            for place in sorted(range(len(member.options)), key=lambda place: -member.options[place].value):
                option = member.options[place]
                if option.value <= now.value:
                    break
                extra = option.tokens - now.tokens
                if extra <= self.left and self._kind_has(member.kind, extra):
                    self._spend(member.kind, 0, extra)
                    self.choice[block] = (*places[:number], place, *places[number + 1 :])
                    break

    def _sets_and_counts_allow(self, blocks: list[int]) -> bool:
        sets = [one for block in blocks for one in self.problem.sets_of.get(block, ())]
        if sets and (len(set(sets)) < len(sets) or not self.taken_sets.isdisjoint(sets)):
            return False
        counts: dict[int, int] = {}
        for block in blocks:
            for member in self.problem.blocks[block].members:
                if member.kind >= 0:
                    counts[member.kind] = counts.get(member.kind, 0) + 1
        return all((room := self.room[kind][0]) is None or count <= room for kind, count in counts.items())

    def _fits(self, blocks: list[int], wanted: list[tuple[int, ...]]) -> bool:
        total = 0
        by_kind: dict[int, int] = {}
        for block, places in zip(blocks, wanted, strict=True):
            for member, place in zip(self.problem.blocks[block].members, places, strict=True):
                tokens = member.options[place].tokens
                total += tokens
                if member.kind >= 0:
                    by_kind[member.kind] = by_kind.get(member.kind, 0) + tokens
        return total <= self.left and all(self._kind_has(kind, tokens) for kind, tokens in by_kind.items())

    def _kind_has(self, kind: int, tokens: int) -> bool:
        return kind < 0 or (room := self.room[kind][1]) is None or tokens <= room

    def _put(self, blocks: Sequence[int], wanted: Sequence[tuple[int, ...]]) -> None:
        for block, places in zip(blocks, wanted, strict=True):
            self.choice[block] = places
            for member, place in zip(self.problem.blocks[block].members, places, strict=True):
                self._spend(member.kind, 1, member.options[place].tokens)
            self.taken_sets.update(self.problem.sets_of.get(block, ()))

    def _spend(self, kind: int, count: int, tokens: int) -> None:
        self.left -= tokens
        if kind >= 0:
            room = self.room[kind]
            for what, amount in enumerate((count, tokens)):
                if (before := room[what]) is not None:
                    room[what] = before - amount


def _cheapest(member: Member) -> int:
    return min(range(len(member.options)), key=lambda place: member.options[place].tokens)
