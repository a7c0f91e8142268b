"""Runs the code blocks of a Markdown page, in order, as a reader would who follows it from top to bottom.

All blocks of a page share one namespace and one working directory. What happens to a block depends on its language:
`python` is executed, `pycon` is a doctest, `console` runs the lines that start with `$ `, `json`, `jsonl` and `toml`
must parse, and the languages in `NOT_RUN` are left alone. Any other language is an error, so that a misspelt or
unmarked block cannot pass by being ignored. A plain call of the command runs in this process; everything else is given
to a shell.
"""

import doctest
import importlib.util
import io
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import tomli

from cupel.cli import main

NOT_RUN = frozenset(
    {"css", "csv", "diff", "html", "ini", "javascript", "makefile", "markdown", "mermaid", "rust", "text"}
)
"""Languages that are shown, not run."""

NOT_RUN_COMMANDS = {
    "git clone ": "needs the network",
    "cd ": "follows a clone; a page's commands all run in one directory",
    "make ": "runs these very tests, or rebuilds the environment they run in",
    ".ci/run": "calls make",
    "pip install ": "changes the environment and needs the network",
    "python -m pip install ": "changes the environment and needs the network",
    "uv add ": "changes the environment and needs the network",
    "uv pip install ": "changes the environment and needs the network",
}
"""How a console line begins that is shown but not run, and why."""

SHELL_SYNTAX = frozenset("|&;<>()$`*?#~")
STARTS_PROCESSES = frozenset({"batch", "watch"})
"""Subcommands that are run in a process of their own, because they start others."""

SECONDS_PER_COMMAND = 120
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
REQUIRES = re.compile(r"# .+\n\n<!-- requires: (?P<modules>[\w., -]+) -->\n")
EXCUSED = re.compile(r"<!-- not run: \S.* -->")
EXIT_CODE = re.compile(r"\s+# exit (?P<code>\d+)$")


class DocumentationError(AssertionError):
    """A block that does not do what the page says."""


@dataclass(frozen=True)
class Block:
    """A fenced code block, with the line of the page on which its code begins."""

    language: str
    code: str
    line: int
    excused: bool
    """Whether a comment before it says why it is not run."""


@dataclass(frozen=True)
class Command:
    """A console line with the output shown below it; no output shown means that any will do."""

    line: str
    number: int
    exit_code: int
    output: str


def missing_requirements(text: str) -> list[str]:
    """Return the modules that the `<!-- requires: a, b -->` below a page's title names and that are not installed."""
    declared = REQUIRES.match(text)
    modules = [name.strip() for name in declared["modules"].split(",")] if declared else []
    return [name for name in modules if not _is_installed(name)]


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it is part of
        return False


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced code blocks of a page, without the indentation of the list or tab they stand in."""
    lines = enumerate(text.splitlines(), 1)
    before = ""
    for number, line in lines:
        opening = FENCE.match(line)
        if not opening:
            before = line.strip() or before
            continue
        code: list[str] = []
        for _, inner in lines:
            if inner.strip().startswith(opening["fence"]) and not inner.strip().strip(opening["fence"][0]):
                break
            code.append(inner.removeprefix(opening["indent"]))
        else:
            raise DocumentationError(f"line {number}: code block without an end")
        words = opening["info"].split()
        excused = EXCUSED.fullmatch(before) is not None
        yield Block(words[0] if words else "", "\n".join(code) + "\n", number + 1, excused)
        before = ""


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block; a line that starts with `>` continues the one above it."""
    groups: list[tuple[int, list[str], list[str]]] = []
    for number, line in enumerate(block.code.splitlines(), block.line):
        if line.startswith("$ "):
            groups.append((number, [line[2:]], []))
        elif not groups:
            raise DocumentationError(f"line {number}: a console block begins with a line that starts with '$ '")
        elif line[:2] in {">", "> "} and not groups[-1][2]:
            groups[-1][1].append(line[2:])
        else:
            groups[-1][2].append(line)
    for number, typed, output in groups:
        command = "\n".join(typed)
        code = EXIT_CODE.search(command)
        yield Command(EXIT_CODE.sub("", command), number, int(code["code"]) if code else 0, "\n".join(output).strip())


def run_page(page: Path, cwd: Path) -> int:
    """Run a page's blocks in `cwd`, which must be the current directory, and return how many were run or parsed."""
    try:
        with _namespace() as names:
            return sum(_run_block(block, page, cwd, names) for block in blocks(page.read_text(encoding="utf-8")))
    except DocumentationError as error:
        raise DocumentationError(f"{page}: {error}") from None


@contextmanager
def _namespace() -> Iterator[dict[str, object]]:
    """Provide the names of a fresh module that `sys.modules` knows, as dataclasses and pickle demand."""
    module = ModuleType("documentation_page")
    sys.modules[module.__name__] = module
    try:
        yield module.__dict__
    finally:
        del sys.modules[module.__name__]


def _run_block(block: Block, page: Path, cwd: Path, names: dict[str, object]) -> bool:
    match block.language:
        case "python":
            # Blank lines in front make a traceback point at the line in the page.
            program = compile("\n" * (block.line - 1) + block.code, str(page), "exec", dont_inherit=True)
            if not block.excused:
                exec(program, names)
        case "pycon" | "console" if block.excused:
            return False
        case "pycon":
            _run_doctest(block, page, names)
        case "console":
            for command in commands(block):
                _run_command(command, cwd)
        case "json" | "jsonl" | "toml":
            _parse(block)
        case language if language not in NOT_RUN:
            known = ", ".join(sorted({"python", "pycon", "console", "json", "jsonl", "toml"} | NOT_RUN))
            raise DocumentationError(
                f"line {block.line - 1}: unknown block language {language!r}; expected one of: {known}"
            )
        case _:
            return False
    return True


def _run_doctest(block: Block, page: Path, names: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(block.code, {}, page.name, str(page), block.line - 1)
    if not test.examples:
        raise DocumentationError(f"line {block.line}: a pycon block needs a line that starts with '>>> '")
    test.globs = names
    report: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
    if failed:
        raise DocumentationError("".join(report))


def _run_command(command: Command, cwd: Path) -> None:
    if f"{command.line} ".startswith(tuple(NOT_RUN_COMMANDS)):
        return
    arguments = plain_call(command.line)
    code, output = _run_in_shell(command.line, cwd) if arguments is None else _run_here(arguments)
    where = f"line {command.number}"
    if code != command.exit_code:
        raise DocumentationError(f"{where}: $ {command.line}\nexit code {code}, expected {command.exit_code}\n{output}")
    if command.output and not doctest.OutputChecker().check_output(command.output, output.strip(), FLAGS):
        raise DocumentationError(f"{where}: $ {command.line}\nexpected\n{command.output}\n\ngot\n{output}")


def plain_call(line: str) -> list[str] | None:
    """Return the arguments of a line that calls `cupel` and nothing else, or None if it needs a shell or a process."""
    if SHELL_SYNTAX.intersection(line):
        return None
    program, *arguments = shlex.split(line.replace("\\\n", ""))
    return None if program != "cupel" or STARTS_PROCESSES.intersection(arguments[:1]) else arguments


def _run_here(arguments: list[str]) -> tuple[int, str]:
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    nothing = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    streams = patch.multiple(sys, stdin=nothing, stdout=said, stderr=said)
    with patch.dict(os.environ, _environment()), streams:
        try:
            code = main(arguments)
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
    return code, said.buffer.getvalue().decode()


def _run_in_shell(line: str, cwd: Path) -> tuple[int, str]:
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=cwd,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=SECONDS_PER_COMMAND,
        check=False,
    )
    return done.returncode, done.stdout


def _environment() -> dict[str, str]:
    """Return the environment of a plain, wide terminal in which this interpreter's commands come first."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    return os.environ | {"PATH": path, "COLUMNS": "120", "NO_COLOR": "1", "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"}


def _parse(block: Block) -> None:
    try:
        match block.language:
            case "json":
                json.loads(block.code)
            case "jsonl":
                [json.loads(line) for line in block.code.splitlines()]
            case _:
                tomli.loads(block.code)
    except ValueError as error:
        raise DocumentationError(f"line {block.line}: not valid {block.language}: {error}") from None
