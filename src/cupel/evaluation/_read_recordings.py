"""Recorded conversations out of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cupel._checks import shown
from cupel._documents import is_list, is_object
from cupel.errors import CupelError
from cupel.evaluation._errors import EvaluationError
from cupel.evaluation._files import documents
from cupel.evaluation._otel import conversations, is_trace
from cupel.evaluation._recording import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAMES = ("session", "id", "name", "conversation")


def read_recordings(path: str | Path) -> list[Recording]:
    """Read recorded conversations from JSON or JSON lines; `.gz` is unpacked.

    A conversation is a list of messages, or an object that has them under `messages`, or under `input` for the
    Responses API, and if there are any `system` (or `instructions`), `tools` and `provider`; all else, such as
    `usage`, is passed over. OpenTelemetry's GenAI spans are read too: the longest history of each conversation.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "sessions.jsonl"
    ...     _ = path.write_text('{"session": "monday", "messages": [{"role": "user", "content": "Hello"}]}')
    ...     recordings = read_recordings(path)
    >>> recordings[0].name
    'monday'
    """
    found: list[Recording] = []
    spans: list[Any] = []
    for where, document in documents(path):
        for place, row in _rows(where, document):
            if is_trace(row):
                spans.append(row)
            else:
                found.append(_recording(place, row))
    try:
        told = conversations(spans)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EvaluationError(f"{path}: a span cannot be read: {error}") from None
    found += [Recording(messages, provider="openai", name=name) for name, messages in told.items()]
    if not found:
        held = "no span in it holds messages" if spans else "there is no conversation in it"
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
    """Tell messages from rows: a message has a role, or the type of a Responses item."""
    first: Any = entries[0] if entries else None
    return is_object(first) and "messages" not in first and ("role" in first or "type" in first)


def _recording(where: str, row: Any) -> Recording:
    fields = row if is_object(row) else {"messages": row}
    messages: Any = fields.get("messages", fields.get("input"))
    if not is_list(messages):
        expected = "a conversation is a list of messages, or an object with the list under 'messages'"
        raise EvaluationError(f"{where}: {expected}, got {shown(row)}")
    name = next((str(fields[key]) for key in _NAMES if fields.get(key) is not None), where)
    system = fields.get("system", fields.get("instructions"))
    try:
        return Recording(messages, provider=fields.get("provider"), system=system, tools=fields.get("tools"), name=name)
    except (CupelError, TypeError) as error:
        raise EvaluationError(f"{where}: {error}") from None
