"""Fitting chat histories, side by side with `langchain_core.messages.trim_messages`.

    .venvs/langchain/bin/python benchmarks/messages.py

Both get the same histories, the same budgets and the same token counts, made beforehand, so that time is the time of
cutting. A request counts as valid if the rules of OpenAI's chat completions in `tests/integrations/provider_rules.py`
find nothing to object to; "keeps the rules" means that the system prompt is still there, "keeps the question" that the
newest user message is.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage, trim_messages

from cupel.integrations.langchain import fit_messages
from cupel.messages import fit
from cupel.tokens import TiktokenCounter, _tiktoken

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.messages.provider_rules import violations

WORDS = ("server", "log", "shows", "slow", "query", "in", "module", "while", "build", "step", "waits", "for", "cache")
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
Cut = Callable[[list[BaseMessage], int], list[BaseMessage]]
COUNTER = TiktokenCounter()


def text(rng: random.Random, words: float) -> str:
    return " ".join(rng.choices(WORDS, k=max(1, int(rng.lognormvariate(0, 0.8) * words))))


def session(rng: random.Random, turns: int, *, interrupted: float = 0.0) -> list[BaseMessage]:
    """An agent's session: questions, tool steps with parallel calls, answers; some steps lack a result."""
    messages: list[BaseMessage] = [SystemMessage(text(rng, 60))]
    number = 0
    for _ in range(turns):
        messages.append(HumanMessage(text(rng, 40)))
        for _ in range(rng.randint(0, 4)):
            ids = [f"call_{(number := number + 1)}" for _ in range(rng.choice((1, 1, 1, 2, 3)))]
            calls = [{"name": "look", "args": {"at": text(rng, 5)}, "id": key, "type": "tool_call"} for key in ids]
            messages.append(AIMessage(rng.choice(("", text(rng, 15))), tool_calls=calls))
            answered = ids[1:] if rng.random() < interrupted else ids
            messages += [ToolMessage(text(rng, 300), tool_call_id=key) for key in answered]
        messages.append(AIMessage(text(rng, 80)))
    messages.append(HumanMessage(text(rng, 30)))
    return messages


def as_openai(message: BaseMessage) -> dict[str, Any]:
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    plain: dict[str, Any] = {"role": role, "content": message.content}
    if isinstance(message, AIMessage) and message.tool_calls:
        plain["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": str(call["args"])}}
            for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        plain["tool_call_id"] = message.tool_call_id
    return plain


def measured(message: BaseMessage) -> int:
    """What cupel counts for one message; the other side is given the same numbers."""
    fitted = fit([as_openai(message)], 10**9, counter=COUNTER, provider="openai")
    return sum(entry.item.tokens for entry in (*fitted.report.included, *fitted.report.excluded)) - 3


def trimmer(weights: dict[int, int], **options: Any) -> Cut:
    def count(messages: list[BaseMessage]) -> int:
        return 3 + sum(weights[id(message)] for message in messages)

    def cut(messages: list[BaseMessage], budget: int) -> list[BaseMessage]:
        return trim_messages(messages, max_tokens=budget, token_counter=count, **options)

    return cut


def cupel(messages: list[BaseMessage], budget: int) -> list[BaseMessage]:
    return fit_messages(messages, budget, counter=COUNTER).messages


def compare(histories: list[list[BaseMessage]], title: str) -> None:
    print(f"\n### {title}: {len(histories)} histories, {len(SHARES)} budgets each\n")
    print("| | valid | keeps the rules | keeps the question | budget used, of valid | median ms |")
    print("|---|---:|---:|---:|---:|---:|")
    weights = {id(message): measured(message) for history in histories for message in history}
    recommended = {"strategy": "last", "include_system": True, "start_on": "human", "end_on": ("human", "tool")}
    row("cupel fit_messages", cupel, histories, weights)
    row("trim_messages, as its documentation recommends", trimmer(weights, **recommended), histories, weights)
    row("trim_messages, defaults", trimmer(weights), histories, weights)


def row(name: str, cut: Cut, histories: list[list[BaseMessage]], weights: dict[int, int]) -> None:
    valid = rules = question = cases = 0
    used: list[float] = []
    times: list[float] = []
    for history in histories:
        whole = sum(weights[id(message)] for message in history)
        for share in SHARES:
            budget = int(whole * share)
            start = time.perf_counter()
            kept = cut(history, budget)
            times.append(time.perf_counter() - start)
            cases += 1
            rules += any(message.type == "system" for message in kept)
            question += any(message.id == history[-1].id and message.content == history[-1].content for message in kept)
            if not violations("openai", [as_openai(message) for message in kept]):
                valid += 1
                used.append((3 + sum(measured(message) for message in kept)) / budget)
    shares = " | ".join(f"{part / cases:.1%}" for part in (valid, rules, question))
    print(f"| {name} | {shares} | {statistics.mean(used):.1%} | {statistics.median(times) * 1000:.1f} |")


def large() -> None:
    rng = random.Random(11)
    history = session(rng, 400)[:1000]
    plain = [as_openai(message) for message in history]
    while (tokens := fit(plain, 10**9, counter=COUNTER, provider="openai").total_tokens) < 217_000:
        plain[rng.randrange(len(plain))]["content"] += " log" * min(500, 217_000 - tokens)
    _tiktoken._counts.cache_clear()  # noqa: SLF001  (forget the counts of the loop above)
    start = time.perf_counter()
    fit(plain, 30_000, counter=COUNTER, provider="openai")
    cold = time.perf_counter() - start
    start = time.perf_counter()
    fitted = fit(plain, 30_000, counter=COUNTER, provider="openai")
    warm = time.perf_counter() - start
    print(f"\n### One history of {len(plain):,} messages and {tokens:,} tokens into 30,000\n")
    print(
        f"{warm * 1000:.0f} ms after counting, {cold * 1000:.0f} ms with it; {len(fitted.messages)} messages kept, "
        f"{fitted.total_tokens:,} tokens, valid: {not violations('openai', fitted.messages)}"
    )


if __name__ == "__main__":
    rng = random.Random(1)
    compare([session(rng, rng.randint(3, 30)) for _ in range(60)], "Complete sessions")
    compare([session(rng, rng.randint(3, 30), interrupted=0.1) for _ in range(60)], "Sessions with interrupted steps")
    large()
