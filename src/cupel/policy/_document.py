"""Pipelines as documents: one declaration per built-in strategy; JSON, TOML and a JSON Schema."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from cupel import placers, scorers, slicers
from cupel._internal.checks import as_instance, as_integer, as_text, shown, wrong_type
from cupel._internal.documents import (
    FLAG,
    NAME,
    SCALAR,
    TEXT,
    Choice,
    Codec,
    Field,
    Instant,
    Integer,
    ListOf,
    MapOf,
    Number,
    OneOf,
    OrWord,
    Plain,
    Record,
    RefusedError,
    Schema,
    Seconds,
    Text,
    as_object,
    check_depth,
    decode_json,
    decode_toml,
    encode_toml,
    placed,
    record,
    step,
)
from cupel._internal.files import whole
from cupel.errors import ConfigurationError, PolicyConfigError
from cupel.model import OverflowStrategy
from cupel.pipeline import PinRule, Pipeline
from cupel.policy._registry import CURVES, FAMILIES, PLACERS, SCORERS, SLICERS, load_plugins

T = TypeVar("T")
DocumentFormat: TypeAlias = Literal["json", "toml"]

_SUFFIXES: Final[dict[str, DocumentFormat]] = {".json": "json", ".toml": "toml"}

_SYSTEM_CLOCK: Final = scorers.SystemClock()


class _FixedNow(Codec[scorers.Clock]):
    """A fixed clock, written as its instant; a document without it means the system clock."""

    def decode(self, value: Any, /) -> scorers.FixedClock:
        return scorers.FixedClock(Instant(aware=True).decode(value))

    def encode(self, value: scorers.Clock, /) -> str:
        if type(value) is not scorers.FixedClock:
            raise RefusedError(f"the clock {shown(value)} cannot be serialised: use SystemClock or FixedClock")
        return Instant().encode(value.instant)

    def schema(self) -> Schema:
        return Instant().schema()


class _Function(Codec[Any]):
    """A function as `module:name`; reading imports nothing, so the module must be loaded already.

    A document that was never text may hold the function itself.
    """

    def decode(self, value: Any, /) -> Any:
        if callable(value):
            return value
        name = TEXT.decode(value)
        module, _, attribute = name.partition(":")
        found = getattr(sys.modules.get(module), attribute, None) if attribute else None
        if found is None:
            expected = "expected 'module:function' of a module that is imported already, or with --import"
            raise RefusedError(f"{expected}, got {shown(name)}")
        return found

    def encode(self, value: Any, /) -> str:
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        if module is None or getattr(sys.modules.get(module), name, None) is not value:
            raise RefusedError(
                f"the function {shown(value)} cannot be serialised: use a function importable as module:name"
            )
        return f"{module}:{name}"

    def schema(self) -> Schema:
        return TEXT.schema()


_STEM: Final = Plain("a boolean or the name of a language", (bool, str), ["boolean", "string"])
_UNIT: Final = Number(least=0, most=1)
_WEIGHT: Final = Number(least=0)
_POSITIVE: Final = Number(above=0)
_DURATION: Final = Seconds(positive=True)
_QUERY: Final = Field(
    "query",
    NAME,
    note="A query for every run that brings none; usually the run brings it.",
)


def _pair(**members: Any) -> tuple[Any, ...]:
    return tuple(members.values())  # in the order of the fields


_WEIGHTED: Final = Record(
    _pair,
    (Field("scorer", SCORERS, get=itemgetter(0)), Field("weight", _POSITIVE, get=itemgetter(1))),
)
_STEP: Final = Record(
    _pair,
    (Field("max_age_seconds", _DURATION, get=itemgetter(0)), Field("score", Number(), get=itemgetter(1))),
)


SCORERS.declare("recency", scorers.RecencyScorer)
SCORERS.declare("priority", scorers.PriorityScorer)
SCORERS.declare("frequency", scorers.FrequencyScorer)
SCORERS.declare("reflexive", scorers.ReflexiveScorer)
SCORERS.declare("reuse", scorers.ReuseScorer, Field("calls", Integer(least=1)), Field("words", _POSITIVE))
SCORERS.declare("kind", scorers.KindScorer, Field("weights", MapOf(_WEIGHT, keys=NAME)))
SCORERS.declare("tag", scorers.TagScorer, Field("weights", MapOf(_WEIGHT)), Field("case_sensitive", FLAG))
SCORERS.declare("composite", scorers.CompositeScorer, Field("entries", ListOf(_WEIGHTED, least=1), key="scorers"))
SCORERS.declare("scaled", scorers.ScaledScorer, Field("inner", SCORERS))
SCORERS.declare("metadata_trust", scorers.MetadataTrustScorer, Field("default_score", _UNIT))
SCORERS.declare(
    "metadata_key", scorers.MetadataKeyScorer, Field("key", TEXT), Field("value", TEXT), Field("boost", _POSITIVE)
)
SCORERS.declare(
    "decay",
    scorers.DecayScorer,
    Field(
        "clock",
        _FixedNow(),
        default=_SYSTEM_CLOCK,
        key="now",
        note="A fixed clock; without it the system clock decides.",
    ),
    Field("curve", CURVES),
    Field("null_timestamp_score", _UNIT),
    build=partial(scorers.DecayScorer, clock=_SYSTEM_CLOCK),
)
SCORERS.declare(
    "embedding",
    scorers.EmbeddingScorer,
    Field("embed", _Function(), note="The function, as module:name; its module has to be imported."),
    Field("vector_key", Text(can_be_empty=False), note="Where items bring their own vectors in their metadata."),
    _QUERY,
)
SCORERS.declare(
    "relevance",
    scorers.RelevanceScorer,
    Field("method", OneOf(("bm25",))),
    Field("neighbours", Number(least=0, below=1), note="The share of its score that an item passes on; below 1."),
    Field("k1", Number(least=0, most=1000)),
    Field("b", _UNIT),
    Field("stem", _STEM, note="English, the language named, or false for words as they are."),
    Field("stop", ListOf(TEXT)),
    Field("dates", FLAG),
    _QUERY,
    Field("optional", FLAG, note="Without a query, score everything 0 instead of refusing."),
)

CURVES.declare("exponential", scorers.Exponential, Field("half_life", _DURATION, key="half_life_seconds"))
CURVES.declare("window", scorers.Window, Field("max_age", _DURATION, key="max_age_seconds"))
CURVES.declare("step", scorers.Step, Field("windows", ListOf(_STEP, least=1)))


_DEFAULT: Final = slicers.KnapsackSlice()
_KIND: Final = Field("kind", NAME)
_COUNT: Final = Integer(least=0)
_PERCENTAGE: Final = Number(least=0, most=100)
_INNER: Final = Field("inner", SLICERS)
_SCARCITY: Final = Field("scarcity", Choice(slicers.ScarcityBehavior))
_BUCKET_SIZE: Final = Field("bucket_size", OrWord(Integer(least=1), "auto", "auto"))
_MAX_CELLS: Final = Field(
    "max_cells",
    OrWord(Integer(least=1), "unlimited", None),
    note='The largest table allowed; "unlimited" (or null) lifts the guard.',
)
_QUOTA: Final = record(slicers.QuotaEntry, _KIND, Field("require", _PERCENTAGE), Field("cap", _PERCENTAGE))
_ENTRIES: Final = Field(
    "entries",
    ListOf(record(slicers.CountQuotaEntry, _KIND, Field("require_count", _COUNT), Field("cap_count", _COUNT))),
)
_LIMIT: Final = record(
    slicers.KindLimit, _KIND, *(Field(key, _COUNT) for key in ("min_count", "max_count", "min_tokens", "max_tokens"))
)


def _count_knapsack(
    entries: list[slicers.CountQuotaEntry],
    scarcity: slicers.ScarcityBehavior = slicers.ScarcityBehavior.DEGRADE,
    **knapsack: Any,
) -> slicers.CountConstrainedKnapsackSlice:
    return slicers.CountConstrainedKnapsackSlice(entries, slicers.KnapsackSlice(**knapsack), scarcity=scarcity)


SLICERS.declare("greedy", slicers.GreedySlice)
SLICERS.declare("best_first", slicers.BestFirstSlice)
SLICERS.declare("knapsack", slicers.KnapsackSlice, _BUCKET_SIZE, _MAX_CELLS)
SLICERS.declare(
    "quota",
    slicers.QuotaSlice,
    Field("quotas", ListOf(_QUOTA)),
    _INNER,
    Field("leftover", OneOf(("unused", "share")), note="Whether others are offered the unused tokens of a kind."),
)
SLICERS.declare(
    "count_quota",
    slicers.CountQuotaSlice,
    _ENTRIES,
    _INNER,
    _SCARCITY,
    Field("leftover", OneOf(("unused", "share")), note="Whether others get the tokens of what a cap cuts off."),
)
SLICERS.declare(
    "count_constrained_knapsack",
    slicers.CountConstrainedKnapsackSlice,
    _ENTRIES,
    replace(_BUCKET_SIZE, default=_DEFAULT.bucket_size, get=attrgetter("knapsack.bucket_size")),
    replace(_MAX_CELLS, default=_DEFAULT.max_cells, get=attrgetter("knapsack.max_cells")),
    _SCARCITY,
    build=_count_knapsack,
)
SLICERS.declare(
    "optimal",
    slicers.OptimalSlice,
    Field("limits", ListOf(_LIMIT)),
    Field("gap", Number(least=0, below=1), note="How far below the best a selection may be, as a share of the total."),
    Field("max_core", _COUNT, note="The most undecided candidates that branch and bound may decide on."),
    Field("exact", FLAG, note="false needs no solver, and is meant for plain items and forms."),
    _SCARCITY,
)
SLICERS.declare("stream", slicers.StreamSlice, Field("batch_size", Integer(least=1)))


PLACERS.declare("chronological", placers.ChronologicalPlacer)
PLACERS.declare("u_shaped", placers.UShapedPlacer)
PLACERS.declare("system_first", placers.SystemFirst, Field("inner", PLACERS))


PIN_RULE: Final = record(
    PinRule,
    Field("kind", NAME),
    Field("tag", TEXT),
    Field("source", NAME),
    Field("metadata", MapOf(SCALAR), note="Keys and the values they must have."),
    Field("newest", Integer(least=1), note="Pin only this many of the matching items, the newest first."),
    rules={
        "anyOf": [
            *({"required": [key]} for key in ("kind", "tag", "source", "newest")),
            {"required": ["metadata"], "properties": {"metadata": {"minProperties": 1}}},
        ]
    },
)
DOCUMENT: Final = record(
    Pipeline,
    Field("name", TEXT, note="What the policy is called."),
    Field("description", TEXT, note="What the policy is for."),
    Field("scorer", SCORERS, note="How relevant each item is."),
    Field("slicer", SLICERS, note="What fits the budget; greedy if left out."),
    Field("placer", PLACERS, note="The final order; chronological if left out."),
    Field("pins", ListOf(PIN_RULE, tuple), note="Rules that pin items, beside those given as pinned."),
    Field("deduplicate", FLAG, key="deduplication"),
    Field("overflow", Choice(OverflowStrategy)),
)


def load(path: str | os.PathLike[str]) -> Pipeline:
    """Read a pipeline from a `.json` or `.toml` file; errors name the file and the path within it."""
    file, written = _file(path)
    try:
        return loads(file.read_text(encoding="utf-8-sig"), format=written)
    except ConfigurationError as error:
        problem = placed(error, str(file))
        if problem is error:
            raise
        raise problem from error
    except UnicodeDecodeError as error:
        raise PolicyConfigError(f"{file}: not UTF-8 text: {error}") from error


def loads(text: str | bytes, *, format: DocumentFormat = "json") -> Pipeline:  # noqa: A002 - as in the command
    """Read a pipeline from the text of a policy document.

    >>> from cupel import policy
    >>> policy.loads('{"scorer": "recency", "placer": "u_shaped"}')
    Pipeline(scorer=RecencyScorer(), placer=UShapedPlacer())
    """
    if _is_json(format):
        return from_dict(decode_json(text, error=PolicyConfigError))
    return from_dict(decode_toml(text, error=PolicyConfigError))


def from_dict(document: Mapping[str, Any]) -> Pipeline:
    """Read a pipeline from a policy document; a PolicyConfigError names the path and the likely intended word.

    >>> from cupel import policy
    >>> policy.from_dict({"scorer": "recency", "slicer": {"type": "quota", "quotas": [], "iner": "greedy"}})
    Traceback (most recent call last):
    cupel.errors.PolicyConfigError: $.slicer.iner: unknown key 'iner'; did you mean 'inner'? (known: quotas, ...)
    """
    return _raising(_decode, document)


def dump(pipeline: Pipeline, path: str | os.PathLike[str]) -> None:
    """Write a pipeline's policy document to a `.json` or `.toml` file."""
    file, written = _file(path)
    text = dumps(pipeline, format=written, indent=2 if written == "json" else None)
    with whole(file) as draft:
        draft.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")


def dumps(pipeline: Pipeline, *, format: DocumentFormat = "json", indent: int | None = None) -> str:  # noqa: A002
    """Return a pipeline's policy document as text; `indent` is for JSON.

    >>> from cupel import KnapsackSlice, Pipeline, RecencyScorer, policy
    >>> dense = Pipeline(scorer=RecencyScorer(), slicer=KnapsackSlice(50), name="dense")
    >>> policy.dumps(dense)
    '{"name": "dense", "scorer": "recency", "slicer": {"type": "knapsack", "bucket_size": 50}}'
    >>> policy.loads(policy.dumps(dense)) == dense
    True
    >>> print(policy.dumps(dense, format="toml"), end="")
    name = "dense"
    scorer = "recency"
    <BLANKLINE>
    [slicer]
    type = "knapsack"
    bucket_size = 50
    """
    document = to_dict(pipeline)
    try:
        return _as_json(document, indent) if _is_json(format) else encode_toml(document)
    except RefusedError as error:
        raise error.raised_as(PolicyConfigError) from None


def to_dict(pipeline: Pipeline) -> dict[str, Any]:
    """Return a pipeline's policy document: defaults are left out, a strategy without settings is its bare tag.

    A function cannot be written: a pipeline with `on_overflow` raises a PolicyConfigError.
    """
    if as_instance("pipeline", pipeline, Pipeline).on_overflow is not None:
        problem = f"on_overflow {shown(pipeline.on_overflow)} cannot be serialised"
        raise PolicyConfigError(f"{problem}: write dataclasses.replace(pipeline, on_overflow=None)")
    return _raising(DOCUMENT.encode, pipeline)


def _decode(document: Mapping[str, Any]) -> Pipeline:
    check_depth(document)
    members = as_object(document)
    step(TEXT.decode, members.pop("$schema", ""), "$schema")  # for editors only
    return DOCUMENT.decode(members)


def _raising(convert: Callable[[Any], T], value: Any) -> T:
    """Decode or encode; an error names the path and is a PolicyConfigError or that of the strategy that refused."""
    try:
        return convert(value)
    except RefusedError as error:
        problem = error.raised_as(PolicyConfigError)
        if problem is error.cause:
            raise problem from problem.__cause__
        raise problem from error.cause or error.__cause__


def _as_json(document: dict[str, Any], indent: int | None) -> str:
    import json

    if indent is not None:
        indent = as_integer("indent", indent, least=0, expected="an integer or None")
    try:
        return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise RefusedError(f"cannot be written as JSON: {error}") from None


def _file(path: str | os.PathLike[str]) -> tuple[Path, DocumentFormat]:
    """Return a policy file and the format that its suffix names."""
    if not isinstance(path, (str, os.PathLike)):
        raise wrong_type("path", "a string or a Path", path)
    file = Path(path)
    written = _SUFFIXES.get(file.suffix.lower())
    if written is None:
        name = shown(str(file))
        raise PolicyConfigError(f"{name}: a policy file ends in .json or .toml, not {shown(file.suffix)}")
    return file, written


def _is_json(written: str) -> bool:
    if as_text("format", written) not in _SUFFIXES.values():
        raise PolicyConfigError(f"format must be 'json' or 'toml', got {shown(written)}")
    return written == "json"


_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of the policy document, with every strategy registered so far.

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
