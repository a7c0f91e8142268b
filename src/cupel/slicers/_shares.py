"""The arithmetic of shares: how a target is divided among kinds, for one target or for a column of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cupel.slicers._quota import QuotaEntry

_EXACT = 2**53  # up to here a double holds every integer
_SAFE = 2**62
Number = TypeVar("Number", int, "NDArray[Any]")


def portion(percent: float, target: Number) -> Number:
    """Return a percentage of a target, rounded down, in doubles and in this order of operations (ruling 5.17).

    Where doubles cannot tell targets apart, the product is exact instead: no share exceeds what it is a share of.
    """
    if not isinstance(target, int):
        return _portions(percent, target)
    if target <= _EXACT:
        return floor(percent / 100.0 * target)
    numerator, denominator = (percent / 100.0).as_integer_ratio()
    return numerator * target // denominator


def _portions(percent: float, targets: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    if targets.dtype == np.object_:
        return np.array([portion(percent, int(target)) for target in targets], np.object_)
    return np.floor(percent / 100.0 * targets).astype(np.int64)


class Slope(NamedTuple):
    """A line that a share keeps to, up to some tokens of rounding."""

    slope: Fraction
    slack: Fraction


@dataclass(frozen=True)
class Sharing:
    """How targets are shared among kinds."""

    entries: list[QuotaEntry | None]
    """Each kind's entry, if it has one."""
    masses: list[int]
    """The tokens that each kind offers."""
    absent: list[QuotaEntry]
    """The entries of kinds without candidates."""

    def shares(self, target: Number) -> list[tuple[Number, Number]]:
        """Return the tokens and the cap of each kind; written so that a column of targets takes the same way."""
        # What kinds without candidates require is lost to the others as well (ruling 5.20).
        unassigned = target - sum([portion(entry.require, target) for entry in self.absent])
        growing = target * 0
        limits: list[tuple[Number, Number, Number]] = []
        for entry, offered in zip(self.entries, self.masses, strict=True):
            require = target * 0 if entry is None else portion(entry.require, target)
            cap = target if entry is None else portion(entry.cap, target)
            mass = (target * 0 + offered) * (cap > require)
            unassigned = unassigned - require
            growing = growing + mass
            limits.append((require, cap, mass))
        unassigned, growing = unassigned * (unassigned > 0), growing + (growing < 1)
        filled = [(require + unassigned * mass // growing, cap) for require, cap, mass in limits]
        return [(share - (share - cap) * (share > cap), cap) for share, cap in filled]

    def column(self, targets: NDArray[Any]) -> NDArray[Any]:
        """Return the targets in a type in which sharing them cannot wrap."""
        import numpy as np

        largest = int(targets.max(initial=1))
        if largest <= _EXACT and largest * (sum(self.masses) + 1) < _SAFE:
            return targets.astype(np.int64)
        return np.array([int(target) for target in targets], np.object_)

    # ---- what can be said about all targets at once ------------------------------------------------------------------

    @cached_property
    def steady_from(self) -> int:
        """From this target on it is settled which kinds have a part in what nobody requires."""
        gaps = [_fraction(entry.cap) - _fraction(entry.require) for entry in self.entries if entry is not None]
        return max((ceil(3 / gap) for gap in gaps if gap > 0), default=1)

    @cached_property
    def lines(self) -> list[list[Slope]]:
        """For each kind the lines whose lowest its share follows: what it is given, and its cap."""
        present = [entry for entry in self.entries if entry is not None]
        free = max(Fraction(0), 1 - sum(_fraction(entry.require) for entry in (*present, *self.absent)))
        masses = [
            mass if entry is None or _fraction(entry.cap) > _fraction(entry.require) else 0
            for entry, mass in zip(self.entries, self.masses, strict=True)
        ]
        growing = sum(masses) or 1
        roundings = 2 * (len(present) + len(self.absent))  # of tokens that nobody requires, each worth two at most
        lines: list[list[Slope]] = []
        for entry, mass in zip(self.entries, masses, strict=True):
            require = Fraction(0) if entry is None else _fraction(entry.require)
            part = Fraction(mass, growing)
            given = Slope(require + free * part, roundings * part + (2 if require else 0))
            lines.append([given, Slope(Fraction(1) if entry is None else _fraction(entry.cap), Fraction(1))])
        return lines

    def gets_nothing(self, kind: int) -> bool:
        """Tell whether no target leaves anything to a kind."""
        entry = self.entries[kind]
        return (entry is not None and entry.cap == 0) or (
            self.masses[kind] == 0 and (entry is None or entry.require == 0)
        )

    def most(self, kind: int, target: int) -> int:
        """Return no less than the share of a kind under any target up to this one."""
        if target < self.steady_from:
            return target
        return min(target, *(floor(line.slope * target + line.slack) for line in self.lines[kind]))

    def surely_gives(self, kind: int, tokens: int) -> int | None:
        """Return a target from which on a kind has at least so many tokens; None if its share does not grow."""
        if any(line.slope == 0 for line in self.lines[kind]):
            return None
        return max(self.steady_from, *(ceil((tokens + line.slack) / line.slope) for line in self.lines[kind]))

    def may_give(self, kind: int, tokens: int) -> int:
        """Return a target below which a kind, if the sharing is steady and its share grows, has fewer tokens."""
        return max(floor((tokens - line.slack) / line.slope) for line in self.lines[kind])


def _fraction(percent: float) -> Fraction:
    return Fraction(percent / 100.0)
