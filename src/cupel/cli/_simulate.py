"""Ask what other budgets would select: a sweep, the marginal items, and the smallest budget for one item."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from cupel._text import plural, preview
from cupel.analytics import SweepRow, find_min_budget_for, sweep
from cupel.cli._options import add_selection, read_budget, token_count, whole_number
from cupel.cli._output import ITEM_COLUMNS, item_cells, print_json
from cupel.cli._policies import read_policy
from cupel.cli._reading import read_input
from cupel.cli._tables import Cell, Column, Table, print_table
from cupel.errors import InvalidBudgetError, InvalidItemError, SelectionError
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import Pipeline

EXAMPLES: Final = """\
  cupel simulate session.jsonl --budget 8000
  cupel simulate session.jsonl --budget 8000 --slack 1000
  cupel simulate session.jsonl --budget 8000 --item 'System prompt'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_selection(parser, ("text", "json"))
    group = parser.add_argument_group("questions")
    group.add_argument("--steps", type=whole_number, default=16, metavar="N", help="budgets in the sweep; default: 16")
    group.add_argument(
        "--to", type=token_count, metavar="N", help="the largest budget of the sweep; default: where everything fits"
    )
    group.add_argument(
        "--slack",
        type=token_count,
        metavar="N",
        help="name the items that a budget smaller by N tokens would lose; default: a tenth of the budget",
    )
    group.add_argument(
        "--item",
        metavar="TEXT|#N",
        help="the smallest budget that selects the first item starting with TEXT, or the N-th item",
    )


def run(args: argparse.Namespace) -> int:
    """Simulate and print."""
    chosen = read_policy(args.policy, args.overrides, args.query)
    budget = read_budget(args)
    items = read_input(args).items
    pipeline = chosen.policy
    target = None if args.item is None else _find(items, args.item)
    rows = sweep(pipeline, items, _budgets(items, budget, args.steps, args.to, fixed=args.max is not None))
    slack = _slack(pipeline, items, budget, budget.target_tokens // 10 if args.slack is None else args.slack)
    least = None
    if target is not None:
        ceiling = max(_tokens(items) + 1, target.tokens)
        least = find_min_budget_for(pipeline, items, target, ceiling, exact=True)
    if args.format == "json":
        document = _document(budget, rows, slack)
        if target is not None:
            document["item"] = {"content": target.content, "min_budget": least}
        print_json(document)
        return 0
    print_table(_chart(rows, budget, len(items)))
    print()
    if slack.error is None:
        print_table(_marginal(slack, budget.target_tokens))
    else:
        print(f"With {slack.tokens:,} tokens less there is no selection: {slack.error}")
    if target is not None:
        answer = "no budget selects it" if least is None else f"the smallest budget that selects it is {least:,}"
        print(f"\n{preview(target.content)}: {answer}")
    return 0


@dataclass(frozen=True, slots=True)
class Slack:
    """What `tokens` less would cost: the items that go, or the reason why there is no selection then."""

    tokens: int
    items: list[ContextItem]
    error: SelectionError | None = None


def _slack(pipeline: Pipeline, items: Sequence[ContextItem], budget: ContextBudget, tokens: int) -> Slack:
    """Compare two runs, which answers for any slicer: also for quotas, whose shares move with the budget."""
    if tokens > budget.target_tokens:
        raise InvalidBudgetError(f"--slack {tokens:,}: expected at most the budget, {budget.target_tokens:,}")
    window = max(budget.max_tokens - tokens, budget.output_reserve)
    smaller = replace(budget, max_tokens=window, target_tokens=budget.target_tokens - tokens)
    given, less = sweep(pipeline, items, [budget, smaller])
    if given.error is not None:
        raise given.error
    kept = {id(item) for item in less.items}
    return Slack(tokens, [item for item in given.items if id(item) not in kept], less.error)


def _find(items: Sequence[ContextItem], wanted: str) -> ContextItem:
    if wanted.startswith("#") and wanted[1:].isdecimal():
        number = int(wanted[1:])
        if not 1 <= number <= len(items):
            raise InvalidItemError(f"--item {wanted}: there are {plural(len(items), 'item')}, numbered from #1")
        return items[number - 1]
    found = next((item for item in items if item.content.startswith(wanted)), None)
    if found is None:
        raise InvalidItemError(f"--item {wanted}: no item starts with this text")
    return found


def _budgets(
    items: Sequence[ContextItem], budget: ContextBudget, steps: int, top: int | None, *, fixed: bool
) -> list[ContextBudget]:
    """Spread budgets evenly from the reserve to the top, the given one among them."""
    everything = _tokens(items) + budget.total_reserved
    highest = budget.max_tokens if fixed else max(top or everything, budget.output_reserve, 1)
    lowest = 0 if fixed else budget.output_reserve
    count = max(1, steps)
    targets = {lowest + (highest - lowest) * step // count for step in range(1, count + 1)}
    return [
        replace(budget, max_tokens=budget.max_tokens if fixed else target, target_tokens=target)
        for target in sorted(targets | {budget.target_tokens})
    ]


def _tokens(items: Sequence[ContextItem]) -> int:
    return sum(max(0, item.tokens) for item in items)


def _chart(rows: Sequence[SweepRow], budget: ContextBudget, candidates: int) -> Table:
    table = Table(
        [
            Column("budget", number=True),
            Column("items", number=True),
            Column("tokens", number=True),
            Column(f"of {plural(candidates, 'item')}", flexible=True),
        ],
        title="What each budget selects",
    )
    longest = _bar_room(rows)
    for row in rows:
        tokens = row.budget.target_tokens
        mark = Cell(f"{tokens:,}", "strong") if tokens == budget.target_tokens else f"{tokens:,}"
        if row.error is not None:
            table.add(mark, "–", "–", Cell(str(row.error), "bad"))
            continue
        table.add(
            mark,
            f"{len(row.items):,}",
            f"{row.total_tokens:,}",
            Cell(_bar(len(row.items), candidates, longest), "good"),
        )
    return table


def _bar_room(rows: Sequence[SweepRow]) -> int:
    """Return how long the longest bar may be, so that a narrow terminal keeps the numbers."""
    numbers = max((len(f"{row.budget.target_tokens:,}{row.total_tokens:,}") for row in rows), default=0) + len("items")
    return max(4, min(40, shutil.get_terminal_size((160, 24)).columns - numbers - 14))


def _bar(value: int, whole: int, width: int) -> str:
    """Draw a bar in eighths of a character, or in whole ones where the output has no blocks."""
    eighths = 8 * width * value // max(1, whole)
    try:
        "█▏".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return "#" * (eighths // 8)
    return "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")


def _marginal(slack: Slack, given: int) -> Table:
    table = Table(
        ITEM_COLUMNS,
        title=f"{plural(len(slack.items), 'item')} would go if the budget were {plural(slack.tokens, 'token')} smaller "
        f"than {given:,}",
    )
    for item in slack.items:
        table.add(*item_cells(item))
    return table


def _document(budget: ContextBudget, rows: Sequence[SweepRow], slack: Slack) -> dict[str, Any]:
    return {
        "budget": budget.to_dict(),
        "sweep": [
            {"budget": row.budget.target_tokens, "items": len(row.items), "tokens": row.total_tokens}
            | ({} if row.error is None else {"error": str(row.error)})
            for row in rows
        ],
        "slack_tokens": slack.tokens,
        "marginal": [item.to_dict() for item in slack.items],
    } | ({} if slack.error is None else {"marginal_error": str(slack.error)})
