"""The families of strategies: classes that documents name by a tag, and how to register more."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache, partial
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from cupel._internal.checks import as_text, shown
from cupel._internal.documents import (
    FLAG,
    NAME,
    TEXT,
    AnyValue,
    Choice,
    Codec,
    Field,
    Instant,
    Integer,
    ListOf,
    MapOf,
    MismatchError,
    Number,
    OneOf,
    OrNone,
    Record,
    RefusedError,
    Schema,
    Seconds,
    as_object,
    construct,
    record,
    unknown_word,
)
from cupel.errors import PolicyConfigError
from cupel.model import ContextKind, ContextSource
from cupel.placers import Placer
from cupel.scorers import Curve, Scorer
from cupel.slicers import Slicer

T = TypeVar("T")
C = TypeVar("C", bound=type)

GROUP: Final = "cupel.strategies"
_HINT: Final = f"; one of your own is found through the entry-point group {GROUP!r} or after --import MODULE"
_TAG: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*")


@cache
def load_plugins() -> tuple[str, ...]:
    """Import the modules of the entry-point group once, so that their decorators run; return the failures."""
    from importlib.metadata import entry_points

    failures: list[str] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            point.load()
        except Exception as error:  # noqa: BLE001 - a broken plug-in must not hide the document's own problem
            failures.append(f"the plug-in {point.name} = {point.value} failed to load: {type(error).__name__}: {error}")
    return tuple(failures)


@dataclass(frozen=True, slots=True)
class RegisteredStrategy:
    """The class of a tag, and the codec of its fields."""

    tag: str
    strategy: type
    codec: Codec[Any] = field(repr=False)

    @property
    def built_in(self) -> bool:
        """Whether the strategy is cupel's own."""
        return self.strategy.__module__.startswith("cupel.")

    def schema(self) -> Schema:
        """Return the JSON Schema of the strategy's document; nested strategies refer to `#/$defs/FAMILY`."""
        own = self.codec.schema()
        properties = {"type": {"const": self.tag}, **own.get("properties", {})}
        about = {"title": self.tag, "description": (self.strategy.__doc__ or "").strip().partition("\n")[0]}
        return {**about, **own, "properties": properties, "required": ["type", *own.get("required", ())]}


@dataclass(frozen=True, eq=False)
class Registry(Codec[T]):
    """The classes of one family, as a codec: an object with the tag as its `type`, or the bare tag."""

    family: str
    base: type[T]
    by_tag: dict[str, RegisteredStrategy] = field(default_factory=dict[str, RegisteredStrategy])

    def declare(self, tag: str, strategy: type[T], *members: Field, build: Callable[..., T] | None = None) -> None:
        """Register a dataclass with the fields of its document; `build` replaces its constructor."""
        self.add(tag, strategy, record(strategy, *members, build=build))

    def add(self, tag: str, strategy: type, codec: Codec[Any]) -> None:
        """Register a class; a tag and a class can each be registered only once."""
        if not _TAG.fullmatch(as_text("tag", tag)):
            raise PolicyConfigError(f"a {self.family} tag is a word of letters, digits and _ . : -, got {shown(tag)}")
        registered = self.by_tag.setdefault(tag, RegisteredStrategy(tag, strategy, codec))
        if registered.strategy is not strategy:
            raise PolicyConfigError(f"the {self.family} tag {shown(tag)} is already registered")
        first = self._tag_of(strategy)
        if first != tag:
            del self.by_tag[tag]
            raise PolicyConfigError(f"{strategy.__name__} is already registered as the {self.family} {shown(first)}")

    def _tag_of(self, strategy: type) -> str | None:
        """Return the first tag of a class; another thread may be registering one."""
        return next((one.tag for one in list(self.by_tag.values()) if one.strategy is strategy), None)

    def decode(self, value: Any, /) -> T:
        if isinstance(value, str):
            return cast("T", self._codec(value).decode({}))
        if not isinstance(value, Mapping):
            raise MismatchError(f"a {self.family}: a tag or an object with a 'type'", value)
        members = as_object(cast("object", value))
        if "type" not in members:
            raise RefusedError(f"the key 'type' is missing; a {self.family} is one of {', '.join(self.by_tag)}")
        tag = members.pop("type")
        if not isinstance(tag, str):
            raise MismatchError(f"a {self.family} tag", tag).inside("type")
        return cast("T", self._codec(tag, "type").decode(members))

    def encode(self, value: T, /) -> Any:
        tag = self._tag_of(type(value))
        if tag is None:
            raise RefusedError(
                f"{type(value).__name__} cannot be serialised: it has no {self.family} tag; "
                f'register it with @register_{self.family}("some_tag") from cupel.policy'
            )
        members: dict[str, Any] = self.by_tag[tag].codec.encode(value)
        return {"type": tag, **members} if members else tag

    def schema(self) -> Schema:
        return {"$ref": f"#/$defs/{self.family}"}

    def definition(self) -> Schema:
        """Return the JSON Schema of the whole family: the bare tags, then one object per tag."""
        objects = [entry.schema() for entry in self.by_tag.values()]
        bare = [one["title"] for one in objects if one["required"] == ["type"]]
        return {"anyOf": [*([{"enum": bare}] if bare else []), *objects]}

    def _codec(self, tag: str, *steps: str) -> Codec[Any]:
        if tag not in self.by_tag:
            failures = load_plugins()
            if tag not in self.by_tag:
                hint = _HINT + "".join(f"; {failure}" for failure in failures)
                raise unknown_word(f"{self.family} type", tag, self.by_tag, hint).inside(*steps)
        return self.by_tag[tag].codec


SCORERS: Registry[Scorer] = Registry("scorer", Scorer)
SLICERS: Registry[Slicer] = Registry("slicer", Slicer)
PLACERS: Registry[Placer] = Registry("placer", Placer)
CURVES: Registry[Curve] = Registry("curve", Curve)
FAMILIES: Final[tuple[Registry[Any], ...]] = (SCORERS, CURVES, SLICERS, PLACERS)


def registered() -> dict[str, dict[str, RegisteredStrategy]]:
    """Return the class and the schema of every tag, by family, in the order of registration.

    Strategies of a plug-in are listed once a document has named one of them.

    >>> from cupel.policy import registered
    >>> list(registered())
    ['scorer', 'curve', 'slicer', 'placer']
    >>> registered()["placer"]["u_shaped"].strategy
    <class 'cupel.placers.UShapedPlacer'>
    """
    return {registry.family: dict(registry.by_tag) for registry in FAMILIES}


def register_scorer(tag: str) -> Callable[[C], C]:
    """Register a scorer class under a tag, so that policies with it can be written and read.

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
    """Register a slicer class under a tag, as `register_scorer` does a scorer class."""
    return _registering(SLICERS, tag)


def register_placer(tag: str) -> Callable[[C], C]:
    """Register a placer class under a tag, as `register_scorer` does a scorer class."""
    return _registering(PLACERS, tag)


def _registering(registry: Registry[T], tag: str) -> Callable[[C], C]:
    def register(strategy: C) -> C:
        given = cast("object", strategy)  # a decorator can be put on anything
        if not (isinstance(given, type) and issubclass(given, registry.base)):
            expected = f"a subclass of {registry.base.__name__}"
            raise TypeError(f"register_{registry.family} expects {expected}, got {shown(strategy)}")
        registry.add(tag, strategy, _codec_of_class(strategy))
        return strategy

    return register


def _codec_of_class(strategy: Any) -> Codec[Any]:
    """Return the codec of a class: its own `to_dict` and `from_dict`, else its dataclass fields, else no fields."""
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
class _OwnMethods(Codec[Any]):
    """A class that converts itself to plain JSON values."""

    strategy: Any

    def decode(self, value: Any, /) -> Any:
        return construct(self.strategy.from_dict, as_object(value))

    def encode(self, value: Any, /) -> Any:
        return AnyValue().encode(construct(lambda: dict(value.to_dict())))

    def schema(self) -> Schema:
        return {"type": "object"}


@dataclass(frozen=True, slots=True)
class _Derived(Codec[Any]):
    """A dataclass; its annotations are resolved at first use, when every name in them exists."""

    strategy: type

    def decode(self, value: Any, /) -> Any:
        return construct(_derived_record, self.strategy).decode(value)

    def encode(self, value: Any, /) -> Any:
        return construct(_derived_record, self.strategy).encode(value)

    def schema(self) -> Schema:
        try:
            return _derived_record(self.strategy).schema()
        except PolicyConfigError:  # its users get the error; the rest of the schema remains usable
            return {"type": "object"}


@dataclass(frozen=True, slots=True)
class _PlainName(Codec[Any]):
    """A kind or a source, by its spelling."""

    build: Callable[[str], Any]

    def decode(self, value: Any, /) -> Any:
        return construct(self.build, NAME.decode(value))

    def encode(self, value: Any, /) -> str:
        return str(value)

    def schema(self) -> Schema:
        return NAME.schema()


_SCALARS: Final[dict[object, Codec[Any]]] = {
    bool: FLAG,
    int: Integer(),
    float: Number(),
    str: TEXT,
    timedelta: Seconds(),
    datetime: Instant(aware=True),
    ContextKind: _PlainName(ContextKind),
    ContextSource: _PlainName(ContextSource),
}


@cache
def _derived_record(strategy: type) -> Record[Any]:
    try:
        hints = get_type_hints(strategy)
    except Exception as error:
        raise PolicyConfigError(
            f"{strategy.__name__}: an annotation cannot be resolved: {type(error).__name__}: {error}"
        ) from error
    members: list[Field] = []
    for member in fields(strategy):
        if not member.init:
            continue
        if member.name == "type":
            raise PolicyConfigError(f"{strategy.__name__}.type cannot be serialised: the key 'type' holds the tag")
        codec = _codec_of(hints[member.name])
        if codec is None:
            raise PolicyConfigError(
                f"{strategy.__name__}.{member.name} cannot be serialised: {hints[member.name]!r} has no codec; "
                "give the class to_dict() and a class method from_dict(fields) instead"
            )
        members.append(Field(member.name, codec))
    return record(strategy, *members)


def _codec_of(annotation: Any) -> Codec[Any] | None:
    """Return the codec of an annotation, if there is one."""
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if annotation in (Any, object):
        return AnyValue()
    if isinstance(annotation, type) and not get_args(annotation):
        plain_class = cast("type[Any]", annotation)
        for registry in FAMILIES:
            if issubclass(plain_class, registry.base):
                return registry
        if issubclass(plain_class, Enum):
            return Choice(plain_class)
        return _derived_record(plain_class) if is_dataclass(plain_class) else None
    return _codec_of_generic(get_origin(annotation), get_args(annotation))


def _codec_of_generic(origin: Any, arguments: tuple[Any, ...]) -> Codec[Any] | None:
    if origin is Literal:
        return OneOf(arguments)
    container: Callable[[Codec[Any]], Codec[Any]]
    if origin in (Union, types.UnionType) and len(arguments) == 2 and type(None) in arguments:  # noqa: PLR2004
        inner, container = next(argument for argument in arguments if argument is not type(None)), OrNone
    elif origin in (list, Sequence):
        inner, container = arguments[0], ListOf
    elif origin is tuple and arguments[1:] == (Ellipsis,):
        inner, container = arguments[0], partial(ListOf, build=tuple)
    elif origin in (dict, Mapping) and arguments[0] is str:
        inner, container = arguments[1], MapOf
    else:
        return None
    codec = _codec_of(inner)
    return None if codec is None else container(codec)
