"""The forms a value can take in a policy document: each one reads, writes and describes itself.

A strategy's document is declared once, as a composition of forms; decoding, minimal encoding and the JSON Schema all
follow from that one declaration. Bounds are for the schema: a strategy refuses what lies outside by its own error.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, cast

from cupel._checks import shown
from cupel._documents import INSTANT
from cupel.policy._errors import malformed, mismatch, unknown_word

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Schema: TypeAlias = dict[str, Any]

NOT_BLANK: Final[Schema] = {"pattern": r"\S"}
_HALF_A_MICROSECOND: Final = 5e-7
"""What is not longer is rounded to no time at all."""
_LONGEST: Final = timedelta.max.total_seconds()


class ValueForm(Protocol[T]):
    """One kind of value in a document; `path` is where it stands, for error messages."""

    def read(self, value: object, path: str, /) -> T:
        """The Python value that the document's value stands for."""
        ...

    def write(self, value: T, path: str, /) -> Json:
        """The document's value for a Python value."""
        ...

    def schema(self) -> Schema:
        """What a JSON Schema validator should accept."""
        ...


@dataclass(frozen=True, slots=True)
class Plain:
    """A value of one of some types, which is in a document what it is in Python."""

    expected: str
    types: tuple[type, ...]
    names: str | list[str]
    """What JSON Schema calls the types."""

    def read(self, value: object, path: str, /) -> Any:
        if not isinstance(value, self.types):
            raise mismatch(path, self.expected, value)
        return value

    def write(self, value: Any, _path: str, /) -> Json:
        return cast("Json", value)

    def schema(self) -> Schema:
        return {"type": self.names}


BOOLEAN: Final = Plain("a boolean", (bool,), "boolean")
SCALAR: Final = Plain("a string, a number or a boolean", (str, int, float), ["string", "number", "boolean"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer:
    """A whole number, with or without a point, as in JSON Schema; a boolean is not a number."""

    least: int | None = None

    def read(self, value: object, path: str, /) -> int:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise mismatch(path, "an integer", value)
        return value

    def write(self, value: int, _path: str, /) -> Json:
        return value

    def schema(self) -> Schema:
        return {"type": "integer", **stated(minimum=self.least)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number; integers are taken as floats. Of the bounds, `above` and `below` do not count themselves."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def read(self, value: object, path: str, /) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise mismatch(path, "a number", value)
        try:
            return float(value)
        except OverflowError:
            raise malformed(path, "the number is beyond the range of a float") from None

    def write(self, value: float, _path: str, /) -> Json:
        return value

    def schema(self) -> Schema:
        within = stated(minimum=self.least, maximum=self.most)
        return {"type": "number", **within, **stated(exclusiveMinimum=self.above, exclusiveMaximum=self.below)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A string, of which some must hold a character, or one that is not white space."""

    can_be_empty: bool = True
    can_be_blank: bool = True

    def read(self, value: object, path: str, /) -> str:
        if not isinstance(value, str):
            raise mismatch(path, "a string", value)
        return value

    def write(self, value: object, _path: str, /) -> Json:
        return str(value)  # kinds keep their spelling

    def schema(self) -> Schema:
        least = stated(minLength=None if self.can_be_empty else 1)
        return {"type": "string", **least, **({} if self.can_be_blank else NOT_BLANK)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """A duration as a number of seconds; durations are whole microseconds, so the round trip is exact."""

    positive: bool = False

    def read(self, value: object, path: str, /) -> timedelta:
        seconds = Number().read(value, path)
        try:
            return timedelta(seconds=seconds)
        except (OverflowError, ValueError):
            raise malformed(path, f"{shown(seconds)} seconds is not a duration") from None

    def write(self, value: timedelta, _path: str, /) -> Json:
        return value.total_seconds()

    def schema(self) -> Schema:
        return Number(above=_HALF_A_MICROSECOND if self.positive else -_LONGEST, below=_LONGEST).schema()


class Instant:
    """A moment as RFC 3339 with an offset; TOML's own offset date-times are understood too."""

    def read(self, value: object, path: str, /) -> datetime:
        if isinstance(value, datetime):
            instant = value
        elif isinstance(value, str):
            instant = self._parse(value, path)
        else:
            raise mismatch(path, "an RFC 3339 date-time", value)
        if instant.utcoffset() is None:
            raise malformed(path, f"the date-time {value!s} has no offset; add one, such as 'Z'")
        try:
            instant.astimezone(UTC)
        except OverflowError:
            raise malformed(path, f"the date-time {value!s} lies outside the years 1 to 9999 in UTC") from None
        return instant

    def write(self, value: datetime, _path: str, /) -> Json:
        return value.isoformat().replace("+00:00", "Z")

    def schema(self) -> Schema:
        return dict(INSTANT.schema)

    @staticmethod
    def _parse(text: str, path: str) -> datetime:
        try:
            return cast("datetime", INSTANT.read(text))
        except ValueError:
            raise malformed(path, f"expected {INSTANT.expected}, got {shown(text)}") from None


@dataclass(frozen=True, slots=True)
class Choice(Generic[E]):
    """One of an enumeration's values, as a string."""

    members: type[E]

    def read(self, value: object, path: str, /) -> E:
        known = [str(member.value) for member in self.members]
        if not isinstance(value, str):
            raise mismatch(path, f"one of {', '.join(known)}", value)
        if value not in known:
            raise unknown_word(path, "value", value, known)
        return self.members(value)

    def write(self, value: E, _path: str, /) -> Json:
        return str(value.value)

    def schema(self) -> Schema:
        return {"enum": [member.value for member in self.members]}


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some values, as it stands."""

    values: tuple[Any, ...]

    def read(self, value: object, path: str, /) -> Any:
        for allowed in self.values:
            if type(allowed) is type(value) and allowed == value:
                return allowed
        raise mismatch(path, f"one of {', '.join(map(repr, self.values))}", value)

    def write(self, value: Any, _path: str, /) -> Json:
        return cast("Json", value)

    def schema(self) -> Schema:
        return {"enum": list(self.values)}


def stated(**keywords: float | None) -> Schema:
    """The keywords of a schema that have something to say."""
    return {keyword: value for keyword, value in keywords.items() if value is not None}
