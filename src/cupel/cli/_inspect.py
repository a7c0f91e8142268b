"""Write the interactive page: one HTML file with the window, what was left out, a budget slider and a policy switch.

The file needs neither network nor server. Unless you name several policies, the presets are there to switch to. If
ITEMS is a conversation, the page also shows it turn by turn: what each request would have cost, and what entered and
left.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from cupel.cli._options import add_selection, read_budget
from cupel.cli._output import to_json, write_whole
from cupel.cli._policies import policies_to_compare, read_policy
from cupel.cli._progress import progress_bar
from cupel.cli._reading import NamedCounter, read_input, reading_flags, title_of
from cupel.evaluation import (
    AppendStrategy,
    EvaluationError,
    FitStrategy,
    Recording,
    SessionStrategy,
    WindowStrategy,
    replay,
)
from cupel.page import page_payload, render_page
from cupel.pipeline import Pipeline
from cupel.tokens import TokenCounter

_MOST_MESSAGES: Final = 2_000
"""Every turn is a selection of its own: the time grows with the square of the messages."""
EXAMPLES: Final = """\
  cupel inspect session.jsonl --budget 8000 -o page.html --open
  cupel inspect session.jsonl --budget 8000 --policy chat --policy mine.toml -o page.html
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_selection(parser, ("html", "json"), several=True)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where to write; default: standard output, unless it is a terminal",
    )
    parser.add_argument("--title", help="the page's heading; default: the name of ITEMS")
    parser.add_argument("--open", action="store_true", help="open the page in a browser; needs -o")


def run(args: argparse.Namespace) -> int:
    """Compute the page and write it."""
    to_terminal = args.format == "html" and sys.stdout.isatty()
    if args.output is None and (args.open or to_terminal):
        needs = "--open needs -o FILE" if args.open else "write the page to a file: -o page.html"
        print(f"cupel inspect: error: {needs}", file=sys.stderr)
        return 2
    payload = _payload(args)
    text = render_page(payload) if args.format == "html" else to_json(payload, indent=1) + "\n"
    if args.output is None:
        sys.stdout.write(text)
        return 0
    write_whole(args.output, text)
    print(f"wrote {args.output}", file=sys.stderr)
    if args.open:
        webbrowser.open(args.output.resolve().as_uri())
    return 0


def _payload(args: argparse.Namespace) -> dict[str, Any]:
    """Compute what the page shows: the items and, if they are a conversation, its turns."""
    policies = policies_to_compare(args.policy or ["chat"], args.overrides, args.query)
    budget = read_budget(args)
    found = read_input(args)
    turns = _turns(args, found.messages) if found.messages else None
    with progress_bar("computing", "policies") as show:
        payload = page_payload(
            found.items,
            budget,
            policies,
            title=args.title or title_of(args.items),
            source=shlex.join([*args.items, *reading_flags(args)]),
            fixed_window=args.max is not None,
            on_progress=show,
        )
    return payload if turns is None else {**payload, "turns": turns}


def _turns(args: argparse.Namespace, messages: Sequence[object]) -> dict[str, Any] | None:
    """Replay a conversation with the first of the policies that were named, or with the session's own.

    Its turns are the model's calls, or its answers where it calls nothing; None if it never speaks.
    """
    if len(messages) > _MOST_MESSAGES:
        command = shlex.join(["cupel", "replay", *args.items, "--budget", str(args.budget), "--page", "turns.html"])
        print(f"left out the turns of {len(messages):,} messages; for a page of them: {command}", file=sys.stderr)
        return None
    policy = read_policy(args.policy[0], args.overrides).policy if args.policy else None
    counter = NamedCounter(args.tokens) if args.tokens else None
    ways, recording = conversation_ways(policy, counter), Recording(messages)
    with progress_bar("replaying", "turns") as show:
        for answers in (False, True):
            with suppress(EvaluationError):
                found = replay(recording, ways, args.budget, counter=counter, answers=answers, on_progress=show)
                return found.page_payload()
    return None


def conversation_ways(policy: Pipeline | None = None, counter: TokenCounter | None = None) -> dict[str, WindowStrategy]:
    """Return a session, and what it is measured against; without a policy each way has its own default."""
    return {
        "dropping nothing": AppendStrategy(),
        "choosing anew every turn": FitStrategy(policy, counter),
        "a session": SessionStrategy(policy, options={"counter": counter}),
    }
