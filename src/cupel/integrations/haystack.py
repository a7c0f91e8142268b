"""Haystack: a chat generator that keeps a session, and components that fit documents and messages into a budget.

Needs `cupel-context[haystack]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedClassDecorator=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUntypedFunctionDecorator=false, reportUnknownLambdaType=false

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Unpack

import cupel.policy
from cupel._documents import BUDGET
from cupel.errors import MissingExtraError
from cupel.integrations._documents import select_documents
from cupel.integrations._sessions import STATE_KEY, OpenSession, SessionOptions, Sessions
from cupel.messages import FitOptions, Fitted
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline
from cupel.sessions import Prices
from cupel.tokens import TokenCounter

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.core.serialization import component_to_dict
    from haystack.dataclasses import ChatMessage, StreamingCallbackT
    from haystack.tools import (
        ToolsType,
        deserialize_tools_or_toolset_inplace,
        flatten_tools_or_toolsets,
        serialize_tools_or_toolset,
    )
    from haystack.utils import deserialize_callable, serialize_callable
    from haystack.utils.deserialization import deserialize_component_inplace
except ImportError:
    raise MissingExtraError("haystack-ai", "haystack") from None

from cupel.integrations._haystack import HAYSTACK

__all__ = ["DocumentSelector", "MessageFitter", "SessionChatGenerator", "fit_messages"]

_FUNCTIONS = ("forms", "image_tokens", "on_turn", "pin")
"""Options that may be functions; Haystack saves those by their names."""


def fit_messages(
    messages: Sequence[ChatMessage],
    budget: int | ContextBudget,
    policy: Pipeline | None = None,
    counter: TokenCounter | None = None,
    tools: ToolsType | None = None,
    **options: Unpack[FitOptions[ChatMessage]],
) -> Fitted[ChatMessage]:
    """Fit Haystack's chat messages as `cupel.messages.fit` does: the same objects come back."""
    return HAYSTACK.fit(messages, budget, policy, counter, flatten_tools_or_toolsets(tools), **options)


class _Component:
    """What both components are made of; a `counter` of one's own is not written to YAML."""

    budget: int | ContextBudget
    policy: Pipeline | None
    counter: TokenCounter | None

    def to_dict(self) -> dict[str, Any]:
        """Return the component as Haystack saves it: budget and policy as their documents."""
        return self._saved()

    def _saved(self, **more: Any) -> dict[str, Any]:
        budget = BUDGET.write(self.budget) if isinstance(self.budget, ContextBudget) else self.budget
        saved: dict[str, Any] = default_to_dict(self, budget=budget, policy=self.policy, **more)
        return saved

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """Return the component that `to_dict` saved."""
        parameters = dict(data.get("init_parameters", {}))
        if isinstance(parameters.get("budget"), dict):
            parameters["budget"] = BUDGET.read(parameters["budget"])
        if parameters.get("policy") is not None:
            parameters["policy"] = cupel.policy.from_dict(parameters["policy"])
        if parameters.get("prices") is not None:
            parameters["prices"] = Prices(**parameters["prices"])
        if "chat_generator" in parameters:
            deserialize_component_inplace(parameters, key="chat_generator")
        for name in _FUNCTIONS:
            if isinstance(parameters.get(name), str):
                parameters[name] = deserialize_callable(parameters[name])
        deserialize_tools_or_toolset_inplace(parameters)
        return default_from_dict(cls, {**data, "init_parameters": parameters})


@component
class DocumentSelector(_Component):
    """Keeps the documents that fit a budget, the best of them at both ends unless the policy says otherwise.

    A document's relevance is its score, or else its rank.
    """

    def __init__(
        self, budget: int | ContextBudget, policy: Pipeline | None = None, counter: TokenCounter | None = None
    ) -> None:
        self.budget = budget
        self.policy = policy
        self.counter = counter

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator, unused-ignore]
    def run(self, documents: list[Document], query: str | None = None) -> dict[str, list[Document]]:
        """Choose among the documents; `query` is what a policy that scores by relevance looks for."""
        chosen = select_documents(
            documents,
            self.budget,
            self.policy,
            self.counter,
            text=lambda document: document.content,
            score=lambda document: document.score,
            query=query,
        )
        return {"documents": chosen}


@component
class MessageFitter(_Component):
    """Keeps the chat messages that fit a budget and that every chat model accepts.

    `tools` are counted with the messages; the options are those of `fit`. To be saved with a pipeline, functions among
    them must be of a module.
    """

    def __init__(
        self,
        budget: int | ContextBudget,
        policy: Pipeline | None = None,
        counter: TokenCounter | None = None,
        tools: ToolsType | None = None,
        **options: Unpack[FitOptions[ChatMessage]],
    ) -> None:
        self.budget = budget
        self.policy = policy
        self.counter = counter
        self.tools = tools
        self.options = options

    def to_dict(self) -> dict[str, Any]:
        """Return the component as Haystack saves it, functions by their names."""
        return self._saved(tools=serialize_tools_or_toolset(self.tools), **_written(self.options))

    @component.output_types(messages=list[ChatMessage])  # type: ignore[untyped-decorator, unused-ignore]
    def run(self, messages: list[ChatMessage], query: str | None = None) -> dict[str, list[ChatMessage]]:
        """Choose among the messages; `query` is what the policy looks for, by default the newest user message."""
        options: Any = self.options if query is None else {**self.options, "query": query}
        fitted = fit_messages(messages, self.budget, self.policy, self.counter, self.tools, **options)
        return {"messages": fitted.messages}


@component
class SessionChatGenerator(_Component):
    """A chat generator that sends what a session chose: `SessionChatGenerator(OpenAIChatGenerator(), 8000)`.

    It goes wherever the generator that it wraps could, in a pipeline or an `Agent`, and leaves the messages that it
    is given as they are. The state of the session is kept in the `meta` of the reply, which is stored with the
    conversation and never sent. The options are those of `MessageSession`.
    """

    def __init__(
        self,
        chat_generator: Any,
        budget: int | ContextBudget,
        policy: Pipeline | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        self.chat_generator = chat_generator
        self.budget = budget
        self.policy = policy
        self._options = options
        self._sessions = Sessions(HAYSTACK, f"meta[{STATE_KEY!r}] of a reply", budget, policy, **options)

    def to_dict(self) -> dict[str, Any]:
        """Return the component as Haystack saves it, functions by their names; a `counter` is not saved."""
        options = _written(self._options)
        options.pop("counter", None)
        if options.get("prices") is not None:
            options["prices"] = asdict(options["prices"])
        return self._saved(chat_generator=component_to_dict(self.chat_generator, "chat_generator"), **options)

    def warm_up(self) -> None:
        """Warm up the generator that is wrapped."""
        getattr(self.chat_generator, "warm_up", _nothing)()

    async def warm_up_async(self) -> None:
        """Warm up the generator that is wrapped, on the serving event loop if it can."""
        await getattr(self.chat_generator, "warm_up_async", lambda: asyncio.to_thread(self.warm_up))()

    def close(self) -> None:
        """Close the generator that is wrapped."""
        getattr(self.chat_generator, "close", _nothing)()

    async def close_async(self) -> None:
        """Close the generator that is wrapped, on the serving event loop if it can."""
        await getattr(self.chat_generator, "close_async", lambda: asyncio.to_thread(self.close))()

    @component.output_types(replies=list[ChatMessage])  # type: ignore[untyped-decorator, unused-ignore]
    def run(
        self,
        messages: list[ChatMessage],
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: ToolsType | None = None,
    ) -> dict[str, Any]:
        """Send what the session chose, and return the replies with its state."""
        conversation = self._open(messages, tools)
        given = _given(streaming_callback=streaming_callback, generation_kwargs=generation_kwargs, tools=tools)
        return self._close(conversation, self.chat_generator.run(conversation.fit(messages), **given))

    @component.output_types(replies=list[ChatMessage])  # type: ignore[untyped-decorator, unused-ignore]
    async def run_async(
        self,
        messages: list[ChatMessage],
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: ToolsType | None = None,
    ) -> dict[str, Any]:
        """Do what `run` does; a generator that is not asynchronous runs in a thread."""
        conversation = self._open(messages, tools)
        given = _given(streaming_callback=streaming_callback, generation_kwargs=generation_kwargs, tools=tools)
        chosen, generator = conversation.fit(messages), self.chat_generator
        if hasattr(generator, "run_async"):
            return self._close(conversation, await generator.run_async(chosen, **given))
        return self._close(conversation, await asyncio.to_thread(generator.run, chosen, **given))

    def _open(self, messages: Sequence[ChatMessage], tools: ToolsType | None) -> OpenSession[ChatMessage]:
        states = (message.meta[STATE_KEY] for message in reversed(messages) if STATE_KEY in message.meta)
        sent = getattr(self.chat_generator, "tools", None) if tools is None else tools
        return self._sessions.open(next(states, None), tools=flatten_tools_or_toolsets(sent))

    def _close(self, conversation: OpenSession[ChatMessage], result: Mapping[str, Any]) -> dict[str, Any]:
        replies = result["replies"]
        conversation.observe(next((reply.meta["usage"] for reply in replies if reply.meta.get("usage")), None))
        state = self._sessions.close(conversation)
        return {**result, "replies": [replace(reply, _meta={**reply.meta, STATE_KEY: state}) for reply in replies]}


def _written(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they are saved, functions by their names."""
    functions = {name: serialize_callable(options[name]) for name in _FUNCTIONS if callable(options.get(name))}
    return {**options, **functions}


def _nothing() -> None:
    """Stand for what a generator may lack."""


def _given(**inputs: Any) -> dict[str, Any]:
    """Return what the caller gave: not every generator takes all of it."""
    return {name: value for name, value in inputs.items() if value is not None}
