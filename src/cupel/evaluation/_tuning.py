"""What a search for better settings found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cupel.evaluation._intervals import Estimate
    from cupel.policy import Policy

ERRORS: Final = 2.0
"""A gain counts if it exceeds this many standard errors."""


@dataclass(frozen=True, slots=True)
class Point:
    """What the best of the first `tried` candidates keeps where it was chosen, and where it was not."""

    tried: int
    seen: float
    unseen: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a search found, judged on folds that had no part in the choice."""

    policy: Policy
    """The best candidate if the gain is beyond chance, else the policy that was given."""
    gained: bool
    before: Estimate
    """What the policy that was given keeps."""
    unseen: Estimate
    """What the policies chosen on the other folds keep."""
    gain: Estimate
    """The difference of the two, case by case."""
    error: float
    """The standard error of the gain."""
    curve: tuple[Point, ...] = field(repr=False)
    """How the figures developed as more was tried: where `unseen` falls behind `seen`, the search fits noise."""
    cases: int
    groups: int
    folds: int
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        points = f"{100 * self.gain.value:+.1f} points on unseen cases"
        limit = f"two standard errors ({100 * ERRORS * self.error:.1f})"
        if self.gained:
            return (
                f"a gain of {points}, more than {limit}: {self.before.value:.3f} before, {self.unseen.value:.3f} after"
            )
        return f"no gain beyond chance: {points}, not more than {limit}; the policy stays as it is"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "gained": self.gained,
            "verdict": self.verdict,
            "before": self.before.to_dict(),
            "unseen": self.unseen.to_dict(),
            "gain": self.gain.to_dict(),
            "error": self.error,
            "cases": self.cases,
            "groups": self.groups,
            "folds": self.folds,
            "notes": list(self.notes),
            "curve": [asdict(point) for point in self.curve],
            "policy": self.policy.to_dict(),
        }
