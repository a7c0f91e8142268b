"""Counts for OpenAI: the published formulas, transcribed here once more, and never less."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cupel.messages import fit
from cupel.tokens import CachedCounter, TiktokenCounter

WORDS = st.text("abc xyz.\n", max_size=30)
TALK = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(("system", "user", "assistant")), "content": WORDS.filter(bool)},
        optional={"name": st.sampled_from(("anna", "example_user"))},
    ),
    min_size=1,
    max_size=6,
)
PROPERTY = st.fixed_dictionaries(
    {"type": st.sampled_from(("string", "integer")), "description": WORDS},
    optional={"enum": st.lists(st.sampled_from(("red", "dark green", "blue")), min_size=1, unique=True)},
)
TOOLS = st.lists(
    st.builds(
        lambda name, text, properties: {
            "type": "function",
            "function": {
                "name": name,
                "description": text,
                "parameters": {"type": "object", "properties": properties, "required": list(properties)},
            },
        },
        st.sampled_from(("load", "restart_server")),
        WORDS,
        st.dictionaries(st.sampled_from(("host", "max_rows", "unit")), PROPERTY, max_size=3),
    ),
    max_size=3,
)


def published_messages(messages: list[Any], counter: TiktokenCounter) -> int:
    """Three tokens a message, its values, one more for a name; three for the reply."""
    values = sum(counter.count(value) for message in messages for value in message.values())
    return 3 * len(messages) + values + sum("name" in message for message in messages) + 3


def published_tools(tools: list[Any], counter: TiktokenCounter, each: int) -> int:
    """Frames of functions, properties and enumerations around their names, types and descriptions."""
    if not tools:
        return 0
    total = 12
    for function in (tool["function"] for tool in tools):
        total += each + counter.count(f"{function['name']}:{without_stop(function['description'])}")
        properties = function["parameters"]["properties"]
        total += 3 if properties else 0
        for name, schema in properties.items():
            total += 3 + counter.count(f"{name}:{schema['type']}:{without_stop(schema['description'])}")
            if "enum" in schema:
                total += -3 + sum(3 + counter.count(value) for value in schema["enum"])
    return total


def without_stop(text: str) -> str:
    return text.removesuffix(".")


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(TALK, TOOLS, st.sampled_from((("o200k_base", 7), ("cl100k_base", 10))))
def test_counts_are_the_published_ones(messages: list[Any], tools: list[Any], model: tuple[str, int]):
    counter = TiktokenCounter(model[0])
    expected = published_messages(messages, counter) + published_tools(tools, counter, model[1])
    assert fit(messages, 10**6, counter=counter, tools=tools, provider="openai").total_tokens == expected


def cost(tool: Any, provider: Any = "openai", counter: Any = None) -> int:
    talk = [{"role": "user", "content": "Hi"}]
    options = {"counter": counter or TiktokenCounter(), "provider": provider}
    return fit(talk, 10**6, tools=[tool], **options).total_tokens - fit(talk, 10**6, **options).total_tokens


FLAT = {"type": "object", "properties": {"host": {"type": "string", "description": "Which server."}}}
FUNCTION = {"name": "load", "description": "The load of a server.", "parameters": FLAT}


def test_every_shape_of_a_function_costs_the_same():
    chat, responses = {"type": "function", "function": FUNCTION}, {"type": "function", **FUNCTION}
    assert cost(chat) == cost(responses, "openai-responses") == cost(FUNCTION)
    assert cost(chat, counter=CachedCounter(TiktokenCounter("cl100k_base"))) == cost(chat) + 3


@pytest.mark.parametrize(
    "more",
    [
        {"properties": {"name": {"type": "string", "description": "Inside."}}},
        {"items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"default": "a rather long default"},
        {"enum": [1, 2, None]},
        {"type": ["string", "null"]},
    ],
)
def test_what_the_formula_leaves_open_is_counted_too(more: dict[str, Any]):
    deeper = {**FLAT, "properties": {"host": {**FLAT["properties"]["host"], **more}}}
    assert cost({**FUNCTION, "parameters": deeper}) > cost(FUNCTION)


def test_a_hosted_tool_costs_its_json():
    assert cost({"type": "web_search"}) == 12 + 7 + TiktokenCounter().count('{"type":"web_search"}')


def test_only_anthropics_tools_cost_its_overhead():
    """Plain texts could be anybody's; their tools say whose, or cost what they are."""
    schema = {"name": "load", "description": "x", "input_schema": {"type": "object"}}
    assert cost(schema, None) > 346
    assert cost({"type": "function", "function": FUNCTION}, None) == cost(FUNCTION)
    assert cost({"type": "unheard_of"}, None) < 20


def test_the_tools_of_plain_texts_tell_whose_they_are():
    talk = [{"role": "user", "content": "Hi"}]
    assert fit(talk, 1000, tools=[{"type": "function", "function": FUNCTION}]).provider == "openai"
    assert fit(talk, 1000, tools=[{"type": "function", **FUNCTION}]).provider == "openai-responses"
    assert fit(talk, 1000, tools=[FUNCTION]).provider == "anthropic"
