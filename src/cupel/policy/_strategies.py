"""The documents of the built-in strategies: one declaration per strategy."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, Final

from cupel import placers, scorers, slicers
from cupel._checks import shown
from cupel._documents import (
    FLAG,
    NAME,
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
    record,
)
from cupel.policy._registry import CURVES, PLACERS, SCORERS, SLICERS

__all__ = ["PLACERS", "SCORERS", "SLICERS"]  # with the declarations of this module

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
    Field("leftover", OneOf(("leave", "share")), note="Whether the unused tokens of a kind are offered to the others."),
)
SLICERS.declare("count_quota", slicers.CountQuotaSlice, _ENTRIES, _INNER, _SCARCITY)
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
