"""Google ADK: a session for each agent of a conversation, as a plugin of the runner.

Needs `cupel-context[google-adk]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Unpack

import msgspec

from cupel.errors import MissingExtraError
from cupel.integrations._sessions import STATE_KEY, SessionOptions, Sessions, usage_of
from cupel.messages import Framework
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.plugins.base_plugin import BasePlugin
    from google.genai.types import Blob, Content, FunctionResponse, Part
except ImportError:
    raise MissingExtraError("google-adk", "google-adk") from None

__all__ = ["SessionPlugin"]

_TEXT_KEYS: Final = ("result", "output", "error")
"""Under which a tool's answer is a text, if it is the only key."""


class SessionPlugin(BasePlugin):  # type: ignore[misc, unused-ignore]
    """Keeps a session for each agent of a conversation: `App(..., plugins=[SessionPlugin(8000)])`.

    The model is sent the contents that the session chose; ADK's session keeps all events. The state of the session is
    part of ADK's session state, under `cupel_session:` and the agent's name, and is stored with the model's answer.

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
        self._sessions = Sessions(_ADK, f"state['{STATE_KEY}:…'] of the ADK session", budget, policy, **options)

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Replace the contents of the request; leave one alone whose history only the provider has."""
        if not llm_request.contents or llm_request.previous_interaction_id is not None:
            return
        key = ":".join(filter(None, (STATE_KEY, callback_context.branch, callback_context.agent_name)))
        state = callback_context.state.get(key)
        conversation = self._sessions.open(
            state, tools=llm_request.config.tools, system=_text_of(llm_request.config.system_instruction)
        )
        conversation.observe(_usage(callback_context.session.events, key, state))
        llm_request.contents = await conversation.afit(llm_request.contents)
        callback_context.state[key] = self._sessions.close(conversation)


def _usage(events: Sequence[Any], key: str, state: object) -> Mapping[str, Any] | None:
    """Return the tokens of the last request: the event of its answer also stored the state."""
    for event in reversed(events):
        if key in event.actions.state_delta:
            usage = event.usage_metadata if event.actions.state_delta[key] == state else None
            return None if usage is None else usage_of(usage.prompt_token_count, usage.cached_content_token_count)
    return None


def _text_of(instruction: Any) -> str | None:
    return instruction if instruction is None or isinstance(instruction, str) else _json(_plain(instruction))


def _views(contents: Sequence[Content]) -> Iterator[Mapping[str, Any]]:
    """Yield the contents as Anthropic would have them: there, too, the results of calls at once are one message."""
    calls: list[_Call] = []
    for position, content in enumerate(contents):
        parts = [part for part in content.parts or () if part.text != ""]
        made = [part.function_call for part in parts if part.function_call]
        if made:
            calls = [_Call(f"{position}.{place}", call.id, call.name) for place, call in enumerate(made)]
        keys = iter([call.key for call in calls])
        blocks = [_block(part, keys, calls) for part in parts]
        yield {"role": "assistant" if content.role == "model" else "user", "content": blocks}


class _Call(NamedTuple):
    """A call of the newest model content that has any."""

    key: str
    """Its place in the history: ADK removes its own ids from the contents."""
    id: str | None
    name: str | None


def _block(part: Part, keys: Iterator[str], calls: list[_Call]) -> dict[str, Any]:
    if part.function_call:
        call = part.function_call
        return {"type": "tool_use", "id": next(keys), "name": call.name, "input": _plain(call.args or {})}
    if part.function_response:
        answer = part.function_response
        return {"type": "tool_result", "tool_use_id": _answered(answer, calls), "content": _output(answer)}
    if part.text is not None:
        return {"type": "text", "text": part.text}
    if part.inline_data and str(part.inline_data.mime_type).startswith("image/"):
        return {"type": "image", "source": _image(part.inline_data)}
    return {"type": "text", "text": _json(_plain(part))}


def _answered(answer: FunctionResponse, calls: list[_Call]) -> str:
    """Return the key of the call that an answer belongs to: by its id, or the first of its name that waits."""
    for call in calls:
        if call.id == answer.id and call.name == answer.name:
            calls.remove(call)
            return call.key
    return f"{answer.name} {answer.id}"


def _image(blob: Blob) -> dict[str, Any]:
    data = base64.b64encode(blob.data or b"").decode()
    return {"type": "base64", "media_type": blob.mime_type, "data": data}


def _output(answer: FunctionResponse) -> str:
    key = _text_key(answer)
    return _json(_plain(answer.response)) if key is None else str((answer.response or {})[key])


def _text_key(answer: FunctionResponse) -> str | None:
    """Return the key of a tool's only text, if its answer is nothing else."""
    match list((answer.response or {}).items()):
        case [(key, str())] if key in _TEXT_KEYS:
            return str(key)
        case _:
            return None


def _with_outputs(content: Content, texts: Sequence[str]) -> Content:
    """Return a copy of a content with other answers of tools, one text for each."""
    following = iter(texts)
    return content.model_copy(update={"parts": [_with_output(part, following) for part in content.parts or ()]})


def _with_output(part: Part, texts: Iterator[str]) -> Part:
    answer = part.function_response
    if answer is None:
        return part
    response = {_text_key(answer) or "output": next(texts)}
    return part.model_copy(update={"function_response": answer.model_copy(update={"response": response})})


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value.model_dump(mode="json", exclude_none=True) if hasattr(value, "model_dump") else value


def _json(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


_ADK: Framework[Content] = Framework(Content, _views, _plain, format="anthropic", with_outputs=_with_outputs)
