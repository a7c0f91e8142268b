"""Recorded conversations, read from files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from cupel._internal.checks import as_integer, as_text, as_tuple, shown
from cupel._internal.documents import chat_request, is_list, is_object
from cupel._internal.files import MAX_UNPACKED
from cupel.errors import CupelError
from cupel.evaluation._cases import EvaluationError, documents
from cupel.evaluation._misses import LoggedCall
from cupel.messages import Provider, provider_of, read_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True, init=False)
class Recording:
    """A recorded conversation: its messages, and the tools and system prompt of its requests.

    The format is recognised unless `provider` names it.

    >>> recording = Recording([{"role": "user", "content": "Which gate?"}], name="gate")
    >>> recording.name, len(recording.messages)
    ('gate', 1)
    """

    messages: tuple[Any, ...] = field(repr=False)
    provider: Provider
    system: object = field(repr=False)
    tools: Sequence[object] | None = field(repr=False)
    name: str
    where: str = field(repr=False)
    """The file, and the line or the position in it, that it was read from; empty for one made in a program."""
    replay_from: int = field(repr=False)
    """The answers before this position are those of the recording that this one was forked from; they do not count."""
    calls: tuple[LoggedCall, ...] = field(repr=False)
    """The requests that were sent, if it is an agent's log."""

    def __init__(
        self,
        messages: Sequence[Any],
        *,
        provider: Provider | None = None,
        system: object = None,
        tools: Sequence[object] | None = None,
        name: str = "",
        where: str = "",
        replay_from: int = 0,
        calls: Sequence[LoggedCall] = (),
    ) -> None:
        copied = as_tuple("messages", messages, object, expected="a list of messages")
        if provider is not None and as_text("provider", provider) not in get_args(Provider):
            raise EvaluationError(f"provider must be one of {', '.join(get_args(Provider))}, got {shown(provider)}")
        for part, value in (
            ("messages", copied),
            ("provider", provider or provider_of(copied, system=system, tools=tools)),
            ("system", system),
            ("tools", tools),
            ("name", as_text("name", name)),
            ("where", as_text("where", where)),
            ("replay_from", as_integer("replay_from", replay_from, least=0, error=EvaluationError)),
            ("calls", tuple(calls)),
        ):
            object.__setattr__(self, part, value)

    @property
    def label(self) -> str:
        """The location and the name of the conversation, for errors."""
        parts = dict.fromkeys(part for part in (self.where, self.name) if part)
        return ", ".join(parts) or "a conversation without a name"


_DETAILS: Final = "gen_ai.client.inference.operation.details"
_EVENTS: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}


def is_trace(document: object) -> bool:
    """Return whether a document holds spans."""
    if not is_object(document):
        return False
    return "resourceSpans" in document or ("attributes" in document and ("events" in document or "context" in document))


def conversations(documents: Iterable[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the longest history of each conversation: later calls repeat the messages of earlier ones."""
    found: dict[str, list[dict[str, Any]]] = {}
    for document in documents:
        for span in _spans(document):
            conversation, messages = _exchange(span)
            if len(messages) > len(found.get(conversation, ())):
                found[conversation] = messages
    return found


def _spans(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "resourceSpans" not in document:
        yield document
    for resource in document.get("resourceSpans") or ():
        for scope in resource.get("scopeSpans") or ():
            yield from scope.get("spans") or ()


def _exchange(span: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return the conversation that a call of a model belongs to, and every message up to its answer."""
    attributes = _attributes(span.get("attributes"))
    events = [(str(event.get("name")), _attributes(event.get("attributes"))) for event in span.get("events") or ()]
    for name, details in events:
        if name == _DETAILS:
            attributes = {**attributes, **details}
    messages = _from_attributes(attributes) or [message for event in events for message in _from_event(*event)]
    context: Any = span.get("context") or {}
    trace = span.get("traceId") or context.get("trace_id") or ""
    return str(attributes.get("gen_ai.conversation.id") or trace), messages


def _attributes(found: Any) -> dict[str, Any]:
    """Return attributes as a dict; OTLP has a list of keys and typed values."""
    if is_object(found):
        return found
    pairs: Sequence[Any] = found or ()
    return {str(pair.get("key")): _typed(pair.get("value")) for pair in pairs}


def _typed(value: Any) -> Any:
    if not is_object(value) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    if kind == "arrayValue":
        return [_typed(one) for one in inner.get("values") or ()]
    if kind == "kvlistValue":
        return _attributes(inner.get("values"))
    return int(inner) if kind == "intValue" else inner


def _from_attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    instructions = _parts(attributes.get("gen_ai.system_instructions"))
    said = [*_parts(attributes.get("gen_ai.input.messages")), *_parts(attributes.get("gen_ai.output.messages"))[:1]]
    opening = [{"role": "system", "content": _text(instructions)}] if instructions and said else []
    return [*opening, *(message for one in said for message in _messages(one))]


def _parts(value: Any) -> list[Any]:
    found = _plain(value)
    return found if is_list(found) else []


def _object(value: Any) -> dict[str, Any]:
    found = _plain(value)
    return found if is_object(found) else {}


def _plain(value: Any) -> Any:
    """Return a value that may have been written down as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _text(parts: Iterable[Any]) -> str:
    texts: list[Any] = [part.get("content") for part in parts if is_object(part) and part.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def _messages(message: Any) -> Iterator[dict[str, Any]]:
    """Yield the chat messages of one message in parts; each tool result becomes a separate message."""
    fields = message if is_object(message) else {}
    parts = [part for part in _parts(fields.get("parts")) if is_object(part)]
    answers = [part for part in parts if part.get("type") == "tool_call_response"]
    calls = [part for part in parts if part.get("type") == "tool_call"]
    for part in answers:
        yield {
            "role": "tool",
            "tool_call_id": str(part.get("id")),
            "content": _written(part.get("response", part.get("result"))),
        }
    text = _text(parts)
    if calls:
        made = [_call(part.get("id"), part.get("name"), part.get("arguments")) for part in calls]
        yield {"role": "assistant", "content": text or None, "tool_calls": made}
    elif text or not answers:
        yield {"role": str(fields.get("role", "user")), "content": text}


def _call(identity: Any, name: Any, arguments: Any) -> dict[str, Any]:
    given = _written({} if arguments is None else arguments)
    return {"id": str(identity), "type": "function", "function": {"name": str(name), "arguments": given}}


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _from_event(name: str, attributes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the message of an event of the older conventions; exporters put the body's fields among the attributes."""
    role = _EVENTS.get(name)
    if role is None:
        return
    body = _object(attributes.get("event_body", attributes.get("body"))) or dict(attributes)
    body = {**body, **_object(body.get("message"))}
    content = body.get("content")
    message: dict[str, Any] = {"role": role, "content": None if content is None else _written(content)}
    calls = [call for call in _parts(body.get("tool_calls")) if is_object(call)]
    if role == "tool":
        message["tool_call_id"] = str(body.get("id"))
    elif calls:
        functions = [(call.get("id"), _object(call.get("function"))) for call in calls]
        message["tool_calls"] = [
            _call(at, function.get("name"), function.get("arguments")) for at, function in functions
        ]
    yield message


_NAMES = ("session", "id", "name", "conversation")


def read_recordings(path: str | Path, *, max_unpacked: int = MAX_UNPACKED) -> list[Recording]:
    """Read recorded conversations from JSON or JSON lines, or from all `.json` files of a folder.

    `.gz` is unpacked up to `max_unpacked` bytes. A conversation is a list of messages, or an object that has them under
    `messages`, `input` (Responses) or `contents` (Gemini), and if there are any `system` (or `instructions`,
    `systemInstruction`), `tools` (or Bedrock's `toolConfig`) and `provider`; all else, such as `usage`, is passed over.
    OpenTelemetry's GenAI spans are read too: the longest history of each conversation. So are the logs of Claude Code
    and Codex, one of them or a folder; a warning counts their lines that cannot be read.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "sessions.jsonl"
    ...     _ = path.write_text('{"session": "monday", "messages": [{"role": "user", "content": "Hello"}]}')
    ...     recordings = read_recordings(path)
    >>> recordings[0].name
    'monday'
    """
    from cupel.evaluation._logs import is_log, read_logs  # which make recordings

    found: list[Recording] = []
    spans: list[Any] = []
    folder = Path(path)
    is_folder = folder.is_dir()
    if logs := [one for one in (folder.rglob("*.jsonl") if is_folder else [folder]) if is_log(one)]:
        return read_logs(logs)
    paths = sorted(folder.glob("*.json")) if is_folder else [path]
    for where, document in (row for one in paths for row in documents(one, max_unpacked)):
        for place, row in _rows(where, document):
            if is_trace(row):
                spans.append(row)
            else:
                found.append(_recording(place, row))
    try:
        told = conversations(spans)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EvaluationError(f"{path}: a span cannot be read: {error}") from None
    found += [Recording(messages, provider="openai", name=name, where=str(path)) for name, messages in told.items()]
    if not found:
        held = "no span in it holds messages" if spans else "there is no conversation in it"
        if is_folder:
            held = f"no recording (*.json) and no log of Claude Code or Codex (**/*.jsonl) in {folder.resolve()}"
        raise EvaluationError(f"{path}: {held}")
    return found


def _rows(where: str, document: Any) -> Iterator[tuple[str, Any]]:
    """Yield the conversations of a document, which may be one itself."""
    if is_list(document) and not _is_history(document):
        for at, entry in enumerate(document):
            yield f"{where}[{at}]", entry
    else:
        yield where, document


def _is_history(entries: list[Any]) -> bool:
    """Tell messages from rows: a message has a role, the type of a Responses item, or the parts of Gemini's."""
    first: Any = entries[0] if entries else None
    return is_object(first) and "messages" not in first and not first.keys().isdisjoint(("role", "type", "parts"))


def _called_tools(recording: Recording) -> list[Any] | None:
    """Return specifications of the tools that a conversation calls: Bedrock takes calls only beside them."""
    infos = [read_message(message, recording.provider) for message in recording.messages]
    names = sorted({name for info in infos for name in info.tools})
    return [{"toolSpec": {"name": name, "inputSchema": {"json": {}}}} for name in names] or None


def _recording(where: str, row: Any) -> Recording:
    request = chat_request(row)
    if request is None or not is_list(request.messages):
        expected = (
            "a conversation is a list of messages, or an object with the list under 'messages', 'input' or 'contents'"
        )
        raise EvaluationError(f"{where}: {expected}, got {shown(row)}")
    messages, system, tools = request
    fields = row if is_object(row) else {}
    name = next((str(fields[key]) for key in _NAMES if fields.get(key) is not None), where)
    try:
        options: dict[str, Any] = {"system": system, "name": name, "where": where}
        options["replay_from"] = fields.get("replay_from", 0)
        found = Recording(messages, provider=fields.get("provider"), tools=tools, **options)
        if tools is None and found.provider == "bedrock":
            tools = _called_tools(found)
        return Recording(messages, provider=found.provider, tools=tools, **options)
    except (CupelError, TypeError) as error:
        raise EvaluationError(f"{where}: {error}") from None
