"""The results of a fit and of a session's turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cupel._internal.text import plural
from cupel.diagnostics import ExclusionReason, SelectionReport
from cupel.errors import InvalidItemError, PinnedExceedsBudgetError
from cupel.messages._formats import FORMATS
from cupel.messages._history import ranges
from cupel.messages._prices import Action, Bill, Change, turn_html
from cupel.messages._reading import ONLY_A_NOTE
from cupel.model import ContextItem

if TYPE_CHECKING:
    from cupel.messages._history import History

M = TypeVar("M")

_LISTED = 20
"""Changes of one kind that `explain` lists one by one."""


@dataclass(frozen=True, slots=True)
class Dropped(Generic[M]):
    """Messages that were left out together, and why."""

    messages: list[M]
    positions: tuple[int, ...]
    """Their positions in the history."""
    item: ContextItem
    """The candidate that represented them in the selection."""
    reason: ExclusionReason
    """A `Filtered` reason names the provider's rule that forbids them; any other is the selection's own."""


class Fitted(Generic[M]):
    """A request made of a history; `report` and `dropped` are made when they are first asked for."""

    messages: list[M]
    """The caller's own messages, unchanged and in their original order; SDK objects as the dicts that can be sent."""
    total_tokens: int
    """Tokens of the whole request as counted: messages, system prompt, tools and framing."""
    provider: str
    """The format whose rules were applied."""
    shortened: tuple[int, ...]
    """Positions in the history of the messages that are copies with shorter texts."""
    positions: tuple[int | None, ...]
    """The position of each of `messages` in the history; None for a note in a separate message."""
    notes: tuple[str, ...]
    """The notes that the request contains on steps it leaves out."""
    noted: tuple[int, ...]
    """Positions in the history of the messages that begin with a note on omitted steps, or follow one."""
    omitted: int
    """The number of messages of the history that the request leaves out."""
    _account: Callable[[], tuple[SelectionReport, list[Dropped[M]]]]

    def __init__(self, account: Callable[[], tuple[SelectionReport, list[Dropped[M]]]], **values: Any) -> None:
        self.__dict__.update(values, _account=account)

    @cached_property
    def _accounted(self) -> tuple[SelectionReport, list[Dropped[M]]]:
        return self._account()

    @property
    def report(self) -> SelectionReport:
        """Every unit with its score and reason, the request's fixed costs and notes among the pinned."""
        return self._accounted[0]

    @property
    def dropped(self) -> list[Dropped[M]]:
        """The messages that were left out, in their original order."""
        return self._accounted[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_accounted": self._accounted, "_account": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        count = len(self.messages)
        size = f"{plural(count, 'message')}, {self.total_tokens:,} tokens, {self.omitted} left out"
        return f"<{type(self).__name__}: {size}>"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()  # pyright: ignore[reportPrivateUsage]  (the protocol of notebooks)


class Turn(Fitted[M]):
    """A request of a conversation: a `Fitted` with the changes since the last one, and the cost."""

    action: Action
    """`"append"` where this request begins with the whole of the last one, or is the first, else `"cut"`."""
    reason: str
    """The decision in one line."""
    changes: tuple[Change, ...]
    """Everything that was evicted, shortened, restored or recalled, with its positions in the history."""
    marks: tuple[int, ...]
    """Positions in `messages` of the cache breakpoints; none where the provider finds prefixes by itself."""
    bill: Bill
    """The cost of the request: an estimate, until `observe` settles it in the session's `total`."""
    budget: int
    """The tokens that the request may take, in the session's count."""
    warning: str
    """What is probably wrong with the history, such as that it is shorter than the last one; empty, if nothing is."""

    def __str__(self) -> str:
        total = len(self.messages) + self.omitted
        parts = [f"{self.action}: {len(self.messages)} of {total} messages"]
        parts += [f"{len(self.shortened)} shortened"] if self.shortened else []
        return f"{', '.join(parts)}; {self.total_tokens:,} of {self.budget:,} tokens"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def _repr_html_(self) -> str:
        return turn_html(self.bill, self.reason, self.changes) + super()._repr_html_()

    def explain(self) -> str:
        """Return in plain words what left, was shortened or came back since the last request, and why."""
        return "\n".join(self._explained())

    def _explained(self) -> Iterator[str]:
        if self.warning:
            yield f"Warning: {self.warning}."
        yield f"{self}."
        yield f"{self.reason[:1].upper()}{self.reason[1:]}."
        headings = {
            "evicted": "Left out from this request on:",
            "shortened": "Shortened from this request on:",
            "restored": "Longer again:",
            "recalled": "Back in the request:",
        }
        for what, heading in headings.items():
            changes = [change for change in self.changes if change.what == what]
            if changes:
                yield heading
            yield from (f"- {_explain(change)}" for change in changes[:_LISTED])
            if len(changes) > _LISTED:
                yield f"- … and {len(changes) - _LISTED:,} more"

    def marked(self) -> list[Any]:
        """Return the messages with cache breakpoints set, in copies.

        For Anthropic and Bedrock this is how a request is cached. OpenAI caches prefixes by itself: there breakpoints
        are set only if the session's prices ask for them (`prices=Prices.marked()`), for models that take them.
        Breakpoints that the messages brought along are removed: a request may carry only a few. One of them is left for
        the caller where `tools` or `system` were given to the session: it belongs after those.
        """
        fmt = FORMATS.get(self.provider)
        if fmt is None or fmt.mark is None or not (fmt.mark.needed or self.marks):
            return list(self.messages)
        return [fmt.mark.marked(message, here=at in self.marks) for at, message in enumerate(self.messages)]


def _explain(change: Change) -> str:
    if change.what in ("shortened", "restored"):
        return f"{change.label}: {change.before:,} → {change.tokens:,} tokens"
    return f"{change.label}: {change.tokens:,} tokens"


class PinnedMessagesExceedBudgetError(PinnedExceedsBudgetError):
    """The messages that must be sent exceed the budget; `parts` lists them as pairs of a description and tokens."""

    def __init__(self, pinned_tokens: int, available_tokens: int, parts: tuple[tuple[str, int], ...]) -> None:
        super().__init__(pinned_tokens, available_tokens)
        self.args = (pinned_tokens, available_tokens, parts)  # pickling rebuilds it from these
        self.parts = parts

    @property
    def excess_tokens(self) -> int:
        """The tokens by which the messages exceed the budget."""
        return self.pinned_tokens - self.available_tokens

    def __str__(self) -> str:
        listed = "; ".join(f"{description}: {tokens}" for description, tokens in self.parts)
        return (
            f"the pinned messages need {self.pinned_tokens} tokens, {self.excess_tokens} more than the "
            f"{self.available_tokens} available ({listed})"
        )


def nothing_to_send(history: History) -> InvalidItemError:
    """Return the error for a history without a message that can be sent."""
    why = [f"{ranges(unit.places)}: {unit.rejection}" for unit in history.units if unit.rejection][:_LISTED]
    found = "; ".join(why) or "the history is empty"
    return InvalidItemError(f"messages must hold something to send, and an empty request is refused: {found}")


def unsent_end(history: History) -> str:
    """Return what is said of the newest messages if they cannot be sent, since no note tells of them; else nothing.

    Calls that wait for their results, and other words of the model alone, are nothing that it has yet to see.
    """
    if history.options.framework is not None:
        return ""
    unsent = [unit for unit in history.units[max(history.sendable(), default=-1) + 1 :] if unit.rejection is not None]
    why = [
        f"{ranges(unit.places)} ({unit.rejection})"
        for unit in unsent
        if unit.rejection != ONLY_A_NOTE and any(history.messages[at].role != "assistant" for at in unit.positions)
    ]
    return f"{', '.join(why)} cannot be sent, and the model is not told of them: mend or remove them" if why else ""


def too_large(history: History, available: int, must: Iterable[int], note: int = 0) -> PinnedMessagesExceedBudgetError:
    """Return the error for a request whose fixed costs and units that must be sent do not fit, part by part."""
    parts = [(text.partition(":")[0], tokens) for text, tokens, _ in history.opening.costs]
    parts += [(history.describe(unit), sum(one.tokens for one in history.of(unit))) for unit in must]
    parts += [("a note on what is omitted", note)] if note else []
    return PinnedMessagesExceedBudgetError(sum(tokens for _, tokens in parts), available, tuple(parts))
