"""LiteLLM: a session for each conversation, as a callback before each call of a chat model.

Needs `cupel-context[litellm]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any, Final, Unpack

from cupel.errors import ConfigurationError, MissingExtraError
from cupel.integrations._adapters import Recent
from cupel.integrations._conversations import PLACE, Conversations, OpenRequest
from cupel.integrations._sessions import SessionOptions, Sessions
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline

try:
    from litellm.integrations.custom_logger import CustomLogger
    from litellm.main import completion
    from litellm.types.utils import CallTypes
except ImportError:
    raise MissingExtraError("litellm", "litellm") from None

__all__ = ["SessionCallback"]

_UNANSWERED: Final = 1024
"""The most requests that wait for their usage; calls that fail or stream report none."""


class SessionCallback(CustomLogger):  # type: ignore[misc, unused-ignore]
    """Keeps a session for each conversation: `litellm.callbacks = [SessionCallback(8000)]`.

    Every `acompletion` of the process, a `Router` or the proxy sends the messages that the session chose; the caller's
    list stays as it is. LiteLLM runs callbacks in asynchronous calls only: use this class's `completion` for others.

    Args:
        budget: The tokens of a request, with tools.
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
        super().__init__()
        sessions: Sessions[Any] = Sessions("openai", PLACE, budget, policy, **options)
        self._conversations = Conversations(sessions, store)
        self._unanswered = Recent[OpenRequest](_UNANSWERED)

    def completion(self, *, messages: Sequence[Any], **kwargs: Any) -> Any:
        """Call `litellm.completion` with the messages that the session chose."""
        chosen, request = self._conversations.fit(messages, tools=kwargs.get("tools"))
        response = completion(messages=chosen, **kwargs)
        self._conversations.observe(request, getattr(response, "usage", None))
        return response

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: CallTypes | None
    ) -> dict[str, Any] | None:
        """Replace the messages of a chat call; leave other calls alone."""
        if call_type != CallTypes.acompletion:
            return None
        if "messages" not in kwargs:
            msg = "messages must be passed by name, acompletion(model=..., messages=...), for a callback to see them"
            raise ConfigurationError(msg)
        chosen, request = await self._conversations.afit(kwargs["messages"], tools=kwargs.get("tools"))
        if call := kwargs.get("litellm_call_id"):
            self._unanswered[call] = request
        return {**kwargs, "messages": chosen}

    async def async_post_call_success_deployment_hook(
        self, request_data: dict[str, Any], response: Any, call_type: CallTypes | None
    ) -> None:
        """Settle the bill of the request that was answered."""
        del call_type
        request = self._unanswered.take(request_data.get("litellm_call_id", ""))
        if request is not None:
            self._conversations.observe(request, getattr(response, "usage", None))
