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
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cupel.cli._compare import chosen_policies
from cupel.cli._items_out import to_json
from cupel.cli._options import (
    NamedPolicy,
    add_budget,
    add_format,
    add_items,
    add_policy,
    add_query,
    describe,
    make_counter,
    read_budget,
    read_policy,
    read_whole_input,
    reading_flags,
)
from cupel.cli._progress import progress_bar
from cupel.cli._reading import Counting
from cupel.cli._turns import turns_of
from cupel.cli._writing import write_whole
from cupel.model import ContextBudget, ContextItem
from cupel.report import Variant, page_payload, render_page

_MOST_MESSAGES: Final = 2_000
"""Every turn is a selection of its own: the time grows with the square of the messages."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    describe(
        parser,
        "  cupel inspect session.jsonl --budget 8000 -o page.html --open\n"
        "  cupel inspect session.jsonl --budget 8000 --policy chat --policy mine.toml -o page.html",
    )
    add_items(parser)
    add_budget(parser)
    add_policy(parser, several=True)
    add_query(parser)
    add_format(parser, ("html", "json"))
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
    policies = chosen_policies(args.policy or ["chat"], args.overrides, args.query)
    budget = read_budget(args)
    found = read_whole_input(args)
    title = args.title or ", ".join(Path(name).name if name != "-" else "standard input" for name in args.items[:3])
    turns = _turns(args, found.messages) if found.messages else None
    with progress_bar("computing", "policies") as show:
        text = page(
            found.items,
            budget,
            policies,
            title=title,
            sources=[*args.items, *reading_flags(args)],
            fixed_window=args.max is not None,
            form=args.format,
            turns=turns,
            on_progress=lambda done, total: show(done, total, 0),
        )
    if args.output is None:
        sys.stdout.write(text)
        return 0
    write_whole(args.output, text)
    print(f"wrote {args.output}", file=sys.stderr)
    if args.open:
        webbrowser.open(args.output.resolve().as_uri())
    return 0


def _turns(args: argparse.Namespace, messages: list[object]) -> dict[str, Any] | None:
    """Replay a conversation with the first of the policies that were named, or with the session's own."""
    if len(messages) > _MOST_MESSAGES:
        command = shlex.join(["cupel", "replay", *args.items, "--budget", str(args.budget), "--page", "turns.html"])
        print(f"left out the turns of {len(messages):,} messages; for a page of them: {command}", file=sys.stderr)
        return None
    policy = read_policy(args.policy[0], args.overrides).policy if args.policy else None
    counter = Counting(make_counter(args.tokens)) if args.tokens else None
    with progress_bar("replaying", "turns") as show:
        return turns_of(messages, args.budget, policy, counter, lambda done, total: show(done, total, 0))


def page(
    items: list[ContextItem],
    budget: ContextBudget,
    policies: list[NamedPolicy],
    *,
    title: str,
    sources: list[str],
    fixed_window: bool,
    form: str = "html",
    turns: dict[str, Any] | None = None,
    on_progress: Callable[[int, int], object] | None = None,
) -> str:
    """Return the page, or the data behind it."""
    payload = page_payload(
        items,
        budget,
        [Variant(one.policy, one.name, one.flags) for one in policies],
        title=title,
        source=shlex.join(sources),
        fixed_window=fixed_window,
        on_progress=on_progress,
    )
    if turns is not None:
        payload["turns"] = turns
    return render_page(payload) if form == "html" else to_json(payload, indent=1) + "\n"
