"""Window strategies: choose the messages of a history to send, turn by turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from cupel._internal.checks import as_finite, as_list
from cupel.errors import SelectionError
from cupel.evaluation._cases import EvaluationError
from cupel.evaluation._reader import Reader
from cupel.evaluation._recordings import Recording
from cupel.messages import Bill, Fitted, MessageSession, fit
from cupel.messages import Turn as SessionTurn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from cupel.messages import Message, Prices
    from cupel.pipeline import Pipeline
    from cupel.tokens import TokenCounter

_MIDDLE: Final = "\n[the middle is left out]\n"


@dataclass(frozen=True, slots=True)
class ChangeNote:
    """Why a request changes some messages of the last one: they were evicted, shortened or restored."""

    positions: tuple[int, ...]
    words: str


@dataclass(frozen=True, slots=True)
class SentRequest:
    """The messages of a request, their positions in the recording, and the strategy's notes on them."""

    messages: tuple[Any, ...]
    positions: tuple[int | None, ...]
    """The position of each message in the recording; None for a message that the strategy added."""
    reason: str = ""
    notes: tuple[ChangeNote, ...] = ()
    bill: Bill | None = None
    """What it really cost, if it was sent."""


def request_of(filled: Filled, history: Sequence[Any], before: SentRequest | None) -> SentRequest:
    """Return the request that a strategy made of a history; `before` is the last one of the conversation."""
    if isinstance(filled, SentRequest):
        return filled
    if not isinstance(filled, Fitted):
        places = {id(message): at for at, message in enumerate(history)}
        messages = tuple(as_list("the result of a strategy", filled, "a list of messages, or a Fitted"))
        return SentRequest(messages, tuple(places.get(id(message)) for message in messages))
    if isinstance(filled, SessionTurn):
        notes = tuple(ChangeNote(change.positions, str(change)) for change in filled.changes)
        return SentRequest(tuple(filled.messages), filled.positions, filled.reason, notes)
    last: frozenset[int | None] = frozenset() if before is None else frozenset(before.positions)
    return SentRequest(tuple(filled.messages), filled.positions, notes=tuple(_evicted(filled, last)))


def _evicted(fitted: Fitted[Any], last: Collection[int | None]) -> Iterator[ChangeNote]:
    """Yield the reason of each unit of the last request that this one leaves out."""
    for unit in fitted.dropped:
        if any(at in last for at in unit.positions):
            yield ChangeNote(unit.positions, unit.reason.say())


Filled: TypeAlias = Sequence[Any] | Fitted[Any] | SentRequest
Fill: TypeAlias = Callable[[list[Any]], Filled]
"""Returns the messages to send for a history, or a `Fitted`, whose reasons the page of a replay shows."""
WindowStrategy: TypeAlias = Callable[[Recording, int], Fill]
"""Starts a conversation: takes its recording and the budget, and returns a function of its growing history."""


@dataclass(frozen=True, slots=True)
class EverythingStrategy:
    """Sends the whole history, whatever the budget, for comparison."""

    def __call__(self, recording: Recording, budget: int) -> Fill:
        """Start a conversation."""
        del recording, budget
        return list


@dataclass(frozen=True, slots=True)
class LoggedStrategy:
    """Sends what an agent's log says that it sent, at the provider's own count."""

    def __call__(self, recording: Recording, budget: int) -> Fill:
        """Start a conversation."""
        del budget
        calls = {call.at: call for call in recording.calls}

        def fill(history: list[Any]) -> SentRequest:
            call = calls.get(len(history))
            if call is None:
                msg = "the log does not say what this request cost"
                raise SelectionError(msg)
            reason = "; ".join(f"{tokens:,} tokens are written again: {cause}" for cause, tokens in call.causes.items())
            return SentRequest(tuple(history), tuple(range(len(history))), reason, bill=call.bill)

        return fill


@dataclass(frozen=True, slots=True)
class FitStrategy:
    """Calls `fit` on every turn with the first user message pinned; the newest one is the query of a policy."""

    policy: Pipeline | None = None
    counter: TokenCounter | None = None

    def __call__(self, recording: Recording, budget: int) -> Fill:
        """Start a conversation."""
        reader = Reader(recording)
        budget = reader.budget(budget)

        def fill(history: list[Any]) -> Fitted[Any]:
            said = [message for message in history if reader.read(message).role == "user"]
            task = said[0] if said else None
            query = reader.read(said[-1]).text.strip() if said and self.policy is not None else ""
            return fit(
                history,
                budget,
                self.policy,
                self.counter,
                recording.tools,
                provider=recording.provider,
                system=recording.system,
                pin=lambda message: message is task,
                query=query or None,
            )

        return fill


@dataclass(frozen=True, slots=True)
class TailStrategy:
    """Keeps the opening, up to the first user message, and the newest messages; cuts to the share `low` when full.

    A tool output that takes more than a quarter of the budget loses its middle when it arrives. The newest step, from
    the model's last message on, always stays.
    """

    low: float = 0.7
    counter: TokenCounter | None = None

    def __post_init__(self) -> None:
        as_finite("low", self.low, least=0.0, most=1.0, error=EvaluationError)

    def __call__(self, recording: Recording, budget: int) -> Fill:
        """Start a conversation."""
        reader = Reader(recording, self.counter)
        arrived: list[Any] = []
        start = 0

        def fill(history: list[Any]) -> SentRequest:
            nonlocal start
            arrived.extend(_without_middle(message, reader, budget // 4) for message in history[len(arrived) :])
            said = list(map(reader.read, arrived))
            costs = list(map(reader.cost, said))
            head = next((at for at, message in enumerate(said) if message.role == "user"), 0) + 1
            fixed = reader.opening_tokens + sum(costs[:head])
            start = max(start, head)
            if fixed + sum(costs[start:]) > budget:
                newest, room, at = _newest_step(said), self.low * budget - fixed, len(said)
                while at > start and (at > newest or room >= costs[at - 1]):
                    at -= 1
                    room -= costs[at]
                while at < newest and said[at].results:  # its call is gone
                    at += 1
                start = at
            places = [*range(min(head, len(arrived))), *range(start, len(arrived))]
            return SentRequest(tuple(arrived[at] for at in places), tuple(places))

        return fill


def _newest_step(said: Sequence[Message]) -> int:
    """Return where the model's last messages in a row begin; without any, the last message."""
    at = max((at for at, message in enumerate(said) if message.role == "assistant"), default=len(said) - 1)
    while at > 0 and said[at].role == said[at - 1].role == "assistant":
        at -= 1
    return at


def _without_middle(message: Any, reader: Reader, most: int) -> Any:
    """Return a message whose tool outputs have lost their middle if it has more tokens than `most`."""
    read = reader.read(message)
    cost = reader.cost(read)
    if not read.results or cost <= most:
        return message
    room = most - reader.cost(replace(read, texts=[_MIDDLE] * len(read.texts)))
    sides = {text: int(len(text) * max(0, room) / cost / 2) for text in read.texts if len(text) > len(_MIDDLE)}
    return _with_texts(message, {text: text[:n] + _MIDDLE + text[len(text) - n :] for text, n in sides.items()})


def _with_texts(value: Any, texts: Mapping[str, str]) -> Any:
    """Return plain data with some of its texts replaced."""
    if isinstance(value, str):
        return texts.get(value, value)
    if isinstance(value, Mapping):
        return {name: _with_texts(inner, texts) for name, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_with_texts(inner, texts) for inner in cast("Sequence[Any]", value)]
    return value


@dataclass(frozen=True, slots=True)
class SessionStrategy:
    """Keeps a `MessageSession` for each conversation, with these options."""

    policy: Pipeline | None = None
    prices: Prices | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further options of `MessageSession`."""

    def __call__(self, recording: Recording, budget: int) -> Fill:
        """Start a conversation."""
        known = {"provider": recording.provider, "system": recording.system, "tools": recording.tools}
        given: dict[str, Any] = {"prices": self.prices, **known, **self.options}
        if recording.calls:
            budget = Reader(recording, given.get("counter")).budget(budget)
        session: MessageSession[Any] = MessageSession(budget, self.policy, **given)
        return session.fit
