"""Replay recorded conversations with other windows: what they would have cost, and kept of what the next step used.

SESSIONS are histories of Chat Completions, the Responses API or Anthropic, or OpenTelemetry's GenAI spans. Only turns
whose whole history exceeds the budget count. Prices are per turn, in uncached input tokens. What was used is found by
exact words in the arguments of the next calls, not by meaning: `facts` is the share that the window still holds,
`whole` the share of steps that have all of theirs, `context` the share whose names stand between the same words as
before.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cupel._text import plural
from cupel.cli._options import add_format, add_policy, add_quiet, share, token_count, whole_number
from cupel.cli._output import print_json, write_whole
from cupel.cli._policies import read_policy
from cupel.cli._progress import progress_bar
from cupel.cli._reading import title_of
from cupel.cli._tables import Cell, Column, Table, print_table
from cupel.errors import ConfigurationError
from cupel.evaluation import (
    AppendStrategy,
    Figures,
    FitStrategy,
    Replay,
    SessionStrategy,
    TailStrategy,
    WindowStrategy,
    read_recordings,
    replay,
)
from cupel.page import Variant, render_page
from cupel.sessions import Prices

WAYS: Final = ("append", "tail", "fit", "session")
PRICES: Final[dict[str, Callable[[], Prices]]] = {
    "marked": Prices.marked,
    "automatic": Prices.automatic,
    "automatic-paid": Prices.automatic_paid,
}

EXAMPLES: Final = """\
  cupel replay sessions.jsonl.gz --budget 16000 --prices marked
  cupel replay sessions.jsonl --budget 16k --policy mine.toml --way fit --fail-below 90%
  cupel replay chat.json --budget 8000 --page turns.html
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "sessions",
        metavar="SESSIONS",
        nargs="+",
        help="a .json or .jsonl file of conversations, one per line, optionally with .gz, or - for standard input",
    )
    parser.add_argument("--budget", type=token_count, required=True, metavar="N", help="tokens a request may have")
    parser.add_argument(
        "--prices", choices=tuple(PRICES), default="marked", help="how the provider caches prompts; default: marked"
    )
    parser.add_argument(
        "--worth", type=float, default=1.0, metavar="X", help="what a session's full window is worth; default: 1"
    )
    parser.add_argument(
        "--way", action="append", choices=WAYS, dest="ways", help="a way to fill the window; repeat it; default: all"
    )
    parser.add_argument(
        "--every", type=whole_number, default=1, metavar="N", help="measure the facts of every Nth turn only"
    )
    parser.add_argument("--limit", type=whole_number, metavar="N", help="replay the first N conversations only")
    parser.add_argument(
        "--fail-above",
        type=float,
        metavar="PRICE",
        help="exit with 1 if a turn of the session costs more on average; of fit, if no session is replayed",
    )
    parser.add_argument(
        "--fail-below", type=share, metavar="SHARE", help="exit with 1 if it keeps less of the facts than this"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write a page too: every turn, its cost and its request"
    )
    add_quiet(parser)
    add_policy(parser, several=True)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Replay and print."""
    recordings = [recording for source in args.sessions for recording in read_recordings(source)][: args.limit]
    policies = [read_policy(name, args.overrides) for name in args.policy or ()]
    if args.overrides and not policies:
        raise ConfigurationError("--set changes a policy: name one with --policy")
    prices = PRICES[args.prices]()
    ways = _ways(args.ways or WAYS, policies, prices, args.worth)
    with progress_bar("replaying", "turns", quiet=args.quiet) as show:
        found = replay(recordings, ways, args.budget, prices=prices, every=args.every, on_progress=show)
    if args.page is not None:
        write_whole(args.page, render_page({"title": title_of(args.sessions), "turns": found.page_payload()}))
        print(f"wrote {args.page}", file=sys.stderr)
    if args.format == "json":
        print_json(found.to_dict())
    else:
        _print(found, len(recordings))
    return _checked(found.figures, args.fail_above, args.fail_below)


def _ways(names: Sequence[str], policies: Sequence[Variant], prices: Prices, worth: float) -> dict[str, WindowStrategy]:
    ways: dict[str, WindowStrategy] = {}
    if "append" in names:
        ways["append"] = AppendStrategy()
    if "tail" in names:
        ways["tail"] = TailStrategy()
    if "fit" in names:
        ways |= {f"fit {one.name}": FitStrategy(one.policy) for one in policies} or {"fit": FitStrategy()}
    if "session" in names:
        alone: dict[str, WindowStrategy] = {"session": SessionStrategy(prices=prices, worth=worth)}
        ways |= {f"session {one.name}": SessionStrategy(one.policy, prices, worth) for one in policies} or alone
    return ways


def _print(found: Replay, conversations: int) -> None:
    figures = found.figures
    numbers = ("hit", "sent", "price", "facts", "whole", "context", "over", "invalid", "unsent", "failed")
    turns = next(iter(figures.values())).turns
    table = Table(
        [Column("way"), *(Column(name, number=True) for name in numbers)],
        title=f"{plural(conversations, 'conversation')}, {plural(turns, 'turn')} over {found.budget:,} tokens",
    )
    for name, one in figures.items():
        priced = (f"{one.hit:.3f}", f"{one.sent:,.0f}", f"{one.price:,.0f}") if one.turns > one.failed else ("-",) * 3
        kept = (f"{one.facts:.3f}", f"{one.whole:.3f}", f"{one.context:.3f}") if one.steps else ("-",) * 3
        faults = (one.over, one.invalid, one.unsent, one.failed)
        table.add(Cell(name, "strong"), *priced, *kept, *(Cell(f"{n}", "bad" if n else "") for n in faults))
    print_table(table)
    if any(one.steps for one in figures.values()):
        print("\nfacts, whole and context compare exact words with the arguments of the next calls, not meanings.")
    if not turns:
        print(f"\nNo history exceeds {found.budget:,} tokens: there is nothing to leave out, and nothing to measure.")
    for name, each in found.strategies.items():
        failure = next((turn for turn in each if turn.pressed and turn.failure is not None), None)
        if failure is not None:
            print(f"\n{name} has no request for {figures[name].failed} of the turns, the first in {failure.recording}:")
            print(f"  {failure.failure}")


def _checked(figures: dict[str, Figures], most: float | None, least: float | None) -> int:
    """Hold what is meant to be used to the limits: sessions, or fit where there is none."""
    broken = 0
    kind = "session" if any(name.startswith("session") for name in figures) else "fit"
    for name, one in figures.items():
        if not name.startswith(kind):
            continue
        if most is not None and (one.price > most or one.turns == one.failed > 0):
            broken = 1
            cost = "has no request to send" if one.turns == one.failed else f"costs {one.price:,.0f} a turn"
            print(f"cupel replay: {name} {cost}, and the limit is {most:,.0f}", file=sys.stderr)
        if least is not None and one.steps and one.facts < least:
            broken = 1
            print(f"cupel replay: {name} keeps {one.facts:.3f} of the facts, less than {least}", file=sys.stderr)
    return broken
