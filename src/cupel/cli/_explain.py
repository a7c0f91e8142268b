"""Explain a selection: every item, its score and tokens, in or out, and why."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from cupel.analytics import Counterfactual, counterfactuals
from cupel.cli._items_out import to_json
from cupel.cli._options import (
    add_budget,
    add_format,
    add_items,
    add_policy,
    add_query,
    describe,
    read_budget,
    read_input,
    read_policy,
)
from cupel.diagnostics import IncludedItem, SelectionReport
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import PreparedSelection
from cupel.report import Cell, Column, Table, excluded_words, included_words, preview, print_table, summary


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    describe(
        parser,
        "  cupel explain session.jsonl --budget 8000\n"
        "  cupel explain session.jsonl --budget 8000 --counterfactual --only out\n"
        "  cupel explain session.jsonl --budget 8000 --format json | jq '.excluded[].reason'",
    )
    add_items(parser)
    add_budget(parser)
    add_policy(parser)
    add_query(parser)
    add_format(parser, ("text", "json"))
    parser.add_argument("--only", choices=("in", "out"), help="show only the items that are in, or out")
    parser.add_argument(
        "--counterfactual",
        action="store_true",
        help="for each item left out, how many more tokens would let it in",
    )
    parser.add_argument(
        "--breakdown", action="store_true", help="for each item, what each scorer said, its weight, and score per token"
    )


def run(args: argparse.Namespace) -> int:
    """Explain and print."""
    chosen = read_policy(args.policy, args.overrides, args.query)
    budget = read_budget(args)
    items = read_input(args)
    prepared = chosen.policy.pipeline().prepare(items)
    report = prepared.dry_run(budget)
    found = _admissions(prepared, budget, report) if args.counterfactual else None
    if args.format == "json":
        document = _document(report, items, budget, chosen.name, found)
        if args.breakdown:
            _add_breakdowns(document, report)
        print(to_json(document, indent=2))
        return 0
    print_table(_table(report, args.only, found, breakdown=args.breakdown))
    print(summary(report, budget, chosen.name), file=sys.stderr)
    for short in report.count_requirement_shortfalls:
        print(
            f"short of {short.kind}: {short.satisfied_count} of {short.required_count} required items", file=sys.stderr
        )
    return 0


def _admissions(
    prepared: PreparedSelection, budget: ContextBudget, report: SelectionReport
) -> dict[int, Counterfactual]:
    """Find, for each item (by `id`) left out, how many tokens more in budget and window would let it in."""
    left_out = [entry.item for entry in report.excluded]
    return {id(found.item): found for found in counterfactuals(prepared, budget, left_out)}


def _table(
    report: SelectionReport, only: str | None, found: dict[int, Counterfactual] | None, *, breakdown: bool
) -> Table:
    columns = [
        Column("", number=True),
        Column("in"),
        Column("kind"),
        Column("tokens", number=True),
        Column("score", number=True),
        Column("item", flexible=True),
        Column("why"),
    ]
    if found is not None:
        columns.append(Column("gets in with", number=True))
    if breakdown:
        columns.append(Column("score is"))
    said = report.breakdowns() if breakdown else [None] * len(report)
    table = Table(columns)
    for entry, parts in zip(report, said, strict=True):
        inside = isinstance(entry, IncludedItem)
        if only is not None and inside != (only == "in"):
            continue
        cells: list[Cell | str] = [
            Cell(str(len(table.rows) + 1), "soft"),
            Cell("in", "good") if inside else Cell("out", "bad"),
            preview(entry.item.kind.value, 16),
            f"{entry.item.tokens:,}",
            f"{entry.score:.3f}",
            preview(entry.item.content),
            Cell(included_words(entry) if isinstance(entry, IncludedItem) else excluded_words(entry.reason), "soft"),
        ]
        if found is not None:
            cells.append(_admission(found, entry.item, inside=inside))
        if breakdown:
            cells.append("" if parts is None else str(parts))
        table.add(*cells)
    return table


def _admission(found: dict[int, Counterfactual], item: ContextItem, *, inside: bool) -> Cell | str:
    if inside:
        return ""
    answer = found[id(item)]
    if answer.extra_tokens is None:
        return Cell("–" if answer.exact else "?", "soft")
    return f"{'' if answer.exact else '≤ '}+{answer.extra_tokens:,}"


def _add_breakdowns(document: dict[str, Any], report: SelectionReport) -> None:
    for form, parts in zip(document["included"] + document["excluded"], report.breakdowns(), strict=True):
        if parts is not None:
            form["breakdown"] = parts.to_dict()


def _document(
    report: SelectionReport,
    items: Sequence[ContextItem],
    budget: ContextBudget,
    policy: str,
    found: dict[int, Counterfactual] | None,
) -> dict[str, Any]:
    """Return the report's wire form, with the positions of the items in the input beside it."""
    positions = {id(item): position for position, item in enumerate(items)}
    document = report.to_dict()
    for form, entry in zip(document["included"] + document["excluded"], report, strict=True):
        form["position"] = positions[id(entry.item)]
        if found is not None and not isinstance(entry, IncludedItem):
            form["extra_tokens"] = found[id(entry.item)].extra_tokens
            form["exact"] = found[id(entry.item)].exact
    return {"policy": policy, "budget": budget.to_dict(), **document}
