"""Codecs: how a kind of value is read from documents, written to them and described; codecs of containers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar, cast

from cupel._internal.checks import did_you_mean, shown
from cupel._internal.documents._text import RefusedError

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
    """The name of the value in error messages."""
    verbatim: bool = False
    """Whether msgspec writes the value as `encode` would."""
    converts: bool = False
    """Whether values must be decoded even for a class that checks its fields."""
    python_type: Any = Any
    """The type of the values in Python."""
    packed: Any = Any
    """The type that msgspec reads and writes in place of the value."""

    def decode(self, value: Any, /) -> T:
        """Return the Python value of a document's value."""
        raise NotImplementedError

    def decode_column(self, values: Sequence[Any], /) -> Sequence[Any]:
        """Decode many packed values; what the class that they are for refuses by itself may be left to it."""
        return list(map(self.decode, values))

    def encode(self, value: T, /) -> Any:
        """Return the document's value for a Python value."""
        return value

    def schema(self) -> Schema:
        """Return the JSON Schema of the values that `decode` accepts."""
        raise NotImplementedError


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

    def decode_column(self, values: Sequence[Any], /) -> Sequence[Any]:
        return [self.build(self.element.decode_column(value)) for value in values]

    def encode(self, value: Any, /) -> Any:
        entries: Iterable[Any] = sorted(cast("set[Any]", value)) if isinstance(value, (set, frozenset)) else value
        return [step(self.element.encode, entry, i) for i, entry in enumerate(entries)]

    def schema(self) -> Schema:
        return {"type": "array", "items": self.element.schema(), **stated(minItems=self.least)}


@dataclass(frozen=True, slots=True)
class MapOf(Codec[dict[str, Any]]):
    """An object with free keys (kinds, tags) whose values share one codec; the order of the keys is kept."""

    element: Codec[Any]
    keys: Codec[str] | None = None
    """The codec of the keys; by default any string."""

    expected = "an object"

    def decode(self, value: Any, /) -> dict[str, Any]:
        return {key: step(self.element.decode, entry, key) for key, entry in as_object(value).items()}

    def encode(self, value: Mapping[Any, Any], /) -> dict[str, Any]:
        return {str(key): step(self.element.encode, entry, str(key)) for key, entry in value.items()}

    def schema(self) -> Schema:
        names = {} if self.keys is None else {"propertyNames": self.keys.schema()}
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
