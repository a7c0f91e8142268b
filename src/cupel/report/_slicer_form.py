"""Slicers as the page's script understands them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cupel.slicers import (
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    KnapsackSlice,
    QuotaSlice,
    Slicer,
)

Form = dict[str, Any]


def slicer_form(slicer: Slicer, kinds: Mapping[str, int]) -> Form | None:  # noqa: PLR0911  (one form a slicer)
    """Describe a built-in slicer to the script; None for one that only Python can run.

    `kinds` numbers the folded kinds of the candidates. The exact types are asked for: a subclass may do anything.
    """
    if type(slicer) is GreedySlice:
        return {"type": "greedy"}
    if type(slicer) is KnapsackSlice:
        if not isinstance(slicer.bucket_size, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            return None  # a size chosen for each budget
        return {"type": "knapsack", "bucket_size": slicer.bucket_size, "max_cells": slicer.max_cells}
    if type(slicer) is QuotaSlice:
        return _quota(slicer, kinds)
    if type(slicer) is CountQuotaSlice:
        return _counts("CountQuotaSlice", slicer.entries, slicer.inner, slicer.scarcity.value, kinds, resort=False)
    if type(slicer) is CountConstrainedKnapsackSlice:
        name = "CountConstrainedKnapsackSlice"
        return _counts(name, slicer.entries, slicer.knapsack, slicer.scarcity.value, kinds, resort=True)
    return None


def _quota(slicer: QuotaSlice, kinds: Mapping[str, int]) -> Form | None:
    inner = slicer_form(slicer.inner, kinds)
    if inner is None:
        return None
    quotas = [
        {"kind": kinds.get(entry.kind.key, -1 - number), "require": entry.require, "cap": entry.cap}
        for number, entry in enumerate(slicer.quotas)
    ]
    return {"type": "quota", "quotas": quotas, "inner": inner}


def _counts(
    label: str,
    entries: Sequence[CountQuotaEntry],
    inner: Slicer,
    scarcity: str,
    kinds: Mapping[str, int],
    *,
    resort: bool,
) -> Form | None:
    form = slicer_form(inner, kinds)
    if form is None:
        return None
    rows = [
        {
            "kind": kinds.get(entry.kind.key, -1 - number),
            "name": entry.kind.value,
            "require_count": entry.require_count,
            "cap_count": entry.cap_count,
        }
        for number, entry in enumerate(entries)
    ]
    return {
        "type": "count_quota",
        "label": label,
        "entries": rows,
        "inner": form,
        "scarcity": scarcity,
        "resort": resort,
    }


def bucket_size(form: Form | None) -> int:
    """Give the bucket of the knapsack inside a slicer, 1 if there is none."""
    if form is None:
        return 1
    return int(form.get("bucket_size", 0)) or bucket_size(form.get("inner"))


def has_knapsack(form: Form) -> bool:
    """Say whether a knapsack is at work somewhere inside a slicer."""
    return form["type"] == "knapsack" or ("inner" in form and has_knapsack(form["inner"]))
