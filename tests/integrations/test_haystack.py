"""The Haystack module, against the real package."""

import pytest

pytest.importorskip("haystack")

from haystack import Document, Pipeline
from haystack.dataclasses import ChatMessage, ImageContent, ToolCall

from cupel import Policy, ReflexiveScorer
from cupel.integrations.haystack import DocumentSelector, MessageFitter, fit_messages
from cupel.tokens import CharacterEstimate

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


@pytest.mark.parametrize("budget", range(20, 220, 5))
def test_calls_and_results_stay_together_and_the_user_speaks_first(budget: int):
    messages = history()
    fitted = fit_messages(messages, budget, counter=COUNTER)
    kept = [next(at for at, one in enumerate(messages) if one is message) for message in fitted.messages]
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


def test_images_are_counted():
    image = ImageContent("iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAIAAAA=", mime_type="image/png", validation=False)
    fitted = fit_messages([ChatMessage.from_user(content_parts=["What is this?", image])], 1000, counter=COUNTER)
    assert fitted.total_tokens == 3 + 3 + 4 + 85 + 2 * 170


def test_the_message_component_runs_in_a_pipeline():
    pipeline = Pipeline()
    pipeline.add_component("fitter", MessageFitter(60, counter=COUNTER))
    result = pipeline.run({"fitter": {"messages": history()}})
    assert [message.role.value for message in result["fitter"]["messages"]] == ["system", "user", "assistant", "user"]


def test_the_document_component_runs_in_a_pipeline():
    scores = {"alpha": 0.2, "bravo": 0.9, "charlie": 0.5}
    documents = [Document(content=f"{word} " * 10, score=score) for word, score in scores.items()]
    pipeline = Pipeline()
    pipeline.add_component("selector", DocumentSelector(20, Policy(ReflexiveScorer()), COUNTER))
    result = pipeline.run({"selector": {"documents": [*documents, Document(content=None)]}})
    assert result["selector"]["documents"] == [documents[1]]


@pytest.mark.parametrize("component", [DocumentSelector, MessageFitter])
def test_a_pipeline_survives_yaml(component: type):
    pipeline = Pipeline()
    pipeline.add_component("cupel", component(50, Policy(ReflexiveScorer(), name="mine")))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=[component.__module__]).get_component("cupel")
    assert (type(again), again.budget, again.policy) == (component, 50, Policy(ReflexiveScorer(), name="mine"))
    assert component.from_dict(component(50).to_dict()).policy is None
