"""Parsers of the commands, the arguments they share, and shell completion."""

from __future__ import annotations

import argparse
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from cupel._internal.checks import did_you_mean, shown
from cupel._internal.files import MAX_UNPACKED
from cupel._internal.text import visible
from cupel.cli._main import COMMANDS, UNUSABLE
from cupel.errors import MissingExtraError
from cupel.model import ContextBudget


class Command(NamedTuple):
    """A command: its help, its arguments and its function."""

    description: str
    configure: Callable[[Parser], object]
    """Adds the arguments to a parser."""
    run: Callable[[argparse.Namespace], int]
    """Runs the command and returns its exit code."""
    examples: str = ""
    exit_codes: Mapping[int, str] = {}
    """The meaning of exit codes besides 0 and 2, or another meaning of these."""


NO_SELECTION: Final = {1: "there is no selection at this budget"}
_EXIT_CODES: Final = {0: "done", UNUSABLE: "the arguments or the input cannot be used; nothing was written"}


def parser_of(name: str) -> Parser:
    """Return the parser of a command; its result has the command's function as `run`."""
    parser = Parser(prog=f"cupel {name}")
    _prepare(parser, name)
    return parser


def _prepare(parser: Parser, name: str) -> None:
    command: Command = getattr(import_module(COMMANDS[name][0]), name.upper())
    parser.description = command.description
    parser.epilog = _epilog(command.exit_codes, command.examples)
    command.configure(parser)
    parser.set_defaults(run=command.run)


def _epilog(exit_codes: Mapping[int, str], examples: str = "") -> str:
    codes = sorted({**_EXIT_CODES, **exit_codes}.items())
    width = max(len(str(code)) for code, _ in codes)
    listing = "exit codes:\n" + "\n".join(f"  {code:<{width}}  {meaning}" for code, meaning in codes)
    return f"examples:\n{examples}\n{listing}" if examples else listing


class _Formatter(argparse.HelpFormatter):
    """Wraps paragraphs to the terminal; lists, which have indented lines, stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.strip().split("\n\n")
        return "\n\n".join(
            part if "\n  " in part else textwrap.fill(part, width, initial_indent=indent) for part in parts
        )


class Parser(argparse.ArgumentParser):
    """A parser of a command, or of one of its actions."""

    def __init__(self, *, exit_codes: Mapping[int, str] = {}, **options: Any) -> None:
        options.setdefault("epilog", _epilog(exit_codes))
        super().__init__(formatter_class=_Formatter, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Report a misspelt option before the missing one that it was probably meant to be."""
        if self._subparsers is None:  # else most of the options belong to an action
            known = [flag for action in self._actions for flag in action.option_strings]
            for flag in _long_flags(args):
                if not any(other.startswith(flag) for other in known):  # the start of an option's name is enough
                    self.error(f"unknown option {shown(flag)[1:-1]}{did_you_mean(flag, known)}")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the error alone: the usage of most commands has eight lines."""
        self.exit(UNUSABLE, f"{self.prog}: error: {message}\n`{self.prog} --help` lists the options.\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(visible(message), file)


def _long_flags(arguments: Sequence[str]) -> Iterable[str]:
    for word in takewhile("--".__ne__, arguments):
        if word.startswith("--") and " " not in word:  # argparse takes a word with a space for a value
            yield word.partition("=")[0]


_NUMBER: Final = re.compile(r"(?P<number>(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d+)?)(?P<unit>[kmg]?)", re.ASCII)
_LONGEST: Final = 100
_UNITS: Final = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def token_count(text: str) -> int:
    """Read a whole number as people write it; k is a thousand, m a million and g a billion.

    >>> [token_count(text) for text in ("8000", "8_000", "8,000", "8k", "1.5M")]
    [8000, 8000, 8000, 8000, 1500000]
    """
    if len(text) > _LONGEST:
        raise argparse.ArgumentTypeError(f"expected a number of at most {_LONGEST} digits, got {shown(text)}")
    written = _NUMBER.fullmatch(text.strip().lower())
    if written is None:
        return whole_number(text)
    value = Fraction(written["number"].replace(",", "").replace("_", "")) * _UNITS[written["unit"]]
    if value.denominator != 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {shown(text)}")
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


def finite_number(text: str) -> float:
    """Read a number, zero or more; neither NaN, which no comparison fails with, nor infinity."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number, zero or more, got {shown(text)}")
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


INPUT_FORMATS: Final = ("auto", "json", "jsonl", "csv", "parquet", "text")
_ITEMS_HELP: Final = (
    "a file of items or messages (.json, .jsonl; items also .csv, .parquet), a text file, a directory or a glob of "
    "text files (each file becomes one item of kind Document), or - for standard input; .gz is unpacked"
)


class Arguments(Protocol):
    """A parser, or a group of one."""

    def add_argument(self, *names: str, **options: Any) -> argparse.Action: ...


def add_selection(parser: Parser, formats: Sequence[str], *, several: bool = False) -> None:
    """Add the arguments of every question about one selection; with `several`, more than one policy may be named."""
    add_items(parser)
    add_budget(parser)
    add_policy(parser, several=several)
    parser.add_argument(
        "--query", metavar="TEXT", help="the question to be answered, for policies that score by relevance"
    )
    add_format(parser, formats)


def add_items(parser: Parser) -> None:
    """Add ITEMS and how it is read."""
    add_files(parser, "items", metavar="ITEMS", nargs="+", help=_ITEMS_HELP)
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--input-format", choices=INPUT_FORMATS, default="auto", help="the format of ITEMS; default: by its name"
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
    group.add_argument("--skip-bad", action="store_true", help="skip records that cannot be read, and count them")
    add_max_unpacked(group)


def _pinned(text: str) -> tuple[int, bool]:
    return whole_number(text), True


def _unpinned(text: str) -> tuple[int, bool]:
    return whole_number(text), False


def add_max_unpacked(parser: Arguments) -> None:
    """Add the limit on the size of unpacked input."""
    parser.add_argument(
        "--max-unpacked",
        type=token_count,
        default=MAX_UNPACKED,
        metavar="BYTES",
        help="refuse a .gz file that unpacks to more than this; default: 1g",
    )


def add_budget(parser: Parser, *, required: bool = True) -> None:
    """Add the budget; it is optional for commands whose input may bring budgets."""
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
    """Build the budget; without `--max` the window is the budget itself."""
    return ContextBudget(
        args.budget if args.max is None else args.max,
        args.budget,
        output_reserve=args.reserve,
        estimation_safety_margin_percent=args.margin,
    )


def add_policy(parser: Parser, *, several: bool = False, default: str = "chat") -> None:
    """Add the policy and its overrides; with `several` the option may be repeated."""
    group = parser.add_argument_group("policy")
    again = "; repeat it to compare" if several else ""
    policy = group.add_argument(
        "--policy",
        action="append" if several else "store",
        metavar="NAME|FILE",
        help=f"a preset (see `cupel presets`) or a policy file, .json or .toml; default: {default}{again}",
    )
    _complete_with(policy, _POLICIES)
    add_overrides(group, "change the policy document: slicer=knapsack, slicer.bucket_size=10, deduplication=false")


def add_overrides(parser: Arguments, about: str) -> None:
    """Add changes to a policy document, and modules with custom strategies that it may name."""
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="PATH=VALUE", help=about)
    add_import(parser)


def add_import(parser: Arguments) -> None:
    """Add modules with custom strategies."""
    parser.add_argument(
        "--import",
        action="append",
        type=_imported,
        default=[],
        dest="modules",
        metavar="MODULE",
        help="first import this module, for the strategies it registers; it is searched on Python's path, then here",
    )


def _imported(name: str) -> str:
    """Import a module, also from the current folder; installed modules are found first, so that none is shadowed."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        import_module(name)
    except Exception as error:  # an error in the user's module is reported, not raised as one of the command
        raise argparse.ArgumentTypeError(f"cannot import {shown(name)}: {type(error).__name__}: {error}") from error
    return name


def add_format(parser: Arguments, choices: Sequence[str] = ("text", "json")) -> None:
    """Add the output format; the first choice is the default."""
    parser.add_argument("--format", choices=choices, default=choices[0], help=f"output format; default: {choices[0]}")


def add_quiet(parser: Arguments, about: str = "no progress on standard error") -> None:
    """Add `--quiet`."""
    parser.add_argument("-q", "--quiet", action="store_true", help=about)


def add_files(parser: Arguments, *names: str, **options: Any) -> None:
    """Add an argument that shells complete with the names of files."""
    _complete_with(parser.add_argument(*names, **options), _FILES)


def _complete_with(action: argparse.Action, functions: Mapping[str, str]) -> None:
    """Set the shell functions that complete an argument, as shtab reads them."""
    action.complete = functions  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


# As `shtab.FILE`: importing shtab takes time that only `cupel completion` needs.
_FILES: Final = {"bash": "_shtab_compgen_files", "zsh": "_files", "fish": "(__fish_complete_path (commandline -ct))"}
_POLICIES: Final = {"bash": "_cupel_policies", "zsh": "_cupel_policies", "fish": "(_cupel_policies)"}
_PREAMBLES: Final = {
    "bash": '_cupel_policies() {{ compgen -W "{presets}" -- "$1"; compgen -f -- "$1"; }}',
    "zsh": "_cupel_policies() {{ _alternative 'presets:preset:({presets})' 'files:file:_files' }}",
    "fish": ("function _cupel_policies; string split ' ' -- {presets}; __fish_complete_path (commandline -ct); end"),
}


def _configure_completion(parser: Parser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to write for")


def _complete(args: argparse.Namespace) -> int:
    """Print the completion script of all commands."""
    try:
        import shtab
    except ImportError:
        raise MissingExtraError("shtab", "cli") from None
    whole = argparse.ArgumentParser(prog="cupel")
    whole.add_argument("--version", action="store_true", help="print the version")
    parsers = whole.add_subparsers(parser_class=Parser)
    for name, (_, summary) in COMMANDS.items():
        _prepare(parsers.add_parser(name, help=summary), name)
    from cupel.presets import __all__ as presets

    preamble = _PREAMBLES[args.shell].format(presets=" ".join(presets).replace("_", "-"))
    sys.stdout.write(shtab.complete(whole, args.shell, preamble=preamble) + "\n")
    return 0


COMPLETION: Final = Command(
    "Print a completion script for a shell; write it where your shell looks.",
    _configure_completion,
    _complete,
    """\
  cupel completion bash > ~/.local/share/bash-completion/completions/cupel
  cupel completion zsh > ~/.zfunc/_cupel
  cupel completion fish > ~/.config/fish/completions/cupel.fish
""",
)
