"""Compare policies on the same items and budget: what each selects, and which items swing."""

from __future__ import annotations

import argparse
from typing import Any, Final

from cupel._text import percent, plural
from cupel.analytics import ItemStatus, PolicySensitivityReport, policy_sensitivity
from cupel.cli._options import add_selection, read_budget
from cupel.cli._output import ITEM_COLUMNS, item_cells, print_json, tokens_of
from cupel.cli._policies import policies_to_compare
from cupel.cli._reading import read_input
from cupel.cli._tables import Cell, Column, Table, print_table
from cupel.model import ContextBudget, ContextItem

EXAMPLES: Final = """\
  cupel compare session.jsonl --budget 8000 --policy chat --policy rag
  cupel compare session.jsonl --budget 8000          all presets
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_selection(parser, ("text", "json"), several=True)


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    policies = policies_to_compare(args.policy, args.overrides, args.query)
    budget = read_budget(args)
    items = read_input(args).items
    found = policy_sensitivity(items, budget, [(one.name, one.policy) for one in policies])
    if args.format == "json":
        print_json(_document(found, budget))
        return 0
    print_table(_totals(found, budget))
    if found.diffs:
        print()
        print_table(_swings(found, items))
    else:
        print("\nNothing swings: all policies select the same.")
    return 0


def _totals(found: PolicySensitivityReport, budget: ContextBudget) -> Table:
    numbers = ("in", "out", "tokens", "used")
    table = Table([Column("policy"), *(Column(name, number=True) for name in numbers)])
    for label, report in found.variants:
        counts = (len(report.included), len(report.excluded), tokens_of(report))
        table.add(Cell(label, "strong"), *(f"{count:,}" for count in counts), percent(counts[-1], budget.target_tokens))
    return table


def _swings(found: PolicySensitivityReport, items: list[ContextItem]) -> Table:
    first: dict[str, ContextItem] = {}
    for item in items:
        first.setdefault(item.content, item)
    table = Table(
        [*ITEM_COLUMNS, *(Column(label) for label, _ in found.variants)],
        title=f"{plural(len(found.diffs), 'item')} that some take and others leave",
    )
    for diff in found.diffs:
        marks = [
            Cell("in", "good") if status is ItemStatus.INCLUDED else Cell("·", "soft") for _, status in diff.statuses
        ]
        table.add(*item_cells(first[diff.content]), *marks)
    return table


def _document(found: PolicySensitivityReport, budget: ContextBudget) -> dict[str, Any]:
    return {
        "budget": budget.to_dict(),
        "variants": [
            {
                "policy": label,
                "included": len(report.included),
                "excluded": len(report.excluded),
                "total_tokens": tokens_of(report),
            }
            for label, report in found.variants
        ],
        "diffs": [
            {
                "content": diff.content,
                "statuses": [{"policy": label, "status": status.value} for label, status in diff.statuses],
            }
            for diff in found.diffs
        ],
    }
