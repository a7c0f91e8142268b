"""Explain a selection: every item, its score and tokens, in or out, and why."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from cupel._text import preview
from cupel.analytics import Counterfactual, counterfactuals
from cupel.cli._options import add_selection, read_budget
from cupel.cli._output import print_json
from cupel.cli._policies import read_policy
from cupel.cli._reading import read_input
from cupel.cli._tables import Cell, Column, Table, print_table
from cupel.diagnostics import ExcludedItem, IncludedItem, SelectionReport
from cupel.model import ContextBudget, ContextItem
from cupel.page import excluded_words, included_words, summary
from cupel.pipeline import PreparedSelection
from cupel.scorers import ScoreBreakdown

_COLUMNS: Final = (
    Column("", number=True),
    Column("in"),
    Column("kind"),
    Column("tokens", number=True),
    Column("score", number=True),
    Column("item", flexible=True),
    Column("why"),
)
EXAMPLES: Final = """\
  cupel explain session.jsonl --budget 8000
  cupel explain session.jsonl --budget 8000 --counterfactual --only out
  cupel explain session.jsonl --budget 8000 --format json | jq '.excluded[].reason'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_selection(parser, ("text", "json"))
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
    items = read_input(args).items
    prepared = chosen.policy.prepare(items)
    report = prepared.dry_run(budget)
    told = list(_told(args, prepared, report, budget))
    if args.format == "json":
        print_json({"policy": chosen.name, "budget": budget.to_dict(), **_document(report, items, told)})
        return 0
    print_table(_table(told, args))
    print(summary(report, budget, chosen.name), file=sys.stderr)
    for short in report.count_requirement_shortfalls:
        print(
            f"short of {short.kind}: {short.satisfied_count} of {short.required_count} required items", file=sys.stderr
        )
    return 0


class _Told(NamedTuple):
    """An item of the report, and what was asked about it besides."""

    entry: IncludedItem | ExcludedItem
    admission: Counterfactual | None
    """How many tokens more in budget and window would let it in, if it is out."""
    breakdown: ScoreBreakdown | None


def _told(
    args: argparse.Namespace, prepared: PreparedSelection, report: SelectionReport, budget: ContextBudget
) -> Iterator[_Told]:
    left_out = [entry.item for entry in report.excluded]
    found = counterfactuals(prepared, budget, left_out) if args.counterfactual else []
    admissions = {id(one.item): one for one in found}
    breakdowns = report.breakdowns() if args.breakdown else [None] * len(report)
    for entry, parts in zip(report, breakdowns, strict=True):
        admission = admissions.get(id(entry.item)) if isinstance(entry, ExcludedItem) else None
        yield _Told(entry, admission, parts)


def _table(told: Iterable[_Told], args: argparse.Namespace) -> Table:
    asked = {Column("gets in with", number=True): args.counterfactual, Column("score is"): args.breakdown}
    table = Table([*_COLUMNS, *(column for column, wanted in asked.items() if wanted)])
    for entry, admission, breakdown in told:
        inside = isinstance(entry, IncludedItem)
        if args.only is not None and inside != (args.only == "in"):
            continue
        table.add(
            Cell(str(len(table.rows) + 1), "soft"),
            Cell("in", "good") if inside else Cell("out", "bad"),
            preview(entry.item.kind.value, 16),
            f"{entry.item.tokens:,}",
            f"{entry.score:.3f}",
            preview(entry.item.content),
            Cell(included_words(entry) if isinstance(entry, IncludedItem) else excluded_words(entry.reason), "soft"),
            *([_admitted(admission)] if args.counterfactual else []),
            *(["" if breakdown is None else str(breakdown)] if args.breakdown else []),
        )
    return table


def _admitted(admission: Counterfactual | None) -> Cell | str:
    if admission is None:
        return ""
    if admission.extra_tokens is None:
        return Cell("–" if admission.exact else "?", "soft")
    return f"{'' if admission.exact else '≤ '}+{admission.extra_tokens:,}"


def _document(report: SelectionReport, items: Sequence[ContextItem], told: Iterable[_Told]) -> dict[str, Any]:
    """Return the report's wire form, with the positions of the items in the input beside it."""
    positions = {id(item): position for position, item in enumerate(items)}
    document = report.to_dict()
    for form, (entry, admission, breakdown) in zip(document["included"] + document["excluded"], told, strict=True):
        form["position"] = positions[id(entry.item)]
        if admission is not None:
            form |= {"extra_tokens": admission.extra_tokens, "exact": admission.exact}
        if breakdown is not None:
            form["breakdown"] = breakdown.to_dict()
    return document
