"""What the providers accept, and what the next request must hold.

Nothing here, and nothing in `validators`, knows how cupel works: each function takes messages as plain dicts.
"""

from __future__ import annotations

from typing import Any

from tests.messages.validators import anthropic, bedrock, gemini, openai, responses
from tests.messages.validators.anthropic import blocks_of
from tests.messages.validators.loops import lost_thinking
from tests.messages.validators.responses import ANSWERED, from_model, programs_kept_whole, reasoning_kept_together

__all__ = [
    "Message",
    "alternation",
    "has_words",
    "programs_kept_whole",
    "reasoning_kept_together",
    "unseen",
    "violations",
]

Message = dict[str, Any]
VALIDATORS = {
    "anthropic": anthropic.violations,
    "bedrock": bedrock.violations,
    "gemini": gemini.violations,
    "openai": openai.violations,
    "openai-responses": responses.violations,
}
KINDS = {"anthropic": anthropic.kinds, "bedrock": bedrock.kinds}


def violations(
    provider: str, messages: list[Message], original: list[Message] | None = None, thinking: str = "bound"
) -> list[str]:
    """Everything wrong with a request, empty if the provider would take it.

    `original` is the history that the request was cut from, where a rule depends on it. With `thinking="loop"` a
    running tool loop that began with thinking must still begin with it.
    """
    if not messages:
        return ["a request needs at least one message"]
    original = messages if original is None else original
    loops = KINDS.get(provider) if thinking == "loop" else None
    lost = [] if loops is None else lost_thinking(messages, original, loops)
    if thinking == "loop" and provider == "bedrock":
        lost += bedrock.lost_reasoning(messages, original)
    return [*VALIDATORS[provider](messages, original), *lost]


def unseen(provider: str, messages: list[Message]) -> list[Message]:
    """The newest message with words of the user, and the results that no message of the model follows."""
    newest = [message for message in messages if has_words(provider, message)][-1:]
    results: list[Message] = []
    for message in reversed(messages):
        if is_models(provider, message):
            break
        if has_results(provider, message):
            results.append(message)
    return newest + results


def has_words(provider: str, message: Message) -> bool:
    """Whether a message holds something that the user said, beside tool results too."""
    return _is_users(provider, message) and any(not result for result in _are_results(provider, message))


def has_results(provider: str, message: Message) -> bool:
    """Whether a message holds tool results."""
    if provider.startswith("openai"):
        return message.get("role") in ("tool", "function") or str(message.get("type")) in ANSWERED.values()
    return _is_users(provider, message) and any(_are_results(provider, message))


def _are_results(provider: str, message: Message) -> list[bool]:
    """For each part of a message of the user, whether it is a tool result."""
    if provider == "anthropic":
        return [block["type"] == "tool_result" for block in blocks_of(message)]
    if provider == "bedrock":
        return ["toolResult" in block for block in message["content"] if "cachePoint" not in block]
    return ["functionResponse" in part for part in message["parts"]] if provider == "gemini" else [False]


def _is_users(provider: str, message: Message) -> bool:
    return message.get("role", "user" if provider == "gemini" else None) == "user"


def is_models(provider: str, message: Message) -> bool:
    """Whether the model produced a message."""
    return from_model(message) if provider == "openai-responses" else message.get("role") in ("assistant", "model")


def alternation(provider: str, messages: list[Message]) -> list[str]:
    """What a template objects to that wants the user and the assistant to take turns, beginning with the user.

    Calls and results in messages of their own are steps of the assistant's turn, and are not counted.
    """
    sides = [
        "assistant" if is_models(provider, message) else "user"
        for message in messages
        if message.get("role") not in ("system", "developer") and not _is_step(provider, message)
    ]
    wrong = [index for index, side in enumerate(sides) if side != ("user", "assistant")[index % 2]]
    return [f"roles must alternate, at {index} of {sides}" for index in wrong[:1]]


def _is_step(provider: str, message: Message) -> bool:
    if provider == "openai":
        calls = message.get("tool_calls") or message.get("function_call")
        return bool(calls) or message["role"] in ("tool", "function")
    return provider == "openai-responses" and message.get("type", "message") != "message"
