"""Compare policies on the same items and budget: what each selects, and which items swing."""

from __future__ import annotations

import argparse
from typing import Any

from cupel.analytics import ItemStatus, PolicySensitivityReport, policy_sensitivity
from cupel.cli._items_out import to_json
from cupel.cli._options import (
    NamedPolicy,
    add_budget,
    add_format,
    add_items,
    add_policy,
    add_query,
    describe,
    preset_names,
    read_budget,
    read_input,
    read_policy,
)
from cupel.diagnostics import SelectionReport
from cupel.model import ContextBudget, ContextItem
from cupel.report import Cell, Column, Table, percent, plural, preview, print_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    describe(
        parser,
        "  cupel compare session.jsonl --budget 8000 --policy chat --policy rag\n"
        "  cupel compare session.jsonl --budget 8000          all presets",
    )
    add_items(parser)
    add_budget(parser)
    add_policy(parser, several=True)
    add_query(parser)
    add_format(parser, ("text", "json"))


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    policies = chosen_policies(args.policy, args.overrides, args.query)
    budget = read_budget(args)
    items = read_input(args)
    found = policy_sensitivity(items, budget, [(one.name, one.policy) for one in policies])
    if args.format == "json":
        print(to_json(_document(found, budget), indent=2))
        return 0
    print_table(_totals(found, budget))
    if found.diffs:
        print()
        print_table(_swings(found, items))
    else:
        print("\nNothing swings: all policies select the same.")
    return 0


def chosen_policies(names: list[str] | None, overrides: list[str], query: str | None) -> list[NamedPolicy]:
    """Return the policies to compare: those named, or one named and then all presets."""
    wanted = names or preset_names()
    if len(wanted) == 1:
        wanted = [*wanted, *(name for name in preset_names() if name != wanted[0].replace("_", "-"))]
    return [read_policy(name, overrides, query) for name in wanted]


def _tokens(report: SelectionReport) -> int:
    return sum(entry.item.tokens for entry in report.included)


def _totals(found: PolicySensitivityReport, budget: ContextBudget) -> Table:
    table = Table(
        [
            Column("policy"),
            Column("in", number=True),
            Column("out", number=True),
            Column("tokens", number=True),
            Column("used", number=True),
        ]
    )
    for label, report in found.variants:
        share = percent(_tokens(report), budget.target_tokens)
        table.add(
            Cell(label, "strong"),
            f"{len(report.included):,}",
            f"{len(report.excluded):,}",
            f"{_tokens(report):,}",
            share,
        )
    return table


def _swings(found: PolicySensitivityReport, items: list[ContextItem]) -> Table:
    first: dict[str, ContextItem] = {}
    for item in items:
        first.setdefault(item.content, item)
    labels = [label for label, _ in found.variants]
    table = Table(
        [
            Column("kind"),
            Column("tokens", number=True),
            Column("item", flexible=True),
            *(Column(label) for label in labels),
        ],
        title=f"{plural(len(found.diffs), 'item')} that some take and others leave",
    )
    for diff in found.diffs:
        item = first[diff.content]
        marks = [
            Cell("in", "good") if status is ItemStatus.INCLUDED else Cell("·", "soft") for _, status in diff.statuses
        ]
        table.add(preview(item.kind.value, 16), f"{item.tokens:,}", preview(item.content), *marks)
    return table


def _document(found: PolicySensitivityReport, budget: ContextBudget) -> dict[str, Any]:
    return {
        "budget": budget.to_dict(),
        "variants": [
            {
                "policy": label,
                "included": len(report.included),
                "excluded": len(report.excluded),
                "total_tokens": _tokens(report),
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
