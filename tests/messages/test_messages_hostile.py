"""Whatever is handed in, an error names it in a few words; nothing else escapes."""

import traceback
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cupel.errors import CupelError
from cupel.messages import fit
from tests.messages.provider_rules import Message

JUNK = st.sampled_from(
    (None, 5, True, float("nan"), 2**80, "x", "\ud800", [], {}, ["a"], [1], [[[]]], {"type": 1}, b"x", {1: 2}, object())
)
FIELDS = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "tool_calls",
        "function_call",
        "tool_call_id",
        "name",
        "id",
        "call_id",
        "caller",
        "output",
        "summary",
        "refusal",
        "audio",
        "reasoning",
        "encrypted_content",
        "result",
        "input",
        "source",
        "text",
        "tool_use_id",
        "image_url",
        "input_audio",
        "file",
        "function",
    ]
)
ROLES = st.sampled_from(("user", "assistant", "tool", "system", "function", "developer"))
KINDS = st.sampled_from(
    [
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "program",
        "program_output",
        "text",
        "tool_use",
        "tool_result",
        "image",
        "document",
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "web_search_tool_result",
        "search_result",
        "image_url",
        "input_audio",
        "file",
        "input_image",
        "input_file",
        "refusal",
        "image_generation_call",
        "computer_call_output",
        "compaction",
        "function",
    ]
)
BLOCK = st.builds(lambda fields, kind: {**fields, "type": kind}, st.dictionaries(FIELDS, JUNK, max_size=4), KINDS)
BODY = st.dictionaries(FIELDS, JUNK | BLOCK | st.lists(BLOCK, max_size=2), max_size=4)
MESSAGE = st.one_of(
    BODY,
    st.builds(lambda body, role: {**body, "role": role}, BODY, ROLES),
    st.builds(lambda body, kind: {**body, "type": kind}, BODY, KINDS),
)


@settings(max_examples=600, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(
    st.lists(MESSAGE | JUNK, max_size=4),
    st.sampled_from((None, "anthropic", "openai", "openai-responses")),
    st.none() | st.lists(BLOCK | JUNK, max_size=2),
    st.booleans(),
)
def test_only_errors_of_ours_escape(messages: list[Message], provider: Any, tools: list[Any] | None, alternate: bool):
    refused: Exception | None = None
    try:
        fit(messages, 10**6, provider=provider, tools=tools, alternate=alternate)
    except (CupelError, TypeError) as error:
        refused = error
    if refused is not None:
        raised = traceback.extract_tb(refused.__traceback__)[-1]
        assert (raised.line or "").startswith("raise"), "an accident, not a judgement"
        assert len(str(refused)) < 500
