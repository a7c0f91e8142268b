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

`cupel COMMAND --help` prints the same. Exit codes are the same for every command: **0** done; **1** no, there is no
selection at this budget, or a check failed; **2** the arguments or the input cannot be used, and nothing was written;
**130** interrupted.
"""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for name in COMMANDS:
        parser = parser_of(name)
        parts.append(f"\n## cupel {name}\n\n{(parser.description or '').strip()}\n\n{options(parser)}")
    return "".join(parts)


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
