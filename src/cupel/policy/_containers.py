"""The forms that hold other forms: words or null beside values, lists, objects with free keys, and anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from cupel._checks import shown
from cupel._documents import at_index, at_key
from cupel.policy._errors import malformed, mismatch, unknown_word
from cupel.policy._forms import Json, Schema, Text, ValueForm, stated

T = TypeVar("T")

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
