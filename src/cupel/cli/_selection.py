"""The commands `select`, `explain`, `compare` and `simulate`: questions about one pool of items."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from cupel._internal.checks import warn
from cupel._internal.text import percent, plural, preview
from cupel.analytics import (
    Counterfactual,
    ItemStatus,
    PolicySensitivityReport,
    SweepRow,
    counterfactuals,
    find_min_budget_for,
    policy_sensitivity,
    sweep,
)
from cupel.cli._arguments import (
    NO_SELECTION,
    Command,
    Parser,
    add_files,
    add_quiet,
    add_selection,
    read_budget,
    token_count,
    whole_number,
)
from cupel.cli._output import (
    ITEM_COLUMNS,
    Cell,
    Column,
    Table,
    as_json,
    as_jsonl,
    as_markdown,
    as_text,
    item_cells,
    print_json,
    print_table,
    progress_bar,
    say,
    write_context,
)
from cupel.cli._policies import policies_to_compare, read_policy, warn_without_query
from cupel.cli._reading import read_input
from cupel.diagnostics import ExcludedItem, IncludedItem, SelectionReport
from cupel.errors import BudgetWarning, InvalidBudgetError, InvalidItemError, SelectionError
from cupel.model import ContextBudget, ContextItem
from cupel.page import excluded_words, included_words, summary
from cupel.pipeline import Pipeline, PreparedSelection
from cupel.scorers import ScoreBreakdown


def _configure_select(parser: Parser) -> None:
    add_selection(parser, ("text", "json", "jsonl", "markdown"))
    add_files(parser, "-o", "--output", type=Path, metavar="FILE", help="write here instead of to standard output")
    add_quiet(parser, "no summary on standard error")


def _select(args: argparse.Namespace) -> int:
    chosen = read_policy(args.policy, args.overrides, args.query)
    budget = read_budget(args)
    report = chosen.policy.dry_run(read_input(args).items, budget)
    match args.format:
        case "json":
            text = as_json(report, budget, chosen.name)
        case "jsonl":
            text = as_jsonl(report.included)
        case "markdown":
            text = as_markdown(report.included)
        case _:
            text = as_text(report.included)
    write_context(text, args.output)
    if not args.quiet:
        warn_without_query(chosen, args)
        _say_summary(report, budget, chosen.name)
    return 0


def _say_summary(report: SelectionReport, budget: ContextBudget, policy: str) -> None:
    """Print the summary on standard error, with what the stages have to say."""
    say(summary(report, budget, policy), error=True)
    for event in report.events:
        if event.message is not None:
            say(f"note: {event.message}", error=True)


SELECT: Final = Command(
    """Select the items that go into the context window and print them.

The selection goes to standard output and a one-line summary to standard error, so that pipes work.
""",
    _configure_select,
    _select,
    """\
  cupel select session.jsonl --budget 8000
  cupel select docs/ --budget 4000 --policy rag --query 'How are webhooks retried?' --format markdown
  cat items.json | cupel select - --budget 8000 --set slicer=knapsack --format jsonl > window.jsonl
""",
    NO_SELECTION,
)


_COLUMNS: Final = (
    Column("", number=True),
    Column("in"),
    Column("kind"),
    Column("tokens", number=True),
    Column("score", number=True),
    Column("item"),
    Column("why", least=24),
)


def _configure_explain(parser: Parser) -> None:
    add_selection(parser, ("text", "json"))
    parser.add_argument("--only", choices=("in", "out"), help="show only the items that are in, or out")
    parser.add_argument(
        "--counterfactual",
        action="store_true",
        help="for each item left out, how many more tokens would let it in",
    )
    parser.add_argument(
        "--breakdown", action="store_true", help="for each item, each scorer's score, its weight, and score per token"
    )


def _explain(args: argparse.Namespace) -> int:
    chosen = read_policy(args.policy, args.overrides, args.query)
    budget = read_budget(args)
    items = read_input(args).items
    prepared = chosen.policy.prepare(items)
    report = prepared.dry_run(budget)
    explained = list(_explanations(args, prepared, report, budget))
    if args.format == "json":
        print_json({"policy": chosen.name, "budget": budget.to_dict(), **_explain_document(report, items, explained)})
        return 0
    print_table(_explain_table(explained, args))
    warn_without_query(chosen, args)
    _say_summary(report, budget, chosen.name)
    for short in report.count_requirement_shortfalls:
        say(f"short of {short.kind}: {short.satisfied_count} of {short.required_count} required items", error=True)
    return 0


class _Explanation(NamedTuple):
    """An item of the report, and the answers to further questions about it."""

    entry: IncludedItem | ExcludedItem
    admission: Counterfactual | None
    """The additional tokens of budget and window that would let an excluded item in."""
    breakdown: ScoreBreakdown | None


def _explanations(
    args: argparse.Namespace, prepared: PreparedSelection, report: SelectionReport, budget: ContextBudget
) -> Iterator[_Explanation]:
    excluded = [entry.item for entry in report.excluded]
    admissions: dict[int, Counterfactual] = {}
    if args.counterfactual:
        with progress_bar("searching budgets for", plural(len(excluded), "item")):
            admissions = {id(one.item): one for one in counterfactuals(prepared, budget, excluded)}
    breakdowns = report.breakdowns() if args.breakdown else [None] * len(report)
    for entry, parts in zip(report, breakdowns, strict=True):
        admission = admissions.get(id(entry.item)) if isinstance(entry, ExcludedItem) else None
        yield _Explanation(entry, admission, parts)


def _explain_table(explained: Iterable[_Explanation], args: argparse.Namespace) -> Table:
    asked = {Column("gets in with", number=True): args.counterfactual, Column("score is"): args.breakdown}
    table = Table([*_COLUMNS, *(column for column, wanted in asked.items() if wanted)])
    for entry, admission, breakdown in explained:
        inside = isinstance(entry, IncludedItem)
        if args.only is not None and inside != (args.only == "in"):
            continue
        table.add(
            Cell(str(len(table.rows) + 1), "dim"),
            Cell("in", "green") if inside else Cell("out", "red"),
            preview(entry.item.kind.value, 16),
            f"{entry.item.tokens:,}",
            f"{entry.score:.3f}",
            preview(entry.item.content),
            Cell(included_words(entry) if isinstance(entry, IncludedItem) else excluded_words(entry.reason), "dim"),
            *([_admitted(admission)] if args.counterfactual else []),
            *(["" if breakdown is None else str(breakdown)] if args.breakdown else []),
        )
    return table


def _admitted(admission: Counterfactual | None) -> Cell | str:
    if admission is None:
        return ""
    if admission.extra_tokens is None:
        return Cell("–" if admission.exact else "?", "dim")
    return f"{'' if admission.exact else '≤ '}+{admission.extra_tokens:,}"


def _explain_document(
    report: SelectionReport, items: Sequence[ContextItem], explained: Iterable[_Explanation]
) -> dict[str, Any]:
    """Return the report as a document, with the position of each item in the input."""
    positions = {id(item): position for position, item in enumerate(items)}
    document = report.to_dict()
    for fields, (entry, admission, breakdown) in zip(
        document["included"] + document["excluded"], explained, strict=True
    ):
        fields["position"] = positions[id(entry.item)]
        if admission is not None:
            fields |= {"extra_tokens": admission.extra_tokens, "exact": admission.exact}
        if breakdown is not None:
            fields["breakdown"] = breakdown.to_dict()
    return document


EXPLAIN: Final = Command(
    "Explain a selection: every item, its score and tokens, in or out, and why.",
    _configure_explain,
    _explain,
    """\
  cupel explain session.jsonl --budget 8000
  cupel explain session.jsonl --budget 8000 --counterfactual --only out
  cupel explain session.jsonl --budget 8000 --format json | jq '.excluded[].reason'
""",
    NO_SELECTION,
)


def _configure_compare(parser: Parser) -> None:
    add_selection(parser, ("text", "json"), several=True)


def _compare(args: argparse.Namespace) -> int:
    policies = policies_to_compare(args.policy, args.overrides, args.query)
    budget = read_budget(args)
    items = read_input(args).items
    found = policy_sensitivity(items, budget, [(one.name, one.policy) for one in policies])
    if args.format == "json":
        print_json(_compare_document(found, budget))
        return 0
    print_table(_totals(found, budget))
    if found.diffs:
        say()
        print_table(_disagreements(found, items))
    else:
        say("\nAll policies select the same items.")
    return 0


def _totals(found: PolicySensitivityReport, budget: ContextBudget) -> Table:
    numbers = ("in", "out", "tokens", "used")
    table = Table([Column("policy"), *(Column(name, number=True) for name in numbers)])
    for label, report in found.variants:
        counts = (len(report.included), len(report.excluded), report.total_tokens)
        table.add(Cell(label, "bold"), *(f"{count:,}" for count in counts), percent(counts[-1], budget.target_tokens))
    return table


def _disagreements(found: PolicySensitivityReport, items: list[ContextItem]) -> Table:
    first: dict[str, ContextItem] = {}
    for item in items:
        first.setdefault(item.content, item)
    table = Table(
        [*ITEM_COLUMNS, *(Column(label) for label, _ in found.variants)],
        title=f"{plural(len(found.diffs), 'item')} that some policies include and others exclude",
    )
    for diff in found.diffs:
        statuses = [
            Cell("in", "green") if status is ItemStatus.INCLUDED else Cell("·", "dim") for _, status in diff.statuses
        ]
        table.add(*item_cells(first[diff.content]), *statuses)
    return table


def _compare_document(found: PolicySensitivityReport, budget: ContextBudget) -> dict[str, Any]:
    return {
        "budget": budget.to_dict(),
        "variants": [
            {
                "policy": label,
                "included": len(report.included),
                "excluded": len(report.excluded),
                "total_tokens": report.total_tokens,
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


COMPARE: Final = Command(
    "Compare policies on the same items and budget: the size of each selection, and the items on which they disagree.",
    _configure_compare,
    _compare,
    """\
  cupel compare session.jsonl --budget 8000 --policy chat --policy rag
  cupel compare session.jsonl --budget 8000          all presets
""",
    NO_SELECTION,
)


def _configure_simulate(parser: Parser) -> None:
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


def _simulate(args: argparse.Namespace) -> int:
    chosen = read_policy(args.policy, args.overrides, args.query)
    budget = read_budget(args)
    items = read_input(args).items
    pipeline = chosen.policy
    target = None if args.item is None else _find(items, args.item)
    rows = sweep(pipeline, items, _budgets(items, budget, args.steps, args.to, fixed=args.max is not None))
    given = next(row for row in rows if row.budget.target_tokens == budget.target_tokens)
    if given.total_tokens > budget.max_tokens - budget.output_reserve:
        warn(BudgetWarning(given.total_tokens, budget.max_tokens, budget.output_reserve))
    slack = _slack(pipeline, items, budget, budget.target_tokens // 10 if args.slack is None else args.slack)
    least = None
    if target is not None:
        ceiling = max(_tokens(items) + 1, target.tokens)
        least = find_min_budget_for(pipeline, items, target, ceiling, exact=True)
    if args.format == "json":
        document = _simulate_document(budget, rows, slack)
        if target is not None:
            document["item"] = {"content": target.content, "min_budget": least}
        print_json(document)
        return 0
    print_table(_chart(rows, budget, len(items)))
    say()
    if slack.error is None:
        print_table(_marginal(slack, budget.target_tokens))
    else:
        say(f"With {slack.tokens:,} tokens less there is no selection: {slack.error}")
    if target is not None:
        answer = "no budget selects it" if least is None else f"the smallest budget that selects it is {least:,}"
        say(f"\n{preview(target.content)}: {answer}")
    warn_without_query(chosen, args)
    return 0


@dataclass(frozen=True, slots=True)
class Slack:
    """The items that a budget smaller by `tokens` would lose, or the error if it has no selection."""

    tokens: int
    items: list[ContextItem]
    error: SelectionError | None = None


def _slack(pipeline: Pipeline, items: Sequence[ContextItem], budget: ContextBudget, tokens: int) -> Slack:
    """Compare two runs, which works for any slicer, also for quotas, whose shares depend on the budget."""
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
    """Spread budgets evenly from the reserve to the top, and add the given one."""
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
            Column(f"of {plural(candidates, 'item')}"),
        ],
        title="What each budget selects",
    )
    longest = _bar_room(rows)
    for row in rows:
        tokens = row.budget.target_tokens
        shown = Cell(f"{tokens:,}", "bold") if tokens == budget.target_tokens else f"{tokens:,}"
        if row.error is not None:
            table.add(shown, "–", "–", Cell(str(row.error), "red"))
            continue
        table.add(
            shown,
            f"{len(row.items):,}",
            f"{row.total_tokens:,}",
            Cell(_bar(len(row.items), candidates, longest), "green"),
        )
    return table


def _bar_room(rows: Sequence[SweepRow]) -> int:
    """Return the length of the longest bar that leaves room for the numbers."""
    numbers = max((len(f"{row.budget.target_tokens:,}{row.total_tokens:,}") for row in rows), default=0) + len("items")
    return max(4, min(40, shutil.get_terminal_size((160, 24)).columns - numbers - 14))


def _bar(value: int, whole: int, width: int) -> str:
    """Draw a bar in eighths of a character, or in # where the encoding has no blocks."""
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


def _simulate_document(budget: ContextBudget, rows: Sequence[SweepRow], slack: Slack) -> dict[str, Any]:
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


SIMULATE: Final = Command(
    "Show the selections of other budgets: a sweep, the marginal items, and the smallest budget for one item.",
    _configure_simulate,
    _simulate,
    """\
  cupel simulate session.jsonl --budget 8000
  cupel simulate session.jsonl --budget 8000 --slack 1000
  cupel simulate session.jsonl --budget 8000 --item 'System prompt'
""",
    NO_SELECTION,
)
