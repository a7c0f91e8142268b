"""The LlamaIndex module, against the real package."""

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, TextBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.mock import MockLLM
from llama_index.core.schema import NodeWithScore, TextNode

from cupel import Policy, ReflexiveScorer
from cupel.integrations.llamaindex import BudgetPostprocessor, FittedMemory, fit_messages
from cupel.tokens import CharacterEstimate

COUNTER = CharacterEstimate()


def history() -> list[ChatMessage]:
    calls = [{"id": key, "function": {"name": "weather", "arguments": "{}"}, "type": "function"} for key in "ab"]
    return [
        ChatMessage("Answer briefly.", role=MessageRole.SYSTEM),
        ChatMessage("How is the weather? " * 5),
        ChatMessage(role=MessageRole.ASSISTANT, additional_kwargs={"tool_calls": calls}),
        ChatMessage("rain " * 40, role=MessageRole.TOOL, additional_kwargs={"tool_call_id": "b"}),
        ChatMessage("sun", role=MessageRole.TOOL, additional_kwargs={"tool_call_id": "a"}),
        ChatMessage("Rain, then sun.", role=MessageRole.ASSISTANT),
        ChatMessage("And tomorrow?"),
    ]


@pytest.mark.parametrize("budget", range(20, 220, 5))
def test_calls_and_results_stay_together_and_the_user_speaks_first(budget: int):
    messages = history()
    fitted = fit_messages(messages, budget, counter=COUNTER)
    kept = [next(at for at, one in enumerate(messages) if one is message) for message in fitted.messages]
    assert kept == sorted(kept)
    assert {0, 6} <= set(kept)
    assert {2, 3, 4} <= set(kept) or not {2, 3, 4} & set(kept)
    assert messages[kept[1]].role == MessageRole.USER
    assert fitted.total_tokens <= budget


def test_call_blocks_and_images_are_read():
    blocks = pytest.importorskip("llama_index.core.base.llms.types")
    if not hasattr(blocks, "ToolCallBlock"):
        pytest.skip("this version keeps calls in additional_kwargs only")
    messages = [
        ChatMessage(blocks=[TextBlock(text="What is this?"), ImageBlock(url="https://example.com/a.png")]),
        ChatMessage(
            role=MessageRole.ASSISTANT,
            blocks=[blocks.ToolCallBlock(tool_call_id="a", tool_name="look", tool_kwargs={"closely": True})],
        ),
        ChatMessage("A cat.", role=MessageRole.TOOL, additional_kwargs={"tool_call_id": "a"}),
    ]
    fitted = fit_messages(messages, 10_000, counter=COUNTER)
    assert fitted.messages == messages
    assert fitted.total_tokens > 1000, "the image has been counted"


def test_a_call_without_its_result_is_left_out():
    messages = history()[:4]
    fitted = fit_messages(messages, 10_000, counter=COUNTER)
    assert [message.role.value for message in fitted.messages] == ["system", "user"]
    assert {unit.reason.filter_name for unit in fitted.dropped} == {"call without its result"}


def test_the_memory_keeps_everything_and_hands_out_what_fits():
    memory = FittedMemory.from_defaults(chat_history=history(), budget=60, counter=COUNTER)
    assert [message.role.value for message in memory.get()] == ["system", "user", "assistant", "user"]
    assert [message.role.value for message in memory.get(initial_token_count=30)] == ["system", "user"]
    assert len(memory.get_all()) == 7
    memory.put(ChatMessage("One more."))
    assert memory.get()[-1].content == "One more."


def test_the_memory_serves_a_chat_engine():
    memory = FittedMemory.from_defaults(llm=MockLLM(), counter=COUNTER)
    assert memory.budget == MockLLM().metadata.context_window * 3 // 4
    engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory)
    engine.chat("Hello there.")
    assert [message.role.value for message in memory.get()] == ["user", "assistant"]


def nodes() -> list[NodeWithScore]:
    scores = {"alpha": 0.2, "bravo": 0.9, "charlie": 0.5}
    return [NodeWithScore(node=TextNode(text=f"{word} " * 10), score=score) for word, score in scores.items()]


def test_nodes_are_chosen_by_score():
    postprocessor = BudgetPostprocessor(budget=20, policy=Policy(ReflexiveScorer()), counter=COUNTER)
    given = nodes()
    chosen = postprocessor.postprocess_nodes(given, query_str="which one?")
    assert len(chosen) == 1
    assert chosen[0] is given[1]


def test_the_best_nodes_stand_at_the_ends():
    chosen = BudgetPostprocessor(budget=1000, counter=COUNTER).postprocess_nodes(nodes())
    assert [entry.score for entry in chosen] == [0.9, 0.2, 0.5]


def test_metadata_that_the_model_sees_is_counted():
    node = NodeWithScore(node=TextNode(text="short", metadata={"note": "x" * 400}), score=1.0)
    assert BudgetPostprocessor(budget=50, counter=COUNTER).postprocess_nodes([node]) == []
