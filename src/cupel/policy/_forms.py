"""Read, write and describe the values of a policy document."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from operator import attrgetter
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, cast

from cupel._checks import did_you_mean, shown
from cupel._documents import INSTANT, at_index, at_key
from cupel._frozen import EMPTY
from cupel.errors import ConfigurationError, CupelError, MissingExtraError, PolicyConfigError


def malformed(path: str, problem: str) -> PolicyConfigError:
    """The error for a document that cannot be read, to be raised by the caller."""
    return PolicyConfigError(f"{path}: {problem}")


def placed(error: ConfigurationError, where: str) -> ConfigurationError:
    """The error with a place in front; a class that cannot be rebuilt from a message keeps it as a note."""
    if type(error).__init__ is ConfigurationError.__init__:
        return type(error)(f"{where}: {error}")
    error.add_note(where)
    return error


def mismatch(path: str, expected: str, value: object) -> PolicyConfigError:
    """The error for a value of the wrong type."""
    return malformed(path, f"expected {expected}, got {_name(value)}")


def unknown_word(path: str, what: str, word: str, known: Iterable[str], hint: str = "") -> PolicyConfigError:
    """The error for a misspelt key, tag or choice: the likely word, if there is one, and all known ones."""
    choices = list(known)
    likely = did_you_mean(word, choices)
    return malformed(path, f"unknown {what} {shown(word)}{likely} (known: {', '.join(choices) or 'none'}){hint}")


def _name(value: object) -> str:
    """What a value is called in a document."""
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


_ANY_TEXT: Final = Text()


@dataclass(frozen=True, slots=True)
class OrWord(Generic[T]):
    """Another form's value, or one reserved word for a special meaning (`"auto"`, `"unlimited"`).

    TOML has no null, so a word also stands for None; `null` is read as well where that is what the word means.
    """

    form: ValueForm[T]
    word: str
    meaning: T | str | None

    def read(self, value: object, path: str, /) -> T | str | None:
        if value == self.word or (value is None and self.meaning is None):
            return self.meaning
        if isinstance(value, str):
            raise unknown_word(path, "word", value, [self.word])
        return self.form.read(value, path)

    def write(self, value: T | str | None, path: str, /) -> Json:
        return self.word if value == self.meaning else self.form.write(cast("T", value), path)

    def schema(self) -> Schema:
        words = [self.word, None] if self.meaning is None else [self.word]
        return {"anyOf": [self.form.schema(), {"enum": words}]}


@dataclass(frozen=True, slots=True)
class ListOf(Generic[T]):
    """A list whose elements all have one form; `build` turns it into the attribute's own type, and a set is sorted."""

    element: ValueForm[T]
    build: Callable[[list[T]], Any] = list
    least: int | None = None

    def read(self, value: object, path: str, /) -> Any:
        if not isinstance(value, (list, tuple)):
            raise mismatch(path, "a list", value)
        entries = cast("list[object]", value)
        return self.build([self.element.read(entry, at_index(path, i)) for i, entry in enumerate(entries)])

    def write(self, value: Any, path: str, /) -> Json:
        entries: Iterable[Any] = sorted(cast("set[Any]", value)) if isinstance(value, (set, frozenset)) else value
        return [self.element.write(entry, at_index(path, i)) for i, entry in enumerate(entries)]

    def schema(self) -> Schema:
        return {"type": "array", "items": self.element.schema(), **stated(minItems=self.least)}


@dataclass(frozen=True, slots=True)
class MapOf(Generic[T]):
    """An object with free keys (kinds, tags) whose values all have one form; the order of the keys is kept."""

    element: ValueForm[T]
    keys: Text = _ANY_TEXT

    def read(self, value: object, path: str, /) -> dict[str, T]:
        return {key: self.element.read(entry, at_key(path, key)) for key, entry in read_object(value, path).items()}

    def write(self, value: Mapping[Any, T], path: str, /) -> Json:
        return {str(key): self.element.write(entry, at_key(path, str(key))) for key, entry in value.items()}

    def schema(self) -> Schema:
        names = {} if self.keys == _ANY_TEXT else {"propertyNames": self.keys.schema()}
        return {"type": "object", "additionalProperties": self.element.schema(), **names}


@dataclass(frozen=True, slots=True)
class OrNone:
    """Another form's value, or null. TOML has no null: leave the key out where None is the default."""

    form: ValueForm[Any]

    def read(self, value: object, path: str, /) -> Any:
        return None if value is None else self.form.read(value, path)

    def write(self, value: Any, path: str, /) -> Json:
        return None if value is None else self.form.write(value, path)

    def schema(self) -> Schema:
        return {"anyOf": [self.form.schema(), {"type": "null"}]}


class AnyValue:
    """Any JSON value, checked to be one."""

    def read(self, value: object, path: str, /) -> Json:
        return self.write(value, path)

    def write(self, value: object, path: str, /) -> Json:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case Mapping():
                members = read_object(cast("object", value), path)
                return {key: self.write(entry, at_key(path, key)) for key, entry in members.items()}
            case list() | tuple():
                entries = cast("Sequence[object]", value)
                return [self.write(entry, at_index(path, i)) for i, entry in enumerate(entries)]
            case _:
                raise malformed(path, f"{shown(value)} is not a JSON value")

    def schema(self) -> Schema:
        return {}


def read_object(value: object, path: str) -> dict[str, object]:
    """The value as an object with string keys, or the error that says what it is instead."""
    if not isinstance(value, Mapping):
        raise mismatch(path, "an object", value)
    members = cast("Mapping[object, object]", value)
    for key in members:
        if not isinstance(key, str):
            raise malformed(path, f"keys must be strings, got {shown(key)}")
    return cast("dict[str, object]", dict(members))


REQUIRED: Final = object()


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a record: its form, the default that is left out, and what a schema says about it."""

    key: str
    form: ValueForm[Any]
    default: Any = REQUIRED
    note: str = ""
    argument: str = ""
    """What the constructor calls it, and the object, if that is not the key."""
    get: Callable[[Any], Any] | None = None
    """How to read it off an object that keeps it elsewhere."""

    @property
    def required(self) -> bool:
        """Whether the key must be written."""
        return self.default is REQUIRED

    def value_of(self, owner: object) -> Any:
        """The field's value on the object that the record describes."""
        return (self.get or attrgetter(self.argument or self.key))(owner)


@dataclass(frozen=True, slots=True)
class Record(Generic[T]):
    """An object with fixed keys, built by calling `build` with those that are there as keyword arguments."""

    build: Callable[..., T]
    fields: tuple[Key, ...] = ()
    rules: Mapping[str, Any] = EMPTY
    """What else a schema can say about the object; `build` refuses what breaks it."""

    def read(self, value: object, path: str, /) -> T:
        members = read_object(value, path)
        known = [field.key for field in self.fields]
        for key in members:
            if key not in known:
                raise unknown_word(at_key(path, key), "key", key, known)
        arguments: dict[str, Any] = {}
        for field in self.fields:
            if field.key in members:
                arguments[field.argument or field.key] = field.form.read(members[field.key], at_key(path, field.key))
            elif field.required:
                raise malformed(path, f"the key {field.key!r} is missing")
        return construct(self.build, path, **arguments)

    def write(self, value: T, path: str, /) -> dict[str, Json]:
        written: dict[str, Json] = {}
        for field in self.fields:
            member = field.value_of(value)
            if field.required or member != field.default:
                written[field.key] = field.form.write(member, at_key(path, field.key))
        return written

    def schema(self) -> Schema:
        return {
            "type": "object",
            "properties": {field.key: _described(field) for field in self.fields},
            "required": [field.key for field in self.fields if field.required],
            "additionalProperties": False,
            **self.rules,
        }


def record(
    described: type[T], *fields: Key, build: Callable[..., T] | None = None, rules: Mapping[str, Any] = EMPTY
) -> Record[T]:
    """The record of a dataclass, whose defaults are those of the fields; `build` takes them if the class does not."""
    defaults = {member.name: _default(member) for member in dataclasses.fields(cast("Any", described))}

    def settled(field: Key) -> Key:
        return replace(field, default=defaults.get(field.argument or field.key, REQUIRED)) if field.required else field

    return Record(build or described, tuple(map(settled, fields)), rules)


def _default(member: dataclasses.Field[Any]) -> Any:
    if member.default_factory is not MISSING:
        return member.default_factory()
    return REQUIRED if member.default is MISSING else member.default


def construct(build: Callable[..., T], path: str, /, *args: Any, **kwargs: Any) -> T:
    """Call a constructor; its own error comes back with the path in front, anything else as a malformed document."""
    try:
        return build(*args, **kwargs)
    except MissingExtraError:  # the document is fine
        raise
    except ConfigurationError as error:
        problem = placed(error, path)
        if problem is error:
            raise
        raise problem from error
    except (CupelError, TypeError, ValueError) as error:
        raise malformed(path, str(error)) from error
    except Exception as error:  # somebody else's constructor
        raise malformed(path, f"{type(error).__name__}: {error}") from error


def _described(field: Key) -> Schema:
    described = field.form.schema()
    default = field.default.value if isinstance(field.default, Enum) else field.default
    if isinstance(default, (bool, int, float, str)):
        described["default"] = default
    if field.note:
        described["description"] = field.note
    return described
