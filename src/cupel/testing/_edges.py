"""Whether the highest scores stand at the ends of a list."""

from __future__ import annotations

from dataclasses import dataclass, field

from cupel._columns import descending


@dataclass(frozen=True, slots=True)
class Edges:
    """The `n` outermost positions, the `n` highest scores, and how many of the latter are not at the former.

    Items that tie with the n-th highest score are interchangeable: any of them may hold the edges that the strictly
    higher ones leave (ruling 12.11).

    >>> Edges([0.9, 0.5, 0.5, 0.9], 3).misplaced
    0
    >>> Edges([0.5, 0.9, 0.5], 2).misplaced
    1
    """

    scores: list[float]
    n: int
    positions: list[int] = field(init=False)
    top: list[int] = field(init=False)

    def __post_init__(self) -> None:
        inward = (side for left in range(len(self.scores)) for side in (left, len(self.scores) - 1 - left))
        object.__setattr__(self, "positions", list(dict.fromkeys(inward))[: self.n])
        object.__setattr__(self, "top", descending(self.scores)[: self.n])

    @property
    def misplaced(self) -> int:
        """How many of the highest scores are not at an edge."""
        if not self.top:
            return 0
        cutoff = self.scores[self.top[-1]]
        edges = set(self.positions)
        # `top` ends with the first of those that tie with the cutoff; NaN, which ranks last, ties with NaN only.
        above = {
            index for index in self.top if self.scores[index] != cutoff and not _both_nan(self.scores[index], cutoff)
        }
        tied = {index for index, score in enumerate(self.scores) if score == cutoff or _both_nan(score, cutoff)}
        return len(above - edges) + max(0, self.n - len(above) - len(tied & edges))


def _both_nan(left: float, right: float) -> bool:
    return left != left and right != right  # noqa: PLR0124
