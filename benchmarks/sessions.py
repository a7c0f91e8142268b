"""What ways of filling the window cost over agent sessions, and what they keep of what the next step uses.

Real sessions and their ruler are read from `../shared/sessions` where that exists; or else sessions are generated,
and only prices and the share of steps whose names are all still there are measured.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

from cupel import Prices
from cupel.errors import SelectionError
from cupel.messages import MessageSession, fit
from cupel.shorten import names
from cupel.tokens import default_counter

Message = dict[str, Any]
Step = Callable[[list[Message]], list[Message]]
SHARED = Path(__file__).parents[2] / "shared" / "sessions"
LOW = 0.7
"""To which share of the budget a full window is cut by the ways that cut it."""
GENERATED, TURNS = 6, 80
BUDGETS = {"coding": 16_000, "airline": 3_500, "generated": 4_000}


class _Counter:
    """The default counter, which remembers: the same texts come back on every turn."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._count = default_counter().count

    def count(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = self._count(text)
        return self._known[text]


COUNTER = _Counter()


def tokens(message: Message) -> int:
    """Tokens of one message, its frame included."""
    calls = "".join(
        call["function"]["name"] + call["function"]["arguments"] for call in message.get("tool_calls") or ()
    )
    return COUNTER.count((message.get("content") or "") + calls) + 4


def append(budget: int) -> Step:
    """Drop nothing, whatever the budget."""
    del budget
    return list


def anew(budget: int) -> Step:
    """`fit` on every turn, with the task pinned; where what must be sent does not fit, into twice the budget."""

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
    """Keep system prompt, task and the newest messages; when full, cut to a share of the budget."""
    start = 0

    def step(history: list[Message]) -> list[Message]:
        nonlocal start
        head = _head(history)
        start = max(start, head)
        if sum(map(tokens, history[:head])) + sum(map(tokens, history[start:])) > budget:
            start = _start(history, head, budget)
        return history[:head] + history[start:]

    return step


def compact(budget: int) -> Step:
    """Like `tail`, but when full, older outputs are first reduced to the names that stood in them."""
    start, shortened = 0, dict[int, Message]()

    def step(history: list[Message]) -> list[Message]:
        nonlocal start
        head = _head(history)
        start = max(start, head)
        window = [shortened.get(at, message) for at, message in enumerate(history)]
        if sum(map(tokens, window[:head])) + sum(map(tokens, window[start:])) > budget:
            for at in range(start, len(history) - 1):
                if history[at]["role"] == "tool":
                    shortened[at] = {**history[at], "content": names(history[at]["content"], 100, counter=COUNTER)}
            window = [shortened.get(at, message) for at, message in enumerate(history)]
            start = _start(window, head, budget)
        return window[:head] + window[start:]

    return step


def _head(history: Sequence[Message]) -> int:
    return next((at for at, message in enumerate(history) if message["role"] == "user"), 0) + 1


def _start(window: Sequence[Message], head: int, budget: int) -> int:
    """Where the newest messages begin that share what the head leaves of a part of the budget, calls with results."""
    room, at = LOW * budget - sum(map(tokens, window[:head])), len(window)
    while at > head and room >= tokens(window[at - 1]):
        at -= 1
        room -= tokens(window[at])
    while at < len(window) and window[at]["role"] == "tool":
        at += 1
    return at


def session(budget: int, **options: Any) -> Step:
    """A `MessageSession` with its defaults."""
    window = MessageSession[Message](budget, prices=Prices.marked(), provider="openai", counter=COUNTER, **options)
    return lambda history: window.fit(history).messages


def session_without_forms(budget: int) -> Step:
    """A `MessageSession` that shortens nothing; an output that does not fit alone is then given more room."""
    spare = session(budget)
    whole = session(budget, forms=False)

    def step(history: list[Message]) -> list[Message]:
        shortened = spare(history)
        try:
            return whole(history)
        except SelectionError:
            return shortened

    return step


WAYS: dict[str, Callable[[int], Step]] = {
    "nothing dropped": append,
    "`fit` on every turn": anew,
    "tail, cut to 70 %": tail,
    "compact, cut to 70 %": compact,
    "`MessageSession`": session,
    "`MessageSession`, no forms": session_without_forms,
}


@dataclass(frozen=True)
class Source:
    """Sessions of one kind, and their ruler."""

    title: str
    measure: Callable[[Callable[[int], Step], int, int], dict[str, Any]]
    """Measures a way of filling the window at a budget; of the pressed turns, every so many are judged."""
    tokens: Callable[[Message], int]
    """How the ruler counts a message; a turn is pressed if its history has more than the budget."""


def measure_sessions(*, quick: bool = False) -> list[dict[str, Any]]:
    """One row for each way and set of sessions."""
    rows: list[dict[str, Any]] = []
    for source in sources(3, 3) if quick else sources():
        budget = BUDGETS[source.title]
        for name, make in WAYS.items():
            found = source.measure(make, budget, 1)
            rows.append({"sessions": f"{source.title}, {budget:,}", "way": name, **found})
            print(f"{source.title}: {name}", flush=True)
    return rows


def sources(coding: int | None = None, airline: int | None = None) -> list[Source]:
    """The kinds of sessions that there are to measure with: real ones, at most so many, or else generated ones."""
    if not SHARED.is_dir():
        made = [generated(seed) for seed in range(min(coding or GENERATED, GENERATED))]
        return [Source("generated", lambda make, budget, every: measure(made, make, budget, every), tokens)]
    spec = importlib.util.spec_from_file_location("ruler", SHARED / "measure.py")
    assert spec is not None
    assert spec.loader is not None
    ruler = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ruler)
    everything = ruler.read(str(SHARED / "sessions.jsonl.gz"))

    def of(title: str, source: str, most: int | None) -> Source:
        chosen = [one for one in everything if one["source"] == source][:most]
        return Source(title, lambda make, budget, every: ruler.measure(chosen, make, budget, every), ruler.tokens)

    return [of("coding", "mini-swe-agent", coding), of("airline", "tau-bench", airline)]


def measure(
    sessions: Sequence[list[Message]], make: Callable[[int], Step], budget: int, every: int = 1
) -> dict[str, Any]:
    """Walk through sessions; only turns whose full history exceeds the budget count."""
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
    """The names in a step's arguments that stood in an earlier output."""
    arguments = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
    words = {word for text in arguments for word in json.loads(text)["names"]}
    shown = "\n".join(one.get("content") or "" for one in history if one["role"] == "tool")
    return sorted(word for word in words if word in shown)


def generated(seed: int) -> list[Message]:
    """A seeded session: outputs full of names, and calls that take up names of recent outputs rather than of old."""
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
    """The figures in Markdown, losses included."""
    columns = [name for name in ("hit", "sent", "price", "whole", "context", "over", "unsent", "ms") if name in rows[0]]
    lines = [f"| sessions, budget | way | {' | '.join(columns)} |", f"|---|---|{'--:|' * len(columns)}"]
    lines += [
        f"| {row['sessions']} | {row['way']} | {' | '.join(f'{row[name]:,}' for name in columns)} |" for row in rows
    ]
    return "\n".join(lines)
