"""Why an item is in, and why an item is out."""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from cupel.model import FrozenDict


class InclusionReason(Enum):
    """Why an item was selected; pinned wins over zero-token, which wins over scored."""

    SCORED = "Scored"
    PINNED = "Pinned"
    ZERO_TOKEN = "ZeroToken"  # noqa: S105  (tokens of text, not a secret)


class UnknownInclusionReason(msgspec.Struct, frozen=True):
    """An inclusion reason from a newer producer, kept as it was read."""

    value: str


class ExclusionReason(msgspec.Struct, frozen=True, gc=False, tag_field="reason"):
    """Base of the exclusion reasons; each carries the numbers behind the decision.

    >>> BudgetExceeded(item_tokens=400, available_tokens=50).to_dict()
    {'reason': 'BudgetExceeded', 'item_tokens': 400, 'available_tokens': 50}
    """

    @property
    def name(self) -> str:
        """The reason's name on the wire."""
        return type(self).__name__

    def to_dict(self) -> dict[str, Any]:
        """Give the wire form: the name under `reason`, the fields beside it."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields


class BudgetExceeded(ExclusionReason, frozen=True, tag="BudgetExceeded"):
    """The item was not chosen for the budget; `available_tokens` is what the whole selection left over."""

    item_tokens: int
    available_tokens: int


class ScoredTooLow(ExclusionReason, frozen=True, tag="ScoredTooLow"):
    """The score is under a threshold; reserved for custom strategies."""

    score: float
    threshold: float


class Deduplicated(ExclusionReason, frozen=True, tag="Deduplicated"):
    """Another item with the same content, named here, scored at least as high."""

    deduplicated_against: str


class QuotaCapExceeded(ExclusionReason, frozen=True, tag="QuotaCapExceeded"):
    """The kind used up its token quota; reserved for custom strategies."""

    kind: str
    cap: int
    actual: int


class QuotaRequireDisplaced(ExclusionReason, frozen=True, tag="QuotaRequireDisplaced"):
    """Another kind's requirement took the room; reserved for custom strategies."""

    displaced_by_kind: str


class NegativeTokens(ExclusionReason, frozen=True, tag="NegativeTokens"):
    """The token count is negative, so the item cannot be budgeted."""

    tokens: int


class PinnedOverride(ExclusionReason, frozen=True, tag="PinnedOverride"):
    """The item would have fitted but for the pinned items; `displaced_by` is the first of them that costs tokens."""

    displaced_by: str


class Filtered(ExclusionReason, frozen=True, tag="Filtered"):
    """A named filter removed the item; reserved for custom strategies and integrations."""

    filter_name: str


class CountCapExceeded(ExclusionReason, frozen=True, tag="CountCapExceeded"):
    """The kind reached the most items its count quota allows."""

    kind: str
    cap: int
    count: int


class CountRequireCandidatesExhausted(ExclusionReason, frozen=True, tag="CountRequireCandidatesExhausted"):
    """A count requirement ran out of candidates; reserved for custom strategies."""

    kind: str


class UnknownReason(ExclusionReason, frozen=True):
    """A reason from a newer producer, kept with all its fields so that it can be written back unchanged."""

    unknown_name: str
    fields: FrozenDict[str, Any]

    @property
    def name(self) -> str:
        """The name the producer gave."""
        return self.unknown_name

    def to_dict(self) -> dict[str, Any]:
        """Give back exactly what was read."""
        return {"reason": self.unknown_name, **self.fields}


KNOWN_REASONS: FrozenDict[str, type[ExclusionReason]] = FrozenDict(
    {
        reason.__name__: reason
        for reason in (
            BudgetExceeded,
            ScoredTooLow,
            Deduplicated,
            QuotaCapExceeded,
            QuotaRequireDisplaced,
            NegativeTokens,
            PinnedOverride,
            Filtered,
            CountCapExceeded,
            CountRequireCandidatesExhausted,
        )
    }
)
"""The ten reasons this version knows, by name."""
