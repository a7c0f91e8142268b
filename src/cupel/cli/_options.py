"""Arguments that commands share."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from cupel._checks import shown
from cupel._documents import MAX_DIGITS
from cupel.cli._reading import NAMES as INPUT_FORMATS
from cupel.evaluation import Case, Estimate, read_cases
from cupel.model import ContextBudget

_TOKENS: Final = re.compile(r"(?P<number>(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d+)?)(?P<unit>[km]?)", re.ASCII)
_UNITS: Final = {"": 1, "k": 1_000, "m": 1_000_000}


def token_count(text: str) -> int:
    """Read a number of tokens as people write it; k is a thousand and m a million, as in the names of windows.

    >>> [token_count(text) for text in ("8000", "8_000", "8,000", "8k", "1.5M")]
    [8000, 8000, 8000, 8000, 1500000]
    """
    if len(text) > MAX_DIGITS:
        raise argparse.ArgumentTypeError(f"expected a number of at most {MAX_DIGITS:,} digits, got {shown(text)}")
    written = _TOKENS.fullmatch(text.strip().lower())
    if written is None:
        return whole_number(text)
    value = Fraction(written["number"].replace(",", "").replace("_", "")) * _UNITS[written["unit"]]
    if value.denominator != 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of tokens, got {shown(text)}")
    return value.numerator


def whole_number(text: str) -> int:
    """Read a whole number, zero or more."""
    try:
        value = int(text.replace("_", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {shown(text)}") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected zero or more, got {shown(value)}")
    return value


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


_ITEMS_HELP: Final = (
    "a file of items or messages (.json, .jsonl; items also .csv, .parquet), a text file, a directory or a glob of "
    "text files (each file becomes one item of kind Document), or - for standard input"
)


class Arguments(Protocol):
    """A parser, or a group of one."""

    def add_argument(self, *names: str, **options: Any) -> object: ...


def add_selection(parser: argparse.ArgumentParser, formats: Sequence[str], *, several: bool = False) -> None:
    """Add what every question about one selection has; `several` policies may be named."""
    add_items(parser)
    add_budget(parser)
    add_policy(parser, several=several)
    parser.add_argument(
        "--query", metavar="TEXT", help="the question to be answered, for policies that score by relevance"
    )
    add_format(parser, formats)


def add_items(parser: argparse.ArgumentParser) -> None:
    """Add ITEMS and how it is read."""
    parser.add_argument("items", metavar="ITEMS", nargs="+", help=_ITEMS_HELP)
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--input-format", choices=INPUT_FORMATS, default="auto", help="what ITEMS is, if its name does not say"
    )
    group.add_argument(
        "--tokens",
        metavar="COUNTER",
        help="how to count items that come without a token count: tiktoken:o200k_base, tiktoken:cl100k_base or chars "
        "(an estimate from the length); default: the best one installed",
    )
    add_pin = partial(group.add_argument, action="append", default=[], dest="pins", metavar="N")
    add_pin("--pin", type=_pinned, help="pin the Nth item, whatever its own field says; may be repeated")
    add_pin("--unpin", type=_unpinned, help="do not pin the Nth item; if an item has both, the last one counts")
    group.add_argument(
        "--conversation", metavar="N|ID", help="the conversation in ITEMS to take, by its number (from 1) or its id"
    )
    group.add_argument(
        "--skip-bad", action="store_true", help="leave out records that cannot be read, and say how many"
    )


def _pinned(text: str) -> tuple[int, bool]:
    return whole_number(text), True


def _unpinned(text: str) -> tuple[int, bool]:
    return whole_number(text), False


def add_budget(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the budget; a command whose input brings budgets of its own does not require it."""
    group = parser.add_argument_group("budget")
    group.add_argument(
        "--budget",
        type=token_count,
        required=required,
        metavar="N",
        help="tokens the selection may use; 8000, 8,000 and 8k are the same",
    )
    group.add_argument("--max", type=token_count, metavar="N", help="the model's whole window; default: the budget")
    group.add_argument(
        "--reserve", type=token_count, default=0, metavar="N", help="tokens of the window kept for the answer"
    )
    group.add_argument(
        "--margin", type=float, default=0.0, metavar="PERCENT", help="keep this much back because counts are estimates"
    )


def read_budget(args: argparse.Namespace) -> ContextBudget:
    """Build the budget; the window is the budget itself unless `--max` says otherwise."""
    return ContextBudget(
        args.budget if args.max is None else args.max,
        args.budget,
        output_reserve=args.reserve,
        estimation_safety_margin_percent=args.margin,
    )


def add_policy(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the policy and its overrides; `several` lets the option repeat."""
    group = parser.add_argument_group("policy")
    again = "; repeat it to compare" if several else ""
    group.add_argument(
        "--policy",
        action="append" if several else "store",
        metavar="NAME|FILE",
        help=f"a preset (see `cupel presets`) or a policy file, .json or .toml; default: chat{again}",
    )
    add_overrides(group, "change the policy document: slicer=knapsack, slicer.bucket_size=10, deduplication=false")


def add_overrides(parser: Arguments, about: str) -> None:
    """Add changes to a policy document, and the strategies of one's own that it may name."""
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="PATH=VALUE", help=about)
    add_import(parser)


def add_import(parser: Arguments) -> None:
    """Add the modules that bring strategies of one's own."""
    parser.add_argument(
        "--import",
        action="append",
        type=_imported,
        default=[],
        dest="modules",
        metavar="MODULE",
        help="first import this module, for the strategies it registers; it is looked for here and on Python's path",
    )


def _imported(name: str) -> str:
    """Import a module, also from the current folder; installed modules are found first, so that none is shadowed."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        import_module(name)
    except Exception as error:  # whatever the module does wrong is the user's to read, not a fault of the command
        raise argparse.ArgumentTypeError(f"cannot import {shown(name)}: {type(error).__name__}: {error}") from error
    return name


def add_format(parser: argparse.ArgumentParser, choices: Sequence[str] = ("text", "json")) -> None:
    """Add the output format; the first choice is the default."""
    parser.add_argument("--format", choices=choices, default=choices[0], help=f"what to print; default: {choices[0]}")


def add_quiet(parser: argparse.ArgumentParser, what: str = "no progress on standard error") -> None:
    """Add the wish for silence."""
    parser.add_argument("-q", "--quiet", action="store_true", help=what)


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
