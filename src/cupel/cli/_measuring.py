"""What the commands that measure share: figures with intervals, and progress."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator
from contextlib import contextmanager

from cupel._checks import shown
from cupel.cli._numbers import whole_number
from cupel.cli._options import add_budget, read_budget
from cupel.cli._progress import progress_bar
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
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress on standard error")


def read_all_cases(args: argparse.Namespace) -> list[Case]:
    """Read CASES; those without a budget have that of the arguments."""
    return read_cases(args.cases, budget=None if args.budget is None else read_budget(args))


@contextmanager
def shown_progress(doing: str, unit: str, *, quiet: bool) -> Generator[Callable[[int, int], None], None, None]:
    """Return the `on_progress` of a measurement."""
    with progress_bar(doing, unit, quiet=quiet) as show:
        yield lambda done, total: show(done, total, 0)


def share(text: str) -> float:
    """Read a share from 0 to 1, or a percentage.

    >>> share("0.9"), share("90%")
    (0.9, 0.9)
    """
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a share such as 0.9 or 90%, got {shown(text)}") from None
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected a share from 0 to 1, got {shown(text)}")
    return value


def span(estimate: Estimate, digits: int = 3) -> str:
    """Return an interval in words; nothing is known from fewer than two cases."""
    if estimate.low == float("-inf"):
        return "unknown"
    return f"{estimate.low:,.{digits}f} to {estimate.high:,.{digits}f}"
