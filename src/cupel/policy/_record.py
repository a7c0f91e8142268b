"""Objects with named fields: the strict reader and the minimal writer of every strategy's document."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, replace
from enum import Enum
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, cast

from cupel._documents import at_key
from cupel._frozen import EMPTY
from cupel.errors import ConfigurationError, CupelError, MissingExtraError
from cupel.policy._containers import read_object
from cupel.policy._errors import malformed, placed, unknown_word
from cupel.policy._forms import Json, Schema, ValueForm

T = TypeVar("T")

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
