"""The arguments that commands share, and what they stand for."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec import structs

from cupel.cli._formats import NAMES as INPUT_FORMATS
from cupel.cli._imports import imported
from cupel.cli._numbers import token_count, whole_number
from cupel.cli._overrides import overridden
from cupel.cli._reading import Input, read_items
from cupel.errors import ConfigurationError, PolicyConfigError
from cupel.model import ContextBudget, ContextItem
from cupel.policy import Policy

EXIT_CODES: Final = """\
exit codes:
  0  done
  1  no: there is no selection at this budget, or the check failed
  2  the arguments or the input cannot be used; nothing was written"""
_COUNTERS: Final = ("chars", "tiktoken:o200k_base", "tiktoken:cl100k_base")
_ITEMS_HELP: Final = (
    "a file of items or messages (.json, .jsonl; items also .csv, .parquet), a text file, a directory or a glob of "
    "text files (each file becomes one item of kind Document), or - for standard input"
)


class Arguments(Protocol):
    """A parser, or a group of one."""

    def add_argument(self, *names: str, **options: Any) -> object: ...


def describe(parser: argparse.ArgumentParser, examples: str = "") -> None:
    """Set the epilog that all commands have: examples, then exit codes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (f"examples:\n{examples}\n\n" if examples else "") + EXIT_CODES


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
    for name, pinned, words in (
        ("--pin", True, "pin the Nth item, whatever its own field says; may be repeated"),
        ("--unpin", False, "do not pin the Nth item; if an item has both, the last one counts"),
    ):
        group.add_argument(
            name,
            type=partial(_pin, pinned=pinned),
            action="append",
            default=[],
            dest="pins",
            metavar="N",
            help=words,
        )
    group.add_argument(
        "--conversation", metavar="N|ID", help="the conversation in ITEMS to take, by its number (from 1) or its id"
    )
    group.add_argument(
        "--skip-bad", action="store_true", help="leave out records that cannot be read, and say how many"
    )


def _pin(text: str, *, pinned: bool) -> tuple[int, bool]:
    return whole_number(text), pinned


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
    group.add_argument(
        "--set",
        action="append",
        default=[],
        dest="overrides",
        metavar="PATH=VALUE",
        help="change the policy document: slicer=knapsack, slicer.bucket_size=10, deduplication=false",
    )
    add_import(group)


def add_query(parser: argparse.ArgumentParser) -> None:
    """Add the query of the run."""
    parser.add_argument(
        "--query", metavar="TEXT", help="the question to be answered, for policies that score by relevance"
    )


def add_import(parser: Arguments) -> None:
    """Add the modules that bring strategies of one's own."""
    parser.add_argument(
        "--import",
        action="append",
        type=imported,
        default=[],
        dest="modules",
        metavar="MODULE",
        help="first import this module, for the strategies it registers; it is looked for here and on Python's path",
    )


def add_format(parser: argparse.ArgumentParser, choices: Sequence[str]) -> None:
    """Add the output format; the first choice is the default."""
    parser.add_argument("--format", choices=choices, default=choices[0], help=f"what to print; default: {choices[0]}")


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy, the name it goes by, and the arguments that choose it."""

    policy: Policy
    name: str
    flags: str


def read_input(args: argparse.Namespace) -> list[ContextItem]:
    """Read ITEMS as the arguments say; what was skipped or counted is noted on standard error."""
    return read_whole_input(args).items


def read_whole_input(args: argparse.Namespace) -> Input:
    """Read ITEMS, with the messages that they stand for if it is a chat history."""
    counter_name: str | None = args.tokens
    if counter_name is not None:
        _check_counter(counter_name)
    found = read_items(
        args.items,
        lambda: make_counter(counter_name),
        input_format=args.input_format,
        skip_bad=args.skip_bad,
        conversation=args.conversation,
    )
    note_reading(found, counter_name)
    pins: list[tuple[int, bool]] = args.pins
    for number, pinned in pins:
        if not 1 <= number <= len(found.items):
            flag = "--pin" if pinned else "--unpin"
            raise ConfigurationError(f"{flag} {number}: there are {len(found.items)} items, counted from 1")
        found.items[number - 1] = structs.replace(found.items[number - 1], pinned=pinned)
    return found


def reading_flags(args: argparse.Namespace) -> list[str]:
    """Return the arguments that read the same items again, for the same query."""
    named = {"--input-format": args.input_format, "--tokens": args.tokens, "--conversation": args.conversation}
    flags = [word for flag, value in named.items() if value not in {None, "auto"} for word in (flag, str(value))]
    flags += ["--skip-bad"] if args.skip_bad else []
    for module in args.modules:
        flags += ["--import", module]
    for number, pinned in args.pins:
        flags += ["--pin" if pinned else "--unpin", str(number)]
    return flags if args.query is None else [*flags, "--query", args.query]


def note_reading(found: Input, counter_name: str | None) -> None:
    """Say what had to be skipped or counted."""
    if found.skipped:
        print(f"skipped {found.skipped} bad record{'s' if found.skipped != 1 else ''}", file=sys.stderr)
    if found.counted:
        name = counter_name or default_counter_name()
        print(
            f"counted the tokens of {found.counted} item{'s' if found.counted != 1 else ''} with {name}",
            file=sys.stderr,
        )


def read_budget(args: argparse.Namespace) -> ContextBudget:
    """Build the budget; the window is the budget itself unless `--max` says otherwise."""
    return ContextBudget(
        args.budget if args.max is None else args.max,
        args.budget,
        output_reserve=args.reserve,
        estimation_safety_margin_percent=args.margin,
    )


def read_policy(name: str | None, overrides: Sequence[str], query: str | None = None) -> NamedPolicy:
    """Find a policy by preset name or file, apply the overrides, and bind it to a query."""
    wanted = name or "chat"
    found = overridden(_find(wanted), overrides).bind(query)
    flags = " ".join([f"--policy {shlex.quote(wanted)}", *(f"--set {shlex.quote(change)}" for change in overrides)])
    label = found.name or Path(wanted).stem
    return NamedPolicy(found, f"{label} ({', '.join(overrides)})" if overrides else label, flags)


def preset_names() -> list[str]:
    """Name the presets as the command line spells them."""
    from cupel import presets

    return [name.replace("_", "-") for name in presets.__all__]


def preset(name: str) -> Policy:
    """Return a preset by name; `_` and `-` are the same."""
    from cupel import presets

    build: Callable[[], Policy] = getattr(presets, name.replace("-", "_"))
    return build()


def _find(name: str) -> Policy:
    if name.replace("_", "-") in preset_names():
        return preset(name)
    if Path(name).exists():
        return Policy.load(name)
    hint = did_you_mean(name, preset_names())
    raise PolicyConfigError(
        f"--policy {name}: neither a file nor a preset{hint} (presets: {', '.join(preset_names())})"
    )


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return the question after the likely word, to go into a message, or nothing if no word is like it.

    >>> did_you_mean("chatt", ["chat", "rag"])
    "; did you mean 'chat'?"
    """
    close = get_close_matches(word.lower().replace("_", "-"), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _check_counter(name: str) -> None:
    if name != "chars" and not name.startswith("tiktoken:"):
        raise ConfigurationError(
            f"--tokens {name}: expected {', '.join(_COUNTERS[:-1])} or {_COUNTERS[-1]}{did_you_mean(name, _COUNTERS)}"
        )


def make_counter(name: str | None) -> Callable[[str], int]:
    """Return the counting function behind a `--tokens` name."""
    from cupel import tokens

    if name is None:
        return tokens.default_counter().count
    if name == "chars":
        return tokens.CharacterEstimate().count
    return tokens.CachedCounter(tokens.TiktokenCounter(name.removeprefix("tiktoken:"))).count


def default_counter_name() -> str:
    """Say which counter is used when none is asked for."""
    from cupel import tokens

    counter = tokens.default_counter()
    inner = counter.inner if isinstance(counter, tokens.CachedCounter) else counter
    return f"tiktoken:{inner.encoding}" if isinstance(inner, tokens.TiktokenCounter) else "chars, an estimate"
