"""A number of items for each kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cupel._checks import as_instance, as_integer, shown
from cupel._columns import Candidates, Picked, descending
from cupel.diagnostics import CountCapExceeded, CountRequirementShortfall
from cupel.errors import ScarcityError, SlicerConfigError
from cupel.model import ContextBudget, ContextKind
from cupel.slicers._base import Chooser, Selection, Slicer, Span
from cupel.slicers._entries import as_kind
from cupel.slicers._partition import kind_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.diagnostics import ExclusionReason


_FEW = 16


class ScarcityBehavior(Enum):
    """What a count slicer does when a kind has fewer candidates than it requires."""

    DEGRADE = "degrade"
    """Take what there is and record a shortfall."""
    THROW = "throw"
    """Raise `ScarcityError`."""


@dataclass(frozen=True, slots=True)
class CountQuotaEntry:
    """One kind's number of items: at least `require_count`, whatever they cost, and at most `cap_count`.

    >>> CountQuotaEntry("ToolOutput", 1, 4).cap_count
    4
    """

    kind: ContextKind
    require_count: int
    cap_count: int

    if TYPE_CHECKING:

        def __init__(self, kind: ContextKind | str, require_count: int, cap_count: int) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", as_kind(self.kind))
        for name in ("require_count", "cap_count"):
            value = as_integer(name, getattr(self, name))
            if value < 0:
                msg = f"{name} for kind '{self.kind}' must be >= 0, got {shown(value)}"
                raise SlicerConfigError(msg)
            object.__setattr__(self, name, value)
        if self.require_count > self.cap_count:
            msg = (
                f"require_count must not exceed cap_count for kind '{self.kind}', "
                f"got require_count={shown(self.require_count)}, cap_count={shown(self.cap_count)}"
            )
            raise SlicerConfigError(msg)


def check_scarcity(scarcity: object) -> None:
    """Make sure that a scarcity behaviour is one."""
    as_instance("scarcity", scarcity, ScarcityBehavior)


class CountChooser(Chooser):
    """The three phases both count slicers share: commit what is required, fill up with `inner`, enforce the caps.

    The first phase does not depend on the budget (ruling 5.31), so it happens once, at construction. Items are told
    apart by position, so that one object listed twice counts twice (ruling 5.34).
    """

    __slots__ = (
        "_candidates",
        "_caps",
        "_keys",
        "_name",
        "_scarcity",
        "_shortfalls",
        "committed",
        "committed_tokens",
        "resort",
        "rest",
        "rest_chooser",
        "room",
    )

    def __init__(
        self,
        name: str,
        candidates: Candidates,
        entries: Sequence[CountQuotaEntry],
        inner: Slicer,
        scarcity: ScarcityBehavior,
        *,
        resort: bool,
    ) -> None:
        self._name = name
        self._candidates = candidates
        self._keys = kind_keys(candidates)
        self._caps = {entry.kind.key: entry.cap_count for entry in entries}
        self._scarcity = scarcity
        self.resort = resort
        self._commit(entries)
        self.rest, left = _without(candidates, self.committed)
        self.rest_chooser = inner.fit(left)

    def _commit(self, entries: Sequence[CountQuotaEntry]) -> None:
        """Take the best of each kind that is required, whatever the budget."""
        best = self._best({entry.kind.key: entry.require_count for entry in entries if entry.require_count > 0})
        self.committed: list[int] = []
        self.room = dict(self._caps)
        shortfalls: list[CountRequirementShortfall] = []
        for entry in entries:
            taken = best.get(entry.kind.key, [])
            self.committed.extend(taken)
            self.room[entry.kind.key] -= len(taken)
            if len(taken) < entry.require_count:
                shortfalls.append(CountRequirementShortfall(entry.kind.value, entry.require_count, len(taken)))
        self._shortfalls = tuple(shortfalls)
        self.committed_tokens = sum(self._candidates.tokens[position] for position in self.committed)

    def _best(self, missing: dict[str, int]) -> dict[str, list[int]]:
        """Find so many of each kind, from the highest score down; negative counts take no part (ruling 5.4)."""
        keys, tokens = self._keys, self._candidates.tokens
        best: dict[str, list[int]] = {key: [] for key in missing}
        for position in descending(self._candidates.scores) if missing else ():
            key = keys[position]
            if key in missing and tokens[position] >= 0:
                best[key].append(position)
                missing[key] -= 1
                if missing[key] == 0:
                    del missing[key]
                    if not missing:
                        break
        return best

    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose for one budget; an empty pool or target chooses nothing and is short of nothing (ruling 5.26)."""
        if not self._candidates.items or budget.target_tokens <= 0:
            return Selection([], explain=lambda position: self._cap_reached(position, self._caps, budget))
        self.check_supply()
        room = dict(self.room)
        keys = self._keys
        chosen = list(self.committed)
        for position in self._filled(budget):
            key = keys[position]
            left = room.get(key)
            if left is not None:
                if left == 0:
                    continue
                room[key] = left - 1
            chosen.append(position)
        return Selection(chosen, self._shortfalls, lambda position: self._cap_reached(position, room, budget))

    def check_supply(self) -> None:
        """Make sure that there are as many candidates as required, where that is a must."""
        if self._shortfalls and self._scarcity is ScarcityBehavior.THROW:
            short = self._shortfalls[0]
            raise ScarcityError(self._name, short.kind, short.satisfied_count, short.required_count)

    def _filled(self, budget: ContextBudget) -> list[int]:
        """Let the inner slicer fill what the committed items leave of the target."""
        picked = [self.rest[index] for index in self.rest_chooser(self._rest_budget(budget)).chosen]
        if self.resort:
            ranked = descending([self._candidates.scores[position] for position in picked])
            return [picked[rank] for rank in ranked]
        return picked

    def _rest_budget(self, budget: ContextBudget) -> ContextBudget:
        rest = max(0, budget.target_tokens - self.committed_tokens)
        return ContextBudget(budget.max_tokens, min(rest, budget.max_tokens))

    def _cap_reached(self, position: int, room: dict[str, int], budget: ContextBudget) -> ExclusionReason | None:
        """Blame the cap when the kind has reached it and the item is not too large by itself (ruling 7.21)."""
        kind = self._candidates.items[position].kind
        if room.get(kind.key) != 0 or self._candidates.tokens[position] > budget.target_tokens:
            return None
        cap = self._caps[kind.key]
        return CountCapExceeded(kind.value, cap, count=cap)

    def span(self, budget: ContextBudget) -> Span:
        """Follow the inner slicer's span, shifted by what is committed."""
        target = budget.target_tokens
        if target <= 0:
            return Span(target, 1 if self._candidates.items else None)
        inner = self.rest_chooser.span(self._rest_budget(budget))
        start = max(1, inner.start + self.committed_tokens) if target > self.committed_tokens else 1
        return Span(start, None if inner.stop is None else inner.stop + self.committed_tokens)


def _without(candidates: Candidates, committed: list[int]) -> tuple[list[int], Candidates]:
    """Give the positions that are not committed, and their columns; negative counts take no part (ruling 5.4)."""
    positions = list(range(len(candidates)))
    if len(committed) > _FEW or min(candidates.tokens, default=0) < 0:
        gone = set(committed)
        positions = [place for place in positions if place not in gone and candidates.tokens[place] >= 0]
        return positions, candidates.part(positions)
    scores, tokens = candidates.scores.copy(), candidates.tokens.copy()
    for position in sorted(committed, reverse=True):  # a few deletions cost less than gathering everything else
        del positions[position], scores[position], tokens[position]
    return positions, Candidates(Picked(candidates.items, positions), scores, tokens)
