"""One record of an input file, and the item it describes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final, cast

from cupel.errors import CupelError
from cupel.model import ContextItem

_FIELDS: Final = {
    "content": "content",
    "tokens": "tokens",
    "kind": "kind",
    "source": "source",
    "priority": "priority",
    "tags": "tags",
    "metadata": "metadata",
    "timestamp": "timestamp",
    "future_relevance_hint": "future_relevance_hint",
    "futureRelevanceHint": "future_relevance_hint",
    "pinned": "pinned",
    "original_tokens": "original_tokens",
    "originalTokens": "original_tokens",
}
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
_TRUE: Final = frozenset({"true", "yes", "1"})
_FALSE: Final = frozenset({"false", "no", "0"})


@dataclass(frozen=True, slots=True)
class Record:
    """Where a record stands, and its fields: as JSON gave them, or as a row of text that still has to be read."""

    where: str
    fields: object
    textual: bool = False


class BadRecordError(Exception):
    """A record that cannot become an item; the message names the field."""


def item_of(record: Record, count: Callable[[str], int]) -> ContextItem:
    """Build the item of a record; a record without a token count gets the counter's."""
    fields = _named(record)
    content: Any = fields.pop("content", None)
    if content is None:
        raise BadRecordError("content is missing")
    tokens: Any = fields.pop("tokens", None)
    if tokens is None:
        tokens = count(content) if content and isinstance(content, str) else 0
    if isinstance(fields.get("timestamp"), str):
        fields["timestamp"] = _timestamp(fields["timestamp"])
    if fields.get("future_relevance_hint") in _NOT_FINITE:  # JSON has no numbers for these
        fields["future_relevance_hint"] = float(fields["future_relevance_hint"])
    try:
        return ContextItem(content, tokens, **fields)
    except (CupelError, TypeError) as error:
        raise BadRecordError(str(error)) from error


def _named(record: Record) -> dict[str, Any]:
    """Give the fields under the names of `ContextItem`; nulls and empty cells count as absent."""
    fields: Any = record.fields
    if not isinstance(fields, Mapping):
        raise BadRecordError(f"an item must be an object, got {type(fields).__name__}: {fields!r:.60}")
    named: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", fields).items():
        name = _FIELDS.get(key)
        if record.textual and key.startswith("metadata."):
            if value:
                named.setdefault("metadata", {})[key.removeprefix("metadata.")] = value
            continue
        if name is None:
            raise BadRecordError(_unknown(key))
        if value is None or (record.textual and value == ""):
            continue
        if name in named:
            raise BadRecordError(f"{key}: given twice, in both spellings")
        named[name] = _from_text(name, value) if record.textual else value
    return named


def _unknown(key: str) -> str:
    close = get_close_matches(key, _FIELDS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "; data of your own belongs under metadata"
    return f"unknown key {key!r}{hint}"


def _timestamp(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise BadRecordError(f"timestamp must be an ISO 8601 date and time, got {text!r}") from None


def _from_text(name: str, text: str) -> Any:
    """Read a cell of a CSV file."""
    reader = _CELLS.get(name)
    if reader is None:
        return text
    try:
        return reader(text.strip())
    except ValueError:
        raise BadRecordError(f"{name} must be {_EXPECTED[name]}, got {text!r}") from None


def _boolean(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError(text)
    return text.lower() in _TRUE


def _tags(text: str) -> list[str]:
    if text.startswith("["):
        found: list[str] = json.loads(text)
        return found
    return [tag.strip() for tag in text.split(";") if tag.strip()]


_CELLS: Final[dict[str, Callable[[str], Any]]] = {
    "tokens": int,
    "priority": int,
    "original_tokens": int,
    "future_relevance_hint": float,
    "pinned": _boolean,
    "tags": _tags,
    "metadata": json.loads,
}
_EXPECTED: Final = {
    "tokens": "a whole number",
    "priority": "a whole number",
    "original_tokens": "a whole number",
    "future_relevance_hint": "a number",
    "pinned": "true or false",
    "tags": "words separated by ';' or a JSON list",
    "metadata": "a JSON object",
}
