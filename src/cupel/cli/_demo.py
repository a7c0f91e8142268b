"""Try cupel on a session that ships with it: a coding agent hunts a flaky payment-webhook test.

Prints what a window costs over the whole conversation, and what a policy selects for one request under a tight budget;
writes the conversation, its items, the policy and the interactive page. Files that you have edited are kept, and used.
"""

from __future__ import annotations

import argparse
import json
import sys
import webbrowser
from collections import Counter
from pathlib import Path
from shutil import which
from typing import Any

from cupel.cli._inspect import page
from cupel.cli._items_out import to_json
from cupel.cli._numbers import token_count
from cupel.cli._options import NamedPolicy, add_format, describe, make_counter, preset, preset_names
from cupel.cli._reading import read_items
from cupel.cli._turns import conversation_ways
from cupel.cli._writing import write_whole
from cupel.demo import BUDGET, conversation, policy_text, session_items, session_policy, session_text
from cupel.diagnostics import SelectionReport
from cupel.evaluation import Recording, Replay, read_recordings, replay
from cupel.model import ContextBudget
from cupel.policy import Policy
from cupel.report import Cell, Column, Table, plural, print_table, reason_name, summary

_WINDOW = 10_000
"""The window of the conversation: about a third of it."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    describe(parser, "  cupel demo\n  cupel demo --budget 2500 -o /tmp/demo --open")
    add_format(parser, ("text", "json"))
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
    budget = ContextBudget(args.budget, args.budget)
    folder: Path = args.output
    session, policy_file, page_file = folder / "session.jsonl", folder / "policy.toml", folder / "page.html"
    chat = folder / "conversation.json"
    originals = {session: session_text(), policy_file: policy_text(), chat: _chat_text()}
    own = [file for file, text in originals.items() if _edited(file, text)]
    recordings = read_recordings(chat) if chat in own else [Recording(conversation())]
    replayed = replay(recordings, conversation_ways(), _WINDOW)
    items = read_items([str(session)], lambda: make_counter(None)).items if session in own else session_items()
    start = Policy.load(policy_file) if policy_file in own else session_policy()
    report = start.pipeline().dry_run(items, budget)
    policies = [NamedPolicy(start, start.name or policy_file.stem, f"--policy {policy_file}")]
    policies += [NamedPolicy(preset(name), name, f"--policy {name}") for name in preset_names()]
    title = "An agent hunts a flaky test"
    text = page(
        items,
        budget,
        policies,
        title=title,
        sources=[str(session)],
        fixed_window=False,
        turns=replayed.page_payload(),
    )
    folder.mkdir(parents=True, exist_ok=True)
    for file, original in originals.items():
        if file in own:
            print(f"kept {file}, which was edited; delete it to have the original again", file=sys.stderr)
        else:
            write_whole(file, original)
    write_whole(page_file, text)
    if args.format == "json":
        print(to_json(_document(report, budget, folder), indent=2))
    else:
        _print_replay(replayed, chat)
        _print(report, budget, policies[0].name, (session, policy_file, page_file))
    if args.open:
        webbrowser.open(page_file.resolve().as_uri())
    return 0


def _chat_text() -> str:
    return json.dumps(conversation(), ensure_ascii=False, indent=1) + "\n"


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


def _edited(file: Path, original: str) -> bool:
    """Tell whether a file is there and is not what an earlier run wrote."""
    return file.exists() and file.read_bytes() != original.encode()


def _print(report: SelectionReport, budget: ContextBudget, name: str, files: tuple[Path, Path, Path]) -> None:
    session, policy, page_file = files
    candidates = plural(report.total_candidates, "item")
    print(f"The same session as {candidates} of many kinds, and one window that holds a fraction of them.\n")
    print_table(_by_kind(report))
    print()
    print(summary(report, budget, name))
    print(f"\nThe page:  {page_file}  (open it in a browser; in One window, move the budget and switch the policy)")
    command = _command()
    print(f"Try also:  {command} explain {session} --budget {budget.target_tokens} --policy {policy} --counterfactual")
    print(f"           {command} compare {session} --budget {budget.target_tokens} --policy chat --policy rag")


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


def _document(report: SelectionReport, budget: ContextBudget, folder: Path) -> dict[str, Any]:
    return {
        "budget": budget.to_dict(),
        "included": len(report.included),
        "excluded": len(report.excluded),
        "total_tokens": sum(entry.item.tokens for entry in report.included),
        "page": str(folder / "page.html"),
        "session": str(folder / "session.jsonl"),
        "policy": str(folder / "policy.toml"),
    }
