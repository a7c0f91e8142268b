"""The kinds of values that fields of an item, a budget or a report take: in JSON, in a cell of text, in a schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Any, Final

from cupel._documents._json import decode_json
from cupel._documents._limits import check_depth
from cupel._documents._plain import NON_FINITE, plain, plain_integer, plain_number

_INSTANT: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
_IS_INSTANT: Final = re.compile(_INSTANT)
_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_CONTAINERS: Final = (dict, list)


@dataclass(frozen=True, slots=True)
class Value:
    """One kind of value: what to call it, its schema, and how it is read and written.

    `read` takes a JSON value, `cell` the text of a CSV cell; both raise ValueError for what is none. What they let
    pass is checked by the class that the field belongs to.
    """

    expected: str
    schema: Mapping[str, Any]
    read: Callable[[Any], Any]
    cell: Callable[[str], Any] = str
    write: Callable[[Any], Any] | None = None
    """None where msgspec writes the value as it should be."""
    convert: bool = False
    """Whether `read` has something to do even where a value is as it should be."""
    type: Any = Any
    """What a decoder may check by itself: everything of this type that JSON can say is a value, or left to `read`."""


def _integer(value: Any) -> int:
    """Take 1.0 for 1: JSON has one kind of number, and a schema cannot tell these apart."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not int:
        raise ValueError(value)
    return plain_integer(value)


def _count(value: Any) -> int:
    count = _integer(value)
    if count < 0:
        raise ValueError(value)
    return count


def _duration(value: Any) -> float:
    number = _number(value)
    if type(value) is str or not 0.0 <= number < inf:
        raise ValueError(value)
    return number


def _integer_cell(text: str) -> int:
    return _integer(decode_json(text) if text.lstrip("+-").isdigit() and text.isascii() else text)


def _number(value: Any) -> float:
    if type(value) is str:
        if value not in NON_FINITE:
            raise ValueError(value)
        return NON_FINITE[value]
    if type(value) not in {int, float}:
        raise ValueError(value)
    return float(value)


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(value)
    return value


def _flag_cell(text: str) -> bool:
    if text.lower() not in _WORDS:
        raise ValueError(text)
    return _WORDS[text.lower()]


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(value)
    return value


def _words(value: Any) -> list[str]:
    words: list[Any] = value
    if type(value) is not list or not all(type(word) is str for word in words):
        raise ValueError(words)
    return words


def _words_cell(text: str) -> list[str]:
    if text.startswith("["):
        return _words(decode_json(text))
    return [word.strip() for word in text.split(";") if word.strip()]


def _object(value: Any) -> Any:
    members: Mapping[str, Any] = value
    if type(value) is not dict and not isinstance(value, Mapping):
        raise ValueError(value)
    if any(isinstance(entry, _CONTAINERS) for entry in members.values()):
        check_depth(members)
    return members


def _integers(value: Any) -> dict[str, int]:
    return {key: _integer(entry) for key, entry in _object(value).items()}


def _instant(value: Any) -> datetime:
    if isinstance(value, datetime):  # TOML and Arrow have a type for it
        return value
    if type(value) is not str:
        raise ValueError(value)
    instant = datetime.fromisoformat(value if value.endswith("Z") else value.upper())
    if instant.tzinfo is not None and not _IS_INSTANT.match(value):  # what has no zone, the item itself refuses
        raise ValueError(value)
    return instant


TEXT: Final = Value("a string", {"type": "string"}, _text, type=str)
CONTENT: Final = Value("a string", {"type": "string", "minLength": 1}, _text, type=str)
NAME: Final = Value("a string", {"type": "string", "pattern": r"\S"}, _text, write=str, type=str)
INTEGER: Final = Value("an integer", {"type": "integer"}, _integer, _integer_cell, plain_integer, type=int)
COUNT: Final = Value("an integer >= 0", {"type": "integer", "minimum": 0}, _count, _integer_cell, _count, type=int)
DURATION: Final = Value("a number >= 0", {"type": "number", "minimum": 0}, _duration, float, _duration, type=float)
NUMBER: Final = Value(
    "a number, 'NaN', 'Infinity' or '-Infinity'",
    {"anyOf": [{"type": "number"}, {"enum": list(NON_FINITE)}]},
    _number,
    float,
    plain_number,
    type=float,
)
FLAG: Final = Value("true or false", {"type": "boolean"}, _flag, _flag_cell, type=bool)
WORDS: Final = Value(
    "a list of strings", {"type": "array", "items": {"type": "string"}}, _words, _words_cell, list, type=tuple[str, ...]
)
OBJECT: Final = Value(
    "an object",
    {"type": "object"},
    _object,
    lambda text: _object(decode_json(text)),
    plain,
    convert=True,
    type=dict[str, Any],
)
INTEGERS: Final = Value(
    "an object of integers",
    {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}, "propertyNames": {"pattern": r"\S"}},
    _integers,
    lambda text: _integers(decode_json(text)),
    lambda slots: {str(kind): plain_integer(count) for kind, count in slots.items()},
)
INSTANT: Final = Value(
    "an RFC 3339 date-time such as '2026-01-31T09:30:00Z'",
    {"type": "string", "format": "date-time", "pattern": _INSTANT},
    _instant,
    _instant,
    convert=True,
    type=str,
)
