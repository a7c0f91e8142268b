"""Select what goes into the context window and print it.

The selection goes to standard output and a one-line summary to standard error, so that pipes work.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from cupel.cli._options import add_quiet, add_selection, read_budget
from cupel.cli._output import as_json, as_jsonl, as_markdown, as_text, write_whole
from cupel.cli._policies import read_policy
from cupel.cli._reading import read_input
from cupel.page import summary

EXAMPLES: Final = """\
  cupel select session.jsonl --budget 8000
  cupel select docs/ --budget 4000 --policy rag --format markdown
  cat items.json | cupel select - --budget 8000 --set slicer=knapsack --format jsonl > window.jsonl
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_selection(parser, ("text", "json", "jsonl", "markdown"))
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write here instead of to standard output")
    add_quiet(parser, "no summary on standard error")


def run(args: argparse.Namespace) -> int:
    """Select and print."""
    chosen = read_policy(args.policy, args.overrides, args.query)
    budget = read_budget(args)
    report = chosen.policy.dry_run(read_input(args).items, budget)
    match args.format:
        case "json":
            text = as_json(report, budget, chosen.name)
        case "jsonl":
            text = as_jsonl(report.included)
        case "markdown":
            text = as_markdown(report.included)
        case _:
            text = as_text(report.included)
    if args.output is None:
        sys.stdout.write(text)
    else:
        write_whole(args.output, text)
    if not args.quiet:
        print(summary(report, budget, chosen.name), file=sys.stderr)
    return 0
