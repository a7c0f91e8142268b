"""Codecs of single values: text, numbers, moments, choices; tags and metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from math import inf
from typing import Any, Final, TypeVar, cast

import msgspec

from cupel._internal.checks import shown
from cupel._internal.documents._codecs import Codec, MismatchError, Schema, stated, unknown_word
from cupel._internal.documents._text import NON_FINITE, RefusedError, check_depth, is_list, plain, plain_number

E = TypeVar("E", bound=Enum)


@dataclass(frozen=True, slots=True)
class Plain(Codec[Any]):
    """A value of some types that documents and Python share."""

    expected: str
    types: tuple[type, ...]
    names: str | list[str]
    """The JSON Schema names of the types."""
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
    def verbatim(self) -> bool:  # type: ignore[override]
        return not self.enforced

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
        return int(value)

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


_INSTANTS: Final = list[datetime]
_MANY: Final = 8
"""From so many values on, msgspec tests them faster than the pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant(Codec[datetime]):
    """A moment as RFC 3339; the date-times of TOML and Arrow are accepted too."""

    aware: bool = False
    """Whether `decode` refuses a moment without an offset, for a class that does not."""

    python_type = datetime
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

    def decode_column(self, values: Sequence[Any], /) -> Sequence[Any]:
        try:
            # All at once if each text is one that msgspec accepts and its offset has a colon.
            if len(values) >= _MANY:
                msgspec.convert(values, _INSTANTS)
                if {value[-1] == "Z" or value[-3] == ":" for value in values} == {True}:
                    return list(map(datetime.fromisoformat, values))
        except (TypeError, ValueError):
            pass
        return list(map(self._decoded, values))

    def _decoded(self, value: Any) -> Any:
        try:
            return self.decode(value)
        except MismatchError:
            return value

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

    def decode_column(self, values: Sequence[Any], /) -> Sequence[Any]:
        return [self.decode(value) if value and isinstance(value, Mapping) else value for value in values]

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
