"""Haystack: components that fit documents and chat messages into a budget.

Needs `cupel[haystack]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedClassDecorator=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUntypedFunctionDecorator=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cupel._wire import BUDGET
from cupel.errors import MissingExtraError
from cupel.integrations._calls import CallIds
from cupel.integrations._documents import select_documents
from cupel.integrations.messages import Fitted, Framework
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline
from cupel.policy import Policy
from cupel.tokens import TokenCounter

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.dataclasses import ChatMessage, ToolCall
    from haystack.tools import (
        ToolsType,
        deserialize_tools_or_toolset_inplace,
        flatten_tools_or_toolsets,
        serialize_tools_or_toolset,
    )
    from haystack.utils import deserialize_callable, serialize_callable
except ImportError:
    raise MissingExtraError("haystack-ai", "haystack") from None

__all__ = ["DocumentSelector", "MessageFitter", "fit_messages"]


def fit_messages(
    messages: Sequence[ChatMessage],
    budget: int | ContextBudget,
    policy: Policy | Pipeline | None = None,
    counter: TokenCounter | None = None,
    tools: ToolsType | None = None,
    *,
    pin: Callable[[ChatMessage], bool] | None = None,
    query: str | None = None,
) -> Fitted[ChatMessage]:
    """`cupel.integrations.messages.fit` for Haystack's chat messages: the same objects come back."""
    return _HAYSTACK.fit(messages, budget, policy, counter, flatten_tools_or_toolsets(tools), pin=pin, query=query)


class _Component:
    """What both components are made of; a `counter` of one's own is not written to YAML."""

    budget: int | ContextBudget
    policy: Policy | None
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
            parameters["policy"] = Policy.from_dict(parameters["policy"])
        if parameters.get("pin") is not None:
            parameters["pin"] = deserialize_callable(parameters["pin"])
        deserialize_tools_or_toolset_inplace(parameters)
        return default_from_dict(cls, {**data, "init_parameters": parameters})


@component
class DocumentSelector(_Component):
    """Keeps the documents that fit a budget, the best of them at both ends unless the policy says otherwise.

    A document's relevance is its score, or else its rank.
    """

    def __init__(
        self, budget: int | ContextBudget, policy: Policy | None = None, counter: TokenCounter | None = None
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

    `tools` are counted with the messages; `pin` says which messages always stay. To be saved with a pipeline it must be
    a function of a module.
    """

    def __init__(
        self,
        budget: int | ContextBudget,
        policy: Policy | None = None,
        counter: TokenCounter | None = None,
        tools: ToolsType | None = None,
        *,
        pin: Callable[[ChatMessage], bool] | None = None,
    ) -> None:
        self.budget = budget
        self.policy = policy
        self.counter = counter
        self.tools = tools
        self.pin = pin

    def to_dict(self) -> dict[str, Any]:
        """Return the component as Haystack saves it, `pin` by its name."""
        pin = None if self.pin is None else serialize_callable(self.pin)
        return self._saved(tools=serialize_tools_or_toolset(self.tools), pin=pin)

    @component.output_types(messages=list[ChatMessage])  # type: ignore[untyped-decorator, unused-ignore]
    def run(self, messages: list[ChatMessage], query: str | None = None) -> dict[str, list[ChatMessage]]:
        """Choose among the messages; `query` is what the policy looks for, by default the newest user message."""
        fitted = fit_messages(messages, self.budget, self.policy, self.counter, self.tools, pin=self.pin, query=query)
        return {"messages": fitted.messages}


def _views(messages: Sequence[ChatMessage]) -> Iterator[Mapping[str, Any]]:
    """The messages as chat-completions would have them."""
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
    parts: list[Any] = [{"type": "text", "text": text} for text in message.texts if text]
    parts += [{"type": "image_url", "image_url": _image(image)} for image in message.images]
    parts += [{"type": "file", "file": {"file_data": file.base64_data}} for file in message.files]
    view: dict[str, Any] = {"role": message.role.value, "content": parts or None}
    if message.name:
        view["name"] = message.name
    if message.reasonings:
        view["reasoning"] = " ".join(reasoning.reasoning_text for reasoning in message.reasonings)
    if result := message.tool_call_result:
        view["content"] = result.result if isinstance(result.result, str) else str(result.result)
    return view


def _arguments(call: ToolCall) -> dict[str, Any]:
    return {str(name): value for name, value in call.arguments.items()}  # JSON has no other names


def _image(image: Any) -> dict[str, Any]:
    return {"url": f"data:{image.mime_type};base64,{image.base64_image}", "detail": image.detail}


_HAYSTACK: Framework[ChatMessage] = Framework(ChatMessage, _views, lambda tool: tool.tool_spec)
