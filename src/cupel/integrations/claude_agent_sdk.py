"""Claude Agent SDK: a hook that shortens a tool output before the model first sees it.

Needs `cupel-context[claude-agent-sdk]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from cupel._internal.checks import as_function, as_integer
from cupel.errors import ConfigurationError, MissingExtraError
from cupel.shorten import Shortener, head_tail, shorten
from cupel.tokens import TokenCounter, counter_or_default

try:
    from claude_agent_sdk.types import HookCallback, HookContext, HookInput, SyncHookJSONOutput
except ImportError:
    raise MissingExtraError("claude-agent-sdk", "claude-agent-sdk") from None

__all__ = ["shorten_tool_outputs"]

_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "Bash": ("stdout", "stderr"),
    "Grep": ("content",),
    "WebFetch": ("result",),
}
"""The fields of built-in tools whose texts the model reads; other built-in tools return little of it."""


def shorten_tool_outputs(
    limit: int, *, shortener: Shortener | None = None, counter: TokenCounter | None = None
) -> HookCallback:
    r"""Return a `PostToolUse` hook that replaces tool outputs above `limit` tokens with shorter ones.

    The output keeps its tool's own shape, as Claude Code demands: the texts of `Bash`, `Grep` and `WebFetch`, of a text
    file that `Read` returned, and of every MCP tool are shortened, and everything else stays. A file is cut at its end
    only, since Claude Code numbers its lines. An output that Claude Code has saved to a file is left alone: the model
    sees its beginning and the file's name.

    Args:
        limit: The most tokens that the texts of one output may have.
        shortener: How texts are shortened, by default `cupel.shorten.shorten`.
        counter: How tokens are counted, by default as `cupel.tokens.default_counter()` does.

    >>> import asyncio
    >>> hook = shorten_tool_outputs(20)
    >>> response = {"stdout": "one more line\n" * 40, "stderr": "", "interrupted": False}
    >>> event = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": response}
    >>> answer = asyncio.run(hook(event, "toolu_1", {"signal": None}))
    >>> len(answer["hookSpecificOutput"]["updatedToolOutput"]["stdout"]) < 100
    True
    """
    limit = as_integer("limit", limit, least=1, error=ConfigurationError)
    if shortener is None:
        shortener = partial(shorten, counter=counter)
    hook = _Hook(limit, as_function("shortener", shortener), counter_or_default(counter))
    return hook.__call__  # the SDK asks for a coroutine function


@dataclass(frozen=True, slots=True)
class _Hook:
    limit: int
    shortener: Shortener
    counter: TokenCounter

    async def __call__(self, event: HookInput, tool_use_id: str | None, context: HookContext) -> SyncHookJSONOutput:
        del tool_use_id, context
        before = event.get("tool_response")
        after = self._shortened(str(event.get("tool_name")), before)
        if after == before:
            return {}
        return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": after}}

    def _shortened(self, tool: str, response: Any) -> Any:
        if tool.startswith("mcp__"):
            return self._content(response)
        if not isinstance(response, Mapping) or response.get("isImage") or response.get("persistedOutputPath"):
            return response
        if tool == "Read":
            return self._file(response)
        return self._fields(response, [name for name in _TEXTS.get(tool, ()) if isinstance(response.get(name), str)])

    def _fields(self, response: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
        texts = self._texts([response[name] for name in names], self.shortener)
        return {**response, **dict(zip(names, texts, strict=True))}

    def _file(self, response: Mapping[str, Any]) -> Mapping[str, Any]:
        file = response.get("file")
        if response.get("type") != "text" or not isinstance(file, Mapping) or not isinstance(file.get("content"), str):
            return response
        [content] = self._texts([file["content"]], partial(head_tail, counter=self.counter, head=1.0))
        return {**response, "file": {**file, "content": content}}

    def _content(self, response: Any) -> Any:
        """Return the content of an MCP tool with shorter texts: a text, blocks, or a result that holds them."""
        if isinstance(response, str):
            return self._texts([response], self.shortener)[0]
        if isinstance(response, Mapping) and isinstance(response.get("content"), (str, list)):
            return {**response, "content": self._content(response["content"])}
        if not isinstance(response, list):
            return response
        places = [at for at, block in enumerate(response) if _is_text(block)]
        texts = self._texts([response[at]["text"] for at in places], self.shortener)
        shorter = dict(zip(places, texts, strict=True))
        return [{**block, "text": shorter[at]} if at in shorter else block for at, block in enumerate(response)]

    def _texts(self, texts: Sequence[str], shortener: Callable[[str, int], str]) -> list[str]:
        """Return texts that have at most `limit` tokens together; the shortest ones stay whole first."""
        found, room = list(texts), self.limit
        tokens = [self.counter.count(text) for text in texts]
        order = sorted(range(len(texts)), key=lambda at: tokens[at])
        for left, at in zip(range(len(texts), 0, -1), order, strict=True):
            share = room // left
            if tokens[at] > share:
                found[at] = shortener(texts[at], share)
            room -= min(tokens[at], share)
        return found


def _is_text(block: object) -> bool:
    entries = cast("Mapping[str, object]", block) if isinstance(block, Mapping) else {}
    return entries.get("type") == "text" and isinstance(entries.get("text"), str)
