"""How long a session takes, by length and format of the conversation, beside counting the same history.

A conversation is a task and then a call and its result, turn after turn, with results of 20 to 400 tokens. Every
repetition has texts of its own, because counts of known texts are remembered. All figures are processor time.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from random import Random
from time import process_time_ns
from typing import Any, Final

from benchmarks.measure import garbage_collection
from benchmarks.tables import markdown
from cupel import MessageSession
from cupel.messages import fit
from cupel.tokens import TiktokenCounter

LENGTHS: Final = (300, 1_000, 3_000)
BUDGET: Final = 30_000
FOLLOWED: Final = 150
"""The newest turns, which a session answers one by one: enough of them for several cuts."""
REPETITIONS: Final = 3
WORDS: Final = ("server", "log", "shows", "slow", "query", "in", "module", "while", "build", "step", "waits", "cache")

Turn = tuple[str, dict[str, Any], str]
"""The id and the arguments of a call, and its result."""


def turns(count: int, seed: int) -> Iterator[Turn]:
    """Yield calls with their results."""
    random = Random(seed)
    for number in range(count):
        words = random.randrange(15, 300)
        lines = (
            " ".join((*random.choices(WORDS, k=9), f"{random.randrange(10**6):x}")) for _ in range(words // 10 + 1)
        )
        path = f"src/part_{random.randrange(10**4)}.py"
        yield f"call_{seed}_{number}", {"path": path, "line": random.randrange(900)}, "\n".join(lines)


TASK: Final = "Find out why the nightly build fails, and mend it."


def openai(told: Iterator[Turn]) -> Iterator[Any]:
    """Yield the messages of Chat Completions."""
    yield {"role": "user", "content": TASK}
    for key, arguments, result in told:
        call = {"id": key, "type": "function", "function": {"name": "look", "arguments": json.dumps(arguments)}}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": key, "content": result}


def responses(told: Iterator[Turn]) -> Iterator[Any]:
    """Yield the items of Responses."""
    yield {"role": "user", "content": TASK}
    for key, arguments, result in told:
        yield {"type": "function_call", "call_id": key, "name": "look", "arguments": json.dumps(arguments)}
        yield {"type": "function_call_output", "call_id": key, "output": result}


def anthropic(told: Iterator[Turn]) -> Iterator[Any]:
    """Yield the messages of Anthropic's API."""
    yield {"role": "user", "content": TASK}
    for key, arguments, result in told:
        yield {"role": "assistant", "content": [{"type": "tool_use", "id": key, "name": "look", "input": arguments}]}
        yield {"role": "user", "content": [{"type": "tool_result", "tool_use_id": key, "content": result}]}


def gemini(told: Iterator[Turn]) -> Iterator[Any]:
    """Yield the contents of Gemini."""
    yield {"role": "user", "parts": [{"text": TASK}]}
    for key, arguments, result in told:
        yield {"role": "model", "parts": [{"function_call": {"id": key, "name": "look", "args": arguments}}]}
        answer = {"id": key, "name": "look", "response": {"result": result}}
        yield {"role": "user", "parts": [{"function_response": answer}]}


def bedrock(told: Iterator[Turn]) -> Iterator[Any]:
    """Yield the messages of Bedrock's Converse."""
    yield {"role": "user", "content": [{"text": TASK}]}
    for key, arguments, result in told:
        yield {"role": "assistant", "content": [{"toolUse": {"toolUseId": key, "name": "look", "input": arguments}}]}
        answer = {"toolUseId": key, "content": [{"text": result}]}
        yield {"role": "user", "content": [{"toolResult": answer}]}


FORMATS: Final[dict[str, Callable[[Iterator[Turn]], Iterator[Any]]]] = {
    "openai": openai,
    "openai-responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "bedrock": bedrock,
}


TOOLS: Final = {"bedrock": [{"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}]}
"""What a format needs beside its messages."""


def measure_conversations(
    lengths: tuple[int, ...] = LENGTHS, repetitions: int = REPETITIONS, formats: tuple[str, ...] = tuple(FORMATS)
) -> list[dict[str, Any]]:
    """Return the milliseconds of every step of a session, the best of several conversations."""
    rows: list[dict[str, Any]] = []
    for length in lengths:
        for name in (*formats, "beside"):
            found: list[dict[str, float | None]] = []
            for seed in range(repetitions):
                with garbage_collection(enabled=True):
                    found.append(_beside(length, seed) if name == "beside" else _session(name, length, seed))
            rows.append({"format": name, "turns": length, **_best(found)})
            print(rows[-1], flush=True)
    return rows


def _best(found: list[dict[str, float | None]]) -> dict[str, float | None]:
    best: dict[str, float | None] = {}
    for key in found[0]:
        had = [value for one in found if (value := one[key]) is not None]
        best[key] = round(min(had), 2) if had else None
    return best


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the milliseconds of a call, and its result."""
    start = process_time_ns()
    found = run()
    return (process_time_ns() - start) / 1_000_000, found


def _session(name: str, length: int, seed: int) -> dict[str, float | None]:
    """Measure a session that begins late in a conversation and follows it to its end; then restore it elsewhere."""
    # The texts must be new to the counter in every format, so each has seeds of its own.
    messages = list(FORMATS[name](turns(length, seed + 100 * list(FORMATS).index(name) + 10_000 * length)))
    options: dict[str, Any] = {"provider": name, "counter": TiktokenCounter(), "tools": TOOLS.get(name)}
    session: MessageSession[Any] = MessageSession(BUDGET, **options)
    begun = max(1, len(messages) - 2 * FOLLOWED)
    first, _ = timed(lambda: session.fit(messages[:begun]))
    spent: dict[str, list[float]] = {"append": [], "cut": []}
    for end in range(begun + 2, len(messages) + 1, 2):
        milliseconds, turn = timed(lambda: session.fit(messages[:end]))  # noqa: B023
        spent.setdefault(turn.action, []).append(milliseconds)
    state = session.to_json()
    restored, _ = timed(lambda: MessageSession.from_json(state, BUDGET, **options).fit(messages))
    once, _ = timed(lambda: fit(messages, BUDGET, **options))
    middle = {action: statistics.median(times) if times else None for action, times in spent.items()}
    return {"first turn": first, "append": middle["append"], "cut": middle["cut"], "restore": restored, "fit": once}


def _beside(length: int, seed: int) -> dict[str, float | None]:
    """Measure counting a history with tiktoken, and cutting it with `trim_messages` by counts made beforehand."""
    texts = [result for _, _, result in turns(length, seed + 7_000_000 + length)]
    counter = TiktokenCounter()
    counted, _ = timed(lambda: [counter.count(text) for text in texts])
    if find_spec("langchain_core") is None:
        return {"count": counted, "trim_messages": None}
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, trim_messages

    messages: list[Any] = [HumanMessage(TASK)]
    for key, arguments, result in turns(length, seed):
        messages.append(AIMessage("", tool_calls=[{"id": key, "name": "look", "args": arguments}]))
        messages.append(ToolMessage(result, tool_call_id=key))
    weights = {id(one): counter.count(str(one.content)) + 20 for one in messages}

    def count(given: list[Any]) -> int:
        return sum(weights[id(one)] for one in given)

    cut, _ = timed(lambda: trim_messages(messages, max_tokens=BUDGET, strategy="last", token_counter=count))
    return {"count": counted, "trim_messages": cut}


STARTS: Final = {
    "`from cupel import MessageSession`": "from cupel import MessageSession",
    "the first `fit` of a short chat that fits, with that import": (
        "from cupel.messages import fit; fit([{'role': 'user', 'content': 'Hello.'}], 1000)"
    ),
    "`import tiktoken` and its first count with the same table": (
        "from cupel.tokens import TiktokenCounter; TiktokenCounter().count('Hello.')"
    ),
}


def measure_starts(repetitions: int = 7) -> dict[str, float]:
    """Return the milliseconds of processor time that a beginning adds to an empty interpreter, best of several."""
    rounds = [[_processor(code) for code in ("pass", *STARTS.values())] for _ in range(repetitions)]
    empty, *others = (min(times) for times in zip(*rounds, strict=True))
    return {name: round(one - empty, 1) for name, one in zip(STARTS, others, strict=True)}


def _processor(code: str) -> float:
    told = "import resource; u = resource.getrusage(resource.RUSAGE_SELF); print(u.ru_utime + u.ru_stime)"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{told}"], check=True, capture_output=True, text=True)
    return 1_000 * float(done.stdout.split()[-1])


def table(found: dict[str, Any]) -> str:
    """Return the steps of a session by length and format, what is beside them, their growth, and the beginnings."""
    rows = found["sessions"]
    mine = [row for row in rows if row["format"] != "beside"]
    steps = ("append", "cut", "first turn", "restore", "fit")
    lengths = sorted({row["turns"] for row in rows})
    shortest, longest = lengths[0], lengths[-1]
    at = {(row["format"], row["turns"]): row for row in rows}
    growth = [
        [f"`{name}`", *(_times(at[name, longest][step], at[name, shortest][step]) for step in steps)]
        for name in dict.fromkeys(row["format"] for row in mine)
    ]
    beside = [row for row in rows if row["format"] == "beside"]
    return "\n\n".join(
        [
            markdown(
                ["format", "turns", *(f"{step}, ms" for step in steps)],
                ([f"`{row['format']}`", f"{row['turns']:,}", *(_shown(row[step]) for step in steps)] for row in mine),
            ),
            markdown(
                ["beside", *(f"{row['turns']:,} turns, ms" for row in beside)],
                [
                    ["counting the results with tiktoken", *(_shown(row["count"]) for row in beside)],
                    ["`trim_messages`, counts made beforehand", *(_shown(row["trim_messages"]) for row in beside)],
                ],
            ),
            markdown([f"growth from {shortest:,} to {longest:,} turns", *steps], growth),
            markdown(
                ["beginning", "processor time, ms"], [[name, _shown(one)] for name, one in found["starts"].items()]
            ),
        ]
    )


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}" if value < 10 else f"{value:,.0f}"


def _times(late: float | None, early: float | None) -> str:
    return f"{late / early:.1f}×" if late and early else "–"
