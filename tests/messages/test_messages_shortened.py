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
ARGUMENTS = f'{{ "path": "a.py",\t"count": 1e2, "text": {json.dumps(LONG)}, "text": "kept", "{"k" * 4000}": 1 }}'
"""Spaces, a doubled key, an unusual number and a long key, which must all stay as they are."""
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


@pytest.mark.parametrize(
    ("provider", "parts", "shortened"),
    [
        ("openai", ("outputs",), {3}),
        ("openai", ["prose"], {1, 4}),
        ("openai", {"arguments"}, {2}),
        ("openai", ("outputs", "prose", "arguments"), {1, 2, 3, 4}),
        ("anthropic", ("outputs",), {2}),
        ("anthropic", ("prose",), {0, 3}),
        ("anthropic", ("arguments",), {1}),
        ("openai-responses", ("outputs",), {2}),
        ("openai-responses", ("prose",), {0, 3}),
        ("openai-responses", ("arguments",), {1}),
        ("openai-responses", (), set()),
    ],
)
def test_only_the_parts_that_are_named_are_shortened(provider: str, parts: Any, shortened: set[int]) -> None:
    history = copy.deepcopy(HISTORIES[provider])
    share = 0.95 if "prose" not in parts or "outputs" in parts else 0.5  # the step cannot be shortened by its prose
    fitted = tight(history, provider, share, forms=True, parts=parts)
    assert set(fitted.shortened) <= shortened
    assert bool(fitted.shortened) is bool(shortened)
    assert history == HISTORIES[provider]
    assert violations(provider, fitted.messages, history) == []
    assert fitted.messages[-1] is history[-1], "the newest message keeps its words"


@pytest.mark.parametrize("provider", sorted(HISTORIES))
def test_nothing_is_shortened_unless_it_is_asked_for(provider: str) -> None:
    assert tight(HISTORIES[provider], provider, forms=False).shortened == ()


def test_arguments_stay_as_they_are_but_for_their_long_strings() -> None:
    (position,) = tight(OPENAI, "openai", 0.95, forms=True, parts=("arguments",)).shortened
    fitted = tight(OPENAI, "openai", 0.95, forms=True, parts=("arguments",))
    (call,) = fitted.messages[position]["tool_calls"]
    before, after = ARGUMENTS.split(json.dumps(LONG))
    written = call["function"]["arguments"]
    assert written.startswith(before)
    assert written.endswith(after)
    assert len(json.loads(written[len(before) : -len(after)])) < len(LONG) / 2


def test_arguments_that_are_no_json_stay_as_they_are() -> None:
    history = copy.deepcopy(OPENAI)
    history[2]["tool_calls"][0]["function"]["arguments"] = ARGUMENTS[:-1]
    assert 2 not in tight(history, "openai", 0.95, forms=True, parts=("arguments",)).shortened


@pytest.mark.parametrize(
    "thinking",
    [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
    ],
)
def test_words_and_calls_beside_reasoning_stay_as_they_are(thinking: dict[str, Any]) -> None:
    history = copy.deepcopy(ANTHROPIC)
    history[1]["content"].insert(1, thinking)
    if thinking["type"] == "server_tool_use":
        history[1]["content"].insert(2, {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []})
    assert 1 not in tight(history, "anthropic", 0.95, forms=True, parts=("arguments", "prose")).shortened
    items = [RESPONSES[0], {"type": "reasoning", "id": "r1", "summary": []}, *RESPONSES[1:]]
    assert 2 not in tight(items, "openai-responses", 0.95, forms=True, parts=("arguments",)).shortened


def test_a_text_with_citations_stays_as_it_is() -> None:
    history = copy.deepcopy(RESPONSES)
    history[3]["content"][0]["annotations"] = [{"type": "url_citation", "start_index": 9000, "end_index": 9001}]
    assert 3 not in tight(history, "openai-responses", 0.95, forms=True, parts=("prose",)).shortened


def test_a_shortener_of_the_callers_is_given_every_long_text() -> None:
    fitted = tight(OPENAI, "openai", 0.5, forms=lambda text, _: stub(text, counter=COUNTER), parts=("prose",))
    assert fitted.shortened
    sent = dict(zip(fitted.positions, fitted.messages, strict=True))
    assert all(sent[at]["content"].endswith("tokens omitted]") for at in fitted.shortened)


def test_wrong_parts_are_named() -> None:
    with pytest.raises(TypeError, match="parts must be a list of arguments, outputs, prose, got str: 'prose'"):
        tight(OPENAI, "openai", forms=True, parts="prose")
    with pytest.raises(TypeError, match="parts must be a list"):
        tight(OPENAI, "openai", forms=True, parts=[7])
    with pytest.raises(ConfigurationError, match="parts must be some of arguments, outputs, prose, got 'messages'"):
        tight(OPENAI, "openai", forms=True, parts=["messages"])


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
