"""Pydantic AI: a capability that keeps a session for each conversation.

Needs `cupel-context[pydantic-ai]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from cupel.errors import ConfigurationError, MissingExtraError
from cupel.integrations._sessions import STATE_KEY, SessionOptions, Sessions, usage_of
from cupel.messages import RECALL_TOOL, FitOptions, Fitted, Framework
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline
from cupel.tokens import TokenCounter

try:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        BinaryContent,
        CachePoint,
        ImageUrl,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        ToolReturnPart,
    )
    from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
    from pydantic_ai.tools import RunContext, Tool, ToolDefinition
    from pydantic_ai.toolsets import FunctionToolset
except ImportError:
    raise MissingExtraError("pydantic-ai-slim", "pydantic-ai") from None

__all__ = ["PYDANTIC_AI", "SessionHistory", "fit_messages"]


class SessionHistory(AbstractCapability[Any]):  # type: ignore[misc, unused-ignore]
    """Keeps a session for each conversation of an agent: `Agent(model, capabilities=[SessionHistory(8000)])`.

    The model gets the request that the session selects; the history keeps everything. The session's state is kept in
    the metadata of the newest request, which Pydantic AI stores with the history and never sends. The options are those
    of `MessageSession`; tools and instructions are those of each request. With `recall=True` the agent has the tool
    `recall` too.
    """

    def __init__(
        self,
        budget: int | ContextBudget,
        policy: Pipeline | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        if not hasattr(AbstractCapability, "prepare_model_request"):  # it would never be asked, and nothing would fit
            msg = "SessionHistory needs a pydantic-ai-slim that has prepare_model_request: install a newer one"
            raise ConfigurationError(msg)
        options["pin"] = _pin(options.get("pin"))
        self._sessions = Sessions(PYDANTIC_AI, _PLACE, budget, policy, **options)
        self._recalls = options.get("recall", False)

    @classmethod
    def get_serialization_name(cls) -> None:
        """Return None: options may be functions, so it cannot be made from a specification."""
        return

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """Return the tool that fetches back what a request leaves out, if the session writes ids."""
        if not self._recalls:
            return None
        name, says, schema = RECALL_TOOL["name"], RECALL_TOOL["description"], RECALL_TOOL["parameters"]
        return FunctionToolset([Tool.from_schema(self._recall, name, says, schema, takes_ctx=True)])

    def _recall(self, ctx: RunContext[Any], **call: Any) -> str:
        states = [state for one in ctx.messages if (state := (one.metadata or {}).get(STATE_KEY))]
        return self._sessions.recall(states[-1] if states else None, call, ctx.messages)

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Select the request; another attempt at it starts from the same state."""
        *earlier, newest = ctx.messages
        carriers = [at for at, message in enumerate(earlier) if STATE_KEY in (message.metadata or ())]
        last = earlier[carriers[-1]] if carriers else None
        parameters = request_context.model_request_parameters
        conversation = self._sessions.open(
            None if last is None else (last.metadata or {})[STATE_KEY],
            tools=[*parameters.function_tools, *parameters.output_tools],
            system=_instructions_of(parameters, request_context.messages),
        )
        if carriers:
            conversation.observe(_usage(ctx.messages[carriers[-1] + 1]))
        chosen = await conversation.afit(request_context.messages, idle=_idle(last, newest))
        newest.metadata = {**(newest.metadata or {}), STATE_KEY: self._sessions.close(conversation)}
        # The newest two are enough, one for another attempt. What other runs left may be stored already.
        for at in carriers[:-1]:
            if earlier[at].run_id == ctx.run_id:
                earlier[at].metadata = {k: v for k, v in (earlier[at].metadata or {}).items() if k != STATE_KEY} or None
        return replace(request_context, messages=chosen)


def _idle(last: ModelMessage | None, newest: ModelMessage) -> float | None:
    """Return the seconds between two requests, by Pydantic AI's timestamps."""
    if last is None or last.timestamp is None or newest.timestamp is None:
        return None
    seconds: float = (newest.timestamp - last.timestamp).total_seconds()
    return max(0.0, seconds)


def _usage(answer: ModelMessage) -> Mapping[str, Any] | None:
    """Return the usage that the provider reported with an answer, if any."""
    if not isinstance(answer, ModelResponse):
        return None
    return usage_of(answer.usage.input_tokens, answer.usage.cache_read_tokens)


def _instructions_of(parameters: ModelRequestParameters, messages: Sequence[ModelMessage]) -> str | None:
    parts = parameters.instruction_parts
    return _instructions(messages) if parts is None else "\n\n".join(part.content for part in parts) or None


def fit_messages(
    messages: Sequence[ModelMessage],
    budget: int | ContextBudget,
    policy: Pipeline | None = None,
    counter: TokenCounter | None = None,
    tools: Sequence[Any] | None = None,
    **options: Unpack[FitOptions[ModelMessage]],
) -> Fitted[ModelMessage]:
    """Fit Pydantic AI's messages as `cupel.messages.fit` does; the result contains the same objects.

    Requests with a system prompt are pinned.
    """
    options["pin"] = _pin(options.get("pin"))
    return PYDANTIC_AI.fit(messages, budget, policy, counter, tools, system=_instructions(messages), **options)


def _pin(pin: Callable[[ModelMessage], bool] | None) -> Callable[[ModelMessage], bool]:
    """Pin requests with a system prompt, too."""

    def keep(message: ModelMessage) -> bool:
        return any(part.part_kind == "system-prompt" for part in message.parts) or (pin is not None and pin(message))

    return keep


def _instructions(messages: Sequence[ModelMessage]) -> str | None:
    """Return the instructions of the newest request, which are those that are sent."""
    requests = (message for message in reversed(messages) if isinstance(message, ModelRequest))
    return next((request.instructions for request in requests if request.instructions), None)


def _schema(tool: Any) -> Mapping[str, Any]:
    """Return a tool or its definition as a tool of Anthropic's."""
    definition: ToolDefinition = tool.tool_def if isinstance(tool, Tool) else tool
    return {
        "name": definition.name,
        "description": definition.description,
        "input_schema": definition.parameters_json_schema,
    }


def _views(messages: Sequence[ModelMessage]) -> Iterator[Mapping[str, Any]]:
    """Return the messages as Anthropic's, tool results before other content."""
    for message in messages:
        blocks = [block for part in message.parts for block in _blocks(part)]
        blocks.sort(key=lambda block: block["type"] != "tool_result")
        yield {"role": "user" if isinstance(message, ModelRequest) else "assistant", "content": blocks}


def _blocks(part: Any) -> Iterable[dict[str, Any]]:
    match part.part_kind:
        case "tool-call":
            yield {"type": "tool_use", "id": part.tool_call_id, "name": part.tool_name, "input": part.args_as_dict()}
        case "tool-return":
            yield {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": part.model_response_str()}
        case "retry-prompt" if part.tool_name is not None:
            yield {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": part.model_response()}
        case "builtin-tool-call":
            arguments = part.args_as_dict()
            yield {"type": "server_tool_use", "id": part.tool_call_id, "name": part.tool_name, "input": arguments}
        case "builtin-tool-return":
            content = part.model_response_str()
            yield {"type": "server_tool_result", "tool_use_id": part.tool_call_id, "content": content}
        case "thinking":
            yield {"type": "thinking", "thinking": part.content, "signature": part.signature or "none"}
        case "user-prompt" if not isinstance(part.content, str):
            for content in part.content:
                yield from _user_content(content)
        case _:
            yield from _text(_text_of(part))


def _text_of(part: Any) -> str:
    content = getattr(part, "content", None)
    return content if isinstance(content, str) else str(content if content is not None else part)


def _text(text: str) -> Iterable[dict[str, Any]]:
    if text.strip():  # Pydantic AI leaves empty texts out of the request by itself
        yield {"type": "text", "text": text}


def _user_content(content: Any) -> Iterable[dict[str, Any]]:
    if isinstance(content, str):
        yield from _text(content)
    elif isinstance(content, BinaryContent) and content.is_image:
        yield {"type": "image", "source": {"data": base64.b64encode(content.data).decode()}}
    elif isinstance(content, BinaryContent):
        data = base64.b64encode(content.data).decode()
        yield {"type": "document", "source": {"type": "base64", "data": data}}
    elif isinstance(content, ImageUrl):
        yield {"type": "image", "source": {"type": "url", "url": content.url}}
    elif not isinstance(content, CachePoint):  # a mark, not content
        yield from _text(_text_of(content))


def _with_outputs(message: ModelMessage, texts: Sequence[str]) -> ModelMessage:
    """Return a copy of a request with other texts for its tool results, in their order."""
    following = iter(texts)
    return replace(message, parts=[_with_output(part, following) for part in message.parts])


def _with_output(part: Any, following: Iterator[str]) -> Any:
    match part.part_kind:
        case "tool-return":
            text = next(following)
            return replace(part, content=[text, *part.files] if part.files else text)
        case "retry-prompt" if part.tool_name is not None:
            return ToolReturnPart(part.tool_name, next(following), part.tool_call_id)
        case _:
            return part


def _without_thinking(message: ModelMessage) -> ModelMessage:
    """Return a copy of an answer without its thinking; the message, if it has none."""
    kept = [part for part in message.parts if part.part_kind != "thinking"]
    return message if len(kept) == len(message.parts) else replace(message, parts=kept)


PYDANTIC_AI: Framework[ModelMessage] = Framework(
    (ModelRequest, ModelResponse), _views, _schema, "anthropic", _with_outputs, _without_thinking
)
_PLACE = f"metadata[{STATE_KEY!r}] of a request"
