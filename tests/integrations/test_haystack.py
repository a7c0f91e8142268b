"""The Haystack module, against the real package."""

import asyncio
from typing import Annotated

import pytest

pytest.importorskip("haystack")

from haystack import Document, Pipeline
from haystack.dataclasses import ChatMessage, ImageContent, ReasoningContent, ToolCall
from haystack.tools import Toolset, tool

import cupel
from cupel import ContextBudget, InvalidBudgetError, ReflexiveScorer
from cupel.integrations.haystack import DocumentSelector, fit_messages
from cupel.messages import PinnedMessagesExceedBudgetError
from cupel.tokens import CharacterEstimate
from tests.integrations.framework_laws import FrameworkLaws

COUNTER = CharacterEstimate()


def history() -> list[ChatMessage]:
    calls = [ToolCall("weather", {"city": city}, id=key) for key, city in (("a", "Oslo"), ("b", "Rome"))]
    return [
        ChatMessage.from_system("Answer briefly."),
        ChatMessage.from_user("How is the weather? " * 5),
        ChatMessage.from_assistant(tool_calls=calls),
        ChatMessage.from_tool("rain " * 40, origin=calls[1]),
        ChatMessage.from_tool("sun", origin=calls[0]),
        ChatMessage.from_assistant("Rain, then sun.", reasoning="They asked about two cities."),
        ChatMessage.from_user("And tomorrow?"),
    ]


@pytest.mark.parametrize("budget", range(35, 220, 5))
def test_calls_and_results_stay_together_and_the_user_speaks_first(budget: int):
    messages = history()
    fitted = fit_messages(messages, budget, counter=COUNTER)
    kept = list(fitted.positions)
    assert kept == sorted(kept)
    assert {0, 6} <= set(kept)
    assert {2, 3, 4} <= set(kept) or not {2, 3, 4} & set(kept)
    assert messages[kept[1]].is_from("user")
    assert fitted.total_tokens <= budget


def test_calls_without_ids_are_paired_by_what_they_say():
    call = ToolCall("weather", {"city": "Oslo"})
    messages = [
        ChatMessage.from_user("Hi"),
        ChatMessage.from_assistant(tool_calls=[call]),
        ChatMessage.from_tool("rain", origin=call),
    ]
    assert fit_messages(messages, 1000, counter=COUNTER).messages == messages


def test_equal_calls_without_ids_are_told_apart():
    call = ToolCall("roll", {"sides": 6})
    messages = [
        ChatMessage.from_user("Roll two dice, then two more."),
        ChatMessage.from_assistant(tool_calls=[call, ToolCall("roll", {"sides": 6})]),
        ChatMessage.from_tool("3", origin=call),
        ChatMessage.from_tool("5", origin=call),
        ChatMessage.from_assistant(tool_calls=[call, call]),
        ChatMessage.from_tool("1", origin=call),
        ChatMessage.from_tool("2", origin=call),
        ChatMessage.from_assistant("3 and 5, then 1 and 2."),
    ]
    assert fit_messages(messages, 1000, counter=COUNTER).messages == messages
    fitted = fit_messages([*messages[:3], *messages[4:]], 1000, counter=COUNTER)
    assert [(unit.positions, unit.reason.filter_name) for unit in fitted.dropped] == [
        ((1, 2), "call without its result")
    ]


def test_arguments_may_have_names_of_any_type():
    call = ToolCall("weather", {1: "Oslo", "two": "Rome", None: "Bern"})
    messages = [
        ChatMessage.from_user("Hi"),
        ChatMessage.from_assistant(tool_calls=[call]),
        ChatMessage.from_tool("rain", origin=call),
    ]
    assert fit_messages(messages, 1000, counter=COUNTER).messages == messages


@tool
def weather(city: Annotated[str, "The city to look up."]) -> str:
    """Tell the weather in a city."""
    return f"rain in {city}"


def is_about_oslo(message: ChatMessage) -> bool:
    return "Oslo" in (message.text or "")


def test_tools_are_counted_and_pinned_messages_stay():
    messages = [ChatMessage.from_user("I live in Oslo. " * 10), *history()[1:]]
    plain = fit_messages(messages, 1000, counter=COUNTER)
    for tools in ([weather], Toolset([weather]), [Toolset([weather])]):
        fitted = fit_messages(messages, 1000, counter=COUNTER, tools=tools)
        assert fitted.total_tokens - plain.total_tokens > COUNTER.count("Tell the weather in a city.")
    assert messages[0] in fit_messages(messages, 80, counter=COUNTER, pin=is_about_oslo).messages


def test_images_are_counted():
    image = ImageContent("iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAIAAAA=", mime_type="image/png", validation=False)
    fitted = fit_messages([ChatMessage.from_user(content_parts=["What is this?", image])], 1000, counter=COUNTER)
    assert fitted.total_tokens == 3 + 4 + 4 + 85 + 2 * 170


def test_the_document_component_runs_in_a_pipeline():
    scores = {"alpha": 0.2, "bravo": 0.9, "charlie": 0.5}
    documents = [Document(content=f"{word} " * 10, score=score) for word, score in scores.items()]
    pipeline = Pipeline()
    pipeline.add_component("selector", DocumentSelector(20, cupel.Pipeline(scorer=ReflexiveScorer()), COUNTER))
    result = pipeline.run({"selector": {"documents": [*documents, Document(content=None)]}})
    assert result["selector"]["documents"] == [documents[1]]


def test_the_document_component_runs_in_an_asynchronous_pipeline():
    pipeline = Pipeline()
    pipeline.add_component("selector", DocumentSelector(20, counter=COUNTER))
    documents = [Document(content="alpha " * 10)]
    result = asyncio.run(pipeline.run_async({"selector": {"documents": documents}}))
    assert result["selector"]["documents"] == documents


WINDOW = ContextBudget(100, 60, output_reserve=10, reserved_slots={"Memory": 5}, estimation_safety_margin_percent=2.5)


@pytest.mark.parametrize("budget", [50, WINDOW])
def test_a_budget_survives_yaml(budget: int | ContextBudget):
    pipeline = Pipeline()
    pipeline.add_component("cupel", DocumentSelector(budget))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=[DocumentSelector.__module__]).get_component("cupel")
    assert again.budget == budget
    assert type(again.budget) is type(budget)


def test_a_saved_budget_that_is_wrong_is_refused_by_the_name_of_the_field():
    saved = DocumentSelector(WINDOW).to_dict()
    saved["init_parameters"]["budget"]["targetTokens"] = -1
    with pytest.raises(InvalidBudgetError, match="target_tokens must be >= 0, got -1"):
        DocumentSelector.from_dict(saved)


def test_a_pipeline_survives_yaml():
    mine = cupel.Pipeline(scorer=ReflexiveScorer(), name="mine")
    pipeline = Pipeline()
    pipeline.add_component("cupel", DocumentSelector(50, mine))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=[DocumentSelector.__module__]).get_component("cupel")
    assert (type(again), again.budget, again.policy) == (DocumentSelector, 50, mine)


def test_no_policy_survives_yaml():
    assert DocumentSelector.from_dict(DocumentSelector(50).to_dict()).policy is None


class TestLaws(FrameworkLaws):
    def fit(self, messages, budget, **options):
        return fit_messages(messages, budget, counter=COUNTER, **options)

    def user(self, text):
        return ChatMessage.from_user(text)

    def answer(self, text):
        return ChatMessage.from_assistant(text)

    def call(self, key, *, thinking=""):
        reasoning = ReasoningContent(thinking, extra={"signature": "c2ln"}) if thinking else None
        return ChatMessage.from_assistant(tool_calls=[ToolCall("look", {}, id=key)], reasoning=reasoning)

    def result(self, key, text, words=""):
        told = ChatMessage.from_tool(text, origin=ToolCall("look", {}, id=key))
        return [told, *([ChatMessage.from_user(words)] if words else [])]


def test_an_error_names_what_the_next_request_must_contain_and_cannot():
    laws = TestLaws()
    told = [laws.user("And the log?"), laws.call("a"), *laws.result("a", "line " * 1000)]
    with pytest.raises(PinnedMessagesExceedBudgetError, match=r"messages\[1:3\]"):
        fit_messages(told, 500, counter=COUNTER, forms=False)
