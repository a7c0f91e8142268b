"""What is to be chosen, and under which rules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Choice: TypeAlias = "list[tuple[int, ...] | None]"
"""For each block the place of the option taken for each member; None for a block that is out."""


class Option(NamedTuple):
    """One way for a member to be in."""

    value: int
    tokens: int
    position: int = 0
    """Which candidate this is."""


class Member(NamedTuple):
    """Something of which exactly one option is taken when its block is in."""

    options: tuple[Option, ...]
    kind: int = -1
    """The place of its kind in `Problem.caps`; -1 for a kind without limits."""


class Block(NamedTuple):
    """Members that are all in or all out."""

    members: tuple[Member, ...]
    needs: tuple[int, ...] = ()
    """Other blocks that must be in as well."""


class Cap(NamedTuple):
    """The most of one kind; None for no limit."""

    members: int | None = None
    tokens: int | None = None


class Floor(NamedTuple):
    """The least of one kind, counted in members or in tokens."""

    kind: int
    amount: int
    in_tokens: bool = False

    def measure(self, member: Member, option: Option) -> int:
        """Return what an option adds to it."""
        return 0 if member.kind != self.kind else option.tokens if self.in_tokens else 1


@dataclass(frozen=True)
class Problem:
    """Maximise the value of the options taken, in at most `capacity` tokens."""

    blocks: Sequence[Block]
    capacity: int
    exclusive: Sequence[tuple[int, ...]] = ()
    """Sets of blocks of which at most one may be in."""
    caps: Sequence[Cap] = ()
    floors: Sequence[Floor] = ()

    @cached_property
    def sets_of(self) -> dict[int, tuple[int, ...]]:
        """The exclusive sets of each block that is in any."""
        found: dict[int, tuple[int, ...]] = {}
        for number, blocks in enumerate(self.exclusive):
            for block in blocks:
                found[block] = (*found.get(block, ()), number)
        return found

    @cached_property
    def singles(self) -> list[Option | None]:
        """For each block its only option, if nothing but the capacity can keep it out."""
        sets = self.sets_of
        return [
            block.members[0].options[0]
            if len(block.members) == 1
            and len(block.members[0].options) == 1
            and block.members[0].kind < 0
            and not block.needs
            and number not in sets
            else None
            for number, block in enumerate(self.blocks)
        ]

    def taken(self, choice: Choice) -> Iterator[tuple[Member, Option]]:
        """Walk through what a choice takes."""
        for block, places in zip(self.blocks, choice, strict=True):
            if places is not None:
                for member, place in zip(block.members, places, strict=True):
                    yield member, member.options[place]

    def value(self, choice: Choice) -> int:
        """Return the total value of a choice."""
        return sum(option.value for _, option in self.taken(choice))

    def reached(self, floor: Floor, choice: Choice) -> int:
        """Return how much a choice has of what a floor asks for."""
        return sum(floor.measure(member, option) for member, option in self.taken(choice))

    def allows(self, choice: Choice) -> bool:
        """Tell whether a choice keeps every rule; read from the rules themselves, not from any solver's rows."""
        if sum(option.tokens for _, option in self.taken(choice)) > self.capacity:
            return False
        for block, places in zip(self.blocks, choice, strict=True):
            if places is not None and any(choice[other] is None for other in block.needs):
                return False
        if any(sum(choice[block] is not None for block in blocks) > 1 for blocks in self.exclusive):
            return False
        for kind, cap in enumerate(self.caps):
            costs = [option.tokens for member, option in self.taken(choice) if member.kind == kind]
            if (cap.members is not None and len(costs) > cap.members) or (
                cap.tokens is not None and sum(costs) > cap.tokens
            ):
                return False
        return self.reaches(choice)

    def reaches(self, choice: Choice) -> bool:
        """Tell whether a choice has as much as every floor asks for."""
        return all(self.reached(floor, choice) >= floor.amount for floor in self.floors)

    @property
    def value_of_everything(self) -> int:
        """What everything would be worth, if all of it could be in."""
        return sum(max(option.value for option in member.options) for block in self.blocks for member in block.members)

    def closure(self, block: int, present: Choice) -> list[int]:
        """Return a block and everything it needs that is not present, what is needed first."""
        needs = self.blocks[block].needs
        if not needs:
            return [block]
        missing: dict[int, None] = {}
        waiting = [block]
        while waiting:
            one = waiting.pop()
            if one not in missing and present[one] is None:
                missing[one] = None
                waiting.extend(self.blocks[one].needs)
        return list(reversed(missing))


def reduced(problem: Problem) -> Problem:
    """Leave out options that are too large for the capacity, and blocks that cannot be in without one.

    What a block needs must stand before it.
    """
    options = (option for block in problem.blocks for member in block.members for option in member.options)
    if all(option.tokens <= problem.capacity for option in options):
        return problem
    kept: list[Block] = []
    renamed: dict[int, int] = {}
    for number, block in enumerate(problem.blocks):
        members = block.members
        if any(option.tokens > problem.capacity for member in members for option in member.options):
            members = tuple(
                Member(tuple(option for option in member.options if option.tokens <= problem.capacity), member.kind)
                for member in members
            )
        if all(member.options for member in members) and all(other in renamed for other in block.needs):
            renamed[number] = len(kept)
            kept.append(Block(members, tuple(renamed[other] for other in block.needs)))
    exclusive = (tuple(renamed[block] for block in blocks if block in renamed) for blocks in problem.exclusive)
    return Problem(
        kept, problem.capacity, [blocks for blocks in exclusive if len(blocks) > 1], problem.caps, problem.floors
    )
