"""Codecs: how each kind of value is read from documents, written to them and described in a JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from math import inf
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from cupel._checks import did_you_mean, shown
from cupel._documents._text import (
    NON_FINITE,
    Path,
    RefusedError,
    check_depth,
    is_list,
    plain,
    plain_integer,
    plain_number,
)

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Schema: TypeAlias = dict[str, Any]


class MismatchError(RefusedError):
    """A value of the wrong type."""

    def __init__(self, expected: str, value: object) -> None:
        super().__init__(f"expected {expected}, got {_named(value)}")
        self.expected = expected


def unknown_word(what: str, word: str, known: Iterable[str], hint: str = "") -> RefusedError:
    """Return the error for a misspelt key, tag or choice: the likely word, if there is one, and all known ones."""
    choices = list(known)
    likely = did_you_mean(word, choices)
    return RefusedError(f"unknown {what} {shown(word)}{likely} (known: {', '.join(choices) or 'none'}){hint}")


def _named(value: object) -> str:
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case int() | float():
            return f"the number {shown(value)}"
        case str():
            return f"the string {shown(value)}"
        case dict() | list() | tuple():
            return "an object" if isinstance(value, dict) else "a list"
        case _:
            return f"{shown(value)} of type {type(value).__name__}"


class Codec(Generic[T]):
    """One kind of value in documents.

    `decode` and `encode` raise `RefusedError`. Bounds describe a value in the schema; the class that the value is for
    enforces them, with an error of its family.
    """

    expected: str
    """What error messages call the value."""
    verbatim: bool = False
    """Whether msgspec writes the value as `encode` would."""
    converts: bool = False
    """Whether values must be decoded even for a class that checks its fields."""
    python_type: Any = Any
    """A Python type for typed decoders: they accept no more than `decode` and the class that the value is for."""
    packed: Any = Any
    """The type that msgspec reads and writes in place of the value."""

    def decode(self, value: Any, /) -> T:
        """Return the Python value of a document's value."""
        raise NotImplementedError

    def encode(self, value: T, /) -> Any:
        """Return the document's value for a Python value."""
        return value

    def schema(self) -> Schema:
        """Return the JSON Schema of the values that `decode` accepts."""
        raise NotImplementedError

    def unknown(self, value: Any, /) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yield the fields within a value that no record has, by the path of their object."""
        del value
        return iter(())


def step(codec_call: Callable[[Any], Any], value: Any, *steps: str | int) -> Any:
    """Decode or encode a part of a value; an error gets its steps."""
    try:
        return codec_call(value)
    except RefusedError as error:
        error.inside(*steps)
        raise


def stated(**keywords: float | None) -> Schema:
    """Return the keywords of a schema that have a value."""
    return {keyword: value for keyword, value in keywords.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Plain(Codec[Any]):
    """A value of some types that documents and Python share."""

    expected: str
    types: tuple[type, ...]
    names: str | list[str]
    """What JSON Schema calls the types."""
    python_type: Any = Any

    verbatim = True

    def decode(self, value: Any, /) -> Any:
        if not isinstance(value, self.types):
            raise MismatchError(self.expected, value)
        return value

    def schema(self) -> Schema:
        return {"type": self.names}


FLAG: Final = Plain("true or false", (bool,), "boolean", bool)
SCALAR: Final = Plain("a string, a number or a boolean", (str, int, float), ["string", "number", "boolean"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Codec[int]):
    """A whole number, with or without a point, as in JSON Schema; a boolean is not a number."""

    least: int | None = None
    enforced: bool = False
    """Whether `decode` and `encode` check `least`, for a class that does not."""

    python_type = int

    @property
    def expected(self) -> str:  # type: ignore[override]
        return f"an integer >= {self.least}" if self.enforced else "an integer"

    def decode(self, value: Any, /) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        elif type(value) is not int and (not isinstance(value, int) or isinstance(value, bool)):
            raise MismatchError(self.expected, value)
        if self.enforced and self.least is not None and value < self.least:
            raise MismatchError(self.expected, value)
        return plain_integer(value)

    encode = decode

    def schema(self) -> Schema:
        return {"type": "integer", **stated(minimum=self.least)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Codec[float]):
    """A number; integers become floats. The bounds `above` and `below` are exclusive."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    python_type = float
    expected = "a number"

    def decode(self, value: Any, /) -> float:
        if type(value) is float:
            return value
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise MismatchError(self.expected, value)
        try:
            return float(value)
        except OverflowError:
            raise RefusedError("the number is beyond the range of a float") from None

    def schema(self) -> Schema:
        within = stated(minimum=self.least, maximum=self.most)
        return {"type": "number", **within, **stated(exclusiveMinimum=self.above, exclusiveMaximum=self.below)}


class _AnyNumber(Number):
    """A number that need not be finite; JSON has strings for the others."""

    expected = "a number, 'NaN', 'Infinity' or '-Infinity'"

    def decode(self, value: Any, /) -> float:
        if type(value) is str:
            if value not in NON_FINITE:
                raise MismatchError(self.expected, value)
            return NON_FINITE[value]
        return Number.decode(self, value)

    def encode(self, value: float, /) -> Any:
        return plain_number(value)

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "number"}, {"enum": list(NON_FINITE)}]}


class _Milliseconds(Number):
    expected = "a number >= 0"

    def decode(self, value: Any, /) -> float:
        number = Number.decode(self, value)
        if not 0.0 <= number < inf:
            raise MismatchError(self.expected, value)
        return number

    encode = decode


ANY_NUMBER: Final = _AnyNumber()
MILLISECONDS: Final = _Milliseconds(least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Codec[str]):
    """A string; some must hold a character, or one that is not white space."""

    can_be_empty: bool = True
    can_be_blank: bool = True

    python_type = str
    expected = "a string"

    @property
    def verbatim(self) -> bool:  # type: ignore[override]
        return self.can_be_blank  # names of kinds and sources are written as strings

    def decode(self, value: Any, /) -> str:
        if not isinstance(value, str):
            raise MismatchError(self.expected, value)
        return value

    def encode(self, value: object, /) -> str:
        return str(value)

    def schema(self) -> Schema:
        least = stated(minLength=None if self.can_be_empty else 1)
        return {"type": "string", **least, **({} if self.can_be_blank else {"pattern": r"\S"})}


TEXT: Final = Text()
NAME: Final = Text(can_be_blank=False)

_LONGEST: Final = timedelta.max.total_seconds()
_HALF_A_MICROSECOND: Final = 5e-7
"""Anything shorter is rounded to zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds(Codec[timedelta]):
    """A duration as a number of seconds; durations are whole microseconds, so the round trip is exact."""

    positive: bool = False

    def decode(self, value: Any, /) -> timedelta:
        seconds = Number().decode(value)
        try:
            return timedelta(seconds=seconds)
        except (OverflowError, ValueError):
            raise RefusedError(f"{shown(seconds)} seconds is not a duration") from None

    def encode(self, value: timedelta, /) -> float:
        return value.total_seconds()

    def schema(self) -> Schema:
        return Number(above=_HALF_A_MICROSECOND if self.positive else -_LONGEST, below=_LONGEST).schema()


_INSTANT: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
_IS_INSTANT: Final = re.compile(_INSTANT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant(Codec[datetime]):
    """A moment as RFC 3339; the date-times of TOML and Arrow are accepted too."""

    aware: bool = False
    """Whether `decode` refuses a moment without an offset, for a class that does not."""

    python_type = str
    expected = "an RFC 3339 date-time such as '2026-01-31T09:30:00Z'"
    verbatim = True
    converts = True

    def decode(self, value: Any, /) -> datetime:
        if isinstance(value, datetime):
            instant = value
        elif type(value) is str:
            try:
                instant = datetime.fromisoformat(value if value.endswith("Z") else value.upper())
            except ValueError:
                raise MismatchError(self.expected, value) from None
            if instant.tzinfo is not None and not _IS_INSTANT.match(value):
                raise MismatchError(self.expected, value)
        else:
            raise MismatchError(self.expected, value)
        return self._checked(instant) if self.aware else instant

    @staticmethod
    def _checked(instant: datetime) -> datetime:
        if instant.utcoffset() is None:
            raise RefusedError(f"the date-time {instant} has no offset; add one, such as 'Z'")
        try:
            instant.astimezone(UTC)
        except OverflowError:
            raise RefusedError(f"the date-time {instant} lies outside the years 1 to 9999 in UTC") from None
        return instant

    def encode(self, value: datetime, /) -> str:
        return value.isoformat().replace("+00:00", "Z")

    def schema(self) -> Schema:
        return {"type": "string", "format": "date-time", "pattern": _INSTANT}


class _Words(Codec[list[str]]):
    """A list of strings."""

    expected = "a list of strings"
    python_type = tuple[str, ...]
    packed = list[str]

    def decode(self, value: Any, /) -> list[str]:
        if not is_list(value) or not all(type(word) is str for word in value):
            raise MismatchError(self.expected, value)
        return value

    def encode(self, value: Iterable[str], /) -> list[str]:
        return list(value)

    def schema(self) -> Schema:
        return {"type": "array", "items": {"type": "string"}}


class _Metadata(Codec[Mapping[str, Any]]):
    """An object of anything; values that JSON lacks are converted in writing."""

    expected = "an object"
    python_type = dict[str, Any]
    converts = True

    def decode(self, value: Any, /) -> Mapping[str, Any]:
        if type(value) is not dict and not isinstance(value, Mapping):
            raise MismatchError(self.expected, value)
        members = cast("Mapping[str, Any]", value)
        if any(isinstance(entry, (dict, list)) for entry in members.values()):
            check_depth(members)
        return members

    def encode(self, value: Any, /) -> Any:
        return plain(value)

    def schema(self) -> Schema:
        return {"type": "object"}


WORDS: Final = _Words()
METADATA: Final = _Metadata()


@dataclass(frozen=True, slots=True)
class Choice(Codec[E]):
    """One of an enumeration's values, as a string."""

    members: type[E]

    def decode(self, value: Any, /) -> E:
        known = [str(member.value) for member in self.members]
        if not isinstance(value, str):
            raise MismatchError(f"one of {', '.join(known)}", value)
        if value not in known:
            raise unknown_word("value", value, known)
        return self.members(value)

    def encode(self, value: E, /) -> str:
        return str(value.value)

    def schema(self) -> Schema:
        return {"enum": [member.value for member in self.members]}


@dataclass(frozen=True, slots=True)
class OneOf(Codec[Any]):
    """One of some values of documents."""

    values: tuple[Any, ...]

    def decode(self, value: Any, /) -> Any:
        for allowed in self.values:
            if type(allowed) is type(value) and allowed == value:
                return allowed
        raise MismatchError(f"one of {', '.join(map(repr, self.values))}", value)

    def schema(self) -> Schema:
        return {"enum": list(self.values)}


@dataclass(frozen=True, slots=True)
class OrWord(Codec[Any]):
    """Another codec's value, or one reserved word for a special meaning (`"auto"`, `"unlimited"`).

    TOML has no null, so a word can mean None; `null` is then accepted as well.
    """

    codec: Codec[Any]
    word: str
    meaning: Any

    def decode(self, value: Any, /) -> Any:
        if value == self.word or (value is None and self.meaning is None):
            return self.meaning
        if isinstance(value, str):
            raise unknown_word("word", value, [self.word])
        return self.codec.decode(value)

    def encode(self, value: Any, /) -> Any:
        return self.word if value == self.meaning else self.codec.encode(value)

    def schema(self) -> Schema:
        words = [self.word, None] if self.meaning is None else [self.word]
        return {"anyOf": [self.codec.schema(), {"enum": words}]}


@dataclass(frozen=True, slots=True)
class OrNone(Codec[Any]):
    """Another codec's value, or null. TOML has no null: leave the key out where None is the default."""

    codec: Codec[Any]

    def decode(self, value: Any, /) -> Any:
        return None if value is None else self.codec.decode(value)

    def encode(self, value: Any, /) -> Any:
        return None if value is None else self.codec.encode(value)

    def schema(self) -> Schema:
        return {"anyOf": [self.codec.schema(), {"type": "null"}]}


@dataclass(frozen=True)
class ListOf(Codec[Any]):
    """A list whose elements share one codec; `build` converts it to the attribute's type, and sets are sorted."""

    element: Codec[Any]
    build: Callable[[Iterable[Any]], Any] = list
    least: int | None = None

    expected = "a list"
    converts = True

    @property
    def packed(self) -> Any:
        return list[self.element.packed]  # type: ignore[name-defined]

    def decode(self, value: Any, /) -> Any:
        if not isinstance(value, (list, tuple)):
            raise MismatchError(self.expected, value)
        entries = cast("list[Any]", value)
        return self.build([step(self.element.decode, entry, i) for i, entry in enumerate(entries)])

    def unpack(self, packed: Any, /) -> Any:
        """Build the list from the structs that msgspec has read."""
        return self.build(map(getattr(self.element, "unpack", self.element.decode), packed))

    def encode(self, value: Any, /) -> Any:
        entries: Iterable[Any] = sorted(cast("set[Any]", value)) if isinstance(value, (set, frozenset)) else value
        return [step(self.element.encode, entry, i) for i, entry in enumerate(entries)]

    def schema(self) -> Schema:
        return {"type": "array", "items": self.element.schema(), **stated(minItems=self.least)}

    def unknown(self, value: Any, /) -> Iterator[tuple[Path, dict[str, Any]]]:
        for index, entry in enumerate(value if is_list(value) else ()):
            for path, fields in self.element.unknown(entry):
                yield (index, *path), fields


@dataclass(frozen=True, slots=True)
class MapOf(Codec[dict[str, Any]]):
    """An object with free keys (kinds, tags) whose values share one codec; the order of the keys is kept."""

    element: Codec[Any]
    keys: Text = TEXT

    expected = "an object"

    def decode(self, value: Any, /) -> dict[str, Any]:
        return {key: step(self.element.decode, entry, key) for key, entry in as_object(value).items()}

    def encode(self, value: Mapping[Any, Any], /) -> dict[str, Any]:
        return {str(key): step(self.element.encode, entry, str(key)) for key, entry in value.items()}

    def schema(self) -> Schema:
        names = {} if self.keys == TEXT else {"propertyNames": self.keys.schema()}
        return {"type": "object", "additionalProperties": self.element.schema(), **names}


class AnyValue(Codec[Json]):
    """Any JSON value, checked to be one."""

    def decode(self, value: Any, /) -> Json:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case Mapping():
                members = as_object(cast("object", value))
                return {key: step(self.decode, entry, key) for key, entry in members.items()}
            case list() | tuple():
                entries = cast("Sequence[object]", value)
                return [step(self.decode, entry, i) for i, entry in enumerate(entries)]
            case _:
                raise RefusedError(f"{shown(value)} is not a JSON value")

    encode = decode

    def schema(self) -> Schema:
        return {}


def as_object(value: object) -> dict[str, Any]:
    """Copy an object with string keys."""
    if not isinstance(value, Mapping):
        raise MismatchError("an object", value)
    members = cast("Mapping[object, object]", value)
    for key in members:
        if not isinstance(key, str):
            raise RefusedError(f"keys must be strings, got {shown(key)}")
    return cast("dict[str, Any]", dict(members))
