"""A conversation as it was recorded."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

from cupel._checks import as_text, as_tuple, shown
from cupel.evaluation._errors import EvaluationError
from cupel.evaluation._spoken import Spoken, ToolStep, spoken, steps
from cupel.messages import Provider, provider_of

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, init=False)
class Recording:
    """A whole conversation: the messages as they were sent, and what else each request carried.

    The format is recognised unless `provider` names it.

    >>> recording = Recording([{"role": "user", "content": "Which gate?"}], name="gate")
    >>> recording.name, len(recording.messages)
    ('gate', 1)
    """

    messages: tuple[Any, ...] = field(repr=False)
    provider: Provider
    system: object = field(repr=False)
    tools: Sequence[object] | None = field(repr=False)
    name: str

    def __init__(
        self,
        messages: Sequence[Any],
        *,
        provider: Provider | None = None,
        system: object = None,
        tools: Sequence[object] | None = None,
        name: str = "",
    ) -> None:
        copied = as_tuple("messages", messages, object, expected="a list of messages")
        if provider is not None and as_text("provider", provider) not in get_args(Provider):
            raise EvaluationError(f"provider must be one of {', '.join(get_args(Provider))}, got {shown(provider)}")
        for part, value in (
            ("messages", copied),
            ("provider", provider or provider_of(copied, system=system, tools=tools)),
            ("system", system),
            ("tools", tools),
            ("name", as_text("name", name)),
        ):
            object.__setattr__(self, part, value)


class Reader:
    """Reads the messages of one recording, its own ones once."""

    def __init__(self, recording: Recording) -> None:
        self.provider = recording.provider
        self.messages = [_spoken(recording, at) for at in range(len(recording.messages))]
        self.opening = _opening(recording)
        self._known = {id(m): s for m, s in zip(recording.messages, self.messages, strict=True)}

    def read(self, message: Any) -> Spoken:
        """Return the plain form of a message, of the recording or one that was made from it."""
        known = self._known.get(id(message))
        return spoken(message, self.provider) if known is None else known

    def steps(self, *, answers: bool = False) -> list[ToolStep]:
        """Return the places where the model calls tools, or with `answers` wherever it begins to speak."""
        found = _answers(self.messages) if answers else steps(self.messages, self.provider)
        return [step for step in found if step.at > 0]


def _answers(messages: Sequence[Spoken]) -> list[ToolStep]:
    speakers = [message.role == "assistant" for message in messages]
    return [ToolStep(at, ()) for at, speaks in enumerate(speakers) if speaks and not (at and speakers[at - 1])]


def _spoken(recording: Recording, at: int) -> Spoken:
    try:
        return spoken(recording.messages[at], recording.provider)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        called = f"{recording.name}: " if recording.name else ""
        raise EvaluationError(f"{called}messages[{at}] cannot be read as {recording.provider}: {error}") from None


def _opening(recording: Recording) -> list[Spoken]:
    """Return what every request begins with although it stands in no message: a system prompt, tools."""
    texts: list[str] = []
    if recording.system is not None:
        texts.append(recording.system if isinstance(recording.system, str) else _dumped(recording.system))
    if recording.tools:
        texts.append(_dumped(recording.tools))
    return [Spoken("system", text) for text in texts]


def _dumped(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError) as error:
        raise EvaluationError(f"system and tools must be plain data: {error}") from None
