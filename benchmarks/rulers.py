"""Data with known needs: conversations with evidence, recorded agents, and the code of the standard library.

Real conversations and sessions are those of `recordings.py`; without any, they are generated, by seed. Each ruler has
two halves: settings are chosen on the first, figures stated on the second.
"""

from __future__ import annotations

import ast
import gzip
import importlib.util
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, NamedTuple

from benchmarks.recordings import RECORDINGS, generated
from cupel import ContextItem
from cupel.evaluation import Case, Recording
from cupel.tokens import default_counter

Half = Literal["first", "second"]
SHARED: Final = RECORDINGS
BUDGETS: Final = (500, 1_000, 2_000, 4_000)
QUESTIONS: Final = 100
AGENTS: Final = {"mini-swe-agent": ("coding agent", 16_000, 5), "tau-bench": ("airline agent", 3_500, 25)}
"""Each source's name in the table, its window, and how many sessions a half has: long ones take minutes."""
MODULES: Final = (
    *("argparse", "ast", "calendar", "configparser", "copy", "csv", "dataclasses", "difflib", "email.message"),
    *("email.utils", "fractions", "ftplib", "functools", "gettext", "heapq", "html.parser", "http.client", "imaplib"),
    *("inspect", "ipaddress", "json.decoder", "locale", "logging", "mailbox", "mimetypes", "pathlib", "pprint"),
    *("random", "shutil", "smtplib", "socket", "statistics", "string", "subprocess", "tarfile", "tempfile"),
    *("textwrap", "threading", "tokenize", "traceback", "turtle", "types", "urllib.parse", "urllib.request", "uuid"),
    *("warnings", "weakref", "xml.dom.minidom", "zipfile"),
)


class Agents(NamedTuple):
    """Recorded sessions of one agent, and the window they are replayed with."""

    name: str
    budget: int
    recordings: list[Recording]


def conversations(half: Half, shared: Path = SHARED) -> tuple[str, list[Case]]:
    """Return what is asked about long conversations, under each budget, and where it comes from."""
    file = shared / "evidence" / "conversations.jsonl.gz"
    if file.exists():
        found, name = [*records(file)], "recorded"
        chosen = found[:3] if half == "first" else found[3:]
    else:
        name, first = "generated", 0 if half == "first" else 3
        chosen = [_conversation(seed) for seed in range(first, first + 3)]
    return name, [case for number, record in enumerate(chosen) for case in _cases(record, f"{half} {number}")]


def agents(half: Half, shared: Path = SHARED) -> list[Agents]:
    """Return the sessions of each agent."""
    start = 0 if half == "first" else 1
    found = [row for path in sorted((shared / "sessions").glob("*.jsonl.gz")) for row in records(path)]
    mine = {source: [row for row in found if row["source"] == source] for source in AGENTS}
    if not any(mine.values()):
        sessions = [Recording(generated(seed), name=f"generated {seed}") for seed in range(start, 8, 2)]
        return [Agents("generated agent", 4_000, sessions)]
    return [
        Agents(name, budget, list(map(_recording, mine[source][start::2][:most])))
        for source, (name, budget, most) in AGENTS.items()
        if mine[source]
    ]


def code(half: Half) -> list[Case]:
    """Return functions of the standard library without docstrings, each asked for by the first sentence of its own."""
    pool: list[ContextItem] = []
    asked: list[tuple[int, str]] = []
    for module in MODULES[0 if half == "first" else 1 :: 2]:
        for text, about in _functions(module):
            if about is not None:
                asked.append((len(pool), about))
            pool.append(ContextItem(text, len(text) // 4 + 1, kind="Document", source=module))
    return [Case(pool, budget, [at], query) for at, query in asked[::2] for budget in BUDGETS]


def without_queries(cases: Sequence[Case]) -> list[Case]:
    """Return the cases as they are for somebody who does not ask."""
    return [Case(case.items, case.budget, case.needed, group=case.group) for case in cases]


def records(file: Path) -> Iterator[Any]:
    """Yield the lines of a compressed file of JSON."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _recording(row: Any) -> Recording:
    return Recording(row["messages"], name=row["session"])


def turns_of(record: Any) -> list[ContextItem]:
    """Return the turns of a conversation as items that know their ids."""
    count = default_counter().count
    return [
        ContextItem(
            turn["content"],
            count(turn["content"]),
            timestamp=datetime.fromisoformat(turn["timestamp"]),
            metadata={"id": turn["id"]},
        )
        for turn in record["items"]
    ]


def _cases(record: Any, group: str) -> Iterator[Case]:
    items = turns_of(record)
    for question in record["questions"][:QUESTIONS]:
        for budget in BUDGETS:  # one after the other: cases that share a query share the scoring
            yield Case(items, budget, question["needed"], question["query"], group=group)


def _conversation(seed: int) -> dict[str, Any]:
    """Two people talk about trips, with much said in between; a question asks for what one of them did somewhere."""
    random = Random(seed)
    people, deeds = ("Ada", "Ben"), ("bought", "broke", "found", "lost", "painted", "repaired", "sold")
    things = ("bicycle", "camera", "guitar", "kettle", "lantern", "map", "piano", "tent", "umbrella", "violin")
    places = ("Bergen", "Cork", "Graz", "Lyon", "Porto", "Riga", "Turin", "Vigo")
    facts = [(who, deed, thing, place) for who in people for deed in deeds for thing in things for place in places]
    now, turns, questions = datetime(2025, 1, 1, 9, tzinfo=UTC), list[dict[str, Any]](), list[dict[str, Any]]()
    for who, deed, thing, place in random.sample(facts, 60):
        questions.append({"query": f"What became of the {thing} in {place}?", "needed": [str(len(turns))]})
        said = [f"{who}: In {place} I {deed} a {thing}.", f"{people[who == 'Ada']}: In {place}? You do get around."]
        said += [f"{random.choice(people)}: {random.choice(deeds).title()} or not, {n} is enough." for n in range(6)]
        for text in said:
            now += timedelta(hours=random.randrange(1, 9))
            turns.append({"id": str(len(turns)), "content": f"{text} " * 2, "timestamp": now.isoformat()})
    return {"items": turns, "questions": questions}


def _functions(module: str) -> Iterator[tuple[str, str | None]]:
    """Yield the functions of a module without their docstrings, and the first sentence of these if it says enough."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        return
    text = Path(found.origin).read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        about, first = ast.get_docstring(node), node.body[0]
        drop = range(first.lineno - 1, first.end_lineno or first.lineno) if about is not None else ()
        kept = [line for at, line in enumerate(lines[: node.end_lineno]) if at >= node.lineno - 1 and at not in drop]
        sentence = " ".join((about or "").split("\n\n")[0].split()).partition(". ")[0]
        yield "\n".join(kept), sentence if len(sentence.split()) > 3 else None
