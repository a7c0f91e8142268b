"""The entry point: one lazily imported module per command.

A command module has `configure(parser)`, which adds its arguments, and `run(args)`, which returns the exit code. Its
docstring, `EXAMPLES` and, if they are its own, `EXIT_CODES` are what `--help` says.
"""

from __future__ import annotations

import os
import sys

from cupel.errors import CupelError, SelectionError

TYPE_CHECKING = False  # `typing` and `argparse` would cost more than all the rest of `cupel --version`
if TYPE_CHECKING:
    from collections.abc import Sequence
    from io import TextIOWrapper
    from typing import TextIO

COMMANDS = {
    "select": ("cupel.cli._select", "print the context that fits a budget"),
    "explain": ("cupel.cli._explain", "list every item: score, in or out, and why"),
    "compare": ("cupel.cli._compare", "show what swings between policies"),
    "simulate": ("cupel.cli._simulate", "ask what other budgets would select"),
    "inspect": ("cupel.cli._inspect", "write the interactive page"),
    "batch": ("cupel.cli._batch", "select for every request in a file, on all cores or on a cluster"),
    "evaluate": ("cupel.cli._evaluate", "measure how much of what is needed a policy keeps"),
    "replay": ("cupel.cli._replay", "replay recorded conversations with other windows: what they cost and keep"),
    "tune": ("cupel.cli._tune", "search for better settings of a policy, and judge them on unseen cases"),
    "demo": ("cupel.cli._demo", "try it all on a session that ships with cupel"),
    "policy": ("cupel.cli._policy", "show, validate or describe policy documents"),
    "presets": ("cupel.cli._presets", "list the ready policies"),
    "completion": ("cupel.cli._completion", "print a completion script for bash, zsh or fish"),
    "conformance": ("cupel.cli._conformance", "run conformance vectors and say which level they show"),
}
NO = 1
"""Exit code for a question that was understood and answered with no: no selection at this budget, a failed check."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
UNUSABLE = 2
"""Exit code for input or arguments that cannot be used; argparse has the same."""
_LONGEST = 2_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; the arguments are those of the process unless given."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] not in COMMANDS:
        return _explain(arguments)
    name = arguments[0]
    _stand_in_for_closed_streams()
    _tolerate(sys.stdout)
    try:
        from cupel.cli._parser import parser_of

        args = parser_of(name).parse_args(arguments[1:])
        code = int(args.run(args))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has seen enough; keep the interpreter's own flush quiet too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SelectionError as error:
        print(f"cupel {name}: {_short(str(error))}", file=sys.stderr)
        return NO
    except (CupelError, OSError) as error:
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        print(f"cupel {name}: error: {_short(str(error))}{notes}", file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever presses it twice gets no traceback of the end
        return INTERRUPTED
    return code


def _short(message: str) -> str:
    """Cut what quotes a name of the user's at any length: of a file, a policy, an item."""
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST // 2]} ... {message[-_LONGEST // 2 :]}"


def _stand_in_for_closed_streams() -> None:
    """Write to nowhere where a stream is closed (`>&-`): that was asked for, and is no error."""
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # and `print(file=None)` would mix messages into the output
            setattr(sys, stream, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123  (lives as long as the process)


def _tolerate(stream: TextIO | TextIOWrapper) -> None:
    """Show what the output's encoding cannot express in escaped form: an item may hold anything."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _explain(arguments: list[str]) -> int:
    """Answer the options of `cupel` itself, or say what the commands are."""
    from cupel._version import __version__

    if arguments == ["--version"]:
        print(f"cupel {__version__} (distribution cupel-context)")
        return 0
    import argparse

    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:<{width}}  {summary}" for name, (_, summary) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="cupel",
        usage="cupel [-h] [--version] COMMAND ...",
        description="Decide which items go into a context window, and say why.",
        epilog=f"commands:\n{listing}\n\n`cupel COMMAND --help` describes a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"cupel {__version__} (distribution cupel-context)")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help=argparse.SUPPRESS)
    command: str | None = parser.parse_args(arguments[:1]).command
    if command is not None:
        from cupel._checks import did_you_mean

        parser.error(f"unknown command {command!r}{did_you_mean(command, COMMANDS)} (commands: {', '.join(COMMANDS)})")
    parser.print_help(sys.stderr)
    return UNUSABLE
