"""LangChain and LangGraph: message lists, a runnable, a pre-model hook and a document transformer.

Needs `cupel[langchain]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cupel.errors import MissingExtraError
from cupel.integrations._documents import select_documents
from cupel.integrations.messages import Fitted, Framework
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline
from cupel.policy import Policy
from cupel.tokens import TokenCounter

try:
    from langchain_core.documents import BaseDocumentTransformer, Document
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        FunctionMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        convert_to_messages,
    )
    from langchain_core.prompt_values import PromptValue
    from langchain_core.runnables import Runnable, RunnableLambda
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ImportError:
    raise MissingExtraError("langchain-core", "langchain") from None

__all__ = ["DocumentSelector", "fit_messages", "message_fitter", "pre_model_hook"]

_ROLES = (
    (HumanMessage, "user"),
    (AIMessage, "assistant"),
    (SystemMessage, "system"),
    (ToolMessage, "tool"),
    (FunctionMessage, "function"),
)


def fit_messages(
    messages: Sequence[BaseMessage],
    budget: int | ContextBudget,
    policy: Policy | Pipeline | None = None,
    counter: TokenCounter | None = None,
    tools: Sequence[Any] | None = None,
    *,
    pin: Callable[[BaseMessage], bool] | None = None,
    query: str | None = None,
) -> Fitted[BaseMessage]:
    """`cupel.integrations.messages.fit` for LangChain messages: the same objects come back.

    The result suits every chat model: calls stay with their results, and the first message after the system prompts is
    a human one.
    """
    return _LANGCHAIN.fit(messages, budget, policy, counter, tools, pin=pin, query=query)


def message_fitter(
    budget: int | ContextBudget,
    policy: Policy | Pipeline | None = None,
    counter: TokenCounter | None = None,
    tools: Sequence[Any] | None = None,
    *,
    pin: Callable[[BaseMessage], bool] | None = None,
    query: str | None = None,
) -> Runnable[Any, list[BaseMessage]]:
    """Return a runnable that fits what passes through it: a prompt, messages, or a text, as a model would take them.

    It stands between a prompt and a model: `prompt | message_fitter(8000) | model`.
    """

    def fit_input(value: Any) -> list[BaseMessage]:
        return fit_messages(_messages(value), budget, policy, counter, tools, pin=pin, query=query).messages

    return RunnableLambda(fit_input, name="cupel.message_fitter")


def pre_model_hook(
    budget: int | ContextBudget,
    policy: Policy | Pipeline | None = None,
    counter: TokenCounter | None = None,
    tools: Sequence[Any] | None = None,
    *,
    pin: Callable[[BaseMessage], bool] | None = None,
    query: str | None = None,
) -> Callable[[Any], dict[str, list[BaseMessage]]]:
    """Return a `pre_model_hook` for LangGraph agents: the model sees what fits, the graph's state keeps everything."""

    def hook(state: Any) -> dict[str, list[BaseMessage]]:
        messages: Sequence[BaseMessage] = state["messages"] if isinstance(state, Mapping) else state.messages
        fitted = fit_messages(messages, budget, policy, counter, tools, pin=pin, query=query)
        return {"llm_input_messages": fitted.messages}

    return hook


class DocumentSelector(BaseDocumentTransformer):  # type: ignore[misc, unused-ignore]
    """Keeps the documents that fit a budget, the best of them at both ends unless the policy says otherwise.

    A document's relevance is its metadata's `score_key`, or else its rank.
    """

    def __init__(
        self,
        budget: int | ContextBudget,
        policy: Policy | Pipeline | None = None,
        counter: TokenCounter | None = None,
        *,
        score_key: str = "relevance_score",
    ) -> None:
        self.budget = budget
        self.policy = policy
        self.counter = counter
        self.score_key = score_key

    def transform_documents(
        self, documents: Sequence[Document], *, query: str | None = None, **_kwargs: Any
    ) -> Sequence[Document]:
        """The documents that fit; `query` is what a policy that scores by relevance looks for."""
        return select_documents(
            documents,
            self.budget,
            self.policy,
            self.counter,
            text=lambda document: document.page_content,
            score=lambda document: document.metadata.get(self.score_key),
            query=query,
        )


def _messages(value: Any) -> list[BaseMessage]:
    """Whatever a model takes, as messages; messages stay the objects they are."""
    if isinstance(value, PromptValue):
        return list(value.to_messages())
    return list(convert_to_messages([value] if isinstance(value, str) else value))


def _views(messages: Sequence[BaseMessage]) -> Iterator[Mapping[str, Any]]:
    """The messages as chat-completions would have them."""
    return map(_view, messages)


def _view(message: Any) -> Mapping[str, Any]:
    # By class, not by `type`: a chunk of a stream is a message too, but names its type otherwise.
    role = next((role for kind, role in _ROLES if isinstance(message, kind)), getattr(message, "role", message.type))
    view: dict[str, Any] = {"role": role, "content": [_part(part) for part in _parts(message.content)]}
    if isinstance(message.content, str):
        view["content"] = message.content
    if calls := _calls(message):
        view["tool_calls"] = calls
        view["content"] = view["content"] or None
    if role == "tool":
        view["tool_call_id"] = message.tool_call_id
    if role == "function":
        view["name"] = message.name
    return view


def _calls(message: Any) -> list[dict[str, Any]]:
    """The calls of a message: parsed, unparsable, and those that only its content blocks know."""
    calls = [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]
    known = {call["id"] for call in calls}
    content = () if isinstance(message.content, str) else message.content
    blocks = [part for part in content if _kind(part) == "tool_use" and part.get("id") not in known]
    return [
        *({"id": call["id"], "function": {"name": call["name"] or "", "arguments": call["args"]}} for call in calls),
        *({"id": part["id"], "function": {"name": part["name"], "arguments": part["input"]}} for part in blocks),
    ]


def _parts(content: Any) -> list[Any]:
    kept = [] if isinstance(content, str) else [part for part in map(_without_call, content) if part]
    return [part for part in kept if part != {"type": "text", "text": ""}]  # models' adapters skip these


def _without_call(part: Any) -> Any:
    """A part of a message; of a call, which `_calls` reads, only the code that made it, if code did."""
    if _kind(part) not in _CALL_PARTS:
        return part
    caller = part.get("caller") or (part.get("extras") or {}).get("caller")
    return {"type": "tool_use", "caller": caller} if caller else None


_CALL_PARTS = frozenset(
    ("function_call", "input_json_delta", "invalid_tool_call", "tool_call", "tool_call_chunk", "tool_use")
)
_NATIVE = {"reasoning": "thinking", "reasoning_content": "thinking", "server_tool_call": "server_tool_use"}


def _kind(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


def _part(part: Any) -> Any:
    match part:
        case str(text):
            return {"type": "text", "text": text}
        case {"type": "thinking", "thinking": str(text)} | {"type": "reasoning", "reasoning": str(text)}:
            return {"type": "thinking", "thinking": text}  # without the signature, which nobody is charged for
        case {"type": "reasoning" | "reasoning_content" | "server_tool_call" as kind}:
            return {**part, "type": _NATIVE[kind]}
        case {"type": "server_tool_result", "tool_call_id": call}:
            return {**part, "tool_use_id": call}
        case {"type": "image"} | {"type": "image_url", "image_url": str()}:
            return {"type": "image_url", "image_url": {"url": _image_url(part)}}
        case _:
            return part


def _image_url(part: Mapping[str, Any]) -> str:
    match part:
        case {"base64": str(data), **rest}:
            return f"data:{rest.get('mime_type', '')};base64,{data}"
        case {"source": {"data": str(data)}}:
            return f"data:;base64,{data}"
        case {"image_url": url} | {"url": url}:
            return str(url)
        case _:
            return ""


_LANGCHAIN: Framework[BaseMessage] = Framework(BaseMessage, _views, convert_to_openai_tool)
