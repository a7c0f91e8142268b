"""Conversations and providers that tests and benchmarks can foresee."""

from __future__ import annotations

import json
from random import Random
from typing import Any

Message = dict[str, Any]


def conversation(seed: int, turns: int, *, words: int = 120) -> list[Message]:
    """A coding agent's session in Chat Completions messages: a task, then calls with outputs of many sizes."""
    random = Random(seed)
    files = [f"src/part_{number}/mod_{random.randrange(1000)}.py" for number in range(8)]
    messages: list[Message] = [
        {"role": "system", "content": "You are careful."},
        {"role": "user", "content": f"Mend the failing test in {files[0]}, and say what you found."},
    ]
    for turn in range(turns):
        file = random.choice(files)
        call = {"name": "read_file", "arguments": json.dumps({"path": file, "from": random.randrange(500)})}
        lines = [
            f"{number}: value_{random.randrange(300)} = load_{random.randrange(99)}({file!r})"
            for number in range(random.randrange(1, max(2, words // 4)))
        ]
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": "\n".join(lines)},
        ]
        if random.random() < 0.15:
            messages += [
                {"role": "assistant", "content": f"I looked at {file}."},
                {"role": "user", "content": f"Go on with {random.choice(files)}."},
            ]
    return messages


def requests(messages: list[Message]) -> list[list[Message]]:
    """The history before each of the model's messages."""
    return [messages[:at] for at, message in enumerate(messages) if message["role"] == "assistant"]


class Provider:
    """A provider whose tokens are `ratio` times ours, and whose cache forgets with probability `forgets`."""

    def __init__(self, *, ratio: float = 1.0, forgets: float = 0.0, seed: int = 0) -> None:
        self.ratio = ratio
        self.forgets = forgets
        self.random = Random(seed)
        self.seen: list[Message] = []
        self.billed = 0.0

    def answer(self, messages: list[Message], weigh: Any) -> dict[str, Any]:
        """Return the usage of a request; `weigh` returns the tokens of messages as we count them."""
        pairs = enumerate(zip(self.seen, messages, strict=False))
        same = next((at for at, (one, other) in pairs if one != other), min(len(self.seen), len(messages)))
        if self.random.random() < self.forgets:
            same = 0
        self.seen = json.loads(json.dumps(messages))
        sent = round(self.ratio * weigh(messages))
        read = min(sent, round(self.ratio * weigh(messages[:same]))) if same else 0
        self.billed += 0.1 * read + 1.25 * (sent - read)
        return {"prompt_tokens": sent, "prompt_tokens_details": {"cached_tokens": read}}
