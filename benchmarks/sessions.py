"""Measure what strategies for filling a window cost over agent sessions, and what they keep for the next step.

Recorded sessions and their ruler are read from `../shared/sessions` where that folder exists. Otherwise sessions are
generated, and only prices and the share of steps whose names are all still in the window are measured.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

from cupel import Prices
from cupel.errors import SelectionError
from cupel.messages import MessageSession, fit
from cupel.tokens import default_counter

Message = dict[str, Any]
Step = Callable[[list[Message]], list[Message]]
RECORDINGS = Path(os.environ.get("CUPEL_RECORDINGS") or Path(__file__).parents[2] / "shared")
"""The folder of the recordings, which are not part of the project."""
SHARED = RECORDINGS / "sessions"
LOW = 0.7
"""The share of the budget that `tail` and `clear` keep when they cut."""
KEPT_RESULTS = 3
MIDDLE = "\n[the middle is left out]\n"
PLACEHOLDER = "[Old tool result content cleared]"
GENERATED, TURNS = 6, 80
SESSIONS, JUDGED = 20, 3
"""The sessions of each agent that are replayed, and the pressed turns for each one that is judged."""
BUDGETS = {
    "coding": 16_000,
    "airline": 3_500,
    "toolathlon": 16_000,
    "mcpmark": 12_000,
    "sweagent": 8_000,
    "generated": 4_000,
}


class _Counter:
    """The default counter with a cache: the same texts come back on every turn."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._count = default_counter().count

    def count(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = self._count(text)
        return self._known[text]


COUNTER = _Counter()


def tokens(message: Message) -> int:
    """Return the tokens of one message, its frame included."""
    calls = "".join(
        call["function"]["name"] + call["function"]["arguments"] for call in message.get("tool_calls") or ()
    )
    return COUNTER.count((message.get("content") or "") + calls) + 4


def everything(budget: int) -> Step:
    """Send the whole history, whatever the budget."""
    del budget
    return list


def refit(budget: int) -> Step:
    """Call `fit` on every turn, with the first user message pinned; double the budget where that does not fit."""

    def step(history: list[Message]) -> list[Message]:
        task = next((message for message in history if message["role"] == "user"), None)

        def is_task(message: Message) -> bool:
            return message is task

        options: dict[str, Any] = {"counter": COUNTER, "provider": "openai", "pin": is_task}
        try:
            return fit(history, budget, **options).messages
        except SelectionError:
            return fit(history, 2 * budget, **options).messages

    return step


def tail(budget: int) -> Step:
    """Keep the system prompt, the task and the newest messages; cut to a share of the budget when full.

    An output that takes more than a quarter of the budget loses its middle when it arrives. The newest step, from the
    model's last message on, always stays.
    """
    kept: list[Message] = []
    read = 0

    def step(history: list[Message]) -> list[Message]:
        nonlocal read
        kept.extend(_halves(message, budget // 4) for message in history[read:])
        read = len(history)
        if sum(map(tokens, kept)) > budget:
            head = _head(kept)
            newest = max(
                (at for at, message in enumerate(kept) if message["role"] == "assistant"), default=len(kept) - 1
            )
            del kept[head : max(head, min(newest, _start(kept, head, budget)))]
        return list(kept)

    return step


def _halves(message: Message, most: int) -> Message:
    """Return a tool's output without its middle if it has more tokens than this."""
    text = message.get("content") or ""
    if message["role"] != "tool" or tokens(message) <= most:
        return message
    side = int(len(text) * max(0, most - len(MIDDLE)) / tokens(message) / 2)
    return {**message, "content": text[:side] + MIDDLE + text[len(text) - side :]}


def clear(budget: int) -> Step:
    """Replace all but the newest tool results by a placeholder when full; then keep the tail if that is not enough.

    Anthropic's context editing and LangChain's `ContextEditingMiddleware` do the first half.
    """
    start, cleared = 0, dict[int, Message]()

    def step(history: list[Message]) -> list[Message]:
        nonlocal start
        head = _head(history)
        start = max(start, head)
        window = [cleared.get(at, message) for at, message in enumerate(history)]
        if sum(map(tokens, window[:head])) + sum(map(tokens, window[start:])) > budget:
            results = [at for at in range(start, len(history)) if history[at]["role"] == "tool"]
            cleared.update({at: {**history[at], "content": PLACEHOLDER} for at in results[:-KEPT_RESULTS]})
            window = [cleared.get(at, message) for at, message in enumerate(history)]
            if sum(map(tokens, window[:head])) + sum(map(tokens, window[start:])) > budget:
                start = _start(window, head, budget)
        return window[:head] + window[start:]

    return step


def _head(history: Sequence[Message]) -> int:
    return next((at for at, message in enumerate(history) if message["role"] == "user"), 0) + 1


def _start(window: Sequence[Message], head: int, budget: int) -> int:
    """Return where the newest messages begin that fit `LOW` of the budget beside the head, calls with results."""
    room, at = LOW * budget - sum(map(tokens, window[:head])), len(window)
    while at > head and room >= tokens(window[at - 1]):
        at -= 1
        room -= tokens(window[at])
    while at < len(window) and window[at]["role"] == "tool":
        at += 1
    return at


def session(budget: int) -> Step:
    """Use a `MessageSession` with its defaults."""
    window = MessageSession[Message](budget, provider="openai", counter=COUNTER)
    return lambda history: window.fit(history).messages


STRATEGIES: dict[str, Callable[[int], Step]] = {
    "everything": everything,
    "tail": tail,
    "clear old tool results": clear,
    "fit every turn": refit,
    "session": session,
}
COLUMNS = ("all", "whole", "context", "blind", "early", "users", "talk", "trail", "readable", "over", "unsent", "ms")


@dataclass(frozen=True)
class Source:
    """Sessions of one agent, and their ruler."""

    title: str
    sessions: Sequence[list[Message]]
    measure: Callable[[Callable[[int], Step], int, int], dict[str, Any]]
    """Measure a strategy at a budget, judging every n-th pressed turn."""
    tokens: Callable[[Message], int]
    """The ruler's token count of a message; a turn is pressed if its history exceeds the budget."""


def measure_sessions(*, quick: bool = False) -> list[dict[str, Any]]:
    """Return one row for each strategy and agent; prices also as a share of sending everything."""
    rows: list[dict[str, Any]] = []
    for source in sources(3, 3) if quick else sources(SESSIONS, SESSIONS):
        budget = BUDGETS[source.title]
        whole = 1
        for name, make in STRATEGIES.items():
            found = source.measure(make, budget, 1 if quick else JUDGED)
            whole = found["price"] if make is everything else whole
            ratio = round(found["price"] / max(whole, 1), 2)
            rows.append({"sessions": f"{source.title}, {budget:,}", "strategy": name, "ratio": ratio, **found})
            print(f"{source.title}: {name}", flush=True)
    return rows


def sources(coding: int | None = None, airline: int | None = None) -> list[Source]:
    """Return the agents to measure: recorded ones, at most this many sessions of each, or else generated ones."""
    if not SHARED.is_dir():
        made = [generated(seed) for seed in range(min(coding or GENERATED, GENERATED))]
        return [Source("generated", made, lambda make, budget, every: measure(made, make, budget, every), tokens)]
    spec = importlib.util.spec_from_file_location("ruler", SHARED / "measure.py")
    assert spec is not None
    assert spec.loader is not None
    ruler = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ruler)
    recorded = ruler.read(str(SHARED / "sessions.jsonl.gz"))

    def of(title: str, found: list[Any], most: int | None) -> Source:
        unseen = found[len(found) // 2 :][:most]  # settings were chosen on the first half of each file
        told = [one["messages"] for one in unseen]
        return Source(title, told, lambda make, budget, every: ruler.measure(unseen, make, budget, every), ruler.tokens)

    agents = {"coding": ("mini-swe-agent", coding), "airline": ("tau-bench", airline)}
    found = [
        of(title, [one for one in recorded if one["source"] == source], most)
        for title, (source, most) in agents.items()
    ]
    for path in sorted((SHARED / "others").glob("*.jsonl.gz")):
        title = path.name.partition(".")[0]
        if title in BUDGETS:
            found.append(of(title, ruler.read(str(path)), coding))
    return found


def measure(
    sessions: Sequence[list[Message]], make: Callable[[int], Step], budget: int, every: int = 1
) -> dict[str, Any]:
    """Replay generated sessions; only turns whose full history exceeds the budget count."""
    prices = Prices.marked()
    total = dict.fromkeys(("turns", "sent", "hit", "over", "unsent", "steps", "whole"), 0)
    seconds = 0.0
    for messages in sessions:
        step, before = make(budget), list[str]()
        for at, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            history = messages[:at]
            started = process_time()
            window = step(list(history))
            seconds += process_time() - started
            keys = [json.dumps(one, sort_keys=True) for one in window]
            pairs = enumerate(zip(before, keys, strict=False))
            same = next((n for n, (one, other) in pairs if one != other), min(len(before), len(keys)))
            before = keys
            if sum(map(tokens, history)) <= budget:
                continue
            weights = [tokens(one) for one in window]
            total["turns"] += 1
            wanted = _wanted(message, history) if total["turns"] % every == 0 else []
            total["sent"] += sum(weights)
            total["hit"] += sum(weights[:same])
            total["over"] += sum(weights) > 1.02 * budget
            total["unsent"] += window[-1].get("tool_call_id") != history[-1].get("tool_call_id")
            total["steps"] += bool(wanted)
            total["whole"] += bool(wanted) and all(any(name in key for key in keys) for name in wanted)
    turns = max(total["turns"], 1)
    price = prices.read * total["hit"] + prices.write * (total["sent"] - total["hit"])
    return {
        "turns": total["turns"],
        "hit": round(total["hit"] / max(total["sent"], 1), 3),
        "sent": round(total["sent"] / turns),
        "price": round(price / turns),
        "whole": round(total["whole"] / max(total["steps"], 1), 3),
        "over": total["over"],
        "unsent": total["unsent"],
        "ms": round(1000 * seconds / turns, 1),
    }


def _wanted(message: Message, history: Sequence[Message]) -> list[str]:
    """Return the names in a step's arguments that an earlier output contains."""
    arguments = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
    words = {word for text in arguments for word in json.loads(text)["names"]}
    shown = "\n".join(one.get("content") or "" for one in history if one["role"] == "tool")
    return sorted(word for word in words if word in shown)


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


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the figures in Markdown, losses included, and their averages over the agents."""
    columns = ["ratio", *(name for name in COLUMNS if name in rows[0])]
    lines = [f"| sessions, budget | strategy | {' | '.join(columns)} |", f"|---|---|{'--:|' * len(columns)}"]
    for row in (*rows, *_averages(rows, columns)):
        values = ("–" if row.get(name) is None else f"{row[name]:,}" for name in columns)
        lines.append(f"| {row['sessions']} | {row['strategy']} | {' | '.join(values)} |")
    return "\n".join(lines)


def _averages(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each strategy; an agent without a figure has no part in its average."""
    averages: list[dict[str, Any]] = []
    for strategy in dict.fromkeys(row["strategy"] for row in rows):
        average: dict[str, Any] = {"sessions": "average", "strategy": strategy}
        for name in columns:
            figures = [row[name] for row in rows if row["strategy"] == strategy and row.get(name) is not None]
            average[name] = round(sum(figures) / len(figures), 3) if figures else None
        averages.append(average)
    return averages
