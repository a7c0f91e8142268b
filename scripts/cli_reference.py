"""Writes docs/reference/command-line.md from the commands' own parsers.

Run it after changing a command: python scripts/cli_reference.py. A test compares the page with the parsers.
"""

import argparse
from pathlib import Path

from cupel.cli._arguments import parser_of
from cupel.cli._main import COMMANDS

PAGE = Path(__file__).parents[1] / "docs/reference/command-line.md"
INTRODUCTION = """\
# Command line

<!-- Written by scripts/cli_reference.py; change the commands, not this page. -->

`cupel COMMAND --help` prints the same. Every command ends with **0** when it is done, with **2** when the arguments or
the input cannot be used and nothing was written, and with **130** when it is interrupted; other exit codes are listed.
"""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for name in COMMANDS:
        parser = parser_of(name)
        parts.append(
            f"\n## cupel {name}\n\n{(parser.description or '').strip()}\n{exit_codes(parser)}\n{options(parser)}"
        )
    return "".join(parts)


def exit_codes(parser: argparse.ArgumentParser) -> str:
    """The exit codes that not every command has."""
    listing = (parser.epilog or "").partition("exit codes:\n")[2]
    codes = dict(line.split(None, 1) for line in listing.splitlines())
    own = [f"**{code}** {meaning}" for code, meaning in codes.items() if code not in {"0", "2", "130"}]
    return f"\nExit codes: {'; '.join(own)}.\n" if own else ""


def options(parser: argparse.ArgumentParser) -> str:
    """The arguments as a table, those of sub-commands after them."""
    rows: list[str] = []
    nested: list[str] = []
    for action in parser._actions:  # noqa: SLF001  (argparse offers no other way)
        if isinstance(action, argparse._HelpAction):  # noqa: SLF001
            continue
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for child_name, child in action.choices.items():
                nested.append(f"\n### {parser.prog} {child_name}\n{options(child)}")
            continue
        rows.append(f"| {spelling(action)} | {escaped(action.help or '')} |\n")
    table = "".join(["\n| argument | meaning |\n|---|---|\n", *rows]) if rows else ""
    return table + "".join(nested)


def spelling(action: argparse.Action) -> str:
    if not action.option_strings:
        name = str(action.metavar or action.dest)
        if action.choices:
            name = "|".join(map(str, action.choices))
        return f"`{escaped(name)}`" + (" …" if action.nargs in {"+", "*"} else "")
    value = ""
    if action.nargs != 0:
        value = " " + (
            "|".join(map(str, action.choices)) if action.choices else str(action.metavar or action.dest.upper())
        )
    required = " (required)" if action.required else ""
    return ", ".join(f"`{flag}{escaped(value)}`" for flag in action.option_strings) + required


def escaped(text: str) -> str:
    return text.replace("%%", "%").replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
