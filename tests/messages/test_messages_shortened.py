"""What `fit` may shorten, and what keeps its words."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from cupel.errors import ConfigurationError
from cupel.messages import Framework, fit
from cupel.shorten import stub
from cupel.tokens import CharacterEstimate
from tests.messages.chat import assistant, calling, result, use, used, user
from tests.messages.provider_rules import violations

COUNTER = CharacterEstimate(4.0)
LONG = "\n".join(f"line {number} of file_{number}.py is long enough to count" for number in range(200))
ARGUMENTS = json.dumps({"path": "a.py", "text": LONG})
SPOKEN = {"role": "assistant", "content": LONG}

OPENAI = [
    {"role": "system", "content": LONG},
    {"role": "user", "content": LONG},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "write", "arguments": ARGUMENTS}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": LONG},
    SPOKEN,
    *(message for key in ("n1", "n2", "n3") for message in (calling(key), result(key))),
    {"role": "user", "content": "And now? " + LONG},
]
"""The three newest steps are held, so the long one competes."""
ANTHROPIC = [
    {"role": "user", "content": [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I write it."},
            {"type": "tool_use", "id": "c1", "name": "write", "input": {"path": "a.py", "lines": [LONG], "n": 1}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": LONG}]},
    SPOKEN,
    *(message for key in ("n1", "n2", "n3") for message in (assistant([use(key)]), user([used(key)]))),
    {"role": "user", "content": "And now? " + LONG},
]
RESPONSES = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": LONG}]},
    {"type": "function_call", "call_id": "c1", "name": "write", "arguments": ARGUMENTS},
    {"type": "function_call_output", "call_id": "c1", "output": LONG},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": LONG}]},
    *(
        item
        for key in ("n1", "n2", "n3")
        for item in (
            {"type": "function_call", "call_id": key, "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": key, "output": "fine"},
        )
    ),
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And now? " + LONG}]},
]
HISTORIES: dict[str, list[dict[str, Any]]] = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "openai-responses": RESPONSES,
}


def tight(history: list[dict[str, Any]], provider: Any, share: float = 0.6, **options: Any):
    whole = fit(history, 10**9, counter=COUNTER, provider=provider).total_tokens
    return fit(history, int(whole * share), counter=COUNTER, provider=provider, **options)


@pytest.mark.parametrize(("provider", "shortened"), [("openai", {3}), ("anthropic", {2}), ("openai-responses", {2})])
def test_outputs_of_older_steps_are_shortened_and_nothing_else(provider: str, shortened: set[int]) -> None:
    history = copy.deepcopy(HISTORIES[provider])
    fitted = tight(history, provider, 0.95)
    assert set(fitted.shortened) == shortened
    assert history == HISTORIES[provider]
    assert violations(provider, fitted.messages, history) == []
    assert fitted.messages[-1] is history[-1], "the newest message keeps its words"


@pytest.mark.parametrize("provider", sorted(HISTORIES))
def test_nothing_is_shortened_unless_it_is_asked_for(provider: str) -> None:
    assert tight(HISTORIES[provider], provider, forms=False).shortened == ()


def test_a_shortener_of_the_callers_is_given_every_long_text() -> None:
    fitted = tight(OPENAI, "openai", 0.95, forms=lambda text, _: stub(text, counter=COUNTER))
    assert fitted.shortened
    sent = dict(zip(fitted.positions, fitted.messages, strict=True))
    assert all(sent[at]["content"].endswith("tokens omitted]") for at in fitted.shortened)


@dataclass(frozen=True)
class Line:
    """A framework's message."""

    plain: str


def shorter(line: Line, texts: Sequence[str]) -> Line:
    return Line(json.dumps({**json.loads(line.plain), "content": texts[0]}))


def test_a_framework_writes_shorter_outputs_itself() -> None:
    lines = Framework(Line, lambda history: [json.loads(line.plain) for line in history], dict, with_outputs=shorter)
    history = [Line(json.dumps(message)) for message in OPENAI]
    whole = lines.fit(history, 10**9, counter=COUNTER).total_tokens
    fitted = lines.fit(history, int(whole * 0.95), counter=COUNTER, forms=True)
    assert fitted.shortened == (3,)
    assert fitted.messages[3] not in history
    assert all(fitted.messages[at] is history[at] for at in range(len(history)) if at != 3)
    never = Framework(Line, lambda history: [json.loads(line.plain) for line in history], dict)
    with pytest.raises(ConfigurationError, match=r"forms must be False: .*with_outputs"):
        never.fit(history, 1000, forms=True)
