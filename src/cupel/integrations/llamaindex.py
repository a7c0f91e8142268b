"""LlamaIndex: a chat memory that keeps a session, one that does not, and a node postprocessor.

Needs `cupel-context[llamaindex]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, Unpack

from cupel.errors import MissingExtraError
from cupel.integrations._documents import select_documents
from cupel.integrations._sessions import STATE_KEY, OpenSession, SessionOptions, Sessions
from cupel.messages import FitOptions, Fitted
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline
from cupel.sessions import Prices
from cupel.tokens import TokenCounter, counter_or_default

try:
    from llama_index.core.base.llms.types import ChatMessage, MessageRole
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.memory.types import BaseChatStoreMemory
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
except ImportError:
    raise MissingExtraError("llama-index-core", "llamaindex") from None

from cupel.integrations._chat_store import PLACE, StoredRequest, mark
from cupel.integrations._llamaindex import LLAMAINDEX

__all__ = ["BudgetPostprocessor", "FittedMemory", "SessionMemory", "fit_messages"]


def fit_messages(
    messages: Sequence[ChatMessage],
    budget: int | ContextBudget,
    policy: Pipeline | None = None,
    counter: TokenCounter | None = None,
    tools: Sequence[Any] | None = None,
    **options: Unpack[FitOptions[ChatMessage]],
) -> Fitted[ChatMessage]:
    """Fit LlamaIndex's chat messages as `cupel.messages.fit` does: the same objects come back."""
    return LLAMAINDEX.fit(messages, budget, policy, counter, tools, **options)


class BudgetPostprocessor(BaseNodePostprocessor):  # type: ignore[misc, unused-ignore]
    """Keeps the nodes that fit a token budget, the best of them at both ends unless the policy says otherwise.

    A node's relevance is its score, or else its rank; what is counted is the text the model will see, with metadata.
    """

    budget: int = Field(description="Tokens that the nodes may use together.")
    policy: Any = Field(default=None, exclude=True, description="A cupel policy or pipeline; None for presets.rag().")
    counter: Any = Field(default=None, exclude=True, description="A cupel token counter; None for the default one.")

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex saves it under."""
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
    forms: Any = Field(default=False, exclude=True, description="True, or a shortener, to send tool outputs shorter.")
    alternate: bool = Field(default=False, description="Whether user and assistant must take turns strictly.")
    system_messages: Any = Field(default="keep", description="What becomes of system messages behind the opening.")

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex saves it under."""
        return "CupelFittedMemory"

    @classmethod
    def from_defaults(cls, chat_history: list[ChatMessage] | None = None, llm: Any = None, **kwargs: Any) -> Self:
        """Return a memory with an optional history; its budget is by default three quarters of the model's window."""
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
        return fit_messages(
            messages,
            max(0, self.budget - initial_token_count),
            self.policy,
            self.counter,
            self.tools,
            pin=self.pin,
            forms=self.forms,
            alternate=self.alternate,
            system_messages=self.system_messages,
            query=asked or None,
        ).messages


class SessionMemory(FittedMemory):
    """A chat memory that keeps everything and hands out what a session chose.

    Each `chat_store_key` is a conversation. The state of the session is kept beside it in the chat store, so that
    another memory on the same store can continue. Asking again about the same history gives the same request; a history
    that ends with the model's own words, asked about without an `input`, is looked at and not remembered as sent. The
    options are those of `MessageSession`.
    """

    system: str | None = Field(default=None, description="A prompt that an agent or engine adds, to be counted.")
    prices: Prices | None = Field(default=None, description="How the provider caches; None for its default.")
    worth: float = Field(default=1.0, description="What a full window is worth, in windows sent without a cache.")
    keep: float = Field(default=0.5, description="The share of the budget that is in use after a cut.")
    forms: Any = Field(default=None, exclude=True, description="False to shorten no tool output, or a shortener.")
    query: str | None = Field(default=None, description="What a policy's scorer looks for.")
    gaps: bool = Field(default=True, description="Whether messages may leave from anywhere but the old end.")
    on_turn: Any = Field(default=None, exclude=True, description="A function that is called with each turn.")
    _kept: Sessions[ChatMessage] | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any, /) -> None:
        """Refuse options that make no sense."""
        super().model_post_init(context)
        self._opened(None)

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex saves it under."""
        return "CupelSessionMemory"

    def get(self, input: str | None = None, initial_token_count: int = 0, **_kwargs: Any) -> list[ChatMessage]:  # noqa: A002
        """Return the next request, within what `initial_token_count` tokens of other context leave."""
        with self._sessions.alone(self.chat_store_key):
            stored = self.chat_store.get_messages(self._state_key)
            chosen, request = self._next(stored, self.get_all(), initial_token_count, input)
            if request is not None:
                self.chat_store.set_messages(self._state_key, [request])
        return chosen

    async def aget(self, input: str | None = None, initial_token_count: int = 0, **_kwargs: Any) -> list[ChatMessage]:  # noqa: A002
        """Return what `get` does, with an asynchronous store."""
        with self._sessions.alone(self.chat_store_key):
            stored = await self.chat_store.aget_messages(self._state_key)
            chosen, request = self._next(stored, await self.aget_all(), initial_token_count, input)
            if request is not None:
                await self.chat_store.aset_messages(self._state_key, [request])
        return chosen

    def observe(self, usage: object) -> None:
        """Settle the last request with what the provider said of its tokens, as `MessageSession.observe` does.

        A memory does not see responses: hand it `response.raw.usage`.
        """
        with self._sessions.alone(self.chat_store_key):
            self.chat_store.set_messages(
                self._state_key, self._settled(self.chat_store.get_messages(self._state_key), usage)
            )

    async def aobserve(self, usage: object) -> None:
        """Do what `observe` does, with an asynchronous store."""
        with self._sessions.alone(self.chat_store_key):
            stored = await self.chat_store.aget_messages(self._state_key)
            await self.chat_store.aset_messages(self._state_key, self._settled(stored, usage))

    def reset(self) -> None:
        """Forget the conversation and its session."""
        super().reset()
        self.chat_store.delete_messages(self._state_key)

    async def areset(self) -> None:
        """Forget the conversation and its session."""
        await super().areset()
        await self.chat_store.adelete_messages(self._state_key)

    @property
    def _state_key(self) -> str:
        return f"{self.chat_store_key}:{STATE_KEY}"

    @property
    def _sessions(self) -> Sessions[ChatMessage]:
        if self._kept is None:
            names = SessionOptions.__annotations__.keys() & type(self).model_fields.keys()
            options: Any = {name: getattr(self, name) for name in sorted(names)}
            self._kept = Sessions(LLAMAINDEX, PLACE, self.budget, self.policy, **options)
        return self._kept

    def _opened(self, state: str | None, beside: int = 0) -> OpenSession[ChatMessage]:
        budget = max(0, self.budget - beside)
        return self._sessions.open(state, tools=self.tools, system=self.system, budget=budget)

    def _next(
        self, stored: Sequence[ChatMessage], messages: list[ChatMessage], beside: int, asked: str | None
    ) -> tuple[list[ChatMessage], ChatMessage | None]:
        """Return the next request, and what is to be stored of it, if anything is."""
        if not messages:
            return [], None
        last, history = StoredRequest.read(stored), mark(messages)
        again = last is not None and last.history == history
        before = None if last is None else last.before if again else last.after
        conversation = self._opened(before, beside)
        if again or (asked is None and messages[-1].role == MessageRole.ASSISTANT):
            return conversation.session.fit(messages).messages, None
        chosen = conversation.fit(messages)
        return chosen, StoredRequest(before, self._sessions.close(conversation), history).written()

    def _settled(self, stored: Sequence[ChatMessage], usage: object) -> list[ChatMessage]:
        last = StoredRequest.read(stored)
        if last is None:
            return []
        conversation = self._opened(last.after)
        conversation.session.observe(usage)
        return [StoredRequest(last.before, self._sessions.close(conversation), last.history).written()]
