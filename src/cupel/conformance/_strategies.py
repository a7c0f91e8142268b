"""Scorers, slicers and placers, built from the configuration of a vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from cupel._checks import shown
from cupel.conformance._inputs import instant
from cupel.conformance._vector import Table
from cupel.placers import ChronologicalPlacer, Placer, SystemFirst, UShapedPlacer
from cupel.scorers import (
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
    Scorer,
    Step,
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
    Slicer,
    StreamSlice,
)

_T = TypeVar("_T")


def build_scorer(owner: Table, key: str, options: Table) -> Scorer:
    """Build the scorer that a field names, with options from a table."""
    return _lookup(SCORERS, "scorer", owner, key)(options)


def build_slicer(owner: Table, key: str, options: Table) -> Slicer:
    """Build the slicer that a field names, with options from a table."""
    return _lookup(SLICERS, "slicer", owner, key)(options)


def build_placer(owner: Table, key: str) -> Placer:
    """Build the placer that a field names."""
    return _lookup(PLACERS, "placer", owner, key)()


def build_pipeline_scorer(config: Table) -> Scorer:
    """Build the scorer of a pipeline: one entry stands for itself, several for their weighted average."""
    entries = _entries(config, "scorers")
    if not entries:
        raise config.error("scorers", "must name at least one scorer")
    if len(entries) == 1:
        return build_scorer(entries[0], "type", entries[0])
    return _composite_of(entries)


def _lookup(known: Mapping[str, _T], family: str, owner: Table, key: str) -> _T:
    """Find what a field names, whether it is spelled with hyphens, underscores or capitals."""
    name = owner.text(key)
    spelled = {tag.replace("_", ""): strategy for tag, strategy in known.items()}
    try:
        return spelled[name.replace("_", "").replace("-", "").lower()]
    except KeyError:
        raise owner.error(key, f"unknown {family} {shown(name)}, expected one of {', '.join(known)}") from None


def _entries(table: Table, *keys: str) -> list[Table]:
    """Return child strategies: tables with a type, or bare names."""
    key = next(filter(table.has, keys), keys[0])
    return [_sharing(child, table) for child in table.tables(key, short="type")]


def _sharing(child: Table, table: Table) -> Table:
    """Let a nested strategy find options it lacks in the configuration of the vector."""
    return Table(child.values, child.file, child.path, table.shared or table)


def _composite(table: Table) -> Scorer:
    return _composite_of(_entries(table, "children", "scorers"))


def _composite_of(entries: list[Table]) -> Scorer:
    return CompositeScorer([(build_scorer(entry, "type", entry), entry.values.get("weight", 1.0)) for entry in entries])


def _inner(table: Table, *keys: str, default: str | None = None) -> tuple[Table, str, Table]:
    """Return where a wrapped strategy is named, and its options: a table's own, or around a bare name ours."""
    key = next((key for key in keys if table.option(key) is not None), keys[0])
    value = table.option(key, default=default)
    if value is None:
        raise table.error(key, "is missing")
    named, rest = Table({key: value}, table.file, table.path), _without(table, keys)
    if isinstance(value, str):
        return named, key, rest
    child = named.table(key)
    return child, "type", _sharing(child, rest)


def _without(table: Table, keys: tuple[str, ...]) -> Table:
    """Return the table without the fields that name the wrapped strategy, or it would wrap itself."""
    shared = table.shared and _without(table.shared, keys)
    return Table({k: v for k, v in table.values.items() if k not in keys}, table.file, table.path, shared)


def _pairs(table: Table, key: str, name: str) -> dict[str, Any]:
    """Read weights, written as an array of {name, weight} tables or as one table."""
    owner = table if table.has(key) or table.shared is None else table.shared
    if isinstance(owner.values.get(key), Mapping):
        return dict(owner.table(key).values)
    return {row.text(name): row.need("weight") for row in owner.tables(key)}


def _kind(table: Table) -> Scorer:
    if table.option("use_default_weights", default=False) or table.option("weights") is None:
        return KindScorer()
    return KindScorer(_pairs(table, "weights", "kind"))


def _tag(table: Table) -> Scorer:
    key = "weights" if table.option("tag_weights") is None and table.has("weights") else "tag_weights"
    return TagScorer(_pairs(table, key, "tag"), case_sensitive=table.option("tag_case_sensitive", default=True))


def _scaled(table: Table) -> Scorer:
    return ScaledScorer(build_scorer(*_inner(table, "inner_scorer", "inner")))


def _metadata_trust(table: Table) -> Scorer:
    return MetadataTrustScorer(table.option("default_score", default=0.5))


def _metadata_key(table: Table) -> Scorer:
    return MetadataKeyScorer(table.need("key"), table.need("value"), table.need("boost"))


def _decay(table: Table) -> Scorer:
    clock = FixedClock(instant(table, "reference_time", table.need("reference_time")))
    if table.option("curve") is None:
        raise table.error("curve", "is missing")
    curve = table.table("curve")
    shape = _lookup(CURVES, "curve", curve, "type")(curve)
    return DecayScorer(clock, shape, null_timestamp_score=table.option("null_timestamp_score", default=0.5))


def _embedding(table: Table) -> Scorer:
    vectors = table.table("vectors").values

    def embed(texts: list[str]) -> list[Any]:
        return [vectors[text] for text in texts]

    return EmbeddingScorer(embed, vector_key=table.option("vector_key"), query=table.option("query"))


def _relevance(table: Table) -> Scorer:
    keys = ("neighbours", "k1", "b", "stem", "stop", "dates", "query", "optional")
    return RelevanceScorer(**{key: table.option(key) for key in keys if table.option(key) is not None})


def _seconds(table: Table, key: str) -> timedelta:
    try:
        return timedelta(seconds=table.need(key))
    except (TypeError, ValueError, OverflowError):
        raise table.error(key, f"must be a number of seconds, not {shown(table.need(key))}") from None


def _step(curve: Table) -> Step:
    return Step([(_seconds(window, "max_age_secs"), window.need("score")) for window in curve.tables("windows")])


def _knapsack(table: Table) -> KnapsackSlice:
    options = {key: table.option(key) for key in ("bucket_size", "max_cells") if table.option(key) is not None}
    return KnapsackSlice(**options)


def _quota(table: Table) -> Slicer:
    quotas = [
        QuotaEntry(row.text("kind"), require=row.option("require", default=0.0), cap=row.option("cap", default=100.0))
        for row in table.tables("quotas")
    ]
    inner = build_slicer(*_inner(table, "inner_slicer", "inner", default="greedy"))
    return QuotaSlice(quotas, inner, leftover=table.option("leftover", default="leave"))


def _count_entries(table: Table) -> list[CountQuotaEntry]:
    return [
        CountQuotaEntry(row.text("kind"), row.option("require_count", default=0), row.need("cap_count"))
        for row in table.tables("entries")
    ]


def _scarcity(table: Table) -> ScarcityBehavior:
    value = table.option("scarcity_behavior", "scarcity", default="degrade")
    try:
        return ScarcityBehavior(value.lower())
    except (AttributeError, ValueError):
        raise table.error("scarcity_behavior", f"must be degrade or throw, not {shown(value)}") from None


def _count_quota(table: Table) -> Slicer:
    inner = build_slicer(*_inner(table, "inner_slicer", "inner", default="greedy"))
    return CountQuotaSlice(_count_entries(table), inner, scarcity=_scarcity(table))


def _count_constrained_knapsack(table: Table) -> Slicer:
    return CountConstrainedKnapsackSlice(_count_entries(table), _knapsack(table), scarcity=_scarcity(table))


def _optimal(table: Table) -> Slicer:
    limits = [KindLimit(**row.values) for row in table.tables("limits")] if table.option("limits") is not None else []
    options = {key: table.option(key) for key in ("gap", "max_core", "exact") if table.option(key) is not None}
    return OptimalSlice(limits, scarcity=_scarcity(table), **options)


SCORERS: dict[str, Callable[[Table], Scorer]] = {
    "recency": lambda _: RecencyScorer(),
    "priority": lambda _: PriorityScorer(),
    "frequency": lambda _: FrequencyScorer(),
    "reflexive": lambda _: ReflexiveScorer(),
    "kind": _kind,
    "tag": _tag,
    "composite": _composite,
    "scaled": _scaled,
    "metadata_trust": _metadata_trust,
    "metadata_key": _metadata_key,
    "decay": _decay,
    "relevance": _relevance,
    "embedding": _embedding,
}
CURVES: dict[str, Callable[[Table], Exponential | Window | Step]] = {
    "exponential": lambda curve: Exponential(_seconds(curve, "half_life_secs")),
    "window": lambda curve: Window(_seconds(curve, "max_age_secs")),
    "step": _step,
}
SLICERS: dict[str, Callable[[Table], Slicer]] = {
    "greedy": lambda _: GreedySlice(),
    "best_first": lambda _: BestFirstSlice(),
    "knapsack": _knapsack,
    "quota": _quota,
    "count_quota": _count_quota,
    "count_constrained_knapsack": _count_constrained_knapsack,
    "optimal": _optimal,
    "stream": lambda table: StreamSlice(table.option("batch_size", default=32)),
}
PLACERS: dict[str, Callable[[], Placer]] = {
    "chronological": ChronologicalPlacer,
    "u_shaped": UShapedPlacer,
    "system_first": SystemFirst,
}
