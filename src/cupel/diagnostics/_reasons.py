"""Why an item is in, and why an item is out."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from cupel._internal.frozen import FrozenDict
from cupel._internal.text import preview

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {"<": operator.lt, ">=": operator.ge}
_FIELD: Final = re.compile(r"\{(-?)(\w+)\}")
_SHOWN: Final = 24


class Template(NamedTuple):
    """A short sentence about an exclusion, used if `when` holds: it compares two fields, or a field and a number.

    Fields have their names of the JSON document, so that the page can use the same templates.
    """

    text: str
    """Fields are in braces; a minus inside the brace negates a number."""
    when: tuple[str, str, str | int] | None = None

    def holds(self, fields: Mapping[str, Any]) -> bool:
        """Return whether the condition holds for these fields."""
        if self.when is None:
            return True
        field, comparison, other = self.when
        return _COMPARISONS[comparison](fields[field], fields[other] if isinstance(other, str) else other)

    def fill(self, fields: Mapping[str, Any]) -> str:
        """Return the text with the fields filled in."""
        return _FIELD.sub(lambda found: _shown(fields[found[2]], found[1]), self.text)


def _shown(value: object, sign: str) -> str:
    """Format a field: numbers with separators, contents on one short line."""
    if isinstance(value, int):
        return f"{-value if sign else value:,}"
    if isinstance(value, float):
        return f"{-value if sign else value:.4g}"
    return preview(str(value), _SHOWN)


class InclusionReason(Enum):
    """Why an item was selected; pinned wins over zero-token, which wins over scored."""

    SCORED = "Scored"
    PINNED = "Pinned"
    ZERO_TOKEN = "ZeroToken"  # noqa: S105  (tokens of text, not a secret)


class UnknownInclusionReason(msgspec.Struct, frozen=True):
    """An inclusion reason from a newer producer, kept as it was read."""

    value: str


class ExclusionReason(msgspec.Struct, frozen=True, gc=False, tag_field="reason", tag=True):
    """Base of the exclusion reasons; each carries the numbers of the decision.

    >>> BudgetExceeded(item_tokens=400, available_tokens=50).to_dict()
    {'reason': 'BudgetExceeded', 'item_tokens': 400, 'available_tokens': 50}
    """

    title: ClassVar[str] = ""
    """The reason in two or three words."""
    templates: ClassVar[tuple[Template, ...]] = ()
    """Sentences about an item, from the special to the general; the first whose condition holds is used."""
    stage: ClassVar[str | None] = None
    """The stage that gives this reason, if only one does."""

    @property
    def name(self) -> str:
        """The reason's name in a document."""
        return type(self).__name__

    def say(self) -> str:
        """Return a short sentence with the numbers that kept the item out.

        >>> BudgetExceeded(item_tokens=1400, available_tokens=50).say()
        'needs 1,400, 50 left'
        """
        fields = self.to_dict()
        return next((template.fill(fields) for template in self.templates if template.holds(fields)), self.name)

    def to_dict(self) -> dict[str, Any]:
        """Return the document: the name under `reason`, and the fields."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields


class BudgetExceeded(ExclusionReason, frozen=True):
    """The item was not chosen for the budget; `available_tokens` is the room that the whole selection leaves."""

    title = "no room"
    templates = (
        Template("needs {item_tokens}, already {-available_tokens} over", ("available_tokens", "<", 0)),
        Template("needs {item_tokens}, {available_tokens} left unspent", ("available_tokens", ">=", "item_tokens")),
        Template("needs {item_tokens}, {available_tokens} left"),
    )

    item_tokens: int
    available_tokens: int


class ScoredTooLow(ExclusionReason, frozen=True):
    """The score is under a threshold; reserved for custom strategies."""

    title = "score too low"
    templates = (Template("score {score} is under the threshold of {threshold}"),)

    score: float
    threshold: float


class Deduplicated(ExclusionReason, frozen=True):
    """Another item with the same content, named here, scored at least as high."""

    title = "duplicate"
    templates = (Template("same text as another item"),)
    stage = "Deduplicate"

    deduplicated_against: str


class QuotaCapExceeded(ExclusionReason, frozen=True):
    """With the item, its kind would exceed its cap; given by limits, and by quotas that share leftover tokens."""

    title = "over the cap of its kind"
    templates = (Template("with it, kind {kind} would take {actual}, more than its cap of {cap}"),)

    kind: str
    cap: int
    actual: int


class QuotaRequireDisplaced(ExclusionReason, frozen=True):
    """Another kind's requirement took the room; reserved for custom strategies."""

    title = "displaced by a requirement"
    templates = (Template("kind {displaced_by_kind} requires the room"),)

    displaced_by_kind: str


class NegativeTokens(ExclusionReason, frozen=True):
    """The token count is negative, so the item cannot be budgeted."""

    title = "no valid token count"
    templates = (Template("token count is {tokens}"),)
    stage = "Classify"

    tokens: int


class PinnedOverride(ExclusionReason, frozen=True):
    """The item would fit without the pinned items; `displaced_by` is the first of them that costs tokens."""

    title = "displaced by pins"
    templates = (Template("fits without the pinned “{displaced_by}”"),)

    displaced_by: str


class Filtered(ExclusionReason, frozen=True):
    """A named filter removed the item; reserved for custom strategies and integrations."""

    title = "filtered"
    templates = (Template("the filter “{filter_name}” removed it"),)

    filter_name: str


class CountCapExceeded(ExclusionReason, frozen=True):
    """The kind has as many items as its count quota or limit allows."""

    title = "enough of its kind"
    templates = (Template("{cap} of kind {kind} are enough"),)
    stage = "Slice"

    kind: str
    cap: int
    count: int


class CountRequireCandidatesExhausted(ExclusionReason, frozen=True):
    """A count requirement ran out of candidates; reserved for custom strategies."""

    title = "none left of its kind"
    templates = (Template("kind {kind} has fewer candidates than required"),)

    kind: str


class Superseded(ExclusionReason, frozen=True):
    """Another form of the same entity is in; `by` is its content."""

    title = "in another form"
    templates = (Template("in as “{by}”"),)

    by: str


class GroupIncomplete(ExclusionReason, frozen=True):
    """A member of the item's group can never be in; `group` is its label."""

    title = "its group is incomplete"
    templates = (Template("group “{group}” is incomplete"),)

    group: str


class UnknownReason(ExclusionReason, frozen=True):
    """A reason from a newer producer, kept with all its fields so that it can be written back unchanged."""

    unknown_name: str
    fields: FrozenDict[str, Any]

    @property
    def name(self) -> str:
        """The name the producer gave."""
        return self.unknown_name

    def say(self) -> str:
        """Return the name and the fields."""
        fields = ", ".join(f"{key}={value!r}" for key, value in self.fields.items())
        return f"{self.unknown_name}{f' ({fields})' if fields else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return exactly what was read."""
        return {"reason": self.unknown_name, **self.fields}


KNOWN_REASONS: FrozenDict[str, type[ExclusionReason]] = FrozenDict(
    {reason.__name__: reason for reason in ExclusionReason.__subclasses__() if reason is not UnknownReason}
)
"""The reasons that this version supports, by name."""


def vocabulary() -> dict[str, dict[str, Any]]:
    """Return the titles and templates of all known reasons as plain values, for the page."""
    return {
        name: {
            "title": reason.title,
            "templates": [{"text": one.text, "when": one.when and list(one.when)} for one in reason.templates],
        }
        for name, reason in KNOWN_REASONS.items()
    }
