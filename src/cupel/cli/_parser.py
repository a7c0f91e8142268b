"""The parser that every command has: examples and exit codes under the help, and words for what is misspelt."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import takewhile
from typing import Any, Final

from cupel._checks import did_you_mean, shown
from cupel.cli._main import COMMANDS

EXIT_CODES: Final = """\
exit codes:
  0  done
  1  no: there is no selection at this budget, or the check failed
  2  the arguments or the input cannot be used; nothing was written"""


def parser_of(name: str) -> Parser:
    """Return the parser of a command; what it parses has the command's function as `run`."""
    location, summary = COMMANDS[name]
    module: Any = import_module(location)
    parser = Parser(
        prog=f"cupel {name}",
        description=module.__doc__ or summary,
        examples=getattr(module, "EXAMPLES", ""),
        exit_codes=getattr(module, "EXIT_CODES", EXIT_CODES),
    )
    module.configure(parser)
    parser.set_defaults(run=module.run)
    return parser


class Parser(argparse.ArgumentParser):
    """A parser of a command, or of one of its actions."""

    def __init__(self, *, examples: str = "", exit_codes: str = EXIT_CODES, **options: Any) -> None:
        epilog = f"examples:\n{examples}\n{exit_codes}" if examples else exit_codes
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, epilog=epilog, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Name a misspelt option before one that is missing, which it was probably meant to be."""
        if self._subparsers is None:  # else most of the options are those of an action
            known = [flag for action in self._actions for flag in action.option_strings]
            for flag in _long_flags(args):
                if not any(other.startswith(flag) for other in known):  # the start of an option's name will do
                    self.error(f"unknown option {shown(flag)[1:-1]}{did_you_mean(flag, known)}")
        return super().parse_known_args(args, namespace)


def _long_flags(arguments: Sequence[str]) -> Iterable[str]:
    for word in takewhile("--".__ne__, arguments):
        if word.startswith("--") and " " not in word:  # with a space in it, argparse takes it for a value
            yield word.partition("=")[0]
