"""What the requests of a strategy cost and what they keep, over conversations in the format of Chat Completions.

A *step* is an answer of the model, before which one request is sent. Only *pressed* steps count: those whose whole
history exceeds the budget. A *fact* of a step is a word of five or more characters (letters, digits, `_ . / @ -`) in
the arguments of its calls that an earlier tool or user message contains, and neither the system prompt nor the first
user message. What notes like `[cupel: 3 earlier steps omitted here: ...]` say counts for the trail alone.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from time import process_time
from typing import Any, Final

from benchmarks.recordings import Message, text_of, tokens
from cupel import Prices
from cupel.errors import SelectionError
from cupel.evaluation import Recording, WindowStrategy

PRICES: Final = Prices.marked()
_FACT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./@-]{4,}")
_NOTE: Final = re.compile(r"\[cupel: [^\]\n]*omitted[^\]]*\]\n?")
SUMS: Final = ("turns", "sent", "hit", "over", "invalid", "unsent")
SHARES: Final = ("whole", "all", "users", "talk", "trail", "early")


@dataclass(frozen=True)
class Request:
    """What a strategy sends before one step."""

    at: int
    """The position of the model's answer."""
    messages: list[Message]
    milliseconds: float


def requests(messages: Sequence[Message], strategy: WindowStrategy, budget: int) -> Iterator[Request]:
    """Yield what a strategy sends before each answer of a conversation; everything where it finds no request."""
    step = strategy(Recording(messages, provider="openai"), budget)
    for at in answers(messages):
        history = list(messages[:at])
        started = process_time()
        try:
            found: Any = step(list(history))
        except SelectionError:
            found = history
        spent = 1_000 * (process_time() - started)
        yield Request(at, list(getattr(found, "messages", found)), spent)


def answers(messages: Sequence[Message]) -> list[int]:
    """Return the positions at which the model begins to answer."""
    return [
        at
        for at, message in enumerate(messages)
        if at and message["role"] == "assistant" and messages[at - 1]["role"] != "assistant"
    ]


class Figures:
    """Sums over the requests of a strategy."""

    def __init__(self, budget: int, every: int = 1) -> None:
        self._budget = budget
        self._every = every
        self._sums = dict.fromkeys(SUMS, 0)
        self._shares: dict[str, list[float]] = {name: [] for name in SHARES}
        self._milliseconds = 0.0
        self._price = 0.0

    def add(self, messages: Sequence[Message], sent: Iterable[Request]) -> None:
        """Add the requests of one conversation, which are made from the beginning."""
        before: list[str] = []
        for request in sent:
            history, window = messages[: request.at], request.messages
            keys = list(map(_key, window))
            pairs = enumerate(zip(before, keys, strict=False))
            same = next((n for n, (one, other) in pairs if one != other), min(len(before), len(keys)))
            before = keys
            if sum(map(tokens, history)) <= self._budget:
                self._shares["early"].append(keys != list(map(_key, history)))
                continue
            self._milliseconds += request.milliseconds
            weights = list(map(tokens, window))
            whole, hit = sum(weights), sum(weights[:same])
            self._price += PRICES.read * PRICES.cached(hit) + PRICES.write * (whole - PRICES.cached(hit))
            newest = window[-1] if window else {}
            ends = [(one.get("role"), one.get("tool_call_id")) for one in (newest, history[-1])]
            found = (1, whole, hit, whole > self._budget, not is_valid(window), ends[0] != ends[1])
            for name, value in zip(SUMS, found, strict=True):
                self._sums[name] += value
            self._judge(messages, request)

    def _judge(self, messages: Sequence[Message], request: Request) -> None:
        """Add what the request keeps; the words of calls are looked up on every n-th turn only."""
        history, window = messages[: request.at], request.messages
        there = set(map(_key, window))
        for name, role in (("users", "user"), ("talk", "assistant")):
            said = [_key(one) for one in history if one["role"] == role and not one.get("tool_calls")]
            if said:
                self._shares[name].append(sum(one in there for one in said) / len(said))
        if self._sums["turns"] % self._every:
            return
        calls = [call for one in history for call in one.get("tool_calls") or ()]
        if calls:
            self._shares["trail"].append(trail(calls, window))
        facts, own = facts_of(_answer(messages, request.at), history)
        held = "\n".join(_NOTE.sub("", text_of(one)) for one in window)
        if facts:
            self._shares["whole"].append(all(fact in held for fact in facts))
        if facts or own:
            self._shares["all"].append(all(fact in held for fact in facts | own))

    def found(self) -> dict[str, Any]:
        """Return the figures; None for what these conversations do not have."""
        turns = max(self._sums["turns"], 1)
        shares = {name: round(sum(had) / len(had), 3) if had else None for name, had in self._shares.items()}
        return {
            "turns": self._sums["turns"],
            "price": round(self._price / turns),
            "sent": round(self._sums["sent"] / turns),
            "hit": round(self._sums["hit"] / max(self._sums["sent"], 1), 3),
            **shares,
            **{name: self._sums[name] for name in ("over", "invalid", "unsent")},
            "steps": len(self._shares["whole"]),
            "ms": round(self._milliseconds / turns, 1),
        }


def measure(sessions: Sequence[list[Message]], strategy: WindowStrategy, budget: int, every: int = 1) -> dict[str, Any]:
    """Return the figures of a strategy over conversations; words are looked up on every n-th pressed turn."""
    figures = Figures(budget, every)
    for messages in sessions:
        figures.add(messages, requests(messages, strategy, budget))
    return figures.found()


def _answer(messages: Sequence[Message], at: int) -> list[Any]:
    """Return the arguments of the calls that the model makes at this position, before anybody else speaks."""
    found: list[Any] = []
    for message in messages[at:]:
        if message["role"] != "assistant":
            break
        for call in message.get("tool_calls") or ():
            found += _arguments(call)
    return found


def _arguments(call: Any) -> list[Any]:
    try:
        return list(_leaves(json.loads(call["function"]["arguments"])))
    except ValueError:
        return []


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def facts_of(arguments: Sequence[str], history: Sequence[Message]) -> tuple[set[str], set[str]]:
    """Return the words in arguments that were told the model, and those that only it wrote itself."""
    words = {fact for leaf in arguments for fact in _FACT.findall(leaf)}
    if not words:
        return set(), set()
    task = next((at for at, one in enumerate(history) if one["role"] == "user"), 0)
    told = [(at, one["role"], text_of(one)) for at, one in enumerate(history)]
    known = "\n".join(text for at, role, text in told if role == "system" or at == task)
    shown = "\n".join(text for at, role, text in told if role in {"tool", "user"} and at != task)
    written = "\n".join(text for at, role, text in told if role == "assistant" and at > task)
    facts = {word for word in words if word not in known and word in shown}
    return facts, {word for word in words - facts if word not in known and word in written}


def trail(calls: Sequence[Any], window: Sequence[Message]) -> float:
    """Return the share of earlier calls that a request shows: the tool and the beginning of an argument.

    Calls that look alike count as often as they are shown.
    """
    shown = "\n".join(_bare(text_of(message)) for message in window)
    count = cache(shown.count)
    seen = 0
    for (name, marks), times in Counter(map(_looks, calls)).items():
        seen += min(times, count(name), max(map(count, marks)) if marks else times)
    return seen / len(calls)


def _looks(call: Any) -> tuple[str, tuple[str, ...]]:
    leaves = list(map(_bare, _arguments(call) or [call["function"]["arguments"]]))
    marks = {leaf[:30] for leaf in (*leaves[:1], max(leaves, key=len, default=""))}
    return _bare(call["function"]["name"]), tuple(sorted(marks - {""}))


@cache
def _bare(text: str) -> str:
    """Return letters and digits alone: quotes, escapes and spaces differ between a call and a note about it."""
    return "".join(character for character in text.replace("\\n", "\n") if character.isalnum())


def is_valid(window: Sequence[Message]) -> bool:
    """Return whether every result follows its call, and every call has its result before anything else is said."""
    waiting: list[str] = []
    for message in window:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return False
        else:
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
    return bool(window) and not waiting


def _key(message: Message) -> str:
    parts = [message.get(name) or None for name in ("role", "content", "tool_calls", "tool_call_id")]
    return json.dumps(parts, sort_keys=True)
