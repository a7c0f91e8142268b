"""What the commands that measure have in common: cases, and figures with intervals."""

from __future__ import annotations

import argparse

from cupel.cli._numbers import whole_number
from cupel.cli._options import add_budget, add_quiet, read_budget
from cupel.evaluation import Case, Estimate, read_cases


def add_cases(parser: argparse.ArgumentParser) -> None:
    """Add CASES, a budget for those that bring none, and how to measure."""
    parser.add_argument(
        "cases",
        metavar="CASES",
        help="a .jsonl file of cases, one per line (items, needed and, optionally, query, budget, group, id), "
        "a JSON list of them, either with .gz, or -",
    )
    add_budget(parser, required=False)
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="the random seed; default: 0")
    add_quiet(parser)


def read_all_cases(args: argparse.Namespace) -> list[Case]:
    """Read CASES; those without a budget have that of the arguments."""
    return read_cases(args.cases, budget=None if args.budget is None else read_budget(args))


def span(estimate: Estimate, digits: int = 3) -> str:
    """Return an interval in words; nothing is known from fewer than two cases."""
    if estimate.low == float("-inf"):
        return "unknown"
    return f"{estimate.low:,.{digits}f} to {estimate.high:,.{digits}f}"
