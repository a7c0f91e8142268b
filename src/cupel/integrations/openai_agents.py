"""OpenAI Agents SDK: a session for each conversation, as a filter of the model's input.

Needs `cupel-context[openai-agents]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Unpack

from cupel.errors import ConfigurationError, MissingExtraError
from cupel.integrations._conversations import PLACE, Conversations, OpenRequest
from cupel.integrations._sessions import SessionOptions, Sessions, usage_of
from cupel.messages import RECALL_TOOL
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline

try:
    from agents import Agent, FunctionTool, Handoff, ModelResponse, RunHooks, Usage, handoff
    from agents.run_config import CallModelData, ModelInputData
except ImportError:
    raise MissingExtraError("openai-agents", "openai-agents") from None

__all__ = ["SessionFilter"]

_OUTPUT: Final = "_output"


class SessionFilter(RunHooks[Any]):  # type: ignore[misc, unused-ignore]
    """Keeps a session for each conversation: `RunConfig(call_model_input_filter=SessionFilter(8000))`.

    The model is sent the items that the session chose; the run, its result and a `Session` of the SDK keep everything.
    Items that the session does not change are returned as the same objects. Pass the filter as `hooks=` of the run too,
    and each response's usage settles the bill of its request.

    Args:
        budget: The tokens of a request, with instructions and tools.
        policy: Which messages matter most; see `MessageSession`.
        store: Where states are kept, by default in memory. With a mapping that outlives the process, such as a
            `shelve`, another process continues.
        options: The options of `MessageSession`, and `on_turn`, which is called with each turn.
    """

    def __init__(
        self,
        budget: int | ContextBudget,
        policy: Pipeline | None = None,
        *,
        store: MutableMapping[str, str] | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        sessions: Sessions[Any] = Sessions("openai-responses", PLACE, budget, policy, **options)
        self._conversations = Conversations(sessions, store)

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the input that the session chose."""
        items, instructions = data.model_data.input, data.model_data.instructions
        _refuse_partial(items)
        chosen, request = await self._conversations.afit(items, tools=_schemas(data.agent), system=instructions)
        _sent.set((self, request, items))
        return ModelInputData(chosen, instructions)

    @property
    def recall_tool(self) -> FunctionTool:
        """The tool that fetches back what a request leaves out, for the agent's `tools`, if the filter has `recall`."""
        name, says, schema = RECALL_TOOL["name"], RECALL_TOOL["description"], RECALL_TOOL["parameters"]
        return FunctionTool(name, says, schema, self._recall, strict_json_schema=False)

    async def _recall(self, _context: object, call: str) -> str:
        owner, request, items = _sent.get()
        if owner is not self or request is None:
            return "[nothing was left out yet]"
        return self._conversations.recall(request, call, items)

    async def on_llm_end(self, context: object, agent: object, response: ModelResponse) -> None:
        """Settle the bill of the request that was answered."""
        del context, agent
        owner, request, _ = _sent.get()
        if owner is self and request is not None:
            self._conversations.observe(request, _usage(response.usage))


_sent: ContextVar[tuple[SessionFilter | None, OpenRequest | None, Sequence[Any]]] = ContextVar(
    "cupel_sent", default=(None, None, ())
)
"""The newest request of this run and its history: the SDK filters, calls its hooks and starts tools in one task."""


def _refuse_partial(items: Sequence[Any]) -> None:
    """Refuse the input of a conversation whose history only the provider has."""
    newest = items[-1] if items else None
    if not isinstance(newest, Mapping) or not str(newest.get("type")).endswith(_OUTPUT):
        return
    call = newest.get("call_id")
    if call is not None and not any(_calls(item, call) for item in items):
        msg = (
            f"the input answers the tool call {call!r} without containing it: OpenAI keeps this history "
            "(conversation_id, previous_response_id), so there is nothing to choose from. Keep the history with "
            "session= or result.to_input_list(), or remove SessionFilter from this run"
        )
        raise ConfigurationError(msg)


def _calls(item: object, call: object) -> bool:
    return isinstance(item, Mapping) and item.get("call_id") == call and not str(item.get("type")).endswith(_OUTPUT)


def _schemas(agent: Agent[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas of the agent's functions, as the model receives them; tools of MCP servers are not listed."""
    for tool in agent.tools:
        if isinstance(tool, FunctionTool):
            yield _function(tool.name, tool.description, tool.params_json_schema)
    for other in agent.handoffs:
        one = other if isinstance(other, Handoff) else handoff(other)
        yield _function(one.tool_name, one.tool_description, one.input_json_schema)


def _function(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": description, "parameters": parameters, "strict": True}


def _usage(usage: Usage) -> Mapping[str, Any] | None:
    details = usage.input_tokens_details
    return usage_of(usage.input_tokens, details.cached_tokens if details is not None else None)
