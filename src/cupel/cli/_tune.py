"""Search for better settings of a policy, and judge them on cases that had no part in the choice.

Weights, the neighbours of relevance and the slicer are varied. The better policy is written only if its gain on cases
that had no part in the choice is beyond chance; otherwise nothing is written and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

import cupel.policy
from cupel._text import plural
from cupel.cli._options import add_cases, add_format, add_policy, read_all_cases, span, whole_number
from cupel.cli._output import print_json, write_whole
from cupel.cli._policies import read_policy
from cupel.cli._progress import progress_bar
from cupel.cli._tables import Cell, Column, Table, print_table
from cupel.errors import ConfigurationError
from cupel.evaluation import Tuning, tune
from cupel.pipeline import Pipeline

EXAMPLES: Final = """\
  cupel tune cases.jsonl --policy mine.toml -o better.toml
  cupel tune cases.jsonl --policy rag --trials 200 --format json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_cases(parser)
    add_policy(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write a better policy here, .toml or .json")
    parser.add_argument("--trials", type=whole_number, default=60, metavar="N", help="candidates to try; default: 60")
    parser.add_argument("--folds", type=whole_number, default=5, metavar="N", help="folds of the cases; default: 5")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Search, print, and write what is better."""
    chosen = read_policy(args.policy, args.overrides)
    output: Path | None = args.output
    if output is not None and output.suffix.lower() not in {".toml", ".json"}:
        raise ConfigurationError(f"-o {output}: a policy file ends in .toml or .json")
    cases = read_all_cases(args)
    with progress_bar("tuning", "cases", quiet=args.quiet) as show:
        found = tune(chosen.policy, cases, trials=args.trials, folds=args.folds, seed=args.seed, on_progress=show)
    if args.format == "json":
        print_json(found.to_dict())
    else:
        _print(found, chosen.name)
    if not found.gained:
        return 1
    if output is not None:
        write_whole(output, _document(found.policy, output))
        print(f"written to {output}", file=sys.stderr)
    return 0


def _document(policy: Pipeline, output: Path) -> str:
    if output.suffix.lower() == ".toml":
        return cupel.policy.dumps(policy, format="toml")
    return cupel.policy.dumps(policy, indent=2) + "\n"


def _print(found: Tuning, name: str) -> None:
    table = Table(
        [Column("policy"), Column("kept", number=True), Column("95 %")],
        title=f"{plural(found.cases, 'case')} in {plural(found.groups, 'group')}, {found.folds} folds, "
        f"{plural(len(found.curve), 'candidate')}",
    )
    table.add(Cell(name, "strong"), f"{found.before.value:.3f}", Cell(span(found.before), "soft"))
    table.add("chosen on other folds", f"{found.unseen.value:.3f}", Cell(span(found.unseen), "soft"))
    table.add("gain", f"{found.gain.value:+.3f}", Cell(span(found.gain), "soft"))
    print_table(table)
    print(f"\n{found.verdict}")
    for note in found.notes:
        print(f"note: {note}")
    if found.gained:
        print(f"\n{cupel.policy.dumps(found.policy, format='toml')}", end="")
