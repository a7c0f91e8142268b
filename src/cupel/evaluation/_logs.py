"""The logs that Claude Code and Codex keep of their sessions, read as recordings."""

from __future__ import annotations

import os
from collections import Counter
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple
from warnings import warn

import msgspec

from cupel._internal.documents import is_list
from cupel._internal.text import plural, preview
from cupel.errors import ConfigurationWarning, CupelError
from cupel.evaluation._cases import EvaluationError
from cupel.evaluation._misses import COMPACTED, EDITED, LoggedRequest, calls_of, counted, told_by
from cupel.evaluation._recordings import Recording
from cupel.messages import Provider, read_message

_MOST_NAMED: Final = 5
"""Kinds of unread lines that a warning names."""
_LONGEST_TITLE: Final = 48
_SNIFFED: Final = 20
"""Lines in which a log is recognised."""
_MADE_UP: Final = "<synthetic>"
"""The model of answers that Claude Code writes itself."""
_CONTEXT: Final = ("<", "# AGENTS.md")
"""Beginnings of messages that a client writes in the user's name."""
_REMINDER: Final = "<system-reminder>"
_NAMES: Final = ("agent-name", "agent-setting", "ai-title", "custom-title", "mode", "permission-mode", "tag")
_PASSED_OVER: Final = frozenset(
    (*_NAMES, "file-history-snapshot", "last-prompt", "pr-link", "progress", "queue-operation", "summary", "system")
)
"""Types of lines that hold nothing of a request."""


class _LogLine(msgspec.Struct, rename="camel"):
    """A line of Claude Code's, which has a `uuid`, or of Codex, which has a `payload`; other fields are passed over."""

    type: str = ""
    timestamp: str = ""
    ordinal: int = 0
    payload: Any = None
    uuid: str | None = None
    session_id: str | None = None
    parent_uuid: str | None = None
    is_sidechain: bool = False
    is_compact_summary: bool = False
    request_id: str | None = None
    message: Any = None
    attachment: Any = None
    subtype: str | None = None
    compact_metadata: Any = None

    @property
    def time(self) -> float:
        """When it was written, in seconds since 1970."""
        return datetime.fromisoformat(self.timestamp).timestamp()


_DECODER: Final = msgspec.json.Decoder(_LogLine)


class _EndedHistory(NamedTuple):
    """A history that was not continued, and the requests of which it has the answers."""

    messages: list[Any]
    requests: list[LoggedRequest]


class _LineMark(NamedTuple):
    """The messages of a session after one of Codex' lines."""

    ordinal: int
    history: list[Any]
    messages: int


class _Session:
    """One conversation: its history as it grows, is compacted and goes back, and its requests."""

    def __init__(self, provider: Provider, where: str) -> None:
        self.provider: Provider = provider
        self.where = where
        self.system: str | None = None
        self.title = self.model = ""
        self.history: list[Any] = []
        self.requests: list[LoggedRequest] = []
        self.answers = 0
        self.answer: object = None
        """The name of the newest answer."""
        self._runs = False
        """Whether nothing follows the newest answer yet."""
        self._asked: tuple[int, float, float] | None = None
        """Where an answer begins whose request is not counted yet, when it was asked for and when it came."""
        self._time, self._prompted = 0.0, False
        """When the newest message was sent, and whether the user spoke since the last request."""
        self._ends = [0]
        """Characters of the first messages."""
        self._parts: list[_EndedHistory] = []
        self._same, self._change = 0, ""
        """How many messages of the last request are unchanged, and why the others are not."""
        self._old: set[bytes] = set()
        self._kept = 0
        """Contents that were compacted, and the characters of those that stay."""

    def add(self, message: Any, time: float) -> None:
        """Add a message that goes to the model."""
        info = read_message(message, self.provider)
        self._runs, self._time = False, time
        if info.role == "user":  # else it is the output of a tool
            self._asked, self._prompted = None, self._prompted or not info.text.startswith(_REMINDER)
        self._append(message)
        if not self.title and info.role == "user" and info.text and not info.text.startswith(_CONTEXT):
            self.title = preview(info.text, _LONGEST_TITLE)

    def add_answer(self, message: Any, time: float, name: object = None) -> None:
        """Add a message of the model's; messages in a row, and those of one name, are one answer."""
        read_message(message, self.provider)
        if not self._runs:
            self.answers += name is None or name != self.answer
            self._asked = self._asked or (len(self.history), self._time, time)
        self._runs, self.answer = True, name
        self._append(message)

    def _append(self, message: Any) -> None:
        self.history.append(message)
        self._ends.append(self._ends[-1] + len(msgspec.json.encode(message)))
        if self._old and _content(message) in self._old:
            self._kept += self._ends[-1] - self._ends[-2]

    def extend_answer(self, blocks: list[Any]) -> bool:
        """Add blocks to the newest message of the running answer; return False if none runs."""
        if not self._runs:
            return False
        read_message({"role": "assistant", "content": blocks}, self.provider)
        last = self.history.pop()
        del self._ends[-1]
        self._append({**last, "content": [*last["content"], *blocks]})
        return True

    def add_request(self, usage: dict[str, Any], told: str = "") -> None:
        """Add the request of the running answer."""
        at, asked, answered = self._asked or (len(self.history), self._time, self._time)
        fresh = self._ends[at] - self._ends[min(self._same, at)] - self._kept
        counts, size = counted(usage), self._ends[at]
        request = LoggedRequest(
            at, asked, answered, self.model, *counts, size, fresh, self._change, told, self._prompted
        )
        self.requests.append(request)
        self._same, self._change, self._kept, self._asked = at, "", 0, None
        self._old.clear()
        self._prompted = False

    def return_to(self, history: list[Any]) -> None:
        """Continue an earlier history."""
        pairs = enumerate(zip(history, self.history, strict=False))
        same = next((at for at, (one, other) in pairs if one is not other), min(len(history), len(self.history)))
        self.go_back(same)
        for message in history[same:]:
            self._append(message)

    def go_back(self, at: int, change: str = EDITED) -> None:
        """Keep the first messages only."""
        self._end_part()
        self._old |= set(map(_content, self.history if change == COMPACTED and not at else ()))
        self.history, self._ends = self.history[:at], self._ends[: at + 1]
        self._same, self._change, self._runs = min(self._same, at), self._change or change, False
        self._asked = None

    def _end_part(self) -> None:
        if self.requests:
            self._parts.append(_EndedHistory(self.history, self.requests))
            self.requests = []

    def recordings(self) -> list[Recording]:
        """Return the history at the end and every one that was left, with the requests that belong to it."""
        self._end_part()
        calls = iter(calls_of(self.provider, [request for part in self._parts for request in part.requests]))
        name, found = f"{self.title or 'no words'} ({Path(self.where).stem[-8:]})", list[Recording]()
        for number, (messages, requests) in enumerate(self._parts, 1):
            options: dict[str, Any] = {"provider": self.provider, "system": self.system, "where": self.where}
            options |= {"name": f"{name}, part {number}" if number > 1 else name, "replay_from": requests[0].at}
            found.append(Recording(messages, calls=list(islice(calls, len(requests))), **options))
        return found


class _Logs:
    """Reads files, one after the other; what one file tells of again is counted once."""

    def __init__(self) -> None:
        self.sessions: list[_Session] = []
        self.unread: Counter[str] = Counter()
        """Lines that cannot be read, and why."""
        self.first: dict[str, str] = {}
        """Where the first of them is."""
        self._seen: set[object] = set()
        """The answers whose requests were counted."""
        self._threads: dict[str, tuple[_Session, list[_LineMark]]] = {}
        self._open(Path())

    def _open(self, path: Path) -> None:
        self._path = path
        self._own: list[_Session] = []
        """The sessions of this file."""
        self._places: dict[str, tuple[_Session, int, int]] = {}
        """For each line of Claude Code's, its session, and how many messages and answers that has with it."""
        self._lines: dict[str, _LogLine] = {}
        self._kept: list[str] = []
        """The lines that a compaction keeps after its summary."""
        self._marks: list[_LineMark] = []

    def read(self, path: Path) -> None:
        """Read all lines of a file."""
        self._open(path)
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if fault := self._fault(raw):
                    self.unread[fault] += 1
                    self.first.setdefault(fault, f"{path.name}:{number}")

    def _fault(self, raw: bytes) -> str:
        """Read a line, and return why it cannot be read; empty if it can."""
        if raw.isspace():
            return ""
        try:
            line = _DECODER.decode(raw)
        except msgspec.DecodeError:
            return "no JSON object of a log"
        try:
            is_known = self._codex(line) if line.payload is not None else self._claude(line)
        except LookupError as error:
            return f"of type {line.type!r} without {error}"
        except (ValueError, TypeError, AttributeError, CupelError) as error:
            return f"of type {line.type!r}: {error}"
        return "" if is_known else f"of type {line.type!r}"

    def _session(self, provider: Provider) -> _Session:
        session = _Session(provider, f"{self._path}#{len(self._own)}" if self._own else str(self._path))
        self.sessions.append(session)
        self._own.append(session)
        return session

    # Claude Code writes a tree: each line names the one before it.

    def _claude(self, line: _LogLine) -> bool:
        if line.uuid is None or line.uuid in self._places:
            return line.uuid is not None or line.type in _PASSED_OVER
        parent = line.parent_uuid or ""
        if parent in self._places:
            session, at, answers = self._places[parent]
        else:
            session = self._own[0] if self._own and not line.is_sidechain else self._session("anthropic")
            at, answers = (0, -1) if line.parent_uuid is None else (len(session.history), session.answers)
        if line.subtype == "compact_boundary":
            session.go_back(0, COMPACTED)
            self._kept = _preserved(line.compact_metadata)
        elif line.subtype == "microcompact_boundary":
            session.go_back(len(session.history), COMPACTED)
        is_known = line.type in _PASSED_OVER or self._claude_message(
            line, session, at, is_fork=answers < session.answers
        )
        self._places[line.uuid] = session, len(session.history), session.answers
        return is_known

    def _claude_message(self, line: _LogLine, session: _Session, at: int, *, is_fork: bool) -> bool:
        found = line.message
        if line.type == "attachment":
            told = line.attachment.get("content")
            told = told if isinstance(told, str) else msgspec.json.encode(line.attachment).decode()
            session.add({"role": "user", "content": f"{_REMINDER}\n{told}\n</system-reminder>"}, line.time)
        elif line.type == "user":
            content = found["content"]
            is_result = is_list(content) and any(block.get("type") == "tool_result" for block in content)
            if is_fork and not is_result and not line.is_compact_summary:
                session.go_back(at)
            session.add({"role": "user", "content": content}, line.time)
        elif line.type == "assistant":
            self._claude_answer(line, session, found, at if is_fork else None)
        else:
            return False
        self._lines[line.uuid or ""] = line
        if line.is_compact_summary:
            for uuid in self._kept:
                if uuid in self._lines:
                    self._claude_message(self._lines[uuid], session, 0, is_fork=False)
                self._places[uuid] = session, len(session.history), session.answers
        return True

    def _claude_answer(self, line: _LogLine, session: _Session, found: Any, fork: int | None) -> None:
        """Add blocks of an answer: each has a line of its own, which repeats the usage."""
        name = found["id"], line.request_id
        if name == session.answer and session.extend_answer(found["content"]):
            return
        if fork is not None and name != session.answer:
            session.go_back(fork)
        session.add_answer({"role": "assistant", "content": found["content"]}, line.time, name)
        usage = found["usage"]
        if found["model"] != _MADE_UP and name not in self._seen and usage.get("output_tokens"):
            self._seen.add(name)
            session.model = found["model"]
            session.add_request(usage, told_by(found.get("diagnostics")))

    # Codex writes a list: what is sent, and what happens to it.

    def _codex(self, line: _LogLine) -> bool:
        data, session = line.payload, self._own[0] if self._own else self._session("openai-responses")
        if line.type == "session_meta":
            self._codex_begins(session, data)
        elif line.type == "turn_context":
            session.model = data["model"]
        elif line.type == "response_item":
            item = {name: value for name, value in data.items() if name != "internal_chat_message_metadata_passthrough"}
            if item.get("role", "assistant") == "assistant" and not item["type"].endswith("_output"):
                session.add_answer(item, line.time)
            else:
                session.add(item, line.time)
        elif line.type == "compacted":
            self._codex_compacted(session, data, line.time)
        elif line.type == "token_usage_record":
            self._codex_usage(session, data["usage"], data["thread_token_usage"])
        elif line.type == "event_msg" and data["type"] == "token_count" and data.get("info"):
            self._codex_usage(session, data["info"]["last_token_usage"], data["info"]["total_token_usage"])
        elif line.type == "event_msg" and data["type"] == "thread_rolled_back":
            prompts = [at for at, item in enumerate(session.history) if _is_prompt(item)]
            session.go_back(prompts[-min(len(prompts), data["num_turns"])] if prompts else 0)
        self._marks.append(_LineMark(line.ordinal, session.history, len(session.history)))
        return line.type in _CODEX

    def _codex_begins(self, session: _Session, data: Any) -> None:
        """Begin a file; it may continue another one, up to one of its lines."""
        base: dict[str, Any] = data.get("history_base") or {}
        if base.get("thread_id") in self._threads and not session.history:
            self.sessions.remove(session)
            session, marks = self._threads[base["thread_id"]]
            self._own = [session]
            mark = next((one for one in reversed(marks) if one.ordinal < base["end_ordinal_exclusive"]), marks[0])
            session.return_to(mark.history[: mark.messages])
        told: dict[str, Any] = data.get("base_instructions") or {"text": data.get("instructions")}
        session.system = told.get("text")
        self._threads[data.get("id")] = session, self._marks

    def _codex_usage(self, session: _Session, usage: Any, totals: Any) -> None:
        """Add a request, unless it is told of again."""
        name = str(self._path), msgspec.json.encode(totals)
        if usage["input_tokens"] and name not in self._seen:
            self._seen.add(name)
            cached = {"input_tokens_details": {"cached_tokens": usage.get("cached_input_tokens", 0)}}
            session.add_request({**usage, **cached})

    def _codex_compacted(self, session: _Session, data: Any, time: float) -> None:
        summary = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": data["message"]}]}
        kept = data.get("replacement_history") or [*filter(_is_prompt, session.history), summary]
        newest = read_message(session.history[-1], "openai-responses").text if session.history else ""
        if session.requests and newest and newest in data["message"]:  # the last request asked for it
            session.requests[-1] = session.requests[-1]._replace(told=COMPACTED)
        session.go_back(0, COMPACTED)
        for item in kept:
            session.add(item, time)


_CODEX: Final = frozenset(
    ("session_meta", "turn_context", "response_item", "compacted", "token_usage_record", "event_msg", "world_state")
)


def _content(message: Any) -> bytes:
    return msgspec.json.encode(message.get("content"))


def _is_prompt(item: Any) -> bool:
    """Return whether the user has written a message of Codex."""
    if item.get("role") != "user":
        return False
    return not read_message(item, "openai-responses").text.startswith(_CONTEXT)


def _preserved(metadata: Any) -> list[str]:
    told: dict[str, Any] = metadata or {}
    kept: dict[str, list[str]] = told.get("preservedMessages") or {}
    return kept.get("allUuids") or kept.get("uuids") or []


def is_log(path: Path) -> bool:
    """Return whether a file is a log of Claude Code's or of Codex."""
    return _begins(path) is not None


def _begins(path: Path) -> str | None:
    """Return the time of the first line of a log; None for another file."""
    if path.suffix != ".jsonl" or not path.is_file():
        return None
    if not os.access(path, os.R_OK):
        return ""  # it is counted
    with path.open("rb") as file:
        for raw in islice(file, _SNIFFED):
            try:
                line = _DECODER.decode(raw)
            except msgspec.DecodeError:
                continue
            if line.payload is not None or line.session_id is not None:
                return line.timestamp
    return None


def read_logs(paths: list[Path]) -> list[Recording]:
    """Read the conversations of logs, the newest first; warn of lines that cannot be read."""
    logs = _Logs()
    for path in sorted(paths, key=lambda path: (_begins(path) or "", path.stat().st_mtime_ns)):  # copies come later
        try:
            logs.read(path)
        except OSError as error:
            logs.unread[f"{error.strerror}"] += 1
            logs.first.setdefault(f"{error.strerror}", path.name)
    if logs.unread:
        most = logs.unread.most_common(_MOST_NAMED)
        named = "; ".join(f"{count:,} × {preview(kind)} ({logs.first[kind]})" for kind, count in most)
        more = "; …" if len(logs.unread) > _MOST_NAMED else ""
        told = f"{plural(logs.unread.total(), 'line')} of {plural(len(paths), 'log')} not read: {named}{more}"
        warn(told, ConfigurationWarning, stacklevel=3)
    found = [recording for session in reversed(logs.sessions) for recording in session.recordings()]
    if not found:
        raise EvaluationError(f"{paths[0]}: {plural(len(paths), 'log')} without an answer of a model")
    return found
