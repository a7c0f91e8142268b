"""Tool loops of models that think: the rule that Anthropic's formats share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
Kinds = Callable[[Message], list[str]]
"""The kinds of a message's blocks: `call`, `result`, `thinking` or something else."""


def lost_thinking(messages: list[Message], original: list[Message], kinds: Kinds) -> list[str]:
    """A running tool loop that began with thinking must still begin with it."""
    running = tool_loops(messages, kinds)[-1]
    loops = tool_loops(original, kinds)
    thoughtful = {id(message) for loop in loops if loop and _thinks(loop[0], kinds) for message in loop}
    uses_tools = any("call" in kinds(message) for message in running)
    if uses_tools and any(id(message) in thoughtful for message in running) and not _thinks(running[0], kinds):
        return ["the final assistant turn must start with a thinking block"]
    return []


def tool_loops(messages: list[Message], kinds: Kinds) -> list[list[Message]]:
    """The assistant's messages between user turns without results; the last list is the running loop.

    A user turn that holds a result, alone or with words after it, goes on with the loop.
    """
    loops: list[list[Message]] = [[]]
    said: list[str] = []
    for message in [*messages, None]:
        if message is not None and message["role"] == "user":
            said += kinds(message)
        if message is not None and message["role"] in ("user", "system"):
            continue
        if said and "result" not in said:
            loops.append([])
        said = []
        if message is not None:
            loops[-1].append(message)
    return loops


def _thinks(message: Message, kinds: Kinds) -> bool:
    return kinds(message)[:1] == ["thinking"]
