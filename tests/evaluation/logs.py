"""Logs as Claude Code and Codex write them, of conversations with a provider that has a prompt cache."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from tests.watch.caching import MARK, CachingProvider, marked

TTL = 300


def text_of(number: int, lines: int = 40) -> str:
    return "\n".join(f"{number}.{line} value_{number * line} was measured" for line in range(lines))


class AgentLog:
    """One session; `truth` has the tokens that were sent again for each reason that the test gave."""

    provider = ""

    def __init__(self, model: str) -> None:
        self.model, self.instructions, self.tools = model, "You are an agent. " * 200, [self.tool("read")]
        self.cache = CachingProvider(self.provider)
        self.numbers = count(1)
        self.history: list[Any] = []
        self.lines: list[str] = []
        self.time = 1_790_000_000.0
        self.reason = ""
        self.truth: dict[str, int] = {}

    @staticmethod
    def tool(name: str) -> dict[str, Any]:
        return {"name": name, "description": f"{name} something. " * 100}

    def wait(self, seconds: float) -> None:
        self.time += seconds
        if seconds > TTL:
            self.cache.expire()

    @property
    def stamp(self) -> str:
        return datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def write(self, line: Any) -> None:
        self.lines.append(line if isinstance(line, str) else json.dumps(line))

    def counted(self, messages: list[Any], **more: Any) -> tuple[int, int, int]:
        """Count a request, and what of it had been sent before for this reason."""
        self.wait(2)
        field = "system" if self.provider == "anthropic" else "instructions"
        told = (
            [{"type": "text", "text": self.instructions, **MARK}] if self.provider == "anthropic" else self.instructions
        )
        name = "messages" if self.provider == "anthropic" else "input"
        sent = {"model": self.model, field: told, "tools": self.tools, name: messages, **more}
        served = self.cache.serve(sent)
        self.truth[self.reason] = self.truth.get(self.reason, 0) + served.again
        self.reason = ""
        return served[:3]

    def steps(self, number: int, lines: int) -> None:
        """Call a tool so many times."""
        for _ in range(number):
            self.call(text_of(next(self.numbers), lines))

    def call(self, output: str) -> None:
        raise NotImplementedError

    def save(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in self.lines))
        return path


class ClaudeLog(AgentLog):
    """A tree of lines, and attachments beside the messages."""

    provider = "anthropic"

    def __init__(self, model: str = "claude-sonnet-5", session: str = "aaaaaaaa-0001") -> None:
        super().__init__(model)
        self.session, self.last, self.sidechain = session, None, False
        self.write({"type": "queue-operation", "operation": "enqueue", "sessionId": session})

    def line(self, kind: str, **fields: Any) -> str:
        uuid = f"{self.session}-{next(self.numbers):05}"
        base = {"parentUuid": self.last, "isSidechain": self.sidechain, "type": kind, "uuid": uuid}
        self.write({**base, "timestamp": self.stamp, "sessionId": self.session, "version": "2.1.0", **fields})
        self.last = uuid
        return uuid

    def user(self, content: Any, **fields: Any) -> str:
        self.wait(1)
        self.history.append({"role": "user", "content": content})
        return self.line("user", message=self.history[-1], **fields)

    def assistant(self, *blocks: dict[str, Any]) -> str:
        """Answer with these blocks, of which each has a line and all repeat the usage."""
        total, read, written = self.counted(marked(self.history))
        usage = {"input_tokens": total - read - written, "cache_read_input_tokens": read, "output_tokens": 9}
        usage |= {"cache_creation_input_tokens": written}
        answer = {
            "id": f"msg_{self.session}_{next(self.numbers)}",
            "role": "assistant",
            "model": self.model,
            "usage": usage,
        }
        for block in blocks:
            self.line("assistant", message={**answer, "content": [block]}, requestId=f"req_{answer['id']}")
        self.history.append({"role": "assistant", "content": list(blocks)})
        return str(self.last)

    def prompt(self, text: str, steps: int = 0, lines: int = 40) -> str:
        """Ask something, let the model call its tool so many times, and get an answer."""
        self.user(text)
        self.steps(steps, lines)
        thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
        return self.assistant(thinking, {"type": "text", "text": f"Answer {next(self.numbers)}."})

    def call(self, output: str) -> None:
        key = f"toolu_{next(self.numbers)}"
        self.assistant({"type": "tool_use", "id": key, "name": "read", "input": {"path": f"{key}.txt"}})
        self.user([{"type": "tool_result", "tool_use_id": key, "content": output}])

    def compact(self, summary: str, *, keep: int = 1) -> None:
        """Replace the history by a summary; the newest lines stay."""
        kept = [json.loads(line) for line in self.lines if '"message"' in line][-keep:]
        uuids = [one["uuid"] for one in kept]
        self.last = None
        self.line("system", subtype="compact_boundary", compactMetadata={"preservedMessages": {"allUuids": uuids}})
        self.history = []
        self.user(summary, isCompactSummary=True)
        self.history += [{"role": one["message"]["role"], "content": one["message"]["content"]} for one in kept]
        self.last = uuids[-1] if uuids else self.last

    def rewind(self, uuid: str, messages: int) -> None:
        """Continue from an earlier line."""
        self.last, self.history = uuid, self.history[:messages]


class CodexLog(AgentLog):
    """A list of items, and the usage after each answer."""

    provider = "openai-responses"

    def __init__(self, model: str = "gpt-5.1", thread: str = "bbbbbbbb-0001") -> None:
        super().__init__(model)
        self.totals, self.ordinal = 0, 0
        self.line("session_meta", id=thread, base_instructions={"text": self.instructions})

    def line(self, kind: str, **payload: Any) -> None:
        self.write({"timestamp": self.stamp, "ordinal": self.ordinal, "type": kind, "payload": payload})
        self.ordinal += 1

    def item(self, **item: Any) -> None:
        self.history.append(item)
        self.line("response_item", **item)

    def message(self, role: str, text: str) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        self.item(type="message", role=role, content=[{"type": kind, "text": text}])

    def usage(self, counts: tuple[int, int, int], *, newer: bool = True) -> None:
        """Write the usage in both forms, the older one twice."""
        total, read, _ = counts
        self.totals += total
        last = {"input_tokens": total, "cached_input_tokens": read, "output_tokens": 9}
        totals = {"input_tokens": self.totals}
        if newer:
            self.line("token_usage_record", usage=last, thread_token_usage=totals)
        for _ in range(2):
            info = {"last_token_usage": last, "total_token_usage": totals}
            self.line("event_msg", type="token_count", info=info)

    def prompt(self, text: str, steps: int = 0, lines: int = 40) -> None:
        """Ask something, let the model call its tool so many times, and get an answer."""
        self.wait(1)
        self.line("turn_context", model=self.model)
        self.message("user", text)
        self.steps(steps, lines)
        counts = self.counted(self.history)
        self.message("assistant", f"Answer {next(self.numbers)}.")
        self.usage(counts)

    def call(self, output: str) -> None:
        key = f"call_{next(self.numbers)}"
        counts = self.counted(self.history)
        self.item(type="reasoning", summary=[], encrypted_content=f"{key} " * 10)
        self.item(type="function_call", call_id=key, name="shell", arguments=json.dumps({"command": f"cat {key}"}))
        self.wait(1)
        self.item(type="function_call_output", call_id=key, output=output)
        self.usage(counts, newer=False)  # as older versions: after the output

    def compact(self, summary: str) -> None:
        """Ask for a summary without any tools, and continue with it."""
        asks = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Summarize."}]}
        self.reason = "compaction"
        counts = self.counted([*self.history, asks], tools=[])
        self.message("assistant", summary)
        self.usage(counts)
        prompts = [one for one in self.history if one.get("role") == "user"]
        told = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": summary}]}
        self.history = [*prompts, told]
        self.line("compacted", message=summary, replacement_history=self.history)
