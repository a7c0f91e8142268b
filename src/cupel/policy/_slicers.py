"""The documents of the built-in slicers, one declaration each."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from cupel.policy._containers import ListOf, OrWord
from cupel.policy._forms import BOOLEAN, Choice, Integer, Number, OneOf, Text
from cupel.policy._record import Key, record
from cupel.policy._registry import SLICERS
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

__all__ = ["SLICERS"]

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
