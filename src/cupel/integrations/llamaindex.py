"""LlamaIndex: a node postprocessor and a chat memory.

Needs `cupel[llamaindex]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from cupel.errors import MissingExtraError
from cupel.integrations._calls import CallIds
from cupel.integrations._documents import select_documents
from cupel.integrations.messages import Fitted, Framework
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline
from cupel.policy import Policy
from cupel.tokens import TokenCounter, counter_or_default

try:
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.memory.types import BaseChatStoreMemory
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
except ImportError:
    raise MissingExtraError("llama-index-core", "llamaindex") from None

__all__ = ["BudgetPostprocessor", "FittedMemory", "fit_messages"]

_ROLES = {"chatbot": "assistant", "model": "assistant"}


def fit_messages(
    messages: Sequence[ChatMessage],
    budget: int | ContextBudget,
    policy: Policy | Pipeline | None = None,
    counter: TokenCounter | None = None,
    tools: Sequence[Any] | None = None,
    *,
    pin: Callable[[ChatMessage], bool] | None = None,
    query: str | None = None,
) -> Fitted[ChatMessage]:
    """`cupel.integrations.messages.fit` for LlamaIndex's chat messages: the same objects come back."""
    return _LLAMAINDEX.fit(messages, budget, policy, counter, tools, pin=pin, query=query)


class BudgetPostprocessor(BaseNodePostprocessor):  # type: ignore[misc, unused-ignore]
    """Keeps the nodes that fit a token budget, the best of them at both ends unless the policy says otherwise.

    A node's relevance is its score, or else its rank; what is counted is the text the model will see, with metadata.
    """

    budget: int = Field(description="Tokens that the nodes may use together.")
    policy: Any = Field(default=None, exclude=True, description="A cupel policy or pipeline; None for presets.rag().")
    counter: Any = Field(default=None, exclude=True, description="A cupel token counter; None for the default one.")

    @classmethod
    def class_name(cls) -> str:
        """The name LlamaIndex saves it under."""
        return "CupelBudgetPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return select_documents(
            nodes,
            self.budget,
            self.policy,
            self.counter,
            text=lambda entry: entry.node.get_content(metadata_mode=MetadataMode.LLM),
            score=lambda entry: entry.score,
            query=None if query_bundle is None else query_bundle.query_str or None,
        )


class FittedMemory(BaseChatStoreMemory):  # type: ignore[misc, unused-ignore]
    """A chat memory that keeps everything and hands out what fits a token budget and every chat model accepts."""

    budget: int = Field(description="Tokens that the messages may use together.")
    policy: Any = Field(default=None, exclude=True, description="A cupel policy or pipeline; None for newest first.")
    counter: Any = Field(default=None, exclude=True, description="A cupel token counter; None for the default one.")
    tools: Any = Field(default=None, exclude=True, description="Tools that are sent along and counted.")
    pin: Any = Field(default=None, exclude=True, description="A function that is true of messages to keep always.")

    @classmethod
    def class_name(cls) -> str:
        """The name LlamaIndex saves it under."""
        return "CupelFittedMemory"

    @classmethod
    def from_defaults(cls, chat_history: list[ChatMessage] | None = None, llm: Any = None, **kwargs: Any) -> Self:
        """A memory with an optional history; its budget, if not given, is three quarters of the model's window."""
        if "budget" not in kwargs and llm is not None:
            kwargs["budget"] = llm.metadata.context_window * 3 // 4
        memory = cls(**kwargs)
        if chat_history is not None:
            memory.set(chat_history)
        return memory

    def tokenizer_fn(self, text: str) -> Sequence[int]:
        """Stand for `text` with a sequence as long as its tokens are many.

        By its length the engines learn what their own prompts cost, and hand it to `get` as `initial_token_count`.
        """
        return range(counter_or_default(self.counter).count(text))

    def get(self, input: str | None = None, initial_token_count: int = 0, **_kwargs: Any) -> list[ChatMessage]:  # noqa: A002
        """Return the messages that fit beside `initial_token_count` tokens of other context.

        `input` is what a policy that scores by relevance looks for, by default the newest user message.
        """
        return self._fit(self.get_all(), initial_token_count, input)

    async def aget(self, input: str | None = None, initial_token_count: int = 0, **_kwargs: Any) -> list[ChatMessage]:  # noqa: A002
        """Return what `get` does, read from an asynchronous store."""
        return self._fit(await self.aget_all(), initial_token_count, input)

    def _fit(self, messages: list[ChatMessage], initial_token_count: int, asked: str | None) -> list[ChatMessage]:
        room, query = max(0, self.budget - initial_token_count), asked or None
        return fit_messages(messages, room, self.policy, self.counter, self.tools, pin=self.pin, query=query).messages


def _views(messages: Sequence[ChatMessage]) -> Iterator[Mapping[str, Any]]:
    """The messages as chat-completions would have them."""
    ids = CallIds()
    for message in messages:
        role = message.role.value
        blocks = [_part(block) for block in message.blocks if not _is_silent(block)]
        view: dict[str, Any] = {"role": _ROLES.get(role, role), "content": blocks or None}
        calls = [block for block in message.blocks if block.block_type == "tool_call"]
        if calls:
            keys = ids.ask((_given_id(call), call.tool_name) for call in calls)
            view["tool_calls"] = [
                {"id": key, "function": {"name": call.tool_name, "arguments": call.tool_kwargs}}
                for key, call in zip(keys, calls, strict=True)
            ]
        elif older := message.additional_kwargs.get("tool_calls"):  # where older versions keep them
            view["tool_calls"] = older
            ids.ask(())
        if role == "tool":
            key = message.additional_kwargs.get("tool_call_id")
            view["tool_call_id"] = ids.answer(key, key or None)
            view["content"] = blocks or ""
        if role == "function":
            view["name"] = message.additional_kwargs.get("name")
        yield view


def _given_id(call: Any) -> str | None:
    """The call's id, unless it is only its tool's name, as of models that have no ids: then two calls may share it."""
    return None if call.tool_call_id == call.tool_name else call.tool_call_id


def _is_silent(block: Any) -> bool:
    """Whether a block is not content: a call, which is read apart, a cache mark, or an empty text."""
    return block.block_type in ("tool_call", "cache") or (block.block_type == "text" and not block.text)


def _part(block: Any) -> dict[str, Any]:
    match block.block_type:
        case "text":
            return {"type": "text", "text": block.text}
        case "thinking":
            return {"type": "thinking", "text": block.content or ""}
        case "image":
            encoded = block.image.decode() if isinstance(block.image, bytes) else ""
            url = f"data:;base64,{encoded}" if encoded else str(block.url or "")
            return {"type": "image_url", "image_url": {"url": url, "detail": block.detail}}
        case _:
            return {"type": str(block.block_type), "text": block.model_dump_json()}


_LLAMAINDEX: Framework[ChatMessage] = Framework(ChatMessage, _views, lambda tool: tool.metadata.to_openai_tool())
