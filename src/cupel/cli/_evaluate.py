"""Measure how much of what is needed a policy keeps, on cases whose needs are known.

Several policies are compared case by case: the first with each of the others. Intervals are at 95 %.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from cupel._text import plural
from cupel.cli._options import add_cases, add_format, add_policy, read_all_cases, share, span
from cupel.cli._output import print_json
from cupel.cli._policies import read_policy
from cupel.cli._progress import progress_bar
from cupel.cli._tables import Cell, Column, Table, print_table
from cupel.evaluation import Estimate, Evaluation, compare, evaluate

EXAMPLES: Final = """\
  cupel evaluate cases.jsonl --policy chat --policy mine.toml
  cupel evaluate cases.jsonl --budget 2000 --policy mine.toml --fail-below 80%
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_cases(parser)
    add_policy(parser, several=True)
    add_format(parser)
    parser.add_argument(
        "--fail-below", type=share, metavar="SHARE", help="exit with 1 if a policy keeps a smaller share than this"
    )


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    policies = [read_policy(name, args.overrides) for name in args.policy or ["chat"]]
    cases = read_all_cases(args)
    found: list[Evaluation] = []
    for one in policies:
        with progress_bar(f"evaluating {one.name}", "cases", quiet=args.quiet) as show:
            found.append(evaluate(one.policy, cases, name=one.name, seed=args.seed, on_progress=show))
    comparisons = [compare(found[0], other, seed=args.seed) for other in found[1:]]
    if args.format == "json":
        evaluations = [evaluation.to_dict() for evaluation in found]
        print_json({"evaluations": evaluations, "comparisons": [one.to_dict() for one in comparisons]})
    else:
        _print(found)
        for comparison in comparisons:
            print(
                f"{comparison.verdict}; better {comparison.better}, worse {comparison.worse}, equal {comparison.equal}"
            )
    return _checked(found, args.fail_below)


def _print(found: Sequence[Evaluation]) -> None:
    table = Table(
        [
            Column("policy"),
            Column("kept", number=True),
            Column("95 %"),
            Column("whole", number=True),
            Column("95 %"),
            Column("tokens", number=True),
            Column("failed", number=True),
        ],
        title=plural(len(found[0].outcomes), "case"),
    )
    for one in found:
        table.add(
            Cell(one.name, "strong"),
            f"{one.kept.value:.3f}",
            Cell(span(one.kept), "soft"),
            f"{one.whole.value:.3f}",
            Cell(span(one.whole), "soft"),
            f"{one.tokens.value:,.0f}",
            Cell(f"{len(one.failures)}", "bad" if one.failures else ""),
        )
    print_table(table)
    print()
    for title, parts in (("kind", [one.by_kind for one in found]), ("tag", [one.by_tag for one in found])):
        if len(parts[0]) > (title == "kind"):
            _print_parts(title, [one.name for one in found], parts)
    for one in found:
        if one.failures:
            print(f"{one.name} has no selection for {plural(len(one.failures), 'case')}: {one.failures[0].failure}\n")


def _print_parts(title: str, names: Sequence[str], parts: Sequence[Mapping[str, Estimate]]) -> None:
    table = Table([Column(f"needed {title}"), *(Column(f"kept by {name}", number=True) for name in names)])
    for part in parts[0]:
        table.add(part, *(f"{found[part].value:.3f} ({span(found[part])})" for found in parts))
    print_table(table)
    print()


def _checked(found: Sequence[Evaluation], least: float | None) -> int:
    broken = [one for one in found if least is not None and one.kept.value < least]
    for one in broken:
        print(f"cupel evaluate: {one.name} keeps {one.kept.value:.3f}, less than {least}", file=sys.stderr)
    return 1 if broken else 0
