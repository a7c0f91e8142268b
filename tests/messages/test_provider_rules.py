"""The rules themselves: the validator accepts what providers document as right, and objects to what they reject."""

from typing import Any

import pytest

from tests.messages.provider_rules import (
    alternation,
    programs_kept_whole,
    reasoning_kept_together,
    unseen,
    violations,
)

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
PROGRAM = {"type": "program", "id": "prg_1", "call_id": "p", "code": "run()", "fingerprint": "f"}
BY_PROGRAM = {**FUNCTION, "caller": {"type": "program", "caller_id": "p"}}
PROGRAM_OUTPUT = {"type": "program_output", "id": "po_1", "call_id": "p", "result": "1", "status": "completed"}
SERVER = {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {}}
SERVED = {"type": "code_execution_tool_result", "tool_use_id": "s", "content": {}}
BY_CODE = {"type": "tool_use", "id": "a", "name": "f", "input": {}, "caller": {"type": "code", "tool_id": "s"}}

CALLED = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}]}
RESPONSE = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": ""}}}]}
ASKED = {"role": "user", "parts": [{"text": "Hi"}]}
TOLD = {"role": "model", "parts": [{"text": "Hello."}]}
UNSIGNED = {"role": "model", "parts": [{"functionCall": {"name": "f"}}]}
CODE = {"executableCode": {"language": "PYTHON", "code": "1"}}
RAN = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
TOOL_USE = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "f", "input": {}}}]}
TOOL_RESULT = {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "1"}]}}]}
SPOKEN = {"role": "user", "content": [{"text": "Hi"}]}
REPLIED = {"role": "assistant", "content": [{"text": "Hello."}]}
MARK = {"cachePoint": {"type": "default"}}
REASONED = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}}


def parts(role: str, *given: Any) -> dict[str, Any]:
    return {"role": role, "parts": list(given)}


def converse(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def said(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


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
        ("openai-responses", [USER, PROGRAM, BY_PROGRAM, OUTPUT]),
        ("openai-responses", [USER, PROGRAM, BY_PROGRAM, OUTPUT, PROGRAM_OUTPUT, USER]),
        (
            "openai-responses",
            [
                USER,
                FUNCTION,
                {**FUNCTION, "type": "custom_tool_call"},
                OUTPUT,
                {**OUTPUT, "type": "custom_tool_call_output"},
            ],
        ),
        ("anthropic", [USER, said(SERVER, SERVED), USER]),
        ("anthropic", [USER, said(SERVER)]),
        ("anthropic", [USER, said(SERVER, BY_CODE), USED]),
        ("anthropic", [USER, said(SERVER, BY_CODE), USED, said(SERVED), USER]),
        ("gemini", [ASKED, CALLED, RESPONSE, TOLD, ASKED, ASKED]),
        ("gemini", [{"parts": ASKED["parts"]}, TOLD, ASKED]),
        ("gemini", [ASKED, UNSIGNED, RESPONSE, UNSIGNED, RESPONSE]),
        ("gemini", [ASKED, UNSIGNED, RESPONSE, TOLD, ASKED, CALLED, RESPONSE]),
        ("gemini", [ASKED, parts("model", CODE, RAN, {"text": "", "thoughtSignature": "c2ln"}), ASKED]),
        ("bedrock", [SPOKEN, TOOL_USE, TOOL_RESULT, REPLIED, SPOKEN]),
        ("bedrock", [SPOKEN, converse("assistant", REASONED, *TOOL_USE["content"]), TOOL_RESULT]),
        ("bedrock", [converse("user", {"document": {}}, {"text": "Read."}, MARK), REPLIED, SPOKEN]),
        ("bedrock", [SPOKEN, TOOL_USE, converse("user", *TOOL_RESULT["content"], MARK, {"text": "Go on."})]),
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
        ("openai", [USER, {**SAID, "tool_calls": []}], "too short"),
        ("openai-responses", [USER, PROGRAM, BY_PROGRAM, OUTPUT, USER], "no tool output found for the call p"),
        ("openai-responses", [USER, PROGRAM], "no tool output found for the call p"),
        ("openai-responses", [USER, BY_PROGRAM, OUTPUT], "no program found"),
        ("openai-responses", [USER, {**FUNCTION, "type": "computer_call"}, OUTPUT], "no tool call found"),
        ("openai-responses", [USER, {**SAID, "id": "m"}, USER, {**SAID, "id": "m"}], "duplicate item found with id m"),
        ("anthropic", [USER, {**SAID, "id": "msg_1"}], "1.id: extra inputs are not permitted"),
        ("anthropic", [USER, said(SERVED), USER], "unexpected tool_use_id s"),
        ("anthropic", [USER, said(SERVER), USER], "without a corresponding tool result block"),
        ("anthropic", [USER, said(SERVER, BY_CODE), USED, SAID, USER], "without a corresponding tool result block"),
        ("anthropic", [USER, said(SERVER, BY_CODE), USED, USER], "without a corresponding tool result block"),
        ("anthropic", [USER, said(BY_CODE), USED], "a call by code s"),
        ("anthropic", [USER, said(SERVER, SERVER, SERVED), USER], "must be unique"),
        ("anthropic", [USER, {"role": "user", "content": [SERVED]}], "belongs to the assistant"),
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
        ("gemini", [TOLD, ASKED], "first content"),
        ("gemini", [RESPONSE, TOLD, ASKED], "first content"),
        ("gemini", [ASKED, TOLD], "ending with a model turn"),
        ("gemini", [{**ASKED, "role": "assistant"}], "valid role"),
        ("gemini", [parts("user")], "must not be empty"),
        ("gemini", [parts("user", {"text": ""})], "empty text"),
        ("gemini", [parts("user", {"text": "a", "fileData": {}})], "one initialized field"),
        ("gemini", [ASKED, TOLD, CALLED, RESPONSE], "comes immediately after a user turn"),
        ("gemini", [ASKED, CALLED, ASKED], "the number of function response parts"),
        ("gemini", [ASKED, CALLED, ASKED, RESPONSE], "immediately after a function call turn"),
        ("gemini", [ASKED, CALLED, parts("user", *RESPONSE["parts"], {"text": "So?"})], "read as the model's"),
        (
            "gemini",
            [ASKED, UNSIGNED, parts("user", {"functionResponse": {"name": "g", "response": {}}})],
            "not match its call",
        ),
        ("gemini", [ASKED, UNSIGNED, parts("user", {"functionResponse": {"name": "f"}})], "must be an object"),
        ("gemini", [ASKED, CALLED, RESPONSE, UNSIGNED, RESPONSE], "missing a thought_signature"),
        ("gemini", [ASKED, parts("model", CODE), ASKED], "is followed by"),
        ("bedrock", [REPLIED, SPOKEN], "start with a user message"),
        ("bedrock", [SPOKEN, SPOKEN], "must alternate"),
        ("bedrock", [SPOKEN, TOOL_USE, SPOKEN], "expected toolResult blocks"),
        ("bedrock", [SPOKEN, REPLIED, TOOL_RESULT], "do not answer the calls"),
        ("bedrock", [SPOKEN, TOOL_USE, converse("user", {"text": "x"}, *TOOL_RESULT["content"])], "must come first"),
        ("bedrock", [SPOKEN, TOOL_USE, TOOL_RESULT, TOOL_USE, TOOL_RESULT], "must be unique"),
        ("bedrock", [converse("user", {"text": " "})], "blank"),
        ("bedrock", [converse("user")], "empty"),
        ("bedrock", [converse("user", {"text": "a", **MARK})], "a content block of the user"),
        ("bedrock", [converse("user", {"document": {}})], "a text block must be included"),
        ("bedrock", [converse("user", MARK, {"text": "a"})], "follows a block that can be cached"),
        ("bedrock", [converse("user", {"text": "a"}, MARK, MARK)], "follows a block that can be cached"),
        ("bedrock", [converse("user", *[{"text": "a"}, MARK] * 5)], "at most 4 cache points"),
        ("bedrock", [SPOKEN, converse("assistant", REASONED), SPOKEN], "cannot be reasoning"),
    ],
)
def test_bad_requests_are_objected_to(provider: str, messages: list[Any], complaint: str):
    assert complaint in " ".join(violations(provider, messages))


def test_a_cut_is_judged_against_the_history_it_was_made_from():
    thinking = {"role": "assistant", "content": [THOUGHT, {**USE["content"][0], "id": "b"}]}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b"}]}
    history = [USER, thinking, answer, USE, USED]
    assert violations("anthropic", [USER, USE, USED], history, "loop") == [
        "the final assistant turn must start with a thinking block"
    ]
    merged = [USER, SAID, thinking, answer, USER]
    assert violations("anthropic", merged, [USER, SAID, USER, thinking, answer, USER][:2] + merged[2:], "loop") == []
    assert violations("anthropic", merged, [USER, SAID, dict(USER), thinking, answer, USER], "loop") == [
        "the final assistant turn must start with a thinking block"
    ]
    assert violations("anthropic", [USER, SAID], [USER, SAID, USER]) == [
        "a final assistant message is a prefill that nobody asked for"
    ]
    assert reasoning_kept_together([USER, FUNCTION, OUTPUT], [USER, REASONING, FUNCTION, OUTPUT]) == [
        "function_call was provided without its required reasoning item"
    ]
    signed = [ASKED, CALLED, RESPONSE]
    assert violations("gemini", [ASKED, parts("model", {"functionCall": {"name": "f", "args": {}}}), RESPONSE], signed)
    thoughtful = [SPOKEN, converse("assistant", REASONED, *TOOL_USE["content"]), TOOL_RESULT]
    assert violations("bedrock", [SPOKEN, TOOL_USE, TOOL_RESULT], thoughtful, "loop") == [
        "1: the call a lost the reasoning before it"
    ]
    whole = [USER, PROGRAM, BY_PROGRAM, OUTPUT, PROGRAM_OUTPUT]
    assert programs_kept_whole([*whole[:2], *whole[3:]], whole) == ["program p was torn apart"]
    assert programs_kept_whole(whole, whole) == programs_kept_whole([USER], whole) == []


def test_what_the_model_has_yet_to_see():
    assert unseen("openai", [USER, CALLING, RESULT]) == [USER, RESULT]
    assert unseen("openai", [USER, CALLING, RESULT, SAID]) == [USER]
    assert unseen("openai-responses", [USER, FUNCTION, OUTPUT]) == [USER, OUTPUT]
    words = {"role": "user", "content": [*USED["content"], {"type": "text", "text": "Stop."}]}
    assert unseen("anthropic", [USER, USE, words, SAID]) == [words]
    assert unseen("anthropic", [USER, USE, USED]) == [USER, USED]
    assert unseen("gemini", [ASKED, CALLED, RESPONSE]) == [ASKED, RESPONSE]
    assert unseen("bedrock", [SPOKEN, TOOL_USE, TOOL_RESULT]) == [SPOKEN, TOOL_RESULT]


def test_alternation_is_judged_without_steps():
    assert alternation("openai", [SYSTEM, USER, CALLING, RESULT, SAID, USER]) == []
    assert alternation("openai", [USER, CALLING, RESULT, USER]) == ["roles must alternate, at 1 of ['user', 'user']"]
    assert alternation("openai", [SAID, USER]) != []
    assert alternation("openai-responses", [USER, REASONING, FUNCTION, OUTPUT, SAID]) == []
    assert alternation("anthropic", [USER, USE, USED, USER]) != []
