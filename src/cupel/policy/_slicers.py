"""The documents of the built-in slicers and placers."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from cupel.placers import ChronologicalPlacer, Placer, SystemFirst, UShapedPlacer
from cupel.policy._annotations import OneOf
from cupel.policy._containers import ListOf, OrWord
from cupel.policy._forms import Boolean, Choice, Integer, Number, Text
from cupel.policy._record import Field, Record
from cupel.policy._registry import PLACERS, SLICERS
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

_DEFAULT: Final = KnapsackSlice()
_KIND: Final = Text(can_be_blank=False)
_COUNT: Final = Integer(least=0)
_PERCENTAGE: Final = Number(least=0, most=100)
_BUCKET_SIZE: Final = OrWord(Integer(least=1), "auto", "auto")
_MAX_CELLS: Final = OrWord(Integer(least=1), "unlimited", None)
_LEFTOVER_NOTE: Final = "Whether what a kind does not use is offered to the others."
_GAP_NOTE: Final = "How far below the best a selection may be, as a share of the total."
_MAX_CELLS_NOTE: Final = 'The largest table allowed; "unlimited" (or null) lifts the guard.'


def _count_knapsack(
    entries: list[CountQuotaEntry], scarcity: ScarcityBehavior = ScarcityBehavior.DEGRADE, **knapsack: Any
) -> CountConstrainedKnapsackSlice:
    return CountConstrainedKnapsackSlice(entries, KnapsackSlice(**knapsack), scarcity=scarcity)


def _optimal(scarcity: Field) -> Record[Slicer]:
    limit = Record(
        KindLimit,
        (
            Field("kind", _KIND),
            Field("min_count", _COUNT, 0),
            Field("max_count", _COUNT, None),
            Field("min_tokens", _COUNT, 0),
            Field("max_tokens", _COUNT, None),
        ),
    )
    fields = (
        Field("limits", ListOf(limit), ()),
        Field("gap", Number(least=0, below=1), 0.005, note=_GAP_NOTE),
        Field("max_core", _COUNT, 400, note="The most undecided candidates that branch and bound may decide on."),
        Field("exact", Boolean(), True, note="false needs no solver, and is meant for plain items and forms."),  # noqa: FBT003
        scarcity,
    )
    return Record(OptimalSlice, fields)


def add_slicers_and_placers() -> None:
    """Fill the two registries."""
    SLICERS.add("greedy", GreedySlice, Record(GreedySlice))
    SLICERS.add("best_first", BestFirstSlice, Record(BestFirstSlice))
    knapsack_fields = (
        Field("bucket_size", _BUCKET_SIZE, _DEFAULT.bucket_size),
        Field("max_cells", _MAX_CELLS, _DEFAULT.max_cells, note=_MAX_CELLS_NOTE),
    )
    SLICERS.add("knapsack", KnapsackSlice, Record(KnapsackSlice, knapsack_fields))
    inner = Field("inner", SLICERS, default=GreedySlice())
    quota = Record(
        QuotaEntry,
        (Field("kind", _KIND), Field("require", _PERCENTAGE, default=0.0), Field("cap", _PERCENTAGE, default=100.0)),
    )
    leftover = Field("leftover", OneOf(("leave", "share")), default="leave", note=_LEFTOVER_NOTE)
    SLICERS.add("quota", QuotaSlice, Record(QuotaSlice, (Field("quotas", ListOf(quota)), inner, leftover)))
    count = Record(
        CountQuotaEntry,
        (Field("kind", _KIND), Field("require_count", _COUNT), Field("cap_count", _COUNT)),
    )
    entries = Field("entries", ListOf(count))
    scarcity = Field("scarcity", Choice(ScarcityBehavior), default=ScarcityBehavior.DEGRADE)
    SLICERS.add("count_quota", CountQuotaSlice, Record(CountQuotaSlice, (entries, inner, scarcity)))
    own_knapsack_fields = (
        entries,
        Field("bucket_size", _BUCKET_SIZE, _DEFAULT.bucket_size, attrgetter("knapsack.bucket_size")),
        Field("max_cells", _MAX_CELLS, _DEFAULT.max_cells, attrgetter("knapsack.max_cells"), _MAX_CELLS_NOTE),
        scarcity,
    )
    SLICERS.add(
        "count_constrained_knapsack",
        CountConstrainedKnapsackSlice,
        Record(_count_knapsack, own_knapsack_fields),
    )
    SLICERS.add("optimal", OptimalSlice, _optimal(scarcity))
    SLICERS.add("stream", StreamSlice, Record(StreamSlice, (Field("batch_size", Integer(least=1), default=32),)))
    PLACERS.add("chronological", ChronologicalPlacer, Record(ChronologicalPlacer))
    PLACERS.add("u_shaped", UShapedPlacer, Record(UShapedPlacer))
    system_first: Record[Placer] = Record(SystemFirst, (Field("inner", PLACERS, default=ChronologicalPlacer()),))
    PLACERS.add("system_first", SystemFirst, system_first)
