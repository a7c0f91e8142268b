"""Which tag stands for which strategy: one registry a family, filled by the library and by third parties alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from cupel._checks import as_text, shown
from cupel._documents import at_key
from cupel.errors import PolicyConfigError
from cupel.placers import Placer
from cupel.policy._containers import read_object
from cupel.policy._errors import malformed, mismatch, unknown_word
from cupel.policy._forms import Json, Schema
from cupel.policy._plugins import GROUP, load_plugins
from cupel.policy._record import Key, record
from cupel.scorers import Curve, Scorer
from cupel.slicers import Slicer

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
    <class 'cupel.placers._u_shaped.UShapedPlacer'>
    """
    return {registry.family: dict(registry.by_tag) for registry in FAMILIES}


def register_scorer(tag: str) -> Callable[[C], C]:
    """Register a scorer class under a tag, so that policies which use it can be written and read.

    The class is a dataclass, whose fields become the keys of its document, or offers `to_dict()` and the class method
    `from_dict(fields)`. A package that names the defining module in the entry-point group `cupel.strategies` is found
    without an import.

    >>> from dataclasses import dataclass
    >>> from cupel.policy import Policy, register_scorer
    >>> from cupel.scorers import Curve, Scorer
    >>> @register_scorer("doc_length")
    ... @dataclass(frozen=True)
    ... class LengthScorer(Scorer):
    ...     longest: int = 1000
    ...     def score(self, item, all_items):
    ...         return min(1.0, item.tokens / self.longest)
    >>> Policy(LengthScorer(200)).to_dict()
    {'scorer': {'type': 'doc_length', 'longest': 200}}
    >>> Policy.from_dict({"scorer": "doc_length"}).scorer
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
    from cupel.policy._annotations import document_of

    def register(strategy: C) -> C:
        given = cast("object", strategy)  # a decorator is easily put on something else
        if not (isinstance(given, type) and issubclass(given, registry.base)):
            expected = f"a subclass of {registry.base.__name__}"
            raise TypeError(f"register_{registry.family} expects {expected}, got {shown(strategy)}")
        registry.add(tag, strategy, document_of(strategy))
        return strategy

    return register
