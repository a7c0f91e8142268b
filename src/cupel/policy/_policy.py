"""Pipelines as documents: JSON, TOML and a JSON Schema."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cupel._checks import as_integer, as_tuple, shown, wrong_type
from cupel._documents import RefusedError, at_index, at_key, check_depth, decode_json, decode_toml, plain
from cupel.errors import ConfigurationError, PolicyConfigError
from cupel.model import OverflowStrategy
from cupel.pipeline import PinRule, Pipeline
from cupel.placers import ChronologicalPlacer, Placer
from cupel.policy._builtins import PLACERS, SCORERS, SLICERS
from cupel.policy._forms import (
    BOOLEAN,
    SCALAR,
    Choice,
    Integer,
    Json,
    Key,
    ListOf,
    MapOf,
    Schema,
    Text,
    malformed,
    placed,
    read_object,
    record,
)
from cupel.policy._registry import FAMILIES, load_plugins
from cupel.scorers import Scorer
from cupel.slicers import GreedySlice, Slicer

if TYPE_CHECKING:
    from cupel.diagnostics import OverflowEvent


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_MUST_ESCAPE = re.compile(r'[\\"\x00-\x1f\x7f]')


def format_json(document: dict[str, Json], indent: int | None) -> str:
    """The document as JSON; numbers that JSON cannot express are refused."""
    import json

    if indent is not None:
        indent = as_integer("indent", indent, least=0, expected="an integer or None")
    try:
        return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise malformed("$", f"cannot be written as JSON: {error}") from error


def format_toml(document: dict[str, Json]) -> str:
    """The document as TOML: plain values first, then one table for each object, everything deeper inline."""
    lines = _assignments({key: value for key, value in document.items() if not isinstance(value, dict)}, "$")
    for key, value in document.items():
        if isinstance(value, dict):
            lines += ["", f"[{_key(key)}]", *_assignments(value, at_key("$", key))]
    return "\n".join(lines).lstrip("\n") + "\n"


def _assignments(table: Mapping[str, Json], path: str) -> list[str]:
    return [f"{_key(key)} = {_block(value, at_key(path, key))}" for key, value in table.items()]


def _block(value: Json, path: str) -> str:
    """A value on the right of `=`: a list of tables gets a line for each, the rest stays inline."""
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        rows = (f"    {_inline(entry, at_index(path, i))},\n" for i, entry in enumerate(value))
        return f"[\n{''.join(rows)}]"
    return _inline(value, path)


def _inline(value: Json, path: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return _integer(value, path)
        case float():
            return _float(value)
        case str():
            return _string(value)
        case list():
            return f"[{', '.join(_inline(entry, at_index(path, i)) for i, entry in enumerate(value))}]"
        case dict():
            members = (f"{_key(key)} = {_inline(entry, at_key(path, key))}" for key, entry in value.items())
            return f"{{ {', '.join(members)} }}" if value else "{}"
        case None:
            raise malformed(path, "TOML has no null; leave the key out or use JSON")


def _integer(value: int, path: str) -> str:
    try:
        return str(plain(value))
    except RefusedError as error:
        raise malformed(path, str(error)) from None


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(value)  # inf and -inf are TOML as they stand; an exponent needs no point


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    return '"' + _MUST_ESCAPE.sub(lambda found: _escape(found[0]), text) + '"'


def _escape(character: str) -> str:
    return _ESCAPES.get(character) or f"\\u{ord(character):04x}"


_GREEDY: Final = GreedySlice()
_CHRONOLOGICAL: Final = ChronologicalPlacer()


@dataclass(frozen=True, slots=True, repr=False)
class Policy:
    """How to select: a scorer, a slicer, a placer and two switches, with a name to remember them by.

    Policies are values: equal when their parts are equal, and the same after a trip through JSON or TOML.

    >>> from cupel import Policy, RecencyScorer, KnapsackSlice
    >>> policy = Policy(RecencyScorer(), KnapsackSlice(50), name="dense")
    >>> policy.to_json()
    '{"name": "dense", "scorer": "recency", "slicer": {"type": "knapsack", "bucket_size": 50}}'
    >>> Policy.from_json(policy.to_json()) == policy
    True
    """

    scorer: Scorer
    slicer: Slicer = _GREEDY
    placer: Placer = _CHRONOLOGICAL
    deduplicate: bool = True
    overflow: OverflowStrategy = OverflowStrategy.THROW
    name: str | None = None
    description: str | None = None
    pins: tuple[PinRule, ...] = ()

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0917 - as the dataclass has it
            self,
            scorer: Scorer,
            slicer: Slicer = ...,
            placer: Placer = ...,
            deduplicate: bool = ...,  # noqa: FBT001
            overflow: OverflowStrategy = ...,
            name: str | None = ...,
            description: str | None = ...,
            pins: Iterable[PinRule] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "pins", as_tuple("Policy.pins", self.pins, PinRule))
        for field_name, expected in _TYPES.items():
            value = getattr(self, field_name)
            if not isinstance(value, expected):
                names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in expected)
                raise TypeError(f"Policy.{field_name} must be a {names}, got {shown(value)}")

    def __repr__(self) -> str:
        parts = (
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if field.name == "scorer" or getattr(self, field.name) != field.default
        )
        return f"Policy({', '.join(parts)})"

    def pipeline(self, *, on_overflow: Callable[[OverflowEvent], object] | None = None) -> Pipeline:
        """The pipeline that carries this policy out."""
        return Pipeline(
            scorer=self.scorer,
            slicer=self.slicer,
            placer=self.placer,
            deduplicate=self.deduplicate,
            overflow=self.overflow,
            on_overflow=on_overflow,
            pins=self.pins,
        )

    def bind(self, query: str | None) -> Policy:
        """The policy for one query, where one policy is asked many; None changes nothing."""
        return self if query is None else replace(self, scorer=self.scorer.bind(query))

    def to_dict(self) -> dict[str, Json]:
        """The policy document: defaults left out, a strategy without settings as its bare tag."""
        return DOCUMENT.write(self, "$")

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Policy:
        """Read a policy document; a PolicyConfigError names the place and the likely intended word.

        >>> Policy.from_dict({"scorer": "recency", "slicer": {"type": "quota", "quotas": [], "iner": "greedy"}})
        Traceback (most recent call last):
        cupel.errors.PolicyConfigError: $.slicer.iner: unknown key 'iner'; did you mean 'inner'? (known: quotas, ...)
        """
        return _read(document)

    def to_json(self, *, indent: int | None = None) -> str:
        """The policy document as JSON text."""
        return format_json(self.to_dict(), indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Policy:
        """Read a policy document from JSON text; a key that occurs twice is an error."""
        return _read(decode_json(text, error=PolicyConfigError))

    def to_toml(self) -> str:
        """The policy document as TOML text.

        >>> from cupel import Policy, RecencyScorer, UShapedPlacer
        >>> print(Policy(RecencyScorer(), placer=UShapedPlacer()).to_toml(), end="")
        scorer = "recency"
        placer = "u_shaped"
        """
        return format_toml(self.to_dict())

    @classmethod
    def from_toml(cls, text: str) -> Policy:
        """Read a policy document from TOML text."""
        return _read(decode_toml(text, error=PolicyConfigError))

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy document from a `.json` or `.toml` file; errors name the file."""
        if not isinstance(path, (str, Path)):
            raise wrong_type("path", "a string or a Path", path)
        file = Path(path)
        readers = {".json": cls.from_json, ".toml": cls.from_toml}
        reader = readers.get(file.suffix.lower())
        if reader is None:
            name = shown(str(file))
            raise PolicyConfigError(f"{name}: a policy file ends in .json or .toml, not {shown(file.suffix)}")
        try:
            return reader(file.read_text(encoding="utf-8-sig"))
        except ConfigurationError as error:
            problem = placed(error, str(file))
            if problem is error:
                raise
            raise problem from error
        except UnicodeDecodeError as error:
            raise PolicyConfigError(f"{file}: not UTF-8 text: {error}") from error


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "scorer": (Scorer,),
    "slicer": (Slicer,),
    "placer": (Placer,),
    "deduplicate": (bool,),
    "overflow": (OverflowStrategy,),
    "name": (str, type(None)),
    "description": (str, type(None)),
}


PIN_RULE: Final = record(
    PinRule,
    Key("kind", Text(can_be_blank=False)),
    Key("tag", Text()),
    Key("source", Text(can_be_blank=False)),
    Key("metadata", MapOf(SCALAR), note="Keys and the values they must have."),
    Key("newest", Integer(least=1), note="Only so many of the items that meet the other conditions."),
    rules={
        "anyOf": [
            *({"required": [key]} for key in ("kind", "tag", "source", "newest")),
            {"required": ["metadata"], "properties": {"metadata": {"minProperties": 1}}},
        ]
    },
)
DOCUMENT: Final = record(
    Policy,
    Key("name", Text(), note="What the policy is called."),
    Key("description", Text(), note="What the policy is for."),
    Key("scorer", SCORERS, note="How relevant each item is."),
    Key("slicer", SLICERS, note="What fits the budget; greedy if left out."),
    Key("placer", PLACERS, note="The final order; chronological if left out."),
    Key("pins", ListOf(PIN_RULE, tuple), note="Rules that pin items, beside those given as pinned."),
    Key("deduplication", BOOLEAN, argument="deduplicate"),
    Key("overflow", Choice(OverflowStrategy)),
)


def _read(document: object) -> Policy:
    try:
        check_depth(document)
    except RefusedError as error:
        raise malformed("$", str(error)) from None
    members = read_object(document, "$")
    if "$schema" in members:  # what editors look for; it says nothing about the policy
        Text().read(members.pop("$schema"), '$["$schema"]')
    return DOCUMENT.read(members, "$")


_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> Schema:
    """A JSON Schema (draft 2020-12) of the policy document, with every strategy registered at this moment.

    >>> from cupel.policy import json_schema
    >>> sorted(json_schema()["$defs"])
    ['curve', 'placer', 'scorer', 'slicer']
    """
    load_plugins()
    document = DOCUMENT.schema()
    return {
        "$schema": _DIALECT,
        "title": "cupel policy",
        **document,
        "properties": {"$schema": {"type": "string"}, **document["properties"]},
        "$defs": {registry.family: registry.definition() for registry in FAMILIES},
    }
