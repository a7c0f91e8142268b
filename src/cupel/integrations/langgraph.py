"""LangGraph and LangChain's agents: a session for each thread, whose state is part of the graph's.

Needs `cupel-context[langgraph]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, NotRequired, TypedDict, Unpack

from cupel.errors import MissingExtraError
from cupel.integrations._sessions import STATE_KEY, OpenSession, SessionOptions, Sessions, usage_of
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline

try:
    from langchain.agents.middleware.types import (
        AgentMiddleware,
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
        PrivateStateAttr,
    )
    from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
    from langgraph.types import Command
except ImportError:
    raise MissingExtraError("langchain", "langgraph") from None

from cupel.integrations._langchain import LANGCHAIN

__all__ = ["SessionMiddleware", "session_hook"]

_PLACE = f"{STATE_KEY!r} in the graph's state"


class _AgentState(TypedDict):
    cupel_session: NotRequired[Annotated[str, PrivateStateAttr]]


class SessionMiddleware(AgentMiddleware[Any, Any, Any]):  # type: ignore[misc, unused-ignore]
    """Keeps a session for each thread of an agent: `create_agent(model, tools, middleware=[SessionMiddleware(8000)])`.

    The model is sent what the session chose, the agent's state keeps everything. The state of the session is part
    of the agent's, so that a checkpointer keeps it with the thread. The options are those of `MessageSession`; tools
    and system prompt are those of each request.
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

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Send what the session chose."""
        conversation, chosen = self._choose(request)
        return self._remember(conversation, handler(chosen))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ExtendedModelResponse[Any]:
        """Send what the session chose."""
        conversation, chosen = self._choose(request)
        return self._remember(conversation, await handler(chosen))

    def _choose(self, request: ModelRequest[Any]) -> tuple[OpenSession[BaseMessage], ModelRequest[Any]]:
        state: Mapping[str, Any] = request.state
        conversation = self._sessions.open(state.get(STATE_KEY), tools=request.tools, system=request.system_prompt)
        return conversation, request.override(messages=conversation.fit(request.messages))

    def _remember(
        self, conversation: OpenSession[BaseMessage], response: ModelResponse[Any]
    ) -> ExtendedModelResponse[Any]:
        conversation.observe(_usage(response.result))
        state = self._sessions.close(conversation)
        return ExtendedModelResponse(response, Command(update={STATE_KEY: state}))


class _HookState(TypedDict):
    """What the hook reads of a graph's state; LangGraph adds what the graph does not have yet."""

    messages: list[AnyMessage]
    llm_input_messages: NotRequired[list[AnyMessage]]
    cupel_session: NotRequired[str]


def session_hook(
    budget: int | ContextBudget,
    policy: Pipeline | None = None,
    tools: Sequence[Any] | None = None,
    *,
    system: str | None = None,
    **options: Unpack[SessionOptions],
) -> Callable[[_HookState], dict[str, Any]]:
    """Return a `pre_model_hook` for LangGraph's prebuilt agents that keeps a session for each thread.

    The model sees what the session chose, the graph's state keeps everything, and the session's own state with it. The
    agent's `tools` and its prompt, as `system`, are counted if given here; the options are those of `MessageSession`.
    """
    sessions = Sessions(LANGCHAIN, _PLACE, budget, policy, **options)

    def hook(state: _HookState) -> dict[str, Any]:
        messages = state["messages"]
        conversation = sessions.open(state.get(STATE_KEY), tools=tools, system=system)
        conversation.observe(_usage(_answer(messages, state.get("llm_input_messages"))))
        return {"llm_input_messages": conversation.fit(messages), STATE_KEY: sessions.close(conversation)}

    return hook


def _answer(messages: Sequence[BaseMessage], sent: Sequence[BaseMessage] | None) -> Sequence[BaseMessage]:
    """Return what stands right behind the last request: its answer, unless the model never gave one."""
    newest = sent[-1].id if sent else None
    places = [at for at, message in enumerate(messages) if newest is not None and message.id == newest]
    return messages[places[-1] + 1 :][:1] if places else ()


def _usage(messages: Iterable[BaseMessage]) -> Mapping[str, Any] | None:
    """Return what the provider says of the request's tokens, if it says anything."""
    for message in messages:
        if isinstance(message, AIMessage) and message.usage_metadata:
            details = message.usage_metadata.get("input_token_details") or {}
            return usage_of(message.usage_metadata["input_tokens"], details.get("cache_read"))
    return None
