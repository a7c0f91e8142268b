"""The LangChain module, against the real packages."""

import asyncio

import pytest

pytest.importorskip("langchain")

from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    ChatMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.tools import tool
from pydantic import BaseModel

from cupel import Pipeline, ReflexiveScorer
from cupel.integrations.langchain import DocumentSelector, fit_messages
from cupel.messages import PinnedMessagesExceedBudgetError
from cupel.tokens import CharacterEstimate
from tests.integrations.framework_laws import FrameworkLaws

COUNTER = CharacterEstimate()


def call(name: str, key: str) -> dict:
    return {"name": name, "args": {"city": "Oslo"}, "id": key, "type": "tool_call"}


def history() -> list:
    return [
        SystemMessage("Answer briefly."),
        HumanMessage("How is the weather in Oslo and in Rome? " * 3),
        AIMessage("", tool_calls=[call("weather", "a"), call("weather", "b")]),
        ToolMessage("rain " * 40, tool_call_id="b"),
        ToolMessage("sun", tool_call_id="a"),
        AIMessage("Rain in Oslo, sun in Rome."),
        HumanMessage("And tomorrow?"),
    ]


def test_everything_fits_into_a_large_budget():
    messages = history()
    fitted = fit_messages(messages, 10_000, counter=COUNTER)
    assert all(ours is theirs for ours, theirs in zip(fitted.messages, messages, strict=True))
    assert fitted.dropped == []


@pytest.mark.parametrize("budget", range(35, 220, 5))
def test_calls_and_results_stay_together_and_a_human_speaks_first(budget: int):
    messages = history()
    fitted = fit_messages(messages, budget, counter=COUNTER)
    kept = list(fitted.positions)
    assert kept == sorted(kept)
    assert {0, 6} <= set(kept)
    assert {2, 3, 4} <= set(kept) or not {2, 3, 4} & set(kept)
    assert messages[kept[1]].type == "human"
    assert fitted.total_tokens <= budget


def test_a_result_without_its_call_is_left_out_with_the_reason():
    fitted = fit_messages([HumanMessage("Hi"), ToolMessage("orphan", tool_call_id="x")], 1000, counter=COUNTER)
    assert [message.content for message in fitted.messages] == ["Hi"]
    assert fitted.dropped[0].reason.filter_name == "result without its call"


def test_calls_that_could_not_be_parsed_are_calls_all_the_same():
    broken = {"name": "weather", "args": "{", "id": "a", "error": "bad JSON", "type": "invalid_tool_call"}
    messages = [HumanMessage("Hi"), AIMessage("", invalid_tool_calls=[broken]), ToolMessage("no", tool_call_id="a")]
    assert len(fit_messages(messages, 1000, counter=COUNTER).messages) == 3


def test_content_blocks_of_every_style_are_read():
    image = "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAIAAAA="
    messages = [
        HumanMessage(
            [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "base64": image, "mime_type": "image/png"},
                {"type": "image", "source": {"type": "base64", "data": image}},
                {"type": "image_url", "image_url": "https://example.com/a.png"},
            ]
        ),
        AIMessage([{"type": "text", "text": "Let me see."}, {"type": "tool_use", "id": "a", "name": "f", "input": {}}]),
        ToolMessage("a cat", tool_call_id="a"),
        ChatMessage("And this?", role="user"),
    ]
    fitted = fit_messages(messages, 10_000, counter=COUNTER)
    assert fitted.messages == messages
    assert fitted.total_tokens > 2000, "three images have been counted"


def test_pinned_messages_that_do_not_fit_are_named():
    with pytest.raises(PinnedMessagesExceedBudgetError, match=r"messages\[0\] \(system\)"):
        fit_messages(history(), 5, counter=COUNTER)


def test_a_function_fits_messages_between_a_prompt_and_a_model():
    prompt = ChatPromptTemplate.from_messages([("system", "Answer briefly."), MessagesPlaceholder("history")])
    seen = []

    def fitted(value):
        return fit_messages(value.to_messages(), 40, counter=COUNTER).messages

    class Model(GenericFakeChatModel):
        def _generate(self, messages, *args, **kwargs):
            seen.extend(messages)
            return super()._generate(messages, *args, **kwargs)

    chain = prompt | fitted | Model(messages=iter([AIMessage("Fine.")]))
    chain.invoke({"history": history()[1:]})
    assert [message.type for message in seen] == ["system", "human"]


def test_chunks_of_a_stream_are_messages():
    called = AIMessageChunk(
        "", tool_call_chunks=[{"name": "weather", "args": '{"city": "Oslo"}', "id": "a", "index": 0}]
    )
    broken = AIMessageChunk("", tool_call_chunks=[{"name": "weather", "args": '{"city', "id": "b", "index": 0}])
    messages = [
        SystemMessageChunk("Answer briefly."),
        HumanMessageChunk("How is the weather?"),
        called,
        ToolMessageChunk("rain", tool_call_id="a"),
        broken,
        ToolMessageChunk("no such city", tool_call_id="b"),
        AIMessageChunk("Rain."),
        ChatMessageChunk("And now?", role="user"),
    ]
    fitted = fit_messages(messages, 10_000, counter=COUNTER)
    assert fitted.messages == messages
    small = fit_messages(messages, 45, counter=COUNTER)
    assert small.messages[0] is messages[0]
    assert small.messages[-1] is messages[-1]
    assert {unit.positions for unit in small.dropped} >= {(2, 3), (4, 5)}


@tool
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"rain in {city} " * 30


class Forecast(BaseModel):
    """Tell tomorrow's weather in a city."""

    city: str


def test_tools_of_every_kind_are_counted():
    plain = fit_messages(history(), 10_000, counter=COUNTER).total_tokens
    for given in (weather, Forecast, {"type": "web_search_20250305", "name": "web_search"}, weather.func):
        counted = fit_messages(history(), 10_000, counter=COUNTER, tools=[given]).total_tokens
        assert counted > plain + 10


def test_the_newest_result_is_never_hidden():
    messages = [
        HumanMessage("Hi"),
        AIMessage("", tool_calls=[call("weather", "a")]),
        ToolMessage("x" * 4000, tool_call_id="a"),
    ]
    with pytest.raises(PinnedMessagesExceedBudgetError, match="results that the model has yet to see"):
        fit_messages(messages, 100, counter=COUNTER, forms=False)


def documents() -> list[Document]:
    return [Document(f"{word} " * 10, metadata={"relevance_score": score}) for word, score in WORDS.items()]


WORDS = {"alpha": 0.2, "bravo": 0.9, "charlie": 0.5}


def test_documents_are_chosen_by_relevance():
    policy = Pipeline(scorer=ReflexiveScorer())
    chosen = DocumentSelector(20, policy, COUNTER).transform_documents(documents())
    assert [document.page_content.split()[0] for document in chosen] == ["bravo"]


def test_documents_are_chosen_asynchronously_too():
    selector, found = DocumentSelector(20, Pipeline(scorer=ReflexiveScorer()), COUNTER), documents()
    assert asyncio.run(selector.atransform_documents(found)) == selector.transform_documents(found) == [found[1]]


def test_without_scores_the_rank_decides():
    unscored = [Document(f"{word} " * 10) for word in WORDS]
    chosen = DocumentSelector(20, counter=COUNTER, policy=Pipeline(scorer=ReflexiveScorer())).transform_documents(
        unscored
    )
    assert [document.page_content.split()[0] for document in chosen] == ["alpha"]
    assert chosen[0] is unscored[0]


class TestLaws(FrameworkLaws):
    def fit(self, messages, budget, **options):
        return fit_messages(messages, budget, counter=COUNTER, **options)

    def user(self, text):
        return HumanMessage(text)

    def answer(self, text):
        return AIMessage(text)

    def call(self, key, *, thinking=""):
        blocks = [{"type": "thinking", "thinking": thinking, "signature": "c2ln"}] if thinking else []
        use = {"type": "tool_use", "id": key, "name": "look", "input": {}}
        return AIMessage([*blocks, use], tool_calls=[{"name": "look", "args": {}, "id": key, "type": "tool_call"}])

    def result(self, key, text, words=""):
        return [ToolMessage(text, tool_call_id=key), *([HumanMessage(words)] if words else [])]


class TestLawsInStandardBlocks(TestLaws):
    def call(self, key, *, thinking=""):
        blocks = [{"type": "reasoning", "reasoning": thinking, "extras": {"signature": "c2ln"}}] if thinking else []
        return AIMessage(content_blocks=[*blocks, {"type": "tool_call", "id": key, "name": "look", "args": {}}])


class TestLawsInAStream(TestLaws):
    def answer(self, text):
        return AIMessageChunk(text)

    def call(self, key, *, thinking=""):
        chunk = {"name": "look", "args": "{}", "id": key, "index": 1}
        return AIMessageChunk(super().call(key, thinking=thinking).content, tool_call_chunks=[chunk])


ANTHROPIC_SEARCH = (
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "news"}},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "url": "u"}]},
)
STANDARD_SEARCH = (
    {"type": "server_tool_call", "id": "s", "name": "web_search", "args": {"query": "news"}},
    {"type": "server_tool_result", "tool_call_id": "s", "status": "success", "output": [{"url": "u"}]},
)


@pytest.mark.parametrize("budget", range(30, 200, 5))
@pytest.mark.parametrize(("search", "found"), [ANTHROPIC_SEARCH, STANDARD_SEARCH])
def test_a_turn_that_the_provider_paused_is_not_split(budget: int, search: dict, found: dict):
    paused = [{"type": "text", "text": "Let me see. " * 5}, search]
    messages = [
        HumanMessage("Tell me a story. " * 5),
        AIMessage("Once upon a time. " * 5),
        HumanMessage("What is new?"),
        AIMessage(paused, response_metadata={"stop_reason": "pause_turn"}),
        AIMessage([found, {"type": "text", "text": "Much is new. " * 5}]),
        HumanMessage("Thank you."),
    ]
    kept = list(fit_messages(messages, budget, counter=COUNTER).positions)
    assert (3 in kept) == (4 in kept)
    assert fit_messages(messages[:4], 1000, counter=COUNTER).messages == messages[:4]


@pytest.mark.parametrize("style", ["anthropic", "standard"])
@pytest.mark.parametrize("budget", range(40, 260, 10))
def test_calls_made_by_code_stay_with_the_code(budget: int, style: str):
    caller = {"type": "code_execution_20260120", "tool_id": "code"}

    def called(key: str, *before: dict) -> AIMessage:
        if style == "standard":
            block = {"type": "tool_call", "id": key, "name": "look", "args": {}, "extras": {"caller": caller}}
        else:
            block = {"type": "tool_use", "id": key, "name": "look", "input": {}, "caller": caller}
        return AIMessage([*before, block], tool_calls=[call("look", key)])

    running = {"type": "server_tool_use", "id": "code", "name": "code_execution", "input": {"code": "look() " * 10}}
    ended = {"type": "code_execution_tool_result", "tool_use_id": "code", "content": {"stdout": "fine"}}
    messages = [
        HumanMessage("Look twice."),
        called("a", running),
        ToolMessage("x" * 200, tool_call_id="a"),
        called("b"),
        ToolMessage("y" * 20, tool_call_id="b"),
        AIMessage([ended, {"type": "text", "text": "Fine."}]),
        HumanMessage("Thank you."),
    ]
    kept = list(fit_messages(messages, budget, counter=COUNTER).positions)
    assert kept in ([0, 6], [6], [0, 1, 2, 3, 4, 5, 6])
    assert fit_messages(messages, 1000, counter=COUNTER).messages == messages
