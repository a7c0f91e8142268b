"""The document of a third-party strategy, derived from its dataclass fields or left to its own two methods."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

from cupel.errors import PolicyConfigError
from cupel.model import ContextKind, ContextSource
from cupel.policy._containers import AnyValue, ListOf, MapOf, OrNone, read_object
from cupel.policy._forms import (
    BOOLEAN,
    Choice,
    Instant,
    Integer,
    Json,
    Number,
    OneOf,
    Schema,
    Seconds,
    Text,
    ValueForm,
)
from cupel.policy._record import Key, Record, construct, record
from cupel.policy._registry import FAMILIES, Document


def document_of(strategy: Any) -> Document[Any]:
    """How to read and write a class: its own `to_dict`/`from_dict`, else its dataclass fields, else nothing at all."""
    if callable(getattr(strategy, "to_dict", None)) and callable(getattr(strategy, "from_dict", None)):
        return _OwnMethods(strategy)
    if is_dataclass(strategy):
        return _Derived(cast("type", strategy))
    if strategy.__init__ is object.__init__:
        return Record(strategy)
    raise PolicyConfigError(
        f"{strategy.__name__} cannot be serialised: "
        "make it a dataclass, or give it to_dict() and a class method from_dict(fields)"
    )


@dataclass(frozen=True, slots=True)
class _Derived:
    """A dataclass; its annotations are resolved at first use, when every name they mention exists."""

    strategy: type

    def read(self, value: object, path: str, /) -> Any:
        return construct(_record_of, path, self.strategy).read(value, path)

    def write(self, value: Any, path: str, /) -> dict[str, Json]:
        return construct(_record_of, path, self.strategy).write(value, path)

    def schema(self) -> Schema:
        try:
            return _record_of(self.strategy).schema()
        except PolicyConfigError:  # whoever uses it is told; the schema of everything else stands
            return {"type": "object"}


@dataclass(frozen=True, slots=True)
class _OwnMethods:
    """A class that converts itself; what it returns must be plain JSON values."""

    strategy: Any

    def read(self, value: object, path: str, /) -> Any:
        return construct(self.strategy.from_dict, path, read_object(value, path))

    def write(self, value: Any, path: str, /) -> dict[str, Json]:
        return cast("dict[str, Json]", AnyValue().write(construct(lambda: dict(value.to_dict()), path), path))

    def schema(self) -> Schema:
        return {"type": "object"}


@dataclass(frozen=True, slots=True)
class _Name:
    """A kind or a source, by its spelling."""

    build: Callable[[str], ContextKind | ContextSource]

    def read(self, value: object, path: str, /) -> ContextKind | ContextSource:
        return construct(self.build, path, Text().read(value, path))

    def write(self, value: ContextKind | ContextSource, _path: str, /) -> Json:
        return str(value)

    def schema(self) -> Schema:
        return Text(can_be_blank=False).schema()


_PLAIN: Final[dict[object, ValueForm[Any]]] = {
    bool: BOOLEAN,
    int: Integer(),
    float: Number(),
    str: Text(),
    timedelta: Seconds(),
    datetime: Instant(),
    ContextKind: _Name(ContextKind),
    ContextSource: _Name(ContextSource),
}


@cache
def _record_of(strategy: type) -> Record[Any]:
    try:
        hints = get_type_hints(strategy)
    except Exception as error:
        raise PolicyConfigError(
            f"{strategy.__name__}: an annotation cannot be resolved: {type(error).__name__}: {error}"
        ) from error
    members: list[Key] = []
    for member in fields(strategy):
        if not member.init:
            continue
        if member.name == "type":
            raise PolicyConfigError(f"{strategy.__name__}.type cannot be serialised: the key 'type' holds the tag")
        members.append(Key(member.name, form_of(hints[member.name], f"{strategy.__name__}.{member.name}")))
    return record(strategy, *members)


def form_of(annotation: Any, where: str) -> ValueForm[Any]:
    """The form for one annotation; `where` names the field if there is none."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if annotation in (Any, object):
        return AnyValue()
    if isinstance(annotation, type):
        found = _form_of_class(cast("type[Any]", annotation))
        if found is not None:
            return found
    found = _form_of_generic(annotation, where)
    if found is None:
        raise PolicyConfigError(
            f"{where}: the annotation {annotation!r} has no policy form; "
            "give the class to_dict() and a class method from_dict(fields) instead"
        )
    return found


def _form_of_class(annotation: type[Any]) -> ValueForm[Any] | None:
    for registry in FAMILIES:
        if issubclass(annotation, registry.base):
            return registry
    if issubclass(annotation, Enum):
        return Choice(annotation)
    return _record_of(annotation) if is_dataclass(annotation) else None


def _form_of_generic(annotation: Any, where: str) -> ValueForm[Any] | None:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return OneOf(arguments)
    if origin in (Union, types.UnionType) and type(None) in arguments:
        rest = [argument for argument in arguments if argument is not type(None)]
        return OrNone(form_of(rest[0], where)) if len(rest) == 1 else None
    if origin in (list, Sequence):
        return ListOf(form_of(arguments[0], where))
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:  # noqa: PLR2004 - tuple[X, ...]
        return ListOf(form_of(arguments[0], where), tuple)
    if origin in (dict, Mapping) and arguments[0] is str:
        return MapOf(form_of(arguments[1], where))
    return None
