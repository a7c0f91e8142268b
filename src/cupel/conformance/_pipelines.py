"""Run whole pipelines: the output, the report, the overflow notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import asdict

from cupel.conformance._compare import Check, Mismatch, compare_rows, compare_value, epsilon_of, first
from cupel.conformance._inputs import build_budget, build_items, first_positions
from cupel.conformance._strategies import build_policy
from cupel.conformance._vector import TomlTable
from cupel.diagnostics import (
    KNOWN_REASONS,
    DiagnosticTraceCollector,
    ExcludedItem,
    ExclusionReason,
    IncludedItem,
    OverflowEvent,
    SelectionReport,
    TraceDetailLevel,
)
from cupel.model import ContextItem, OverflowStrategy
from cupel.pipeline import Pipeline


def build_pipeline(config: TomlTable, on_overflow: Callable[[OverflowEvent], None] | None = None) -> Pipeline:
    """Build the pipeline a vector configures; the listener is used only where the strategy is to proceed."""
    policy = build_policy(config)
    return policy.pipeline(on_overflow=on_overflow if policy.overflow is OverflowStrategy.PROCEED else None)


def pipeline(document: TomlTable) -> Check:
    """Build a pipeline with its items and budget; the check compares every list and table the vector expects."""
    if not document.has("config"):
        raise document.error("config", "is missing")
    notices: list[OverflowEvent] = []
    built = build_pipeline(document.table("config"), notices.append)
    items = build_items(document.tables("items"))
    budget = build_budget(document.table("budget"))
    expected = document.table("expected")

    def check() -> Mismatch | None:
        output = built.run(items, budget)
        mismatch = compare_output(document, items, output)
        if mismatch is None and expected.has("overflow"):
            mismatch = first(_overflow_differences(expected.table("overflow"), notices))
        if mismatch is None and expected.has("diagnostics"):
            collector = DiagnosticTraceCollector(TraceDetailLevel.ITEM)
            built.run(items, budget, trace=collector)
            wanted = expected.table("diagnostics")
            report, traced = built.dry_run(items, budget), collector.build_report()
            mismatch = first(_differences(wanted, report, traced, items, epsilon_of(document)))
        return mismatch

    return check


def compare_output(document: TomlTable, items: list[ContextItem], output: list[ContextItem]) -> Mismatch | None:
    """Compare an ordered selection with `expected_output`, whose entries are tables or bare contents."""
    wanted = document.tables("expected_output", short="content")
    contents, actual = [row.text("content") for row in wanted], [item.content for item in output]
    if contents != actual:
        return Mismatch("expected_output", contents, actual)
    index = first_positions(items)
    return compare_rows("expected_output", wanted, [{"index": index[id(item)]} for item in output])


def _overflow_differences(expected: TomlTable, notices: list[OverflowEvent]) -> Iterator[Mismatch | None]:
    yield compare_value("overflow notices", 1, len(notices))
    over, contents = expected.option("tokens_over_budget"), expected.option("overflowing_contents")
    if over is not None:
        yield compare_value("overflow.tokens_over_budget", over, notices[0].tokens_over_budget)
    if contents is not None:
        actual = [item.content for item in notices[0].overflowing_items]
        yield compare_value("overflow.overflowing_contents", contents, actual)


def _differences(
    wanted: TomlTable, report: SelectionReport, traced: SelectionReport, items: list[ContextItem], epsilon: float
) -> Iterator[Mismatch | None]:
    index = first_positions(items)
    lists: dict[str, list[dict[str, Any]]] = {
        "included": [_row(entry, index, inclusion_reason=entry.reason.value) for entry in report.included],
        "excluded": [_row(entry, index, **_exclusion(entry.reason)) for entry in report.excluded],
        "shortfalls": [asdict(shortfall) for shortfall in report.count_requirement_shortfalls],
        "events": [event.to_dict() for event in report.events],
    }
    for name, rows in lists.items():
        if wanted.has(name):
            yield compare_rows(name, wanted.tables(name), rows, epsilon)
    for name in ("total_candidates", "total_tokens_considered"):
        if (total := wanted.table("summary").option(name)) is not None:
            yield compare_value(f"summary.{name}", total, getattr(report, name))
    if wanted.has("item_events"):
        yield _item_event_difference(wanted.tables("item_events"), traced)


def _item_event_difference(wanted: list[TomlTable], traced: SelectionReport) -> Mismatch | None:
    """Compare the events about single exclusions: stage, and a message that begins as the vector says (ruling 7.9)."""
    messages = [
        (event.stage.value, event.message or "")
        for event in traced.events
        if event.message and event.message.partition(":")[0] in KNOWN_REASONS
    ]
    expected = [(row.text("stage"), row.text("message_prefix")) for row in wanted]
    same = len(messages) == len(expected) and all(
        stage == wanted_stage and message.startswith(prefix)
        for (stage, message), (wanted_stage, prefix) in zip(messages, expected, strict=True)
    )
    return None if same else Mismatch("item_events", expected, messages)


def _row(entry: IncludedItem | ExcludedItem, index: dict[int, int], **reason: Any) -> dict[str, Any]:
    return {"content": entry.item.content, "index": index[id(entry.item)], "score_approx": entry.score, **reason}


def _exclusion(reason: ExclusionReason) -> dict[str, Any]:
    fields = reason.to_dict()
    return {"exclusion_reason": fields.pop("reason"), **fields}
