"""Run the parts in isolation: scoring, slicing and placing vectors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

from cupel._columns import Candidates
from cupel.conformance._compare import Check, Mismatch, compare_multiset, compare_value, epsilon_of, first, same_score
from cupel.conformance._inputs import (
    build_budget,
    build_items,
    build_scored,
    check_position,
    find_item,
    first_positions,
)
from cupel.conformance._strategies import build_placer, build_scorer, build_slicer
from cupel.conformance._vector import TomlTable
from cupel.model import ContextBudget, ContextItem, ScoredItem
from cupel.slicers import CountConstrainedKnapsackSlice, CountQuotaSlice, Slicer, StreamSlice


def scoring(document: TomlTable) -> Check:
    """Build a scorer and its items; the check compares both of the scorer's faces with every expected score."""
    scorer = build_scorer(document.table("test"), "scorer", document.table("config"))
    items = build_items(document.tables("items"))
    epsilon = epsilon_of(document)
    wanted = [(find_item(row, items), row.number("score_approx")) for row in document.tables("expected")]

    def check() -> Mismatch | None:
        pass_scores = {id(item): score for item, score in zip(items, scorer.score_all(items), strict=True)}
        for item, expected in wanted:
            faces = (("score", scorer.score(item, items)), ("score_all", pass_scores[id(item)]))
            for face, actual in faces:
                if not same_score(actual, expected, epsilon):
                    return Mismatch(f"{face} of {item.content!r}", expected, actual)
        return None

    return check


def slicing(document: TomlTable) -> Check:
    """Build a slicer and its input; the check compares the selection and what the vector says about counts."""
    slicer = build_slicer(document.table("test"), "slicer", document.table("config"))
    scored = build_scored(document.tables("scored_items"))
    budget = build_budget(document.table("budget"))
    expected = document.table("expected")

    def check() -> Mismatch | None:
        return first(_slicing_differences(slicer, scored, budget, expected))

    return check


def _slicing_differences(
    slicer: Slicer, scored: list[ScoredItem], budget: ContextBudget, expected: TomlTable
) -> Iterator[Mismatch | None]:
    selected = _read_stream(slicer, scored, budget) if isinstance(slicer, StreamSlice) else slicer.slice(scored, budget)
    contents = [item.content for item in selected]
    yield compare_multiset("selected_contents", expected.texts("selected_contents"), contents)
    if expected.has("selected_indexes"):
        yield compare_multiset("selected_indexes", *_by_position("selected_indexes", expected, scored, selected))
    if expected.has("ordered_contents"):
        yield compare_value("ordered_contents", expected.texts("ordered_contents"), contents)
    if expected.has("shortfall_count"):
        shortfalls = slicer.fit(Candidates.of(scored))(budget).shortfalls
        yield compare_value("shortfall_count", expected.values["shortfall_count"], len(shortfalls))
    if expected.has("cap_excluded_count"):
        count = _count_cap_drops(slicer, scored, budget, selected)
        yield compare_value("cap_excluded_count", expected.values["cap_excluded_count"], count)


def _read_stream(slicer: StreamSlice, scored: list[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
    """Offer the items one after the other, as a stream does."""
    import asyncio  # a vector in a thousand streams; the others should not wait for this

    async def stream() -> AsyncIterator[ScoredItem]:
        for candidate in scored:
            yield candidate

    async def read() -> list[ContextItem]:
        return await slicer.slice(stream(), budget)

    return asyncio.run(read())


def _count_cap_drops(
    slicer: Slicer, scored: list[ScoredItem], budget: ContextBudget, selected: list[ContextItem]
) -> int:
    """Count what the inner slicer returned and a count cap then dropped (ruling 7.22): what is in without caps."""
    if not isinstance(slicer, CountQuotaSlice | CountConstrainedKnapsackSlice):
        return 0
    entries = [replace(entry, cap_count=entry.cap_count + len(scored)) for entry in slicer.entries]
    return len(replace(slicer, entries=tuple(entries)).slice(scored, budget)) - len(selected)


def placing(document: TomlTable) -> Check:
    """Build a placer and its input; the check compares the order."""
    placer = build_placer(document.table("test"), "placer", document.table("config"))
    scored = build_scored(document.tables("items"))
    expected = document.table("expected")

    def check() -> Mismatch | None:
        placed = placer.place(scored)
        contents = [item.content for item in placed]
        mismatch = compare_value("ordered_contents", expected.texts("ordered_contents"), contents)
        if mismatch is None and expected.has("ordered_indexes"):
            mismatch = compare_value("ordered_indexes", *_by_position("ordered_indexes", expected, scored, placed))
        return mismatch

    return check


def _by_position(
    key: str, expected: TomlTable, scored: list[ScoredItem], actual: list[ContextItem]
) -> tuple[list[int], list[int]]:
    """Return expected and actual items as first positions, so that twins differ and repeated objects do not."""
    items = [candidate.item for candidate in scored]
    index = first_positions(items)
    wanted = [index[id(items[check_position(expected, key, position, items)])] for position in expected.array(key)]
    return wanted, [index[id(item)] for item in actual]
