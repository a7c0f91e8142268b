"""Sessions of many conversations, whose states a framework stores."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypedDict, TypeVar, Unpack

from cupel._internal.checks import as_text, shown
from cupel.errors import ConfigurationError, SelectionError
from cupel.integrations._adapters import Recent
from cupel.messages import Framework, MessageSession, Prices, Provider, SystemMessages, Thinking, Turn

if TYPE_CHECKING:
    from cupel.model import ContextBudget
    from cupel.pipeline import Pipeline
    from cupel.shorten import Shortener
    from cupel.tokens import TokenCounter

M = TypeVar("M")

STATE_KEY: Final = "cupel_session"
"""The name under which frameworks store a session's state."""
_KEPT: Final = 64
"""The most sessions in memory; others are read from their state."""
_log = logging.getLogger("cupel")


class SessionOptions(TypedDict, total=False):
    """The options of `MessageSession` that hold for every conversation of an adapter."""

    prices: Prices | None
    keep: float
    note: Callable[[list[Any], str | None], Any] | None
    observation: Callable[[Any], bool] | None
    forms: Shortener | Literal[False] | None
    counter: TokenCounter | None
    pin: Callable[[Any], bool] | None
    query: str | None
    image_tokens: Any
    alternate: bool
    gaps: bool
    recall: bool
    system_messages: SystemMessages
    thinking: Thinking
    on_turn: Callable[[Turn[Any]], object] | None
    """Called with each turn, to see its bill and its changes."""


@dataclass(frozen=True, slots=True)
class OpenSession(Generic[M]):
    """The session of one conversation, from one state to the next."""

    session: MessageSession[M]
    parameters: tuple[object, ...]
    """The budget, tools and system prompt it was opened with."""
    on_turn: Callable[[Turn[M]], object] | None

    def fit(self, messages: Sequence[M], *, idle: float | None = None) -> list[M]:
        """Return the next request; `idle` is the seconds since the last one, if the framework reports them."""
        turn = self.session.fit(messages, idle=idle)
        if self.on_turn is not None:
            self.on_turn(turn)
        return turn.messages

    async def afit(self, messages: Sequence[M], *, idle: float | None = None) -> list[M]:
        """Return the next request as `fit` does; an asynchronous `note` function is awaited."""
        turn = await self.session.afit(messages, idle=idle)
        if self.on_turn is not None:
            self.on_turn(turn)
        return turn.messages

    def observe(self, usage: object) -> None:
        """Settle the last bill with the usage, if there is any; log a usage that cannot be read, and go on."""
        if not usage:
            return
        try:
            self.session.observe(usage)
        except (ConfigurationError, TypeError) as error:
            _log.warning("the bill stays an estimate: %s, got %s", error, shown(usage))


class Sessions(Generic[M]):
    """Opens the session of a stored state, and closes it with the state to store.

    Only the stored state counts: a conversation may go on in another process, from an earlier state, or twice at once,
    each from its own state. Sessions stay in memory by their last state, to save reading a whole conversation again;
    a session in use is never handed out.
    """

    def __init__(
        self,
        framework: Framework[M] | Provider,
        place: str,
        budget: int | ContextBudget,
        policy: Pipeline | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        self._format = {"provider" if isinstance(framework, str) else "framework": framework}
        self._place = place
        self._budget = budget
        self._policy = policy
        self._on_turn = options.pop("on_turn", None)
        self._options = options
        self._parameters: tuple[int | ContextBudget, list[Any], object] = (budget, [], None)
        self._kept = Recent[OpenSession[M]](_KEPT)
        self._busy: set[str] = set()
        self._lock = Lock()
        self.open(None)  # so that wrong options raise now, not in the first turn

    def open(
        self,
        state: object,
        *,
        tools: Iterable[Any] | None = None,
        system: object = None,
        budget: int | ContextBudget | None = None,
    ) -> OpenSession[M]:
        """Return the conversation that continues from a state, or a new one for None; `budget` is for this turn."""
        parameters = self._parameters = (self._budget if budget is None else budget, list(tools or ()), system)
        if state is None:
            return self._conversation(None, *parameters)
        state = as_text(self._place, state)
        kept = self._kept.take(state)
        if kept is not None and kept.parameters == parameters:
            return kept
        try:
            return self._conversation(state, *parameters)
        except ConfigurationError as error:
            msg = f"{self._place}: {error}"
            raise ConfigurationError(msg) from error

    def recall(self, state: object, call: object, history: Sequence[M]) -> str:
        """Return the answer to a model's call of the recall tool, in the conversation of a state."""
        text = None if state is None else as_text(self._place, state)
        return self._conversation(text, *self._parameters).session.recall(call, history)

    def close(self, conversation: OpenSession[M]) -> str:
        """Return the state to store, and keep the conversation in memory under it."""
        state = conversation.session.to_json()
        self._kept[state] = conversation
        return state

    @contextmanager
    def alone(self, name: str) -> Generator[None]:
        """Refuse a second turn of the same conversation until this one ends."""
        with self._lock:
            if name in self._busy:
                msg = (
                    f"the conversation {shown(name)} is in use: it has one writer, and a turn must end before the next"
                )
                raise SelectionError(msg)
            self._busy.add(name)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(name)

    def _conversation(
        self, state: str | None, budget: int | ContextBudget, tools: list[Any], system: object
    ) -> OpenSession[M]:
        options: dict[str, Any] = {**self._options, "tools": tools, "system": system, **self._format}
        if state is None:
            session = MessageSession[M](budget, self._policy, **options)
        else:
            session = MessageSession[M].from_json(state, budget, self._policy, **options)
        return OpenSession(session, (budget, tools, system), self._on_turn)

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        """Become None in a copy: the states are stored elsewhere."""
        return type(None), ()


def usage_of(sent: int | None, read: int | None) -> Mapping[str, Any] | None:
    """Return a usage that `observe` reads, of all tokens of a request and the cached ones; None if not known."""
    return {"input_tokens": sent, "input_tokens_details": {"cached_tokens": read or 0}} if sent else None
