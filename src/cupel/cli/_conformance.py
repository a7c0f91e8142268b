"""The command `conformance`, which runs vectors."""

from __future__ import annotations

import argparse
from typing import Any, Final

from cupel._internal.text import plural
from cupel.cli._arguments import Command, Parser, add_files
from cupel.cli._output import print_json, say
from cupel.conformance import SuiteReport, VectorResult, run_suite


def _configure(parser: Parser) -> None:
    add_files(parser, "paths", nargs="+", metavar="PATH", help="a vector file, or a directory to search for them")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("-v", "--verbose", action="store_true", help="list passing vectors too")


def _run(args: argparse.Namespace) -> int:
    report = run_suite(args.paths)
    if args.json:
        print_json(report.to_dict())
    else:
        _print_text(report, verbose=args.verbose)
    if report.unreadable:
        return 2
    return 1 if report.failed else 0


def _print_text(report: SuiteReport, *, verbose: bool) -> None:
    for result in report.results:
        if not result.passed:
            say(_failure(result))
        elif verbose:
            say(f"pass {result.path}: {result.name}")
    for error in report.unreadable:
        say(f"unreadable {error}", error=True)
    for (level, stage), (passed, total) in report.categories.items():
        say(f"{f'{level.value} {stage}':<20} {passed:>4} of {total}")
    say(_summary(report))


def _summary(report: SuiteReport) -> str:
    total = plural(len(report.results), "vector")
    unreadable = f", {len(report.unreadable)} unreadable" if report.unreadable else ""
    return f"{total}: {len(report.passed)} passed, {len(report.failed)} failed{unreadable} — {report.level.value}"


def _failure(result: VectorResult) -> str:
    return f"FAIL {result.path}: {result.message}: expected {_show(result.expected)}, got {_show(result.actual)}"


def _show(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


CONFORMANCE: Final = Command(
    "Run conformance vectors (TOML files) and print the level of conformance they reach.",
    _configure,
    _run,
    exit_codes={1: "a vector failed", 2: "the arguments or a vector cannot be read"},
)
