"""The rules themselves: the validator accepts what providers document as right, and objects to what they reject."""

from typing import Any

import pytest

from tests.integrations.provider_rules import reasoning_kept_together, violations

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": ""}
USER = {"role": "user", "content": "Hi"}
SAID = {"role": "assistant", "content": "Hello."}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}
USED = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
SYSTEM = {"role": "system", "content": "Be brief."}
FUNCTION = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": ""}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}


@pytest.mark.parametrize(
    ("provider", "messages"),
    [
        ("openai", [SYSTEM, USER, CALLING, RESULT, SAID]),
        ("openai", [SAID, USER, {"role": "assistant", "content": None, "refusal": "No."}]),
        ("openai-responses", [USER, REASONING, FUNCTION, OUTPUT, SAID]),
        ("openai-responses", [FUNCTION, USER, OUTPUT]),
        ("anthropic", [USER, USE, USED, SAID, USER, USER]),
        ("anthropic", [USER, {"role": "assistant", "content": [THOUGHT, *USE["content"]]}, USED]),
        ("anthropic", [USER, SYSTEM, SAID]),
        ("anthropic", [USER, SYSTEM]),
    ],
)
def test_good_requests_pass(provider: str, messages: list[Any]):
    assert violations(provider, messages) == []


@pytest.mark.parametrize(
    ("provider", "messages", "complaint"),
    [
        ("openai", [], "at least one message"),
        ("openai", [USER, RESULT], "must answer a call"),
        ("openai", [USER, CALLING], "never answered"),
        ("openai", [USER, CALLING, USER, RESULT], "must be answered before a user message"),
        ("openai", [USER, CALLING, RESULT, RESULT], "must answer a call"),
        ("openai", [{"role": "user", "content": ""}], "empty content"),
        ("openai", [{"role": "user", "content": []}], "empty array"),
        ("openai", [{"role": "assistant", "content": None}], "content is required"),
        ("openai-responses", [USER, FUNCTION], "no tool output found"),
        ("openai-responses", [OUTPUT, FUNCTION], "no tool call found"),
        ("openai-responses", [REASONING, USER], "without its required following item"),
        ("openai-responses", [{"role": "user", "content": ""}], "empty content"),
        ("anthropic", [SAID, USER], "first message must use the user role"),
        ("anthropic", [USER, USE, USER], "are followed by the results []"),
        ("anthropic", [USER, USED], "without its tool_use"),
        (
            "anthropic",
            [USER, USE, {"role": "user", "content": [{"type": "text", "text": "x"}, *USED["content"]]}],
            "first",
        ),
        ("anthropic", [USER, USE, USED, USE, USED], "must be unique"),
        ("anthropic", [{"role": "user", "content": " "}], "non-whitespace"),
        ("anthropic", [USER, {"role": "assistant", "content": "ends "}], "trailing whitespace"),
        ("anthropic", [USER, {"role": "assistant", "content": [THOUGHT]}, USER], "cannot be thinking"),
        ("anthropic", [SYSTEM, USER], "must follow a user message"),
        ("anthropic", [USER, SYSTEM, USER], "followed by the assistant"),
    ],
)
def test_bad_requests_are_objected_to(provider: str, messages: list[Any], complaint: str):
    assert complaint in " ".join(violations(provider, messages))


def test_a_cut_is_judged_against_the_history_it_was_made_from():
    thinking = {"role": "assistant", "content": [THOUGHT, {**USE["content"][0], "id": "b"}]}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b"}]}
    history = [USER, thinking, answer, USE, USED]
    assert violations("anthropic", [USER, USE, USED], history) == [
        "the final assistant turn must start with a thinking block"
    ]
    assert violations("anthropic", [USER, SAID], [USER, SAID, USER]) == [
        "a final assistant message is a prefill that nobody asked for"
    ]
    assert reasoning_kept_together([USER, FUNCTION, OUTPUT], [USER, REASONING, FUNCTION, OUTPUT]) == [
        "function_call was provided without its required reasoning item"
    ]
