"""What a fit and a session return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cupel._planning import Action, Bill, Change, turn_html
from cupel.diagnostics import ExclusionReason, SelectionReport
from cupel.messages._formats import marked
from cupel.model import ContextItem

if TYPE_CHECKING:
    from cupel.messages._history import History

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Dropped(Generic[M]):
    """Messages that were left out together, and why."""

    messages: list[M]
    positions: tuple[int, ...]
    """Where they stood in the history."""
    item: ContextItem
    """The candidate that stood for them in the selection."""
    reason: ExclusionReason
    """A `Filtered` reason names the provider's rule that forbids them; any other is the selection's own."""


@dataclass(frozen=True, slots=True)
class Fitted(Generic[M]):
    """A history that fits."""

    messages: list[M]
    """The caller's own messages, unchanged and in their original order; SDK objects as the dicts that can be sent."""
    report: SelectionReport
    """Every unit with its score and reason, the request's fixed costs among the pinned."""
    total_tokens: int
    """Tokens of the whole request as counted: messages, system prompt, tools and framing."""
    dropped: list[Dropped[M]]
    """What was left out, in its original order."""
    provider: str
    """The format whose rules were applied."""
    shortened: tuple[int, ...] = ()
    """Where the messages stood in the history that are copies with shorter texts."""

    def _repr_html_(self) -> str:
        return self.report._repr_html_()  # pyright: ignore[reportPrivateUsage]  (the protocol of notebooks)


@dataclass(frozen=True, slots=True)
class Turn(Fitted[M]):
    """A request of a conversation: a `Fitted` with what changed since the last one, and what it costs."""

    action: Action = "append"
    """`"append"` where this request begins with the whole of the last one, else `"repack"`."""
    reason: str = ""
    """The numbers that decided, in one line."""
    changes: tuple[Change, ...] = ()
    """What was evicted, shortened, restored or recalled, with its positions in the history."""
    marks: tuple[int, ...] = ()
    """Positions in `messages` behind which a cache mark belongs; none where the provider finds beginnings itself."""
    bill: Bill = field(default_factory=Bill)
    """What the request costs: an estimate, until `observe` settles it in the session's `total`."""

    def _repr_html_(self) -> str:
        return turn_html(self.bill, self.reason, self.changes) + super(Turn, self)._repr_html_()

    def marked(self) -> list[Any]:
        """Return the messages with Anthropic's cache marks set, in copies; for other formats, the messages.

        Marks that the messages brought along are taken off: a request may carry only so many. One of them is left for
        the caller where `tools` or `system` were given to the session: it belongs behind those.
        """
        if self.provider != "anthropic":
            return list(self.messages)
        return [marked(message, at in self.marks) for at, message in enumerate(self.messages)]


def dropped_from(history: History, report: SelectionReport, items: Sequence[ContextItem]) -> list[Dropped[Any]]:
    """Return what a request leaves out, in the order of the history; `items` stand for the history's units."""
    reasons = {id(entry.item): entry.reason for entry in report.excluded}
    return [
        Dropped([history.messages[at] for at in unit.positions], tuple(unit.positions), item, reasons[id(item)])
        for unit, item in zip(history.units, items, strict=True)
        if id(item) in reasons
    ]
