"""The documents of the built-in scorers and decay curves."""

from __future__ import annotations

import sys
from datetime import timedelta
from operator import attrgetter, itemgetter
from typing import Any, Final

from cupel._checks import shown
from cupel.policy._annotations import OneOf
from cupel.policy._containers import ListOf, MapOf
from cupel.policy._errors import malformed, mismatch
from cupel.policy._forms import Boolean, Instant, Json, Number, Schema, Seconds, Text
from cupel.policy._record import Field, Record
from cupel.policy._registry import CURVES, SCORERS
from cupel.scorers import (
    ENGLISH,
    Clock,
    CompositeScorer,
    Curve,
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
    Scorer,
    Step,
    SystemClock,
    TagScorer,
    Window,
)

_SYSTEM_CLOCK: Final = SystemClock()


def _pair(first: str, second: str) -> Any:
    """A constructor of 2-tuples from two named fields."""

    def build(**named: Any) -> tuple[Any, Any]:
        return named[first], named[second]

    return build


def _composite(scorers: list[tuple[Scorer, float]]) -> CompositeScorer:
    return CompositeScorer(scorers)


def _decay(curve: Curve, now: Clock = _SYSTEM_CLOCK, **rest: float) -> DecayScorer:
    return DecayScorer(now, curve, **rest)


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
    """A function by its module and name; a document never imports anything, so the module must have been."""

    def read(self, value: object, path: str, /) -> Any:
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


class _Stem:
    """Whether words are stemmed, or in which language."""

    def read(self, value: object, path: str, /) -> bool | str:
        if not isinstance(value, (bool, str)):
            raise mismatch(path, "a boolean or the name of a language", value)
        return value

    def write(self, value: bool | str, _path: str, /) -> Json:  # noqa: FBT001 - a form's signature
        return value

    def schema(self) -> Schema:
        return {"type": ["boolean", "string"]}


def _exponential(half_life_seconds: timedelta) -> Exponential:
    return Exponential(half_life_seconds)


def _window(max_age_seconds: timedelta) -> Window:
    return Window(max_age_seconds)


_QUERY_NOTE: Final = "A query for every run that brings none; usually the run brings it."
_VECTOR_NOTE: Final = "Where items bring their own vectors in their metadata."
_NOW_NOTE: Final = "A fixed clock; without it the system clock decides."
_UNIT: Final = Number(least=0, most=1)
_WEIGHT: Final = Number(least=0)
_POSITIVE: Final = Number(above=0)
_DURATION: Final = Seconds(positive=True)
_QUERY: Final = Text(can_be_blank=False)
_WEIGHTED: Final = Record(
    _pair("scorer", "weight"),
    (Field("scorer", SCORERS, get=itemgetter(0)), Field("weight", _POSITIVE, get=itemgetter(1))),
)
_STEP: Final = Record(
    _pair("max_age_seconds", "score"),
    (Field("max_age_seconds", _DURATION, get=itemgetter(0)), Field("score", Number(), get=itemgetter(1))),
)


def add_scorers() -> None:
    """Fill the two registries."""
    for tag, plain in (
        ("recency", RecencyScorer),
        ("priority", PriorityScorer),
        ("frequency", FrequencyScorer),
        ("reflexive", ReflexiveScorer),
    ):
        SCORERS.add(tag, plain, Record(plain))
    kind_weights = MapOf(_WEIGHT, keys=Text(can_be_blank=False))
    SCORERS.add("kind", KindScorer, Record(KindScorer, (Field("weights", kind_weights, default=None),)))
    tag_fields = (Field("weights", MapOf(_WEIGHT)), Field("case_sensitive", Boolean(), default=True))
    SCORERS.add("tag", TagScorer, Record(TagScorer, tag_fields))
    composite_fields = (Field("scorers", ListOf(_WEIGHTED, least=1), get=attrgetter("entries")),)
    SCORERS.add("composite", CompositeScorer, Record(_composite, composite_fields))
    SCORERS.add("scaled", ScaledScorer, Record(ScaledScorer, (Field("inner", SCORERS),)))
    trust_fields = (Field("default_score", _UNIT, default=0.5),)
    SCORERS.add("metadata_trust", MetadataTrustScorer, Record(MetadataTrustScorer, trust_fields))
    key_fields = (Field("key", Text()), Field("value", Text()), Field("boost", _POSITIVE))
    SCORERS.add("metadata_key", MetadataKeyScorer, Record(MetadataKeyScorer, key_fields))
    decay_fields = (
        Field("now", _FixedNow(), default=_SYSTEM_CLOCK, get=attrgetter("clock"), note=_NOW_NOTE),
        Field("curve", CURVES),
        Field("null_timestamp_score", _UNIT, default=0.5),
    )
    SCORERS.add("decay", DecayScorer, Record(_decay, decay_fields))
    embedding_fields = (
        Field("embed", _Loaded(), note="The function, as module:name; its module has to be imported."),
        Field("vector_key", Text(can_be_empty=False), default=None, note=_VECTOR_NOTE),
        Field("query", _QUERY, default=None, note=_QUERY_NOTE),
    )
    SCORERS.add("embedding", EmbeddingScorer, Record(EmbeddingScorer, embedding_fields))
    SCORERS.add("relevance", RelevanceScorer, Record(RelevanceScorer, _relevance_fields()))

    half_life = (Field("half_life_seconds", _DURATION, get=attrgetter("half_life")),)
    CURVES.add("exponential", Exponential, Record(_exponential, half_life))
    max_age = (Field("max_age_seconds", _DURATION, get=attrgetter("max_age")),)
    CURVES.add("window", Window, Record(_window, max_age))
    CURVES.add("step", Step, Record(Step, (Field("windows", ListOf(_STEP, least=1)),)))


def _relevance_fields() -> tuple[Field, ...]:
    return (
        Field("method", OneOf(("bm25",)), default="bm25"),
        Field(
            "neighbours",
            Number(least=0, below=1),
            default=0.0,
            note="The share of its score that an item passes on; below 1.",
        ),
        Field("k1", Number(least=0, most=1000), default=1.2),
        Field("b", _UNIT, default=0.75),
        Field("stem", _Stem(), default=True, note="English, the language named, or false for words as they are."),
        Field("stop", ListOf(Text()), default=ENGLISH, get=lambda scorer: _sorted_unless_default(scorer.stop)),
        Field("dates", Boolean(), default=True),
        Field("query", _QUERY, default=None, note=_QUERY_NOTE),
        Field("optional", Boolean(), default=False, note="Without a query, score everything 0 instead of refusing."),
    )


def _sorted_unless_default(stop: frozenset[str]) -> frozenset[str] | list[str]:
    return stop if stop == ENGLISH else sorted(stop)
