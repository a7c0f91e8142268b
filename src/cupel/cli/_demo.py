"""Try cupel on a session that ships with it: a coding agent hunts a flaky payment-webhook test.

Prints what a window costs over the whole conversation, and what a policy selects for one request under a tight budget;
writes the conversation, its items, the policy and the interactive page. Files that you have edited are kept, and used.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import webbrowser
from collections import Counter
from pathlib import Path
from shutil import which
from typing import Any, Final

import cupel.policy
from cupel._text import plural
from cupel.cli._inspect import conversation_ways
from cupel.cli._options import add_format, token_count
from cupel.cli._output import print_json, tokens_of, write_whole
from cupel.cli._policies import preset_names, read_policy
from cupel.cli._reading import NamedCounter, read_items
from cupel.cli._tables import Cell, Column, Table, print_table
from cupel.demo import BUDGET, conversation, policy_text, session_items, session_policy, session_text
from cupel.diagnostics import SelectionReport
from cupel.evaluation import Recording, Replay, read_recordings, replay
from cupel.model import ContextBudget, ContextItem
from cupel.page import Variant, page_payload, reason_name, render_page, summary
from cupel.pipeline import Pipeline

_WINDOW: Final = 10_000
"""The window of the conversation: about a third of it."""
EXAMPLES: Final = """\
  cupel demo
  cupel demo --budget 2500 -o /tmp/demo --open
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
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


def run(args: argparse.Namespace) -> int:
    """Select, print and write."""
    files = _Files(args.output)
    budget = ContextBudget(args.budget, args.budget)
    replayed = replay(files.recordings(), conversation_ways(), _WINDOW)
    items, policy = files.items(), files.policy()
    report = policy.dry_run(items, budget)
    name = policy.name or files.policy_file.stem
    start = Variant(policy, name, f"--policy {shlex.quote(str(files.policy_file))}")
    payload = page_payload(
        items,
        budget,
        [start, *(read_policy(preset, ()) for preset in preset_names())],
        title="An agent hunts a flaky test",
        source=shlex.quote(str(files.session)),
        fixed_window=False,
    )
    files.write(render_page(payload | {"turns": replayed.page_payload()}))
    if args.format == "json":
        print_json(_document(report, budget, files))
    else:
        _print_replay(replayed, files.chat)
        _print(report, budget, name, files)
    if args.open:
        webbrowser.open(files.page.resolve().as_uri())
    return 0


class _Files:
    """The files of the demonstration; one that the user has edited stands for the original."""

    def __init__(self, folder: Path) -> None:
        self.session, self.policy_file = folder / "session.jsonl", folder / "policy.toml"
        self.chat, self.page = folder / "conversation.json", folder / "page.html"
        self._told = conversation()
        chat_text = json.dumps(self._told, ensure_ascii=False, indent=1) + "\n"
        self._originals = {self.session: session_text(), self.policy_file: policy_text(), self.chat: chat_text}
        originals = self._originals.items()
        self._edited = [file for file, text in originals if file.exists() and file.read_bytes() != text.encode()]

    def items(self) -> list[ContextItem]:
        if self.session in self._edited:
            return read_items([str(self.session)], NamedCounter()).items
        return session_items()

    def policy(self) -> Pipeline:
        return cupel.policy.load(self.policy_file) if self.policy_file in self._edited else session_policy()

    def recordings(self) -> list[Recording]:
        return read_recordings(self.chat) if self.chat in self._edited else [Recording(self._told)]

    def write(self, page: str) -> None:
        self.page.parent.mkdir(parents=True, exist_ok=True)
        for file, text in (self._originals | {self.page: page}).items():
            if file in self._edited:
                print(f"kept {file}, which was edited; delete it to have the original again", file=sys.stderr)
            else:
                write_whole(file, text)


def _print_replay(found: Replay, chat: Path) -> None:
    """Say what each way of filling the window costs over the conversation, and what it keeps."""
    turns = next(iter(found.figures.values())).turns
    print(f"A coding agent's conversation, turn by turn, in a window of {found.budget:,} tokens: what a request costs,")
    print(f"in uncached input tokens, on the {turns} turns on which not everything fits, and how many steps still find")
    print("everything they use in the window.\n")
    table = Table([Column("way"), *(Column(name, number=True) for name in ("tokens", "price", "steps whole", "over"))])
    for name, one in found.figures.items():
        table.add(
            Cell(name, "strong"),
            f"{one.sent:,.0f}",
            f"{one.price:,.0f}",
            f"{one.whole:.0%}" if one.steps else "-",
            Cell(f"{one.over}", "bad" if one.over else ""),
        )
    print_table(table)
    steps = max(one.steps for one in found.figures.values())
    print("\nA request over the budget could not be sent at all: the first row is there for comparison.")
    print(f"The steps are the {plural(steps, 'turn')} that use earlier outputs: an example, not a measurement.")
    print(f"Try also:  {_command()} replay {chat} --budget {found.budget}\n")


def _print(report: SelectionReport, budget: ContextBudget, name: str, files: _Files) -> None:
    candidates = plural(report.total_candidates, "item")
    print(f"The same session as {candidates} of many kinds, and one window that holds a fraction of them.\n")
    print_table(_by_kind(report))
    print()
    print(summary(report, budget, name))
    print(f"\nThe page:  {files.page}  (open it in a browser; in One window, move the budget and switch the policy)")
    asked = f"{files.session} --budget {budget.target_tokens}"
    print(f"Try also:  {_command()} explain {asked} --policy {files.policy_file} --counterfactual")
    print(f"           {_command()} compare {asked} --policy chat --policy rag")


def _command() -> str:
    """Say how to call this command again: an environment that is not active is not on the search path."""
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
            Cell(str(kind), "strong"),
            f"{len(inside):,}",
            f"{sum(inside):,}",
            f"{len(outside):,}",
            f"{sum(max(0, entry.item.tokens) for entry in outside):,}",
            Cell(", ".join(f"{count} {reason_name(name)}" for name, count in reasons.most_common()), "soft"),
        )
    return table


def _document(report: SelectionReport, budget: ContextBudget, files: _Files) -> dict[str, Any]:
    return {
        "budget": budget.to_dict(),
        "included": len(report.included),
        "excluded": len(report.excluded),
        "total_tokens": tokens_of(report),
        "page": str(files.page),
        "session": str(files.session),
        "policy": str(files.policy_file),
    }
