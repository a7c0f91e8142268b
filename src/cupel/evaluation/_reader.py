"""Read the messages of a recording: their roles, their tokens, and where the model answers."""

from __future__ import annotations

import json
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from cupel._internal.counter import count_tokens
from cupel._internal.digests import message_digest
from cupel.errors import InvalidItemError
from cupel.evaluation._cases import EvaluationError
from cupel.messages import Message, Provider, opening_tokens, read_message
from cupel.tokens import counter_or_default

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        return message.extra + sum(count_tokens(self._counter, text) for text in message.texts if text)

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
