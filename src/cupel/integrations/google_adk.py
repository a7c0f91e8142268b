"""Google ADK: a session for each agent of a conversation, as a plugin of the runner.

Needs `cupel-context[google-adk]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from cupel.errors import MissingExtraError
from cupel.integrations._sessions import STATE_KEY, SessionOptions, Sessions
from cupel.messages import RECALL_TOOL, MessageSession
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.tool_context import ToolContext
    from google.genai.types import Content, FunctionDeclaration
except ImportError:
    raise MissingExtraError("google-adk", "google-adk") from None

__all__ = ["SessionPlugin"]


class SessionPlugin(BasePlugin):  # type: ignore[misc, unused-ignore]
    """Keeps a session for each agent of a conversation: `App(..., plugins=[SessionPlugin(8000)])`.

    The model is sent the contents that the session chose; ADK's session keeps all events. The state of the session is
    part of ADK's session state, under `cupel_session:` and the agent's name, and is stored with the model's answer.
    With `recall=True` each agent has the tool `recall` too.

    Args:
        budget: The tokens of a request, with instructions and tools.
        policy: Which messages matter most; see `MessageSession`.
        name: The name of the plugin.
        options: The options of `MessageSession`, and `on_turn`, which is called with each turn.
    """

    def __init__(
        self,
        budget: int | ContextBudget,
        policy: Pipeline | None = None,
        *,
        name: str = STATE_KEY,
        **options: Unpack[SessionOptions],
    ) -> None:
        super().__init__(name)
        self._sessions: Sessions[Any] = Sessions(
            "gemini", f"state['{STATE_KEY}:…'] of the ADK session", budget, policy, **options
        )
        self._recalls = options.get("recall", False)

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Replace the contents of the request; leave one alone whose history only the provider has."""
        if not llm_request.contents or llm_request.previous_interaction_id is not None:
            return
        key = ":".join(filter(None, (STATE_KEY, callback_context.branch, callback_context.agent_name)))
        state = callback_context.state.get(key)
        tool = _RecallTool(name=RECALL_TOOL["name"], description=RECALL_TOOL["description"])
        llm_request.append_tools([tool] if self._recalls else [])
        conversation = self._sessions.open(
            state, tools=llm_request.config.tools, system=llm_request.config.system_instruction
        )
        conversation.observe(_usage(callback_context.session.events, key, state))
        tool.session, tool.history = conversation.session, llm_request.contents
        sent = await conversation.afit(llm_request.contents)
        llm_request.contents = [Content.model_validate(content) for content in sent]
        callback_context.state[key] = self._sessions.close(conversation)


class _RecallTool(BaseTool):  # type: ignore[misc, unused-ignore]
    """Fetches back what one request leaves out."""

    session: MessageSession[Any]
    history: Sequence[Any]

    def _get_declaration(self) -> FunctionDeclaration:
        schema = RECALL_TOOL["parameters"]
        return FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> str:
        del tool_context
        return self.session.recall(args, self.history)


def _usage(events: Sequence[Any], key: str, state: object) -> Any:
    """Return the usage of the last request: the event of its answer also stored the state."""
    for event in reversed(events):
        if key in event.actions.state_delta:
            return event.usage_metadata if event.actions.state_delta[key] == state else None
    return None
