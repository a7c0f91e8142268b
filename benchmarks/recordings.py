"""Recorded conversations that the targets replay, and how a downloaded copy becomes one of them.

    python -m benchmarks.recordings FOLDER historical_trajectories/gpt-4o-airline.json data/locomo10.json trajs/*.traj

writes what the targets read into FOLDER, of any of these public files:

- tau-bench (github.com/sierra-research/tau-bench, MIT): `historical_trajectories/gpt-4o-airline.json`,
- LoCoMo (github.com/snap-research/locomo, CC BY-NC 4.0): `data/locomo10.json`,
- mini-swe-agent and SWE-agent (github.com/SWE-agent): `*.traj.json` and `*.traj`, as their runs write them.

`CUPEL_RECORDINGS=FOLDER make bench PARTS=sessions` then reads them, and conversations of your own: files
`sessions/*.jsonl.gz`, a line for each with `source` and `messages` in the format of Chat Completions. None of these
recordings is part of the project. Without any, conversations are generated.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final

from cupel.tokens import default_counter

Message = dict[str, Any]
_HERE: Final = Path(__file__).parents[1]
RECORDINGS: Final = Path(os.environ.get("CUPEL_RECORDINGS") or _HERE.parent / "shared")
"""The folder of the recordings, which are not part of the project."""
EVIDENCE: Final = "evidence/conversations.jsonl.gz"
GENERATED, TURNS = 6, 80


@dataclass(frozen=True)
class Kind:
    """Conversations of one kind, and the budget they are replayed with."""

    title: str
    budget: int
    public: bool = False
    """Whether anybody can download what the figures were measured on."""
    sessions: Sequence[list[Message]] = field(default=(), repr=False)
    names: Sequence[str] = field(default=(), repr=False)


KINDS: Final = {
    "mini-swe-agent": Kind("coding", 16_000, public=True),
    "tau-bench": Kind("airline", 3_500, public=True),
    "toolathlon": Kind("office tools", 16_000),
    "mcpmark": Kind("Notion, GitHub, SQL", 12_000),
    "sweagent": Kind("Java", 8_000, public=True),
    "LoCoMo": Kind("chat", 8_000, public=True),
}
"""What each source is called in the tables."""
OWN_BUDGET: Final = 8_000
"""The budget of conversations from anywhere else."""


class Counter:
    """The default counter with a cache: the same texts come back on every turn."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._count = default_counter().count

    def count(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = self._count(text)
        return self._known[text]


COUNTER: Final = Counter()


def text_of(message: Message) -> str:
    """Return everything that a message says: its content and its calls."""
    content = message.get("content") or ""
    said = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    calls = [f"{call['function']['name']} {call['function']['arguments']}" for call in message.get("tool_calls") or ()]
    return "\n".join([said, *calls])


def tokens(message: Message) -> int:
    """Return the tokens of one message, its frame included."""
    return COUNTER.count(text_of(message)) + 4


def head_of(messages: Sequence[Message]) -> int:
    """Return how many messages there are up to the first one of the user."""
    return next((at for at, message in enumerate(messages) if message["role"] == "user"), 0) + 1


def kinds(most: int | None = None, folder: Path | None = None) -> list[Kind]:
    """Return the kinds of conversations: recorded ones, at most this many of each, or else generated ones.

    Settings were chosen on the first half of each agent's sessions; only the second half is returned.
    """
    found: dict[str, list[tuple[str, list[Message]]]] = {}
    folder = RECORDINGS if folder is None else folder
    for path in sorted((folder / "sessions").rglob("*.jsonl.gz")):
        for row in read(path):
            found.setdefault(row["source"], []).append((row.get("session", path.name), row["messages"]))
    found = {source: rows[len(rows) // 2 :] for source, rows in found.items()}
    if (folder / EVIDENCE).exists():
        found["LoCoMo"] = [(str(row["conversation"]), chat(row["items"])) for row in read(folder / EVIDENCE)]
    if not found:
        return [generated_kind(most)]
    order = sorted(found, key=lambda source: (source not in KINDS, [*KINDS, source].index(source), source))
    return [_kind(source, found[source][:most]) for source in order]


def _kind(source: str, rows: Sequence[tuple[str, list[Message]]]) -> Kind:
    known = KINDS.get(source, Kind(source, OWN_BUDGET))
    return Kind(known.title, known.budget, known.public, [told for _, told in rows], [name for name, _ in rows])


def chat(items: Iterable[dict[str, Any]]) -> list[Message]:
    """Return the turns of two people as a chat without tools: who begins is the user."""
    messages: list[Message] = []
    user: str | None = None
    for turn in items:
        speaker, _, said = turn["content"].partition(": ")
        user = user or speaker
        messages.append({"role": "user" if speaker == user else "assistant", "content": said})
    return messages


def read(path: Path) -> list[Any]:
    """Return the lines of a compressed file of JSON."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def generated_kind(most: int | None = None) -> Kind:
    """Return generated sessions of an agent."""
    seeds = range(min(GENERATED if most is None else most, GENERATED))
    made = [generated(seed) for seed in seeds]
    return Kind("generated", 4_000, public=True, sessions=made, names=[f"generated {seed}" for seed in seeds])


def generated(seed: int) -> list[Message]:
    """Return a seeded session: outputs full of names, and calls that use names of recent outputs more often."""
    random = Random(seed)
    messages: list[Message] = [
        {"role": "system", "content": "You work on a repository, one call at a time."},
        {"role": "user", "content": "Find out why the nightly build fails, and mend it."},
    ]
    shown: list[list[str]] = []
    for turn in range(TURNS):
        back = min(int(random.expovariate(0.25)), len(shown) - 1) if shown else 0
        taken = random.sample(shown[-1 - back], 2) if shown else []
        call = {"name": "look", "arguments": json.dumps({"names": taken})}
        fresh = [f"{random.choice(('load', 'parse', 'emit'))}_{random.randrange(10**6)}" for _ in range(6)]
        shown.append(fresh)
        lines = [
            f"{number}: {random.choice(fresh)}({random.randrange(10**4)}) returned {random.randrange(100)}"
            for number in range(random.choice((5, 10, 20, 80)))
        ]
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{turn}", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": f"c{turn}", "content": "\n".join([*fresh, *lines])},
        ]
    return messages


def convert(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a downloaded file holds: for each conversation the file it belongs into, and its line."""
    data = json.loads(path.read_text("utf-8"))
    first = data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}
    if "traj" in first:
        for number, run in enumerate(data):
            name = f"{path.stem}-{run.get('task_id', number)}-{number}"
            yield "sessions/tau-bench.jsonl.gz", _session(name, "tau-bench", run["traj"])
    elif "conversation" in first:
        for talk in data:
            yield EVIDENCE, _talk(talk)
    elif isinstance(data, dict) and "messages" in data:
        source = "mini-swe-agent"
        yield f"sessions/{source}.jsonl.gz", _session(path.name.partition(".")[0], source, data["messages"])
    elif isinstance(data, dict) and "trajectory" in data:
        yield "sessions/sweagent.jsonl.gz", _session(path.stem, "sweagent", list(_steps(data)))
    else:
        msg = f"{path}: expected a file of tau-bench, LoCoMo, mini-swe-agent or SWE-agent"
        raise ValueError(msg)


def _session(name: str, source: str, messages: Iterable[Message]) -> dict[str, Any]:
    """Return a session with the parts of its messages that a request has."""
    told = [_plain(message) for message in messages if message["role"] in {"system", "user", "assistant", "tool"}]
    return {"session": name, "source": source, "messages": told}


def _plain(message: Message) -> Message:
    plain = {name: message[name] for name in ("role", "content", "tool_call_id", "name") if message.get(name)}
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {name: call["function"][name] for name in ("name", "arguments")},
        }
        for call in message.get("tool_calls") or ()
    ]
    return {"content": None, **plain, **({"tool_calls": calls} if calls else {})}


def _steps(data: Any) -> Iterator[Message]:
    """Yield a run of SWE-agent as messages: its actions are calls of `bash`, their observations the results."""
    opening = [entry for entry in data["history"] if entry["role"] in {"system", "user"} and not entry.get("is_demo")]
    yield {"role": "system", "content": _text(opening[0])}
    yield {"role": "user", "content": _text(opening[1])}
    for number, step in enumerate(data["trajectory"], start=1):
        call = {"name": "bash", "arguments": json.dumps({"command": step["action"]})}
        calls = [{"id": f"call_{number}", "type": "function", "function": call}]
        yield {"role": "assistant", "content": step.get("thought") or "", "tool_calls": calls}
        yield {"role": "tool", "tool_call_id": f"call_{number}", "content": step.get("observation") or ""}


def _text(entry: Message) -> str:
    content = entry["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _talk(talk: Any) -> dict[str, Any]:
    """Return a conversation of LoCoMo: a turn each with its time, and the questions with the turns that answer them."""
    told, items = talk["conversation"], list[dict[str, Any]]()
    sittings = sorted(int(name.split("_")[1]) for name in told if name.startswith("session_") and name.count("_") == 1)
    for number in sittings:
        moment = datetime.strptime(told[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for turn in told[f"session_{number}"]:
            seen = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
            said = f"{turn['speaker']}: {turn['text']}{seen}"
            stamp = moment.isoformat().replace("+00:00", "Z")
            items.append({"id": turn["dia_id"], "content": said, "timestamp": stamp, "session": number})
    known = {item["id"] for item in items}
    asked = [(row["question"], [one for one in row.get("evidence", ()) if one in known]) for row in talk["qa"]]
    questions = [{"query": question, "needed": needed} for question, needed in asked if needed]
    return {"conversation": talk.get("sample_id", ""), "source": "LoCoMo", "items": items, "questions": questions}


def main() -> None:
    """Write what the targets read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recordings", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, help="where to write to")
    parser.add_argument("downloaded", type=Path, nargs="+", help="files of the public recordings")
    options = parser.parse_args()
    lines: dict[str, list[str]] = {}
    for path in options.downloaded:
        for name, row in convert(path):
            lines.setdefault(name, []).append(json.dumps(row, ensure_ascii=False))
    for name, rows in sorted(lines.items()):
        target = options.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(target, "wt", encoding="utf-8") as file:
            file.write("\n".join(rows) + "\n")
        print(f"{target}: {len(rows)}")


if __name__ == "__main__":
    main()
