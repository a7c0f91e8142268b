"""LangChain and LangGraph: an agent middleware that keeps a session, and a document transformer.

Needs `cupel-context[langchain]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NotRequired, TypedDict, Unpack

from cupel.errors import MissingExtraError
from cupel.integrations._adapters import select_documents
from cupel.integrations._sessions import STATE_KEY, OpenSession, SessionOptions, Sessions, usage_of
from cupel.messages import RECALL_TOOL, Framework
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline
from cupel.tokens import TokenCounter

try:
    from langchain.agents.middleware.types import (
        AgentMiddleware,
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
        PrivateStateAttr,
    )
    from langchain_core.documents import BaseDocumentTransformer, Document
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        FunctionMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
    )
    from langchain_core.tools import StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.prebuilt import ToolRuntime
    from langgraph.types import Command
except ImportError:
    raise MissingExtraError("langchain", "langchain") from None

__all__ = ["LANGCHAIN", "DocumentSelector", "SessionMiddleware", "fit_messages"]

_ROLES = (
    (HumanMessage, "user"),
    (AIMessage, "assistant"),
    (SystemMessage, "system"),
    (ToolMessage, "tool"),
    (FunctionMessage, "function"),
)


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
    """Return the calls of a message: parsed, unparsable, and those in its content blocks alone."""
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
    return [part for part in kept if part != _EMPTY]  # models' adapters skip these


def _without_call(part: Any) -> Any:
    """Return a part of a message; of a call, which `_calls` reads, only the code that made it, if any."""
    if _kind(part) not in _CALL_PARTS:
        return part
    caller = part.get("caller") or (part.get("extras") or {}).get("caller")
    return {"type": "tool_use", "caller": caller} if caller else None


_TEXT_PARTS = ("text", "input_text", "output_text")
_EMPTY = {"type": "text", "text": ""}
_CALL_PARTS = frozenset(
    ("function_call", "input_json_delta", "invalid_tool_call", "tool_call", "tool_call_chunk", "tool_use")
)
_THINKING = frozenset(("redacted_thinking", "reasoning_content", "thinking"))
"""Blocks of Claude's thinking, by Anthropic and by Bedrock."""
_NATIVE = {"reasoning": "thinking", "reasoning_content": "thinking", "server_tool_call": "server_tool_use"}


def _kind(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


def _part(part: Any) -> Any:
    match part:
        case str(text):
            return {"type": "text", "text": text}
        case {"type": "thinking", "thinking": str(text)} | {"type": "reasoning", "reasoning": str(text)}:
            return {"type": "thinking", "thinking": text}  # without the signature, which is not charged
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


def _with_outputs(message: BaseMessage, texts: Sequence[str]) -> BaseMessage:
    """Return a copy of a tool result with other texts, one for each text in its view."""
    following = iter(texts)
    content = message.content
    shorter = next(following) if isinstance(content, str) else [_with_text(part, following) for part in content]
    return message.model_copy(update={"content": shorter})


def _with_text(part: Any, following: Iterator[str]) -> Any:
    if isinstance(part, str):
        return part and next(following)
    shown = _kind(part) in _TEXT_PARTS and isinstance(part.get("text"), str) and part != _EMPTY
    return {**part, "text": next(following)} if shown else part


def _without_thinking(message: BaseMessage) -> BaseMessage:
    """Return a copy of a message without Claude's thinking; the message, if it has none."""
    if isinstance(message.content, str):
        return message
    kept = [part for part in message.content if _kind(part) not in _THINKING]
    return message if len(kept) == len(message.content) else message.model_copy(update={"content": kept})


LANGCHAIN: Framework[BaseMessage] = Framework(
    BaseMessage,
    lambda messages: map(_view, messages),
    convert_to_openai_tool,
    with_outputs=_with_outputs,
    without_thinking=_without_thinking,
)


_PLACE = f"{STATE_KEY!r} in the graph's state"


class _AgentState(TypedDict):
    cupel_session: NotRequired[Annotated[str, PrivateStateAttr]]


class SessionMiddleware(AgentMiddleware[Any, Any, Any]):  # type: ignore[misc, unused-ignore]
    """Keeps a session for each thread of an agent: `create_agent(model, tools, middleware=[SessionMiddleware(8000)])`.

    The model gets the request that the session selects; the agent's state keeps everything. The session's state is part
    of the agent's state, so a checkpointer stores it with the thread. The options are those of `MessageSession`; tools
    and system prompt are those of each request. With `recall=True` the agent has the tool `recall` too.
    """

    state_schema = _AgentState

    def __init__(
        self,
        budget: int | ContextBudget,
        policy: Pipeline | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        super().__init__()
        self._sessions = Sessions(LANGCHAIN, _PLACE, budget, policy, **options)
        name, says = RECALL_TOOL["name"], RECALL_TOOL["description"]
        tools = [StructuredTool.from_function(self._recall, name=name, description=says)]
        self.tools = tools if options.get("recall") else []

    def _recall(self, runtime: ToolRuntime[Any, Any], id: str = "", line: int = 0, text: str = "") -> str:  # noqa: A002
        call, state = {"id": id, "line": line, "text": text}, runtime.state
        return self._sessions.recall(state.get(STATE_KEY), call, state["messages"])

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Send the session's request."""
        conversation = self._open(request)
        chosen = conversation.fit(request.messages)
        return self._remember(conversation, handler(request.override(messages=chosen)))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ExtendedModelResponse[Any]:
        """Send the session's request; an asynchronous `note` is awaited."""
        conversation = self._open(request)
        chosen = await conversation.afit(request.messages)
        return self._remember(conversation, await handler(request.override(messages=chosen)))

    def _open(self, request: ModelRequest[Any]) -> OpenSession[BaseMessage]:
        state: Mapping[str, Any] = request.state
        return self._sessions.open(state.get(STATE_KEY), tools=request.tools, system=request.system_prompt)

    def _remember(
        self, conversation: OpenSession[BaseMessage], response: ModelResponse[Any]
    ) -> ExtendedModelResponse[Any]:
        conversation.observe(_usage(response.result))
        state = self._sessions.close(conversation)
        return ExtendedModelResponse(response, Command(update={STATE_KEY: state}))


def _usage(messages: Iterable[BaseMessage]) -> Mapping[str, Any] | None:
    """Return the usage that the provider reported, if any."""
    for message in messages:
        if isinstance(message, AIMessage) and message.usage_metadata:
            details = message.usage_metadata.get("input_token_details") or {}
            return usage_of(message.usage_metadata["input_tokens"], details.get("cache_read"))
    return None


fit_messages = LANGCHAIN.fit
"""Fits LangChain messages as `cupel.messages.fit` does, into a `Fitted` with the same objects.

Every chat model accepts the result: calls stay with their results, and the first message after the system prompts is a
human one.
"""


class DocumentSelector(BaseDocumentTransformer):  # type: ignore[misc, unused-ignore]
    """Keeps the documents that fit a budget; by default the best of them go to both ends.

    A document's relevance is its metadata's `score_key`, or else its rank.
    """

    def __init__(
        self,
        budget: int | ContextBudget,
        policy: Pipeline | None = None,
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
        """Return the documents that fit; `query` is for policies that score by relevance."""
        return select_documents(
            documents,
            self.budget,
            self.policy,
            self.counter,
            text=lambda document: document.page_content,
            score=lambda document: document.metadata.get(self.score_key),
            query=query,
        )
