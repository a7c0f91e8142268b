"""The values that fields of an item or a budget take: in JSON, in a cell of text, in a schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Any, Final, Protocol, TypeAlias, cast

from cupel._checks import wrong_type
from cupel._wire._json import decode_json
from cupel._wire._limits import check_depth
from cupel._wire._paths import Path, shown_path
from cupel._wire._plain import NON_FINITE, plain, plain_integer, plain_number

_INSTANT: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
_IS_INSTANT: Final = re.compile(_INSTANT)
_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_CONTAINERS: Final = (dict, list)

Aside: TypeAlias = dict[Path, dict[str, Any]]
"""Fields that this version does not know, by the path of the object that had them."""


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


class Readable(Protocol):
    """What stands inside a document as an object of its own."""

    @property
    def title(self) -> str:
        """The name in a schema."""
        ...

    @property
    def packed(self) -> Any:
        """The type that msgspec reads and writes in its place."""
        ...

    def pack(self, value: Any, /) -> Any:
        """Return what msgspec writes as the value's JSON form."""
        ...

    def unpack(self, packed: Any, /) -> Any:
        """Build a value from what msgspec has read; an error says only that it cannot be built like this."""
        ...

    def read(self, form: object, at: Path | None, *, error: type[Exception], aside: Aside | None) -> Any:
        """Build a value; the error names its path."""
        ...

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of what `read` takes."""
        ...


@dataclass(frozen=True, slots=True)
class Nested:
    """The value of a field that is an object with a form of its own, or a list of `many`."""

    form: Readable
    many: bool = False

    def read(self, value: object, at: Path, error: type[Exception], aside: Aside | None) -> Any:
        """Build what is at a path."""
        if not self.many:
            return self.form.read(value, at, error=error, aside=aside)
        if not isinstance(value, list):
            raise error(f"{shown_path(at)}: {wrong_type(str(at[-1]), 'a list', value)}")
        entries = cast("list[object]", value)
        return tuple(
            self.form.read(entry, (*at, index), error=error, aside=aside) for index, entry in enumerate(entries)
        )

    @property
    def packed(self) -> Any:
        """The type that msgspec reads and writes."""
        return list[self.form.packed] if self.many else self.form.packed  # type: ignore[name-defined]

    def write(self, value: Any) -> Any:
        """Return what msgspec writes."""
        return [self.form.pack(entry) for entry in value] if self.many else self.form.pack(value)

    def unpack(self, packed: Any) -> Any:
        """Build what msgspec has read."""
        return tuple(map(self.form.unpack, packed)) if self.many else self.form.unpack(packed)

    @property
    def schema(self) -> dict[str, Any]:
        """What `read` takes."""
        one = {"$ref": f"#/$defs/{self.form.title}"}
        return {"type": "array", "items": one} if self.many else one


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its Python name, its key in JSON, its values, and the default that need not be written."""

    name: str
    value: Value | Nested
    default: Any = None
    required: bool = False
    always: bool = False
    """Whether it is written even if it has the default's value."""
    key: str = ""
    """The key in JSON, camelCase unless given; readers take the Python name as well."""

    def __post_init__(self) -> None:
        if not self.key:
            first, *rest = self.name.split("_")
            object.__setattr__(self, "key", first + "".join(word.capitalize() for word in rest))


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
