"""Whether a budget selects one item, asked many times of one prepared selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from cupel.analytics._extensions import Extensions
from cupel.model import ContextBudget, OverflowStrategy
from cupel.slicers import GreedyChooser
from cupel.slicers._knapsack import KnapsackChooser

if TYPE_CHECKING:
    from cupel.model import ContextItem
    from cupel.pipeline import PreparedSelection


class Probe(Protocol):
    """Tells whether the base budget with `extra` more tokens selects the item."""

    def __call__(self, extra: int, /) -> bool: ...


def probe_for(
    prepared: PreparedSelection, base: ContextBudget, target: ContextItem
) -> GreedyProbe | KnapsackProbe | StretchProbe:
    """The cheapest way to ask: greedy and knapsack can tell about one item, the others are asked in full."""
    chooser = prepared.chooser
    positions = positions_of(prepared, target)
    if positions:
        extensions = Extensions(base, prepared.pinned_tokens)
        if type(chooser) is GreedyChooser:
            return GreedyProbe(chooser, prepared.candidates.tokens, positions, extensions)
        if type(chooser) is KnapsackChooser:
            return KnapsackProbe(chooser, positions, extensions)
    return StretchProbe(prepared, base, target)


def positions_by_identity(prepared: PreparedSelection) -> dict[int, list[int]]:
    """Where each object stands among the candidates; nowhere if it is pinned or was deduplicated."""
    where: dict[int, list[int]] = {}
    for position, item in enumerate(prepared.candidates.items):
        where.setdefault(id(item), []).append(position)
    return where


def positions_of(prepared: PreparedSelection, target: ContextItem) -> set[int]:
    """Where one object stands among the candidates."""
    return {position for position, item in enumerate(prepared.candidates.items) if item is target}


class GreedyProbe:
    """Only items of a higher density can take what the item needs, so the fill stops at the item.

    A greedy choice keeps within the effective target, so no overflow strategy has a say in it.
    """

    __slots__ = ("cost", "denser", "extensions")

    def __init__(self, chooser: GreedyChooser, tokens: list[int], positions: set[int], extensions: Extensions) -> None:
        rank = next(rank for rank, position in enumerate(chooser.order) if position in positions)
        self.cost = tokens[chooser.order[rank]]
        self.denser = [tokens[position] for position in chooser.order[:rank] if tokens[position]]
        self.extensions = extensions

    def __call__(self, extra: int, /) -> bool:
        """Fill up to the item and see whether it still fits."""
        remaining = self.extensions.effective(extra).target_tokens
        if remaining <= 0:  # nothing to spend, or the pinned items do not fit: rulings 3.14 and 9.6
            return False
        for cost in self.denser:
            if cost <= remaining:
                remaining -= cost
        return self.cost <= remaining


class KnapsackProbe:
    """Asks about the item alone, once for each capacity.

    A knapsack keeps within the effective target as well.
    """

    __slots__ = ("_chooser", "_extensions", "_known", "_positions")

    def __init__(self, chooser: KnapsackChooser, positions: set[int], extensions: Extensions) -> None:
        self._chooser = chooser
        self._positions = positions
        self._extensions = extensions
        self._known: dict[int, bool] = {}

    def __call__(self, extra: int, /) -> bool:
        """Answer from a known capacity, or ask."""
        target = self._extensions.effective(extra).target_tokens
        if target <= 0:
            return False
        capacity = target // self._chooser.bucket_size
        if capacity not in self._known:
            self._known[capacity] = any(self._chooser.takes(position, target) for position in self._positions)
        return self._known[capacity]


class Stretch(NamedTuple):
    """Extensions from `start` up to `stop` (for ever if None), all of which select the item, or none of which does."""

    start: int
    stop: int | None
    selects: bool


class StretchProbe:
    """Asks the fitted slicer, and remembers over which stretch of budgets the answer holds."""

    __slots__ = ("_known", "_prepared", "extensions", "pinned", "positions")

    def __init__(self, prepared: PreparedSelection, base: ContextBudget, target: ContextItem) -> None:
        self._prepared = prepared
        self.extensions = Extensions(base, prepared.pinned_tokens)
        self.positions = positions_of(prepared, target)
        self.pinned = any(item is target for item in prepared.pinned)
        self._known: list[Stretch] = []

    @property
    def hopeless(self) -> bool:
        """Whether the item is neither pinned nor a candidate, so that no budget can select it."""
        return not self.pinned and not self.positions

    def __call__(self, extra: int, /) -> bool:
        """Answer from a known stretch, or ask."""
        for known in self._known:
            if known.start <= extra and (known.stop is None or extra < known.stop):
                return known.selects
        found = self.stretch(extra)
        self._known.append(found)
        return found.selects

    def stretch(self, extra: int) -> Stretch:
        """Ask for one budget, and how far the answer is sure to hold."""
        extensions, chooser = self.extensions, self._prepared.chooser
        pins_fit = extensions.holding_pins()
        if extra < pins_fit:
            return Stretch(0, pins_fit, selects=False)  # ruling 9.6
        effective = extensions.effective(extra)
        chosen = chooser(effective).chosen
        total = extensions.pinned_tokens + sum(self._prepared.candidates.tokens[position] for position in chosen)
        target = extensions.at(extra).target_tokens
        if total > target and self._prepared.pipeline.overflow is not OverflowStrategy.PROCEED:
            answer, settled_target = self._after_overflow(chosen, total, target)
            start, overflow_stop = extra, None if settled_target is None else extra + settled_target - target
        else:
            answer = self.pinned or not self.positions.isdisjoint(chosen)
            start, overflow_stop = max(pins_fit, extra + total - target), None
        span = chooser.span(effective)
        if span == (effective.target_tokens, effective.target_tokens + 1):  # a slicer that promises nothing
            return Stretch(extra, extra + 1, answer)
        stop = None if span.stop is None else extensions.reaching(span.stop)
        stops = [end for end in (stop, overflow_stop) if end is not None]
        return Stretch(max(start, extensions.reaching(span.start) or 0), min(stops, default=None), answer)

    def _after_overflow(self, chosen: list[int], total: int, target: int) -> tuple[bool, int | None]:
        """Whether the item is there after the overflow strategy, and the target at which that can change."""
        if self._prepared.pipeline.overflow is OverflowStrategy.THROW:  # a budget that cannot be run selects nothing
            return False, total
        used, answer, next_target = self.extensions.pinned_tokens, self.pinned, None
        for position in sorted(chosen):  # from the highest score down, as truncation goes
            needed = used + self._prepared.candidates.tokens[position]
            if needed <= target:
                used = needed
                answer = answer or position in self.positions
            elif next_target is None or needed < next_target:
                next_target = needed
        return answer, next_target
