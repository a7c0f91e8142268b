"""The documents of the built-in strategies, one declaration each."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, Final

from cupel._checks import shown
from cupel.placers import ChronologicalPlacer, SystemFirst, UShapedPlacer
from cupel.policy._forms import (
    BOOLEAN,
    Choice,
    Instant,
    Integer,
    Json,
    Key,
    ListOf,
    MapOf,
    Number,
    OneOf,
    OrWord,
    Plain,
    Record,
    Schema,
    Seconds,
    Text,
    malformed,
    record,
)
from cupel.policy._registry import CURVES, PLACERS, SCORERS, SLICERS
from cupel.scorers import (
    Clock,
    CompositeScorer,
    DecayScorer,
    EmbeddingScorer,
    Exponential,
    FixedClock,
    FrequencyScorer,
    KindScorer,
    MetadataKeyScorer,
    MetadataTrustScorer,
    PriorityScorer,
    RecencyScorer,
    ReflexiveScorer,
    RelevanceScorer,
    ScaledScorer,
    Step,
    SystemClock,
    TagScorer,
    Window,
)
from cupel.slicers import (
    BestFirstSlice,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    KindLimit,
    KnapsackSlice,
    OptimalSlice,
    QuotaEntry,
    QuotaSlice,
    ScarcityBehavior,
    StreamSlice,
)

__all__ = ["PLACERS", "SCORERS", "SLICERS"]

_SYSTEM_CLOCK: Final = SystemClock()


class _FixedNow:
    """A fixed clock, written as its instant; a document that names none means the system's clock."""

    def read(self, value: object, path: str, /) -> FixedClock:
        return FixedClock(Instant().read(value, path))

    def write(self, value: Clock, path: str, /) -> Json:
        if type(value) is not FixedClock:
            raise malformed(path, f"the clock {shown(value)} cannot be written; only SystemClock and FixedClock can")
        return Instant().write(value.instant, path)

    def schema(self) -> Schema:
        return Instant().schema()


class _Loaded:
    """A function by its module and name; a document never imports anything, so the module must have been.

    A document that was never text may hold the function itself.
    """

    def read(self, value: object, path: str, /) -> Any:
        if callable(value):
            return value
        name = Text().read(value, path)
        module, _, attribute = name.partition(":")
        found = getattr(sys.modules.get(module), attribute, None) if attribute else None
        if found is None:
            expected = "expected 'module:function' of a module that is imported already, or with --import"
            raise malformed(path, f"{expected}, got {shown(name)}")
        return found

    def write(self, value: Any, path: str, /) -> Json:
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        if module is None or getattr(sys.modules.get(module), name, None) is not value:
            raise malformed(path, f"the function {shown(value)} cannot be written; only one that a module names can")
        return f"{module}:{name}"

    def schema(self) -> Schema:
        return {"type": "string"}


_STEM: Final = Plain("a boolean or the name of a language", (bool, str), ["boolean", "string"])
_UNIT: Final = Number(least=0, most=1)
_WEIGHT: Final = Number(least=0)
_POSITIVE: Final = Number(above=0)
_DURATION: Final = Seconds(positive=True)
_QUERY: Final = Key(
    "query",
    Text(can_be_blank=False),
    note="A query for every run that brings none; usually the run brings it.",
)


def _pair(**members: Any) -> tuple[Any, ...]:
    return tuple(members.values())  # in the order of the fields


_WEIGHTED: Final = Record(
    _pair,
    (Key("scorer", SCORERS, get=itemgetter(0)), Key("weight", _POSITIVE, get=itemgetter(1))),
)
_STEP: Final = Record(
    _pair,
    (Key("max_age_seconds", _DURATION, get=itemgetter(0)), Key("score", Number(), get=itemgetter(1))),
)


SCORERS.declare("recency", RecencyScorer)
SCORERS.declare("priority", PriorityScorer)
SCORERS.declare("frequency", FrequencyScorer)
SCORERS.declare("reflexive", ReflexiveScorer)
SCORERS.declare("kind", KindScorer, Key("weights", MapOf(_WEIGHT, keys=Text(can_be_blank=False))))
SCORERS.declare("tag", TagScorer, Key("weights", MapOf(_WEIGHT)), Key("case_sensitive", BOOLEAN))
SCORERS.declare("composite", CompositeScorer, Key("scorers", ListOf(_WEIGHTED, least=1), argument="entries"))
SCORERS.declare("scaled", ScaledScorer, Key("inner", SCORERS))
SCORERS.declare("metadata_trust", MetadataTrustScorer, Key("default_score", _UNIT))
SCORERS.declare("metadata_key", MetadataKeyScorer, Key("key", Text()), Key("value", Text()), Key("boost", _POSITIVE))
SCORERS.declare(
    "decay",
    DecayScorer,
    Key(
        "now",
        _FixedNow(),
        default=_SYSTEM_CLOCK,
        note="A fixed clock; without it the system clock decides.",
        argument="clock",
    ),
    Key("curve", CURVES),
    Key("null_timestamp_score", _UNIT),
    build=partial(DecayScorer, clock=_SYSTEM_CLOCK),
)
SCORERS.declare(
    "embedding",
    EmbeddingScorer,
    Key("embed", _Loaded(), note="The function, as module:name; its module has to be imported."),
    Key("vector_key", Text(can_be_empty=False), note="Where items bring their own vectors in their metadata."),
    _QUERY,
)
SCORERS.declare(
    "relevance",
    RelevanceScorer,
    Key("method", OneOf(("bm25",))),
    Key("neighbours", Number(least=0, below=1), note="The share of its score that an item passes on; below 1."),
    Key("k1", Number(least=0, most=1000)),
    Key("b", _UNIT),
    Key("stem", _STEM, note="English, the language named, or false for words as they are."),
    Key("stop", ListOf(Text())),
    Key("dates", BOOLEAN),
    _QUERY,
    Key("optional", BOOLEAN, note="Without a query, score everything 0 instead of refusing."),
)

CURVES.declare("exponential", Exponential, Key("half_life_seconds", _DURATION, argument="half_life"))
CURVES.declare("window", Window, Key("max_age_seconds", _DURATION, argument="max_age"))
CURVES.declare("step", Step, Key("windows", ListOf(_STEP, least=1)))


_DEFAULT: Final = KnapsackSlice()
_KIND: Final = Key("kind", Text(can_be_blank=False))
_COUNT: Final = Integer(least=0)
_PERCENTAGE: Final = Number(least=0, most=100)
_INNER: Final = Key("inner", SLICERS)
_SCARCITY: Final = Key("scarcity", Choice(ScarcityBehavior))
_BUCKET_SIZE: Final = Key("bucket_size", OrWord(Integer(least=1), "auto", "auto"))
_MAX_CELLS: Final = Key(
    "max_cells",
    OrWord(Integer(least=1), "unlimited", None),
    note='The largest table allowed; "unlimited" (or null) lifts the guard.',
)
_QUOTA: Final = record(QuotaEntry, _KIND, Key("require", _PERCENTAGE), Key("cap", _PERCENTAGE))
_ENTRIES: Final = Key(
    "entries", ListOf(record(CountQuotaEntry, _KIND, Key("require_count", _COUNT), Key("cap_count", _COUNT)))
)
_LIMIT: Final = record(
    KindLimit, _KIND, *(Key(key, _COUNT) for key in ("min_count", "max_count", "min_tokens", "max_tokens"))
)


def _count_knapsack(
    entries: list[CountQuotaEntry], scarcity: ScarcityBehavior = ScarcityBehavior.DEGRADE, **knapsack: Any
) -> CountConstrainedKnapsackSlice:
    return CountConstrainedKnapsackSlice(entries, KnapsackSlice(**knapsack), scarcity=scarcity)


SLICERS.declare("greedy", GreedySlice)
SLICERS.declare("best_first", BestFirstSlice)
SLICERS.declare("knapsack", KnapsackSlice, _BUCKET_SIZE, _MAX_CELLS)
SLICERS.declare(
    "quota",
    QuotaSlice,
    Key("quotas", ListOf(_QUOTA)),
    _INNER,
    Key("leftover", OneOf(("leave", "share")), note="Whether what a kind does not use is offered to the others."),
)
SLICERS.declare("count_quota", CountQuotaSlice, _ENTRIES, _INNER, _SCARCITY)
SLICERS.declare(
    "count_constrained_knapsack",
    CountConstrainedKnapsackSlice,
    _ENTRIES,
    replace(_BUCKET_SIZE, default=_DEFAULT.bucket_size, get=attrgetter("knapsack.bucket_size")),
    replace(_MAX_CELLS, default=_DEFAULT.max_cells, get=attrgetter("knapsack.max_cells")),
    _SCARCITY,
    build=_count_knapsack,
)
SLICERS.declare(
    "optimal",
    OptimalSlice,
    Key("limits", ListOf(_LIMIT)),
    Key("gap", Number(least=0, below=1), note="How far below the best a selection may be, as a share of the total."),
    Key("max_core", _COUNT, note="The most undecided candidates that branch and bound may decide on."),
    Key("exact", BOOLEAN, note="false needs no solver, and is meant for plain items and forms."),
    _SCARCITY,
)
SLICERS.declare("stream", StreamSlice, Key("batch_size", Integer(least=1)))


PLACERS.declare("chronological", ChronologicalPlacer)
PLACERS.declare("u_shaped", UShapedPlacer)
PLACERS.declare("system_first", SystemFirst, Key("inner", PLACERS))
