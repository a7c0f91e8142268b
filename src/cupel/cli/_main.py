"""The entry point, and the table of commands, whose modules are imported when they are called."""

from __future__ import annotations

import os
import sys
import warnings

from cupel.errors import CupelError, CupelWarning, SelectionError

TYPE_CHECKING = False  # importing `typing` or `argparse` would take longer than all of `cupel --version`
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

COMMANDS = {
    "select": ("cupel.cli._selection", "print the context that fits a budget"),
    "explain": ("cupel.cli._selection", "list every item: score, in or out, and why"),
    "compare": ("cupel.cli._selection", "show the items on which policies disagree"),
    "simulate": ("cupel.cli._selection", "show the selections of other budgets"),
    "inspect": ("cupel.cli._pages", "write the interactive page"),
    "watch": ("cupel.cli._watch", "forward the model calls of an agent, show them, keep them under a budget"),
    "batch": ("cupel.cli._batch", "select for every request in a file, on all cores or on a cluster"),
    "evaluate": ("cupel.cli._measuring", "measure the share of needed items that a policy keeps"),
    "replay": ("cupel.cli._measuring", "replay recorded conversations with other windows: their cost and recall"),
    "tune": ("cupel.cli._measuring", "search for better settings of a policy, and judge them on unseen cases"),
    "demo": ("cupel.cli._pages", "try it all on a session that ships with cupel"),
    "policy": ("cupel.cli._policies", "show, validate or describe policy documents"),
    "presets": ("cupel.cli._policies", "list the ready policies"),
    "completion": ("cupel.cli._arguments", "print a completion script for bash, zsh or fish"),
    "conformance": ("cupel.cli._conformance", "run conformance vectors and print the level they reach"),
}
"""The module and the summary of each command; the module holds its `Command` under the name in capitals."""
FAILED = 1
"""Exit code for a question that was answered with no: no selection at this budget, a failed check."""
UNUSABLE = 2
"""Exit code for input or arguments that cannot be used; argparse has the same."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
_LONGEST = 2_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; the arguments are those of the process unless given."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = f"cupel {arguments[0]}" if arguments and arguments[0] in COMMANDS else "cupel"
    _prepare_streams()
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has seen enough
        _discard_output()
        return 0
    except SelectionError as error:
        _complain(f"{name}: {error}")
        return FAILED
    except (CupelError, OSError) as error:
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        _complain(f"{name}: error: {_words(error)}{notes}")
        _discard_output()
        return UNUSABLE
    except KeyboardInterrupt:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C causes no traceback
        return INTERRUPTED
    return code


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in COMMANDS:
        return _answer_options(arguments)
    from cupel.cli._arguments import parser_of

    args = parser_of(arguments[0]).parse_args(arguments[1:])
    with warnings.catch_warnings():
        warnings.simplefilter("always", CupelWarning)
        warnings.showwarning = _show_warning(f"cupel {arguments[0]}", warnings.showwarning)
        return int(args.run(args))


def _show_warning(name: str, others: Callable[..., object]) -> Callable[..., None]:
    """Print warnings of the library as one line, without a position in code that the user has not written."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if isinstance(message, CupelWarning):
            _complain(f"{name}: warning: {message}")
        else:
            others(message, category, *place, **more)

    return show


def _words(error: Exception) -> str:
    """Return the message of an error; the system's own errors without their number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _complain(message: str) -> None:
    """Print an error; names of the user's in it may have any length and any character."""
    from cupel._internal.text import visible

    if len(message) > _LONGEST:
        message = f"{message[: _LONGEST // 2]} ... {message[-_LONGEST // 2 :]}"
    print(visible(message), file=sys.stderr)


def _prepare_streams() -> None:
    """Replace closed output streams (`>&-`), and write characters outside the encoding as escapes."""
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # `print(file=None)` would mix messages into the output
            setattr(sys, stream, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123  (lives as long as the process)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Redirect output that cannot be written, so that the interpreter's flush at exit does not fail again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _answer_options(arguments: list[str]) -> int:
    """Answer the options of `cupel` itself, or list the commands."""
    if arguments[:1] == ["--version"]:
        _print_version()
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
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help=argparse.SUPPRESS)
    command: str | None = parser.parse_args(arguments[:1]).command
    if command is not None:
        from cupel._internal.checks import did_you_mean

        parser.error(f"unknown command {command!r}{did_you_mean(command, COMMANDS)} (commands: {', '.join(COMMANDS)})")
    parser.print_help(sys.stderr)
    return UNUSABLE


def _print_version() -> None:
    """Print the version, and warn of the unrelated distribution `cupel`, whose files have the same names."""
    from importlib.metadata import PackageNotFoundError, version

    from cupel._version import __version__

    print(f"cupel {__version__} (distribution cupel-context)")
    try:
        other = version("cupel")
    except PackageNotFoundError:
        return
    _complain(
        f"warning: an unrelated distribution, cupel {other}, is installed here too, and both have a package and a "
        "command named cupel: uninstall both, then install cupel-context again"
    )
