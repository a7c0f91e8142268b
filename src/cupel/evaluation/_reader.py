"""Read the messages of a recording: their roles, their tokens, and where the model answers."""

from __future__ import annotations

import json
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from cupel._internal.counter import count_tokens
from cupel._internal.digests import message_digest
from cupel.errors import InvalidItemError
from cupel.evaluation._cases import EvaluationError
from cupel.evaluation._misses import COLD
from cupel.messages import Message, Provider, opening_tokens, read_message
from cupel.tokens import counter_or_default

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel.evaluation._misses import LoggedCall
    from cupel.evaluation._recordings import Recording
    from cupel.tokens import TokenCounter


class RecordedStep(NamedTuple):
    """An answer of the model, before which a request is sent."""

    at: int
    """The position of the answer's first message."""
    arguments: tuple[Any, ...]
    """The arguments of its tool calls, as values."""


class Reader:
    """Reads the messages of one recording, each once, and counts their tokens."""

    def __init__(self, recording: Recording, counter: TokenCounter | None = None) -> None:
        self.recording = recording
        self.provider: Provider = recording.provider
        self._counter = counter_or_default(counter)
        self.messages = [self._read(message, f"messages[{at}]") for at, message in enumerate(recording.messages)]
        texts = _opening(recording)
        self.opening = [Message("system", texts=texts)] if texts else []
        """The system prompt and the tools of every request, as one message."""
        self.opening_tokens = opening_tokens(
            self.provider, system=recording.system, tools=recording.tools, counter=counter
        )
        """Tokens of a request besides its messages."""
        self._known = {id(m): info for m, info in zip(recording.messages, self.messages, strict=True)}
        self.scale, self.unlogged = 1.0, 0
        """For a log, the provider's tokens for one of ours, and its tokens of what the log does not hold."""
        self.served = {call.at: call.bill.read for call in recording.calls if not COLD.isdisjoint(call.causes)}
        """The most that the cache would have served, whatever had been sent: it was cold for another reason."""
        if recording.calls:
            self._calibrate(recording.calls)

    def _calibrate(self, calls: Sequence[LoggedCall]) -> None:
        """Count as the provider did: what was added tells its tokens, the first request the system prompt and tools."""
        sizes = self.sizes
        grown = [
            (then.bill.sent - call.bill.sent, sizes[then.at] - sizes[call.at])
            for call, then in pairwise(calls)
            if then.at > call.at and then.model == call.model and then.bill.sent > call.bill.sent
        ]
        ours = sum(own for _, own in grown)
        self.scale = sum(sent for sent, _ in grown) / ours if ours else 1.0
        first = calls[0]
        self.unlogged = max(0, first.bill.sent - round(sizes[first.at] * self.scale))
        self.opening_tokens = round(self.opening_tokens * self.scale) + self.unlogged
        del self.sizes, self._costs

    def read(self, message: Any) -> Message:
        """Read a message of the recording, or one that was made from it."""
        known = self._known.get(id(message))
        return self._read(message, "a message of the request") if known is None else known

    def _read(self, message: Any, path: str) -> Message:
        try:
            return read_message(message, self.provider, path=path)
        except (InvalidItemError, TypeError) as error:
            raise EvaluationError(f"cannot be read as {self.provider}: {error}") from None

    def cost(self, message: Message) -> int:
        """Count the tokens of a message as `fit` does."""
        known = self._costs.get(id(message))
        return self._counted(message) if known is None else known

    def _counted(self, message: Message) -> int:
        counted = message.extra + sum(count_tokens(self._counter, text) for text in message.texts if text)
        return int(counted * self.scale)  # rounded down, so that what fits a budget does not exceed it

    @cached_property
    def _costs(self) -> dict[int, int]:
        return {id(message): self._counted(message) for message in self.messages}

    def budget(self, tokens: int) -> int:
        """Return the tokens of ours that a budget leaves to everything that a log holds."""
        return max(1, int((tokens - self.unlogged) / self.scale))

    @cached_property
    def sizes(self) -> list[int]:
        """Tokens of the history before each message."""
        return list(accumulate(map(self.cost, self.messages), initial=self.opening_tokens))

    def keys(self, messages: Iterable[Any]) -> list[bytes]:
        """Return a key for each message: equal messages have equal keys."""
        return [self._keys.get(id(message)) or message_digest(message) for message in messages]

    @cached_property
    def _keys(self) -> dict[int, bytes]:
        return {id(message): message_digest(message) for message in self.recording.messages}

    @cached_property
    def steps(self) -> list[RecordedStep]:
        """The model's answers: all messages in a row that it wrote."""
        found: dict[int, tuple[Any, ...]] = {}
        start: int | None = None
        for at, message in enumerate(self.messages):
            if message.role != "assistant":
                start = None
                continue
            if start is None:
                start = at
            if start:
                found[start] = found.get(start, ()) + tuple(map(_value, message.arguments))
        return [RecordedStep(at, arguments) for at, arguments in found.items()]


def _opening(recording: Recording) -> list[str]:
    texts: list[str] = []
    if recording.system is not None:
        texts.append(recording.system if isinstance(recording.system, str) else _dumped(recording.system))
    if recording.tools:
        texts.append(_dumped(recording.tools))
    return texts


def _dumped(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError) as error:
        raise EvaluationError(f"system and tools must be plain data: {error}") from None


def _value(arguments: str) -> Any:
    """Return arguments as a value: None for broken JSON, the text itself for a custom tool."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return None if arguments.startswith(("{", "[")) else arguments
