"""LlamaIndex: a chat memory that keeps a session, and a node postprocessor.

Needs `cupel-context[llamaindex]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Self

import msgspec

from cupel._internal.checks import shown
from cupel._internal.digests import message_digest
from cupel.errors import ConfigurationError, MissingExtraError
from cupel.integrations._adapters import CallIds, select_documents
from cupel.integrations._sessions import STATE_KEY, OpenSession, SessionOptions, Sessions
from cupel.messages import Framework, Prices
from cupel.tokens import counter_or_default

try:
    from llama_index.core.base.llms.types import ChatMessage, MessageRole
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.memory.types import BaseChatStoreMemory
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
except ImportError:
    raise MissingExtraError("llama-index-core", "llamaindex") from None

__all__ = ["LLAMAINDEX", "BudgetPostprocessor", "SessionMemory", "fit_messages"]


_ROLES = {"chatbot": "assistant", "model": "assistant"}


def _views(messages: Sequence[ChatMessage]) -> Iterator[Mapping[str, Any]]:
    """Return the messages as chat-completions messages."""
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
    """Return the call's id, unless it is only the tool's name, which two calls of a model without ids may share."""
    return None if call.tool_call_id == call.tool_name else call.tool_call_id


def _is_silent(block: Any) -> bool:
    """Return whether a block is not content: a call, which is read separately, a cache breakpoint, or an empty text."""
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


def _with_outputs(message: ChatMessage, texts: Sequence[str]) -> ChatMessage:
    """Return a copy of a tool result with other texts, one for each text in its view."""
    following = iter(texts)
    blocks = [
        block.model_copy(update={"text": next(following)}) if block.block_type == "text" and block.text else block
        for block in message.blocks
    ]
    return message.model_copy(update={"blocks": blocks})


def _without_thinking(message: ChatMessage) -> ChatMessage:
    """Return a copy of a message without its blocks of thinking; the message, if it has none."""
    kept = [block for block in message.blocks if block.block_type != "thinking"]
    return message if len(kept) == len(message.blocks) else message.model_copy(update={"blocks": kept})


LLAMAINDEX: Framework[ChatMessage] = Framework(
    ChatMessage,
    _views,
    lambda tool: tool.metadata.to_openai_tool(),
    with_outputs=_with_outputs,
    without_thinking=_without_thinking,
)


fit_messages = LLAMAINDEX.fit
"""Fits LlamaIndex's chat messages as `cupel.messages.fit` does, into a `Fitted` with the same objects."""


class BudgetPostprocessor(BaseNodePostprocessor):  # type: ignore[misc, unused-ignore]
    """Keeps the nodes that fit a token budget; by default the best of them go to both ends.

    A node's relevance is its score, or else its rank. Tokens are those of the text that the model sees, with metadata.
    """

    budget: int = Field(description="Tokens that the nodes may use together.")
    policy: Any = Field(default=None, exclude=True, description="A cupel pipeline; None for presets.rag().")
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


_PLACE: Final = f"the message in the chat store under '…:{STATE_KEY}'"


class _StoredRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last request of a conversation, stored as a message of the chat store."""

    before: str | None
    """The session's state before it, from which the same history gets the same request again."""
    after: str
    """The session's state after it."""
    history: str
    """The length of the history that it was selected from, and a digest of the newest message."""

    def written(self) -> ChatMessage:
        """Return it as a message."""
        return ChatMessage(role=MessageRole.SYSTEM, content=msgspec.json.encode(self).decode())

    @classmethod
    def read(cls, stored: Sequence[ChatMessage]) -> _StoredRequest | None:
        """Return the request that `written` wrote, or None if there is none."""
        if not stored:
            return None
        text = stored[-1].content
        try:
            return msgspec.json.decode(text or "", type=cls)
        except msgspec.DecodeError as error:
            msg = f"{_PLACE} must be a request that SessionMemory stored, got {shown(text)}: {error}"
            raise ConfigurationError(msg) from error


class SessionMemory(BaseChatStoreMemory):  # type: ignore[misc, unused-ignore]
    """A chat memory that keeps everything and returns the request that a session selects.

    Each `chat_store_key` is a conversation. The state of its session is kept in the same chat store, so that another
    memory on that store can continue. Asking again about the same history returns the same request. A history that ends
    with an answer of the model, asked about without an `input`, is not remembered as sent. The options are those of
    `MessageSession`.
    """

    budget: int = Field(description="Tokens that a request may take.")
    policy: Any = Field(default=None, exclude=True, description="A cupel pipeline; None for presets.conversation().")
    counter: Any = Field(default=None, exclude=True, description="A cupel token counter; None for the default one.")
    tools: Any = Field(default=None, exclude=True, description="Tools that are sent along and counted.")
    pin: Any = Field(default=None, exclude=True, description="A function that is true of messages to keep always.")
    alternate: bool = Field(default=False, description="Whether user and assistant must take turns strictly.")
    system_messages: Any = Field(default="keep", description="What becomes of system messages after the first ones.")
    system: str | None = Field(default=None, description="A prompt that an agent or engine adds, to be counted.")
    prices: Prices | None = Field(default=None, description="How the provider caches; None for its default.")
    keep: float = Field(default=0.45, description="The share of the free room that a cut fills.")
    forms: Any = Field(default=None, exclude=True, description="False to shorten no tool output, or a shortener.")
    note: Any = Field(default=None, exclude=True, description="A function that writes the note on omitted messages.")
    query: str | None = Field(default=None, description="What a policy's scorer looks for.")
    gaps: bool = Field(default=True, description="Whether to leave out messages from anywhere, not only the oldest.")
    on_turn: Any = Field(default=None, exclude=True, description="A function that is called with each turn.")
    _kept: Sessions[ChatMessage] | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any, /) -> None:
        """Check the options."""
        super().model_post_init(context)
        self._opened(None)

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex saves it under."""
        return "CupelSessionMemory"

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
        """Return a sequence as long as the token count of `text`.

        Engines take the length to learn the cost of their own prompts, and pass it to `get` as `initial_token_count`.
        """
        return range(counter_or_default(self.counter).count(text))

    def get(self, input: str | None = None, initial_token_count: int = 0, **_kwargs: Any) -> list[ChatMessage]:  # noqa: A002
        """Return the next request; other context takes `initial_token_count` tokens of the budget."""
        with self._sessions.alone(self.chat_store_key):
            stored = self.chat_store.get_messages(self._state_key)
            chosen, request = self._next(stored, self.get_all(), initial_token_count, input)
            if request is not None:
                self.chat_store.set_messages(self._state_key, [request])
        return chosen

    async def aget(self, input: str | None = None, initial_token_count: int = 0, **_kwargs: Any) -> list[ChatMessage]:  # noqa: A002
        """Return the same as `get`, with an asynchronous store."""
        with self._sessions.alone(self.chat_store_key):
            stored = await self.chat_store.aget_messages(self._state_key)
            chosen, request = self._next(stored, await self.aget_all(), initial_token_count, input)
            if request is not None:
                await self.chat_store.aset_messages(self._state_key, [request])
        return chosen

    def observe(self, usage: object) -> None:
        """Settle the last request with the usage that the provider reported, as `MessageSession.observe` does.

        A memory does not see responses: pass it `response.raw.usage`.
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
            self._kept = Sessions(LLAMAINDEX, _PLACE, self.budget, self.policy, **options)
        return self._kept

    def _opened(self, state: str | None, used: int = 0) -> OpenSession[ChatMessage]:
        budget = max(0, self.budget - used)
        return self._sessions.open(state, tools=self.tools, system=self.system, budget=budget)

    def _next(
        self, stored: Sequence[ChatMessage], messages: list[ChatMessage], used: int, asked: str | None
    ) -> tuple[list[ChatMessage], ChatMessage | None]:
        """Return the next request, and the message to store for it, if any."""
        if not messages:
            return [], None
        last = _StoredRequest.read(stored)
        history = f"{len(messages)}:{message_digest(messages[-1]).hex()}"
        again = last is not None and last.history == history
        before = None if last is None else last.before if again else last.after
        conversation = self._opened(before, used)
        if again or (asked is None and messages[-1].role == MessageRole.ASSISTANT):
            return conversation.session.fit(messages).messages, None
        chosen = conversation.fit(messages)
        return chosen, _StoredRequest(before, self._sessions.close(conversation), history).written()

    def _settled(self, stored: Sequence[ChatMessage], usage: object) -> list[ChatMessage]:
        last = _StoredRequest.read(stored)
        if last is None:
            return []
        conversation = self._opened(last.after)
        conversation.session.observe(usage)
        return [_StoredRequest(last.before, self._sessions.close(conversation), last.history).written()]
