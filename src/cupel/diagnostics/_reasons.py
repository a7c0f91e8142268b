"""Why an item is in, and why an item is out."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from cupel._frozen import FrozenDict

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {"<": operator.lt, ">=": operator.ge}
_FIELD: Final = re.compile(r"\{(-?)(\w+)\}")
_SHOWN: Final = 24


class Saying(NamedTuple):
    """A short account of an exclusion, for as long as `when` holds: two fields, or a field and a number, compared.

    Fields go by their names on the wire, since whoever says them elsewhere has only these.
    """

    text: str
    """Fields stand in braces; a minus before one turns its sign."""
    when: tuple[str, str, str | int] | None = None

    def holds(self, fields: Mapping[str, Any]) -> bool:
        """Whether this is what to say."""
        if self.when is None:
            return True
        field, comparison, other = self.when
        return _COMPARISONS[comparison](fields[field], fields[other] if isinstance(other, str) else other)

    def said(self, fields: Mapping[str, Any]) -> str:
        """Return the text with the fields in it."""
        return _FIELD.sub(lambda found: _shown(fields[found[2]], found[1]), self.text)


def _shown(value: object, sign: str) -> str:
    """Write a field: numbers in groups, contents on one short line."""
    if isinstance(value, int):
        return f"{-value if sign else value:,}"
    if isinstance(value, float):
        return f"{-value if sign else value:.4g}"
    return one_line(str(value), _SHOWN)


def one_line(text: str, most: int) -> str:
    """Return the beginning of a text as one line of at most so many characters."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


class InclusionReason(Enum):
    """Why an item was selected; pinned wins over zero-token, which wins over scored."""

    SCORED = "Scored"
    PINNED = "Pinned"
    ZERO_TOKEN = "ZeroToken"  # noqa: S105  (tokens of text, not a secret)


class UnknownInclusionReason(msgspec.Struct, frozen=True):
    """An inclusion reason from a newer producer, kept as it was read."""

    value: str


class ExclusionReason(msgspec.Struct, frozen=True, gc=False, tag_field="reason", tag=True, forbid_unknown_fields=True):
    """Base of the exclusion reasons; each carries the numbers behind the decision.

    >>> BudgetExceeded(item_tokens=400, available_tokens=50).to_dict()
    {'reason': 'BudgetExceeded', 'item_tokens': 400, 'available_tokens': 50}
    """

    title: ClassVar[str] = ""
    """The reason in two or three words; its name where it has none."""
    sayings: ClassVar[tuple[Saying, ...]] = ()
    """What is said of an item, from the special to the general; the first that holds is the one."""
    stage: ClassVar[str | None] = None
    """The one stage that gives this reason, if there is only one."""

    @property
    def name(self) -> str:
        """The reason's name on the wire."""
        return type(self).__name__

    def say(self) -> str:
        """Say in a few words why the item is out, with the numbers behind it.

        >>> BudgetExceeded(item_tokens=1400, available_tokens=50).say()
        'needs 1,400, 50 left'
        """
        fields = self.to_dict()
        return next((saying.said(fields) for saying in self.sayings if saying.holds(fields)), self.name)

    def to_dict(self) -> dict[str, Any]:
        """Return the wire form: the name under `reason`, the fields beside it."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields


class BudgetExceeded(ExclusionReason, frozen=True):
    """The item was not chosen for the budget; `available_tokens` is what the whole selection left over."""

    title = "no room"
    sayings = (
        Saying("needs {item_tokens}, already {-available_tokens} over", ("available_tokens", "<", 0)),
        Saying("needs {item_tokens}, {available_tokens} left unspent", ("available_tokens", ">=", "item_tokens")),
        Saying("needs {item_tokens}, {available_tokens} left"),
    )

    item_tokens: int
    available_tokens: int


class ScoredTooLow(ExclusionReason, frozen=True):
    """The score is under a threshold; reserved for custom strategies."""

    title = "score too low"
    sayings = (Saying("score {score} is under the threshold of {threshold}"),)

    score: float
    threshold: float


class Deduplicated(ExclusionReason, frozen=True):
    """Another item with the same content, named here, scored at least as high."""

    title = "duplicate"
    sayings = (Saying("same text as another item"),)
    stage = "Deduplicate"

    deduplicated_against: str


class QuotaCapExceeded(ExclusionReason, frozen=True):
    """With the item, its kind would have exceeded its cap; given by limits, and by quotas that share what is left."""

    title = "over the cap of its kind"
    sayings = (Saying("with it, kind {kind} would take {actual}, more than its cap of {cap}"),)

    kind: str
    cap: int
    actual: int


class QuotaRequireDisplaced(ExclusionReason, frozen=True):
    """Another kind's requirement took the room; reserved for custom strategies."""

    title = "displaced by a requirement"
    sayings = (Saying("what kind {displaced_by_kind} requires took the room"),)

    displaced_by_kind: str


class NegativeTokens(ExclusionReason, frozen=True):
    """The token count is negative, so the item cannot be budgeted."""

    title = "no valid token count"
    sayings = (Saying("token count is {tokens}"),)
    stage = "Classify"

    tokens: int


class PinnedOverride(ExclusionReason, frozen=True):
    """The item would have fitted but for the pinned items; `displaced_by` is the first of them that costs tokens."""

    title = "displaced by pins"
    sayings = (Saying("fits without the pinned “{displaced_by}”"),)

    displaced_by: str


class Filtered(ExclusionReason, frozen=True):
    """A named filter removed the item; reserved for custom strategies and integrations."""

    title = "filtered"
    sayings = (Saying("the filter “{filter_name}” removed it"),)

    filter_name: str


class CountCapExceeded(ExclusionReason, frozen=True):
    """The kind reached the most items its count quota or limit allows."""

    title = "enough of its kind"
    sayings = (Saying("{cap} of kind {kind} are enough"),)
    stage = "Slice"

    kind: str
    cap: int
    count: int


class CountRequireCandidatesExhausted(ExclusionReason, frozen=True):
    """A count requirement ran out of candidates; reserved for custom strategies."""

    title = "none left of its kind"
    sayings = (Saying("kind {kind} has fewer candidates than required"),)

    kind: str


class Superseded(ExclusionReason, frozen=True):
    """Another form of the same thing, named here, is in."""

    title = "in another form"
    sayings = (Saying("in as “{by}”"),)

    by: str


class RequirementMissing(ExclusionReason, frozen=True):
    """The item requires a thing, named here by its id, that is not in."""

    title = "what it requires is out"
    sayings = (Saying("requires “{id}”, which is out"),)

    id: str


class Conflict(ExclusionReason, frozen=True, rename={"with_": "with"}):
    """Another thing of the same exclusive set, named here, is in; `with` is the field's name on the wire."""

    title = "a rival is in"
    sayings = (Saying("only one of a set, and “{with}” is in"),)

    with_: str


class UnknownReason(ExclusionReason, frozen=True):
    """A reason from a newer producer, kept with all its fields so that it can be written back unchanged."""

    unknown_name: str
    fields: FrozenDict[str, Any]

    @property
    def name(self) -> str:
        """The name the producer gave."""
        return self.unknown_name

    def say(self) -> str:
        """Return the name and the fields, which is all there is to say."""
        fields = ", ".join(f"{key}={value!r}" for key, value in self.fields.items())
        return f"{self.unknown_name}{f' ({fields})' if fields else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return exactly what was read."""
        return {"reason": self.unknown_name, **self.fields}


KNOWN_REASONS: FrozenDict[str, type[ExclusionReason]] = FrozenDict(
    {reason.__name__: reason for reason in ExclusionReason.__subclasses__() if reason is not UnknownReason}
)
"""The reasons this version knows, by name."""


def vocabulary() -> dict[str, dict[str, Any]]:
    """Return the words of all known reasons as plain values, for those who say them in another language."""
    return {
        name: {
            "title": reason.title,
            "sayings": [{"text": saying.text, "when": saying.when and list(saying.when)} for saying in reason.sayings],
        }
        for name, reason in KNOWN_REASONS.items()
    }
