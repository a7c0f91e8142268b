"""An MCP server that selects context for any client: `python -m cupel.integrations.mcp`.

Needs `cupel-context[mcp]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, Final, ParamSpec, TypeVar

import msgspec

import cupel.policy
from cupel import messages, presets
from cupel._internal.checks import shown
from cupel.errors import CupelError, InvalidItemError, MissingExtraError, PolicyConfigError
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import Pipeline
from cupel.tokens import default_counter

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.mcpserver.tools import Tool
except ImportError:
    raise MissingExtraError("mcp", "mcp") from None

__all__ = ["Candidate", "explain", "select", "server"]

P = ParamSpec("P")
R = TypeVar("R")

_INSTRUCTIONS: Final = (
    "Chooses which pieces of context fit a token budget. Use `select` to get them in the order in which to send them, "
    "and `explain` to learn why each piece is in or out."
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A piece of context that may be selected; tokens are counted if they are not given."""

    # The server publishes these annotations as the tool's schema and reads by it, so they are written out; a test holds
    # names and defaults to the table that all other readers share.
    content: str
    tokens: int | None = None
    kind: str = "Message"
    source: str = "Chat"
    priority: int | None = None
    tags: list[str] = field(default_factory=list[str])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    timestamp: datetime | None = None
    future_relevance_hint: float | None = None
    pinned: bool = False
    original_tokens: int | None = None

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    """A misspelt field is refused where the server reads it, not ignored."""

    def item(self) -> ContextItem:
        """Return the item it describes."""
        fields = asdict(self)
        content, tokens = fields.pop("content"), fields.pop("tokens")
        if tokens is not None and tokens < 0:
            raise InvalidItemError(f"tokens must be >= 0, or left out to be counted, got {tokens}")
        return ContextItem(content, default_counter().count(content) if tokens is None else tokens, **fields)


def select(  # noqa: PLR0917 - clients name the arguments
    items: list[Candidate],
    max_tokens: int,
    target_tokens: int | None = None,
    output_reserve: int = 0,
    policy: str | dict[str, Any] = "chat",
    query: str | None = None,
) -> dict[str, Any]:
    """Choose the items that fit a token budget, in the order in which they should be sent.

    `policy` is the name of a preset (agent, chat, code-review, debugging, document-qa, long-running, rag, tool-use) or
    a policy document. `query` is the question that the items should answer, for policies that score by relevance.
    Positions refer to the list in the request.
    """
    candidates = _items(items)
    budget = _budget(max_tokens, target_tokens, output_reserve)
    result = _policy(policy).select(candidates, budget, query=query)
    positions = {id(item): position for position, item in enumerate(candidates)}
    return {
        "selected": [
            {"position": positions[id(item)], "content": item.content, "tokens": item.tokens} for item in result.items
        ],
        "total_tokens": result.total_tokens,
        "left_out": len(candidates) - len(result.items),
    }


def explain(  # noqa: PLR0917 - clients name the arguments
    items: list[Candidate],
    max_tokens: int,
    target_tokens: int | None = None,
    output_reserve: int = 0,
    policy: str | dict[str, Any] = "chat",
    query: str | None = None,
) -> dict[str, Any]:
    """Return for each item whether it is selected, its score and the reason; the arguments are those of `select`."""
    candidates = _items(items)
    budget = _budget(max_tokens, target_tokens, output_reserve)
    report = _policy(policy).dry_run(candidates, budget, query=query)
    positions = {id(item): position for position, item in enumerate(candidates)}
    decisions = [
        {"selected": True, "score": entry.score, "reason": entry.reason.value, "position": positions[id(entry.item)]}
        for entry in report.included
    ]
    decisions += [
        {"selected": False, "score": entry.score, **entry.reason.to_dict(), "position": positions[id(entry.item)]}
        for entry in report.excluded
    ]
    decisions.sort(key=lambda decision: decision["position"])
    return {
        "decisions": decisions,
        "total_candidates": report.total_candidates,
        "total_tokens_considered": report.total_tokens_considered,
    }


class _Recorded(msgspec.Struct):
    """What a recording of `cupel watch` tells about a conversation; other fields are passed over."""

    provider: messages.Provider
    messages: list[Any]
    answered: int = 0
    """How many of the messages are the newest answer."""
    forms: Any = ()
    """The messages that were sent in place of the agent's own: those with ids."""


def recorded_recall(recordings: str | Path) -> Callable[..., str]:
    """Return a tool that answers from the recordings of `cupel watch --recall`: from the newest that shows an id."""

    def recall(id: str = "", line: int = 0, text: str = "") -> str:  # noqa: A002 - the model names it
        paths = sorted(Path(recordings).glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        name = id.strip().strip("[]#").lower().partition(":")[0]
        for path in paths:
            raw = path.read_bytes()
            if f"#{name}".encode() not in raw:
                continue
            try:
                recorded = msgspec.json.decode(raw, type=_Recorded)
            except msgspec.DecodeError:  # no recording
                continue
            if f"#{name}".encode() in msgspec.json.encode(recorded.forms):
                history = recorded.messages[: len(recorded.messages) - recorded.answered]
                return messages.recall({"id": id, "line": line, "text": text}, history, provider=recorded.provider)
        return f"[no conversation in {recordings} shows {id or 'an id'}; ids follow # in the notes on what was omitted]"

    recall.__doc__ = messages.RECALL_TOOL["description"]
    return recall


def server(recordings: str | Path | None = None) -> MCPServer:
    """Return a server with both tools; `server().run()` serves standard input and output.

    Given a folder of recordings, it has a third tool, `recall`, which `cupel watch --recall` needs.
    """
    tools: list[Callable[..., Any]] = [select, explain, *([] if recordings is None else [recorded_recall(recordings)])]
    return MCPServer("cupel", instructions=_INSTRUCTIONS, tools=[_strict(tool) for tool in tools])


def _strict(tool: Callable[..., Any]) -> Tool:
    """Return a tool that refuses unknown arguments: a misspelt budget must not become the default."""
    made = Tool.from_function(_told(tool), structured_output=tool in {select, explain})  # a text as it is
    arguments = made.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    made.parameters = arguments.model_json_schema(by_alias=True)
    return made


def _told(tool: Callable[P, R]) -> Callable[P, R]:
    """Return the tool, with mistakes in its arguments told to the client instead of being logged as crashes."""

    @wraps(tool)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return tool(*args, **kwargs)
        except (CupelError, TypeError) as error:
            raise ToolError(str(error)) from error

    return call


def _items(candidates: list[Candidate]) -> list[ContextItem]:
    items: list[ContextItem] = []
    for position, candidate in enumerate(candidates):
        try:
            items.append(candidate.item())
        except (CupelError, TypeError) as error:
            raise InvalidItemError(f"items[{position}].{error}") from error
    return items


def _budget(max_tokens: int, target_tokens: int | None, output_reserve: int) -> ContextBudget:
    target = max_tokens - output_reserve if target_tokens is None else target_tokens
    return ContextBudget(max_tokens, target, output_reserve=output_reserve)


def _policy(policy: str | dict[str, Any]) -> Pipeline:
    if isinstance(policy, dict):
        return cupel.policy.from_dict(policy)
    known = {name.replace("_", "-"): getattr(presets, name) for name in presets.__all__}
    if policy not in known:
        raise PolicyConfigError(f"policy must be a policy document or one of {', '.join(known)}, got {shown(policy)}")
    preset: Pipeline = known[policy]()
    return preset


if __name__ == "__main__":
    server(*sys.argv[1:2]).run()
