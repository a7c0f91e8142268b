"""The commands `inspect` and `demo`, which write the interactive page."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import webbrowser
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import Any, Final, NamedTuple, TypeVar

from cupel._internal.documents import ChatRequest
from cupel._internal.text import plural
from cupel.cli._arguments import (
    NO_SELECTION,
    Command,
    Parser,
    add_files,
    add_format,
    add_selection,
    read_budget,
    token_count,
    whole_number,
)
from cupel.cli._measuring import print_replay, turns_payload, window_strategies
from cupel.cli._output import (
    Cell,
    Column,
    Table,
    print_json,
    print_table,
    progress_bar,
    say,
    say_prose,
    to_json,
    write_whole,
)
from cupel.cli._policies import policies_to_compare, preset_names, read_policy
from cupel.cli._reading import named_counter, read_input, read_items, reading_flags
from cupel.cli._records import title_of
from cupel.demo import BUDGET, conversation, policy_text, session_text
from cupel.diagnostics import SelectionReport
from cupel.errors import ConfigurationError
from cupel.evaluation import EvaluationError, Recording, Replay, read_recordings, replay
from cupel.model import ContextBudget
from cupel.page import LivePage, page_payload, reason_name, render_page, summary
from cupel.tokens import default_counter

_Written = TypeVar("_Written")
_MOST_MESSAGES: Final = 2_000
"""The most messages for which a page shows the turns: every turn is a separate selection."""


def _configure_inspect(parser: Parser) -> None:
    add_selection(parser, ("html", "json"), several=True)
    add_files(
        parser,
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where to write; default: standard output, unless it is a terminal",
    )
    parser.add_argument("--title", help="the page's heading; default: the name of ITEMS")
    parser.add_argument("--open", action="store_true", help="open the page in a browser; needs -o")
    group = parser.add_argument_group("serving")
    group.add_argument(
        "--serve",
        action="store_true",
        help="serve the page and open it: Python then answers any budget, weights and pins; needs the extra watch",
    )
    group.add_argument("--no-open", action="store_true", help="with --serve, print the address and open no browser")
    group.add_argument("--port", type=whole_number, metavar="N", help="with --serve, the port; default: a free one")


def _inspect(args: argparse.Namespace) -> int:
    if args.serve:
        return _serve(args)
    if args.no_open or args.port is not None:
        raise ConfigurationError("--no-open and --port need --serve")
    if args.output is None and args.open:
        raise ConfigurationError("--open needs -o FILE")
    if args.output is None and args.format == "html" and sys.stdout.isatty():
        raise ConfigurationError("write the page to a file: -o page.html")
    payload, turns = _computed(args, page_payload)
    payload |= turns
    text = render_page(payload) if args.format == "html" else to_json(payload, indent=1) + "\n"
    if args.output is None:
        sys.stdout.write(text)
        return 0
    write_whole(args.output, text)
    say(f"wrote {args.output}", error=True)
    if args.open:
        webbrowser.open(args.output.resolve().as_uri())
    return 0


def _serve(args: argparse.Namespace) -> int:
    if args.output is not None or args.open or args.format != "html":
        raise ConfigurationError("--serve writes no file: leave out -o, --open and --format")
    from cupel.watch import serve_page  # only for this option

    def ready(address: str) -> None:
        say(f"serving {address} until you press Ctrl-C", error=True)
        if not args.no_open:
            webbrowser.open(address)

    page, turns = _computed(args, LivePage)
    serve_page(page, port=args.port or 0, more=turns, ready=ready)
    return 0


def _computed(args: argparse.Namespace, compute: Callable[..., _Written]) -> tuple[_Written, dict[str, Any]]:
    """Compute the page of the items and, if they are a conversation, its turns."""
    policies = policies_to_compare(args.policy or ["chat"], args.overrides, args.query)
    budget = read_budget(args)
    found = read_input(args)
    turns = _turns(args, found.request) if found.request is not None else None
    with progress_bar("computing", "policies") as show:
        page = compute(
            found.items,
            budget,
            policies,
            title=args.title or title_of(args.items),
            source=shlex.join([*args.items, *reading_flags(args)]),
            fixed_window=args.max is not None,
            on_progress=show,
        )
    return page, {} if turns is None else {"turns": turns}


def _turns(args: argparse.Namespace, request: ChatRequest) -> dict[str, Any] | None:
    """Replay a conversation with the first named policy, or with the session's own.

    Return None if the model never answers.
    """
    messages, system, tools = request
    if len(messages) > _MOST_MESSAGES:
        command = shlex.join(["cupel", "replay", *args.items, "--budget", str(args.budget), "--page", "turns.html"])
        say(f"left out the turns of {len(messages):,} messages; for a page of them: {command}", error=True)
        return None
    policies = [read_policy(name, args.overrides) for name in (args.policy or ())[:1]]
    counter = named_counter(args.tokens) if args.tokens else None
    strategies = window_strategies(policies, counter=counter)
    recording = Recording(messages, system=system, tools=tools)
    with progress_bar("replaying", "turns") as show, suppress(EvaluationError):
        return turns_payload(replay(recording, strategies, args.budget, counter=counter, on_progress=show))
    return None


INSPECT: Final = Command(
    """Write the interactive page: one HTML file with the window, excluded items, a budget slider and a policy switch.

The file needs neither network nor server. Unless you name several policies, the page can switch to the presets. If
ITEMS is a conversation, the page also shows it turn by turn: the cost of each request, and the messages that entered
and left. With --serve, the page opens in the browser and asks Python about any budget, other weights and pins.
""",
    _configure_inspect,
    _inspect,
    """\
  cupel inspect session.jsonl --budget 8000 -o page.html --open
  cupel inspect session.jsonl --budget 8000 --policy chat --policy mine.toml -o page.html
  cupel inspect session.jsonl --budget 8000 --serve
""",
    NO_SELECTION,
)


_WINDOW: Final = 8_000
"""The window of the conversation: less than half of its tokens."""


def _configure_demo(parser: Parser) -> None:
    add_format(parser)
    parser.add_argument(
        "--budget",
        type=token_count,
        default=BUDGET,
        metavar="N",
        help=f"tokens the selection may use; default: {BUDGET}",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("cupel-demo"),
        metavar="DIRECTORY",
        help="where to write; default: cupel-demo",
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def _demo(args: argparse.Namespace) -> int:
    files = _Files(*(args.output / name for name in ("session.jsonl", "policy.toml", "conversation.json", "page.html")))
    files.write_sources()
    budget = ContextBudget(args.budget, args.budget)
    replayed = replay(read_recordings(files.chat), window_strategies(recall=True), _WINDOW)
    turns = turns_payload(replayed)
    items = read_items([str(files.session)], default_counter()).items
    start = read_policy(str(files.policy), ())
    report = start.policy.dry_run(items, budget)
    payload = page_payload(
        items,
        budget,
        [start, *(read_policy(preset, ()) for preset in preset_names())],
        title="An agent hunts a flaky test",
        source=shlex.quote(str(files.session)),
        fixed_window=False,
    )
    write_whole(files.page, render_page(payload | {"turns": turns}))
    if args.format == "json":
        print_json(_document(report, budget, files))
    else:
        _print_conversation(replayed, files.chat, turns)
        _print_selection(report, budget, start.name, files)
    if args.open:
        webbrowser.open(files.page.resolve().as_uri())
    return 0


class _Files(NamedTuple):
    """The files of the demonstration."""

    session: Path
    policy: Path
    chat: Path
    page: Path

    def write_sources(self) -> None:
        """Write the session, the policy and the conversation, except for files that the user has edited."""
        self.page.parent.mkdir(parents=True, exist_ok=True)
        chat = json.dumps(conversation(), ensure_ascii=False, indent=1) + "\n"
        for file, text in ((self.session, session_text()), (self.policy, policy_text()), (self.chat, chat)):
            if file.exists() and file.read_bytes() != text.encode():
                say(f"kept {file}, which was edited; delete it to have the original again", error=True)
            else:
                write_whole(file, text)


def _print_conversation(found: Replay, chat: Path, page: Mapping[str, Any]) -> None:
    """Print the cost of each window strategy over the conversation, and the share of facts it keeps."""
    turns = next(iter(found.figures.values())).turns
    requests = max(map(len, found.strategies.values()))
    window = f"in a window of {found.budget:,} tokens"
    say_prose(
        f"A coding agent's conversation of {requests} requests, {window}. On {turns} of them not everything fits."
    )
    say()
    print_replay(found)
    say()
    for followed in page["conversations"][0]["strategies"][-1][-1].get("told", ()):
        say_prose(f"{followed}.")
    say("\nOne conversation is an example, not a measurement.")
    say(f"Try also:  {_command()} replay {chat} --budget {found.budget} --prices marked\n")


def _print_selection(report: SelectionReport, budget: ContextBudget, name: str, files: _Files) -> None:
    candidates = plural(report.total_candidates, "item")
    say_prose(f"The same session as {candidates} of many kinds, and one window that holds a fraction of them.")
    say()
    print_table(_by_kind(report))
    say()
    say_prose(summary(report, budget, name))
    say(f"\nThe page:  {files.page}")
    say("           Open it in a browser; in One window, move the budget and switch the policy.")
    asked = f"{files.session} --budget {budget.target_tokens}"
    say(f"Try also:  {_command()} explain {asked} --policy {files.policy} --counterfactual")
    say(f"           {_command()} compare {asked} --policy chat --policy rag")


def _command() -> str:
    """Return how to call this command again: an environment that is not active is not on the search path."""
    if which("cupel") is not None:
        return "cupel"
    called = Path(sys.argv[0])
    return str(called) if called.stem == "cupel" else "python -m cupel"


def _by_kind(report: SelectionReport) -> Table:
    table = Table(
        [
            Column("kind"),
            Column("in", number=True),
            Column("tokens in", number=True),
            Column("out", number=True),
            Column("tokens out", number=True),
            Column("why out"),
        ]
    )
    for kind in dict.fromkeys(entry.item.kind for entry in report):
        inside = [entry.item.tokens for entry in report.included if entry.item.kind == kind]
        outside = [entry for entry in report.excluded if entry.item.kind == kind]
        reasons = Counter(entry.reason.name for entry in outside)
        table.add(
            Cell(str(kind), "bold"),
            f"{len(inside):,}",
            f"{sum(inside):,}",
            f"{len(outside):,}",
            f"{sum(max(0, entry.item.tokens) for entry in outside):,}",
            Cell(", ".join(f"{count} {reason_name(name)}" for name, count in reasons.most_common()) or "all in", "dim"),
        )
    return table


def _document(report: SelectionReport, budget: ContextBudget, files: _Files) -> dict[str, Any]:
    return {
        "budget": budget.to_dict(),
        "included": len(report.included),
        "excluded": len(report.excluded),
        "total_tokens": report.total_tokens,
        "page": str(files.page),
        "session": str(files.session),
        "policy": str(files.policy),
    }


DEMO: Final = Command(
    """Try cupel on a session that ships with it: a coding agent hunts a flaky payment-webhook test.

Prints the cost of a window over the whole conversation, and the selection of a policy for one request under a tight
budget; writes the conversation, its items, the policy and the interactive page. Files that you have edited are kept,
and used.
""",
    _configure_demo,
    _demo,
    """\
  cupel demo
  cupel demo --budget 2500 -o /tmp/demo --open
""",
    NO_SELECTION,
)
