"""Haystack: a chat generator that keeps a session, and a component that selects documents.

Needs `cupel-context[haystack]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedClassDecorator=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUntypedFunctionDecorator=false, reportUnknownLambdaType=false

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Unpack

import cupel.policy
from cupel._internal.documents import BUDGET
from cupel.errors import MissingExtraError
from cupel.integrations._adapters import CallIds, select_documents
from cupel.integrations._sessions import STATE_KEY, OpenSession, SessionOptions, Sessions
from cupel.messages import FitOptions, Fitted, Framework, Prices
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline
from cupel.tokens import TokenCounter

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.core.serialization import component_to_dict
    from haystack.dataclasses import (
        ChatMessage,
        FileContent,
        ImageContent,
        StreamingCallbackT,
        TextContent,
        ToolCall,
    )
    from haystack.tools import (
        ToolsType,
        flatten_tools_or_toolsets,
    )
    from haystack.utils import deserialize_callable, serialize_callable
    from haystack.utils.deserialization import deserialize_component_inplace
except ImportError:
    raise MissingExtraError("haystack-ai", "haystack") from None

__all__ = ["HAYSTACK", "DocumentSelector", "SessionChatGenerator", "fit_messages"]

_FUNCTIONS = ("forms", "image_tokens", "on_turn", "pin")
"""Options that may be functions, which Haystack saves by their names."""


def _views(messages: Sequence[ChatMessage]) -> Iterator[Mapping[str, Any]]:
    """Return the messages as chat-completions messages."""
    ids = CallIds()
    for message in messages:
        view = _view(message)
        if message.tool_calls:
            keys = ids.ask((call.id, call) for call in message.tool_calls)
            view["tool_calls"] = [
                {"id": key, "function": {"name": call.tool_name, "arguments": _arguments(call)}}
                for key, call in zip(keys, message.tool_calls, strict=True)
            ]
        if result := message.tool_call_result:
            view["tool_call_id"] = ids.answer(result.origin.id, result.origin)
        yield view


def _view(message: ChatMessage) -> dict[str, Any]:
    parts = _parts([*(TextContent(text) for text in message.texts), *message.images, *message.files])
    view: dict[str, Any] = {"role": message.role.value, "content": parts or None}
    if message.name:
        view["name"] = message.name
    if message.reasonings:
        view["reasoning"] = " ".join(reasoning.reasoning_text for reasoning in message.reasonings)
    if result := message.tool_call_result:
        view["content"] = result.result if isinstance(result.result, str) else _parts(result.result)
    return view


def _parts(contents: Sequence[Any]) -> list[Any]:
    return [_part(content) for content in contents if not isinstance(content, TextContent) or content.text]


def _part(content: Any) -> dict[str, Any]:
    match content:
        case TextContent(text=text):
            return {"type": "text", "text": text}
        case ImageContent():
            return {"type": "image_url", "image_url": _image(content)}
        case FileContent():
            return {"type": "file", "file": {"file_data": content.base64_data}}
        case _:
            return {"type": "unknown", "text": str(content)}


def _arguments(call: ToolCall) -> dict[str, Any]:
    return {str(name): value for name, value in call.arguments.items()}  # JSON has no other names


def _image(image: Any) -> dict[str, Any]:
    return {"url": f"data:{image.mime_type};base64,{image.base64_image}", "detail": image.detail}


def _with_outputs(message: ChatMessage, texts: Sequence[str]) -> ChatMessage:
    """Return a copy of a tool result with other texts, one for each text in its view."""
    result, following = message.tool_call_result, iter(texts)
    shorter = next(following) if isinstance(result.result, str) else [_with_text(c, following) for c in result.result]
    return ChatMessage.from_tool(shorter, origin=result.origin, error=result.error, meta=dict(message.meta))


def _with_text(content: Any, following: Iterator[str]) -> Any:
    return TextContent(next(following)) if isinstance(content, TextContent) and content.text else content


def _without_thinking(message: ChatMessage) -> ChatMessage:
    """Return a copy of a message without its reasoning; the message, if it has none."""
    if not message.reasonings:
        return message
    texts, calls = message.texts, message.tool_calls
    return ChatMessage.from_assistant(
        "\n\n".join(texts) or None, meta=message.meta, name=message.name, tool_calls=calls or None
    )


HAYSTACK: Framework[ChatMessage] = Framework(
    ChatMessage,
    _views,
    lambda tool: tool.tool_spec,
    with_outputs=_with_outputs,
    without_thinking=_without_thinking,
)


def fit_messages(
    messages: Sequence[ChatMessage],
    budget: int | ContextBudget,
    policy: Pipeline | None = None,
    counter: TokenCounter | None = None,
    tools: ToolsType | None = None,
    **options: Unpack[FitOptions[ChatMessage]],
) -> Fitted[ChatMessage]:
    """Fit Haystack's chat messages as `cupel.messages.fit` does; the result contains the same objects."""
    return HAYSTACK.fit(messages, budget, policy, counter, flatten_tools_or_toolsets(tools), **options)


class _Component:
    """Base of the components: writes them to YAML and reads them, without a `counter` of your own."""

    budget: int | ContextBudget
    policy: Pipeline | None
    counter: TokenCounter | None

    def to_dict(self) -> dict[str, Any]:
        """Return the component as Haystack saves it, with budget and policy as documents."""
        return self._saved()

    def _saved(self, **more: Any) -> dict[str, Any]:
        budget = BUDGET.write(self.budget) if isinstance(self.budget, ContextBudget) else self.budget
        policy = None if self.policy is None else cupel.policy.to_dict(self.policy)
        saved: dict[str, Any] = default_to_dict(self, budget=budget, policy=policy, **more)
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
        return default_from_dict(cls, {**data, "init_parameters": parameters})


@component
class DocumentSelector(_Component):
    """Keeps the documents that fit a budget; by default the best of them go to both ends.

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
        """Select documents; `query` is for policies that score by relevance."""
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
class SessionChatGenerator(_Component):
    """Wraps a chat generator and sends the request of a session: `SessionChatGenerator(OpenAIChatGenerator(), 8000)`.

    It takes the place of that generator in a pipeline or an `Agent`, and does not change the messages it gets. The
    session's state is kept in the `meta` of the reply, which is stored with the conversation and never sent. The
    options are those of `MessageSession`.
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
        """Warm up the wrapped generator."""
        getattr(self.chat_generator, "warm_up", _nothing)()

    async def warm_up_async(self) -> None:
        """Warm up the wrapped generator, on the event loop if it can."""
        await getattr(self.chat_generator, "warm_up_async", lambda: asyncio.to_thread(self.warm_up))()

    def close(self) -> None:
        """Close the wrapped generator."""
        getattr(self.chat_generator, "close", _nothing)()

    async def close_async(self) -> None:
        """Close the wrapped generator, on the event loop if it can."""
        await getattr(self.chat_generator, "close_async", lambda: asyncio.to_thread(self.close))()

    @component.output_types(replies=list[ChatMessage])  # type: ignore[untyped-decorator, unused-ignore]
    def run(
        self,
        messages: list[ChatMessage],
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: ToolsType | None = None,
    ) -> dict[str, Any]:
        """Send the session's request, and return the replies with the session's state."""
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
        """Do the same as `run`; a generator without `run_async` runs in a thread."""
        conversation = self._open(messages, tools)
        given = _given(streaming_callback=streaming_callback, generation_kwargs=generation_kwargs, tools=tools)
        chosen, generator = await conversation.afit(messages), self.chat_generator
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
    """Return the options as they are saved, functions by their names."""
    functions = {name: serialize_callable(options[name]) for name in _FUNCTIONS if callable(options.get(name))}
    return {**options, **functions}


def _nothing() -> None:
    """Do nothing, for a generator without this method."""


def _given(**inputs: Any) -> dict[str, Any]:
    """Return the inputs that were given: not every generator takes all of them."""
    return {name: value for name, value in inputs.items() if value is not None}
