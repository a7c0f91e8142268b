"""Tokens that one kind leaves over, for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel.diagnostics import QuotaCapExceeded
from cupel.model import ContextBudget
from cupel.slicers._base import Chooser, Selection

if TYPE_CHECKING:
    from collections.abc import Callable

    from cupel._columns import Candidates
    from cupel.diagnostics import ExclusionReason
    from cupel.slicers._quota_chooser import QuotaChooser


class LeftoverChooser(Chooser):
    """Divides a target among kinds, and what they leave over among those that can use it."""

    __slots__ = ("_candidates", "_divided")

    def __init__(self, divided: QuotaChooser, candidates: Candidates) -> None:
        self._divided = divided
        self._candidates = candidates

    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose within the shares, then let each kind choose again with what is left."""
        target = budget.target_tokens
        if target <= 0:
            return Selection([])
        shares = self._divided.sharing.shares(target)
        chosen = [self._choose(number, share, cap) for number, (share, cap) in enumerate(shares)]
        left = target - sum(map(self._tokens, chosen))
        for number in self._waiting(chosen):
            used, (share, cap) = self._tokens(chosen[number]), shares[number]
            offer = min(used + left, cap)
            if offer > share:  # otherwise the others have taken what it had not used
                chosen[number] = self._choose(number, offer, cap)
                left += used - self._tokens(chosen[number])
        return Selection([position for choice in chosen for position in choice], explain=self._explain(target, chosen))

    def _explain(self, target: int, chosen: list[list[int]]) -> Callable[[int], ExclusionReason | None]:
        """Return what names the cap that kept an item out; None where it was not a cap."""
        candidates, used = self._candidates, list(map(self._tokens, chosen))
        caps = [cap for _, cap in self._divided.sharing.shares(target)]
        number_of = {position: number for number, part in enumerate(self._divided.parts) for position in part.positions}

        def explain(position: int) -> ExclusionReason | None:
            number, cost = number_of[position], candidates.tokens[position]
            cap, actual = caps[number], used[number] + cost
            if cost <= target and cap < min(target, actual):
                return QuotaCapExceeded(candidates.items[position].kind.value, cap, actual)
            return None

        return explain

    def _choose(self, number: int, share: int, cap: int) -> list[int]:
        part = self._divided.parts[number]
        if share <= 0:
            return []
        return [part.positions[index] for index in part.chooser(ContextBudget(cap, share)).chosen]

    def _waiting(self, chosen: list[list[int]]) -> list[int]:
        """Number the kinds that left something out, the one with the best such item first."""
        best: list[tuple[int, int]] = []
        for number, (part, choice) in enumerate(zip(self._divided.parts, chosen, strict=True)):
            taken = set(choice)
            # Positions go from the highest score down.
            first = next((position for position in part.positions if position not in taken), None)
            if first is not None:
                best.append((first, number))
        return [number for _, number in sorted(best)]

    def _tokens(self, positions: list[int]) -> int:
        tokens = self._candidates.tokens
        return sum([tokens[position] for position in positions])
