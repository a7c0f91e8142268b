"""Haystack: components that fit documents and chat messages into a budget.

Needs `cupel[haystack]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedClassDecorator=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUntypedFunctionDecorator=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cupel.errors import MissingExtraError
from cupel.integrations._documents import select_documents
from cupel.integrations.messages._dialect import FRAMEWORK
from cupel.integrations.messages._fit import Fitted, fit_view
from cupel.policy import Policy
from cupel.tokens import TokenCounter

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.dataclasses import ChatMessage, ToolCall
except ImportError:
    raise MissingExtraError("haystack-ai", "haystack") from None

__all__ = ["DocumentSelector", "MessageFitter", "fit_messages"]


def fit_messages(
    messages: list[ChatMessage],
    budget: int,
    policy: Policy | None = None,
    counter: TokenCounter | None = None,
) -> Fitted[ChatMessage]:
    """`cupel.integrations.messages.fit` for Haystack's chat messages: the same objects come back."""
    return fit_view(messages, budget, dialect=FRAMEWORK, view=_view, policy=policy, counter=counter)


class _Component:
    """What both components are made of; a `counter` of one's own is not written to YAML."""

    def __init__(self, budget: int, policy: Policy | None = None, counter: TokenCounter | None = None) -> None:
        self.budget = budget
        self.policy = policy
        self.counter = counter

    def to_dict(self) -> dict[str, Any]:
        """The component as Haystack saves it; the policy as its document."""
        policy = None if self.policy is None else self.policy.to_dict()
        saved: dict[str, Any] = default_to_dict(self, budget=self.budget, policy=policy)
        return saved

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """The component that `to_dict` saved."""
        parameters = data.get("init_parameters", {})
        if parameters.get("policy") is not None:
            parameters["policy"] = Policy.from_dict(parameters["policy"])
        return default_from_dict(cls, data)


@component
class DocumentSelector(_Component):
    """Keeps the documents that fit a budget, the best of them at both ends unless the policy says otherwise.

    A document's relevance is its score, or else its rank.
    """

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator, unused-ignore]
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Choose among the documents."""
        chosen = select_documents(
            documents,
            self.budget,
            self.policy,
            self.counter,
            text=lambda document: document.content,
            score=lambda document: document.score,
        )
        return {"documents": chosen}


@component
class MessageFitter(_Component):
    """Keeps the chat messages that fit a budget and that every chat model accepts."""

    @component.output_types(messages=list[ChatMessage])  # type: ignore[untyped-decorator, unused-ignore]
    def run(self, messages: list[ChatMessage]) -> dict[str, list[ChatMessage]]:
        """Choose among the messages."""
        return {"messages": fit_messages(messages, self.budget, self.policy, self.counter).messages}


def _view(message: ChatMessage) -> Mapping[str, Any]:
    """A Haystack message as chat-completions would have it."""
    parts: list[Any] = [{"type": "text", "text": text} for text in message.texts if text]
    parts += [{"type": "image_url", "image_url": _image(image)} for image in message.images]
    parts += [{"type": "file", "file": {"file_data": file.base64_data}} for file in message.files]
    view: dict[str, Any] = {"role": message.role.value, "content": parts or None}
    if message.name:
        view["name"] = message.name
    if message.reasonings:
        view["reasoning"] = " ".join(reasoning.reasoning_text for reasoning in message.reasonings)
    if message.tool_calls:
        view["tool_calls"] = [
            {"id": _call_id(call), "function": {"name": call.tool_name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if result := message.tool_call_result:
        view["tool_call_id"] = _call_id(result.origin)
        view["content"] = result.result if isinstance(result.result, str) else str(result.result)
    return view


def _call_id(call: ToolCall) -> str:
    return call.id or f"{call.tool_name}:{sorted(call.arguments.items())!r}"


def _image(image: Any) -> dict[str, Any]:
    return {"url": f"data:{image.mime_type};base64,{image.base64_image}", "detail": image.detail}
