"""Registered strategies: which tag stands for which class."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from threading import Lock
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from cupel._checks import as_text, shown
from cupel._documents import at_key
from cupel.errors import PolicyConfigError
from cupel.model import ContextKind, ContextSource
from cupel.placers import Placer
from cupel.policy._forms import (
    BOOLEAN,
    AnyValue,
    Choice,
    Instant,
    Integer,
    Json,
    Key,
    ListOf,
    MapOf,
    Number,
    OneOf,
    OrNone,
    Record,
    Schema,
    Seconds,
    Text,
    ValueForm,
    construct,
    malformed,
    mismatch,
    read_object,
    record,
    unknown_word,
)
from cupel.scorers import Curve, Scorer
from cupel.slicers import Slicer

GROUP = "cupel.strategies"


@cache
def load_plugins() -> tuple[str, ...]:
    """Import every plug-in module once, so that its decorators run; returns one line for each that failed to load."""
    from importlib.metadata import entry_points

    failures: list[str] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            point.load()
        except Exception as error:  # noqa: BLE001 - a broken plug-in must not hide the document's own problem
            failures.append(f"the plug-in {point.name} = {point.value} failed to load: {type(error).__name__}: {error}")
    return tuple(failures)


T = TypeVar("T")
C = TypeVar("C", bound=type)

_TAG = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*")


class Document(Protocol[T]):
    """How one strategy's fields are read and written; the `type` key is the registry's business."""

    def read(self, value: object, path: str, /) -> T: ...
    def write(self, value: T, path: str, /) -> dict[str, Json]: ...
    def schema(self) -> Schema: ...


@dataclass(frozen=True, slots=True)
class RegisteredStrategy:
    """What a tag stands for: a class, and the form of its document."""

    tag: str
    strategy: type
    document: Document[Any] = field(repr=False)

    @property
    def built_in(self) -> bool:
        """Whether the strategy is cupel's own."""
        return self.strategy.__module__.startswith("cupel.")

    def schema(self) -> Schema:
        """Return the JSON Schema of the strategy's document; nested strategies refer to `#/$defs/FAMILY`."""
        fields = self.document.schema()
        properties = {"type": {"const": self.tag}, **fields.get("properties", {})}
        about = {"title": self.tag, "description": (self.strategy.__doc__ or "").strip().partition("\n")[0]}
        return {**about, **fields, "properties": properties, "required": ["type", *fields.get("required", ())]}


@dataclass(frozen=True, slots=True, eq=False)
class Registry(Generic[T]):
    """The strategies of one family. It is itself a form: a tagged object, or the bare tag where nothing else is set."""

    family: str
    base: type[T]
    by_tag: dict[str, RegisteredStrategy] = field(default_factory=dict[str, RegisteredStrategy])
    _tags: dict[type, str] = field(default_factory=dict[type, str])
    _lock: Lock = field(default_factory=Lock)

    def declare(self, tag: str, strategy: type[T], *fields: Key, build: Callable[..., T] | None = None) -> None:
        """Let `tag` stand for `strategy`, whose document has these fields; `build` takes them if the class does not."""
        self.add(tag, strategy, record(strategy, *fields, build=build))

    def add(self, tag: str, strategy: type, document: Document[T]) -> None:
        """Let `tag` stand for `strategy`; a tag and a class can each be taken only once."""
        if not _TAG.fullmatch(as_text("tag", tag)):
            raise PolicyConfigError(f"a {self.family} tag is a word of letters, digits and _ . : -, got {shown(tag)}")
        with self._lock:
            taken = self._tags.get(strategy)
            if taken == tag:
                return
            if tag in self.by_tag:
                raise PolicyConfigError(f"the {self.family} tag {shown(tag)} is already registered")
            if taken is not None:
                raise PolicyConfigError(
                    f"{strategy.__name__} is already registered as the {self.family} {shown(taken)}"
                )
            self.by_tag[tag] = RegisteredStrategy(tag, strategy, document)
            self._tags[strategy] = tag

    def read(self, value: object, path: str, /) -> T:
        if isinstance(value, str):
            return self._document(value, path).read({}, path)
        if not isinstance(value, Mapping):
            raise mismatch(path, f"a {self.family}: a tag or an object with a 'type'", value)
        members = read_object(cast("object", value), path)
        if "type" not in members:
            raise malformed(path, f"the key 'type' is missing; a {self.family} is one of {', '.join(self.by_tag)}")
        tag = members.pop("type")
        if not isinstance(tag, str):
            raise mismatch(at_key(path, "type"), f"a {self.family} tag", tag)
        return self._document(tag, at_key(path, "type")).read(members, path)

    def write(self, value: T, path: str, /) -> Json:
        tag = self._tags.get(type(value))
        if tag is None:
            raise malformed(
                path,
                f"{type(value).__name__} has no {self.family} tag, so it cannot be written; "
                f'register it with @register_{self.family}("some_tag") from cupel.policy',
            )
        fields = self.by_tag[tag].document.write(value, path)
        return {"type": tag, **fields} if fields else tag

    def schema(self) -> Schema:
        return {"$ref": f"#/$defs/{self.family}"}

    def definition(self) -> Schema:
        """The whole family as a JSON Schema: the bare tags, then one object a tag."""
        objects = [entry.schema() for entry in self.by_tag.values()]
        bare = [one["title"] for one in objects if one["required"] == ["type"]]
        return {"anyOf": [*([{"enum": bare}] if bare else []), *objects]}

    def _document(self, tag: str, path: str) -> Document[T]:
        if tag not in self.by_tag:
            failures = load_plugins()  # a plug-in may bring the tag; nobody else pays for looking
            if tag not in self.by_tag:
                own = f"; one of your own is found through the entry-point group {GROUP!r} or after --import MODULE"
                hint = own + "".join(f"; {failure}" for failure in failures)
                raise unknown_word(path, f"{self.family} type", tag, self.by_tag, hint)
        return self.by_tag[tag].document


SCORERS: Registry[Scorer] = Registry("scorer", Scorer)
SLICERS: Registry[Slicer] = Registry("slicer", Slicer)
PLACERS: Registry[Placer] = Registry("placer", Placer)
CURVES: Registry[Curve] = Registry("curve", Curve)
FAMILIES: Final[tuple[Registry[Any], ...]] = (SCORERS, CURVES, SLICERS, PLACERS)


def registered() -> dict[str, dict[str, RegisteredStrategy]]:
    """Return what every tag stands for, by family, in the order of registration.

    Those of a plug-in are among them once a document has named one.

    >>> from cupel.policy import registered
    >>> list(registered())
    ['scorer', 'curve', 'slicer', 'placer']
    >>> registered()["placer"]["u_shaped"].strategy
    <class 'cupel.placers.UShapedPlacer'>
    """
    return {registry.family: dict(registry.by_tag) for registry in FAMILIES}


def register_scorer(tag: str) -> Callable[[C], C]:
    """Register a scorer class under a tag, so that policies which use it can be written and read.

    The class is a dataclass, whose fields become the keys of its document, or offers `to_dict()` and the class method
    `from_dict(fields)`. A package that names the defining module in the entry-point group `cupel.strategies` is found
    without an import.

    >>> from dataclasses import dataclass
    >>> from cupel import Pipeline, policy
    >>> from cupel.scorers import Curve, Scorer
    >>> @policy.register_scorer("doc_length")
    ... @dataclass(frozen=True)
    ... class LengthScorer(Scorer):
    ...     longest: int = 1000
    ...     def score(self, item, all_items):
    ...         return min(1.0, item.tokens / self.longest)
    >>> policy.to_dict(Pipeline(scorer=LengthScorer(200)))
    {'scorer': {'type': 'doc_length', 'longest': 200}}
    >>> policy.from_dict({"scorer": "doc_length"}).scorer
    LengthScorer(longest=1000)
    """
    return _registering(SCORERS, tag)


def register_slicer(tag: str) -> Callable[[C], C]:
    """Register a slicer class under a tag; everything said of `register_scorer` holds."""
    return _registering(SLICERS, tag)


def register_placer(tag: str) -> Callable[[C], C]:
    """Register a placer class under a tag; everything said of `register_scorer` holds."""
    return _registering(PLACERS, tag)


def _registering(registry: Registry[T], tag: str) -> Callable[[C], C]:
    def register(strategy: C) -> C:
        given = cast("object", strategy)  # a decorator is easily put on something else
        if not (isinstance(given, type) and issubclass(given, registry.base)):
            expected = f"a subclass of {registry.base.__name__}"
            raise TypeError(f"register_{registry.family} expects {expected}, got {shown(strategy)}")
        registry.add(tag, strategy, document_of(strategy))
        return strategy

    return register


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
