"""What is proved about a selection."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Proof: TypeAlias = Literal["optimal", "within gap", "limit"]


class TokenRequirementShortfall(msgspec.Struct, frozen=True):
    """A kind of which fewer tokens could be in than its limit asks for."""

    kind: str
    required_tokens: int
    satisfied_tokens: int


class Certificate(msgspec.Struct, frozen=True):
    """A selection's value and a bound that no other selection under the same rules exceeds.

    Both are whole numbers: each item counts for its score times its worth in steps of 0.0001, rounded down, and nothing
    when that is negative. Pinned items do not count.

    >>> Certificate(value=9_960, bound=10_000, proof="within gap").gap
    0.004
    """

    value: int
    bound: int
    proof: Proof
    """`optimal`: nothing is better. `within gap`: better by no more than the gap that was asked for. `limit`: the
    search stopped before it could tell either, so only the bound is known."""
    token_shortfalls: tuple[TokenRequirementShortfall, ...] = ()

    @property
    def gap(self) -> float:
        """The share of the bound by which the selection may be below the best one."""
        return (self.bound - self.value) / self.bound if self.bound else 0.0
