"""Other Python packages that fit text into a budget, each doing only what it does, on the same texts.

Every text is four characters for each of its tokens and everybody counts four characters as a token, so that all see
the same sizes. Each is timed from the texts and their scores to the selection, its own objects included. "Value" is
the sum of the scores of what was selected whole; "used" is how much of the budget that takes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple

from benchmarks.measure import garbage_collection, timed
from cupel import ContextBudget, ContextItem, GreedySlice, KnapsackSlice, Pipeline, ReflexiveScorer, Slicer

Selected = list[int]
"""Numbers of the texts that were selected whole."""


class Task(NamedTuple):
    """Texts in the order they were written, how relevant each is, and the tokens there are for them."""

    texts: list[str]
    scores: list[float]
    budget: int


Peer = Callable[[Task], Selected]


def chunks(count: int, seed: int = 4) -> Task:
    """Passages of 20 to 800 tokens with independent scores; about half of them fit."""
    rng = random.Random(seed)
    sizes = [rng.randint(20, 800) for _ in range(count)]
    texts = [f"{number:07} " + "text" * (size - 2) for number, size in enumerate(sizes)]
    return Task(texts, [rng.random() for _ in sizes], sum(sizes) // 2)


def conversation(count: int, seed: int = 5) -> Task:
    """Turns of 5 to 200 tokens; the later, the more relevant."""
    rng = random.Random(seed)
    sizes = [rng.randint(5, 200) for _ in range(count)]
    texts = [f"{number:07} " + "text" * (size - 2) for number, size in enumerate(sizes)]
    return Task(texts, [number / (count - 1) for number in range(count)], sum(sizes) // 2)


def count_tokens(text: str) -> int:
    return -(-len(text) // 4)


def cupel_with(slicer: Slicer) -> Peer:
    pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=slicer)

    def run(task: Task) -> Selected:
        items = [
            ContextItem(text, count_tokens(text), future_relevance_hint=score)
            for text, score in zip(task.texts, task.scores, strict=True)
        ]
        return [int(item.content[:7]) for item in pipeline.run(items, ContextBudget(task.budget, task.budget))]

    return run


def promptbudget(task: Task) -> Selected:
    from promptbudget import Action, Item, Section, pack

    items = [Item(text, score=score) for text, score in zip(task.texts, task.scores, strict=True)]
    section = Section("chunks", items, strategy="lowest_score_first", separator="")
    result = pack([section], budget=task.budget, tokenizer=count_tokens)
    return [d.index for part in result.sections for d in part.decisions if d.action is Action.KEPT]


def contextcram(task: Task) -> Selected:
    from contextcram import CallableTokenizer, Packer

    packer = Packer(budget=task.budget, tokenizer=CallableTokenizer(count_tokens))
    for text, score in zip(task.texts, task.scores, strict=True):
        packer.add(text, priority=round(score * 1_000_000), strategy="drop")
    return [int(fitted.text[:7]) for fitted in packer.fit().items]


def llm_ctxpack(task: Task) -> Selected:
    from unittest.mock import patch

    from llm_ctxpack import ContextItem as Candidate
    from llm_ctxpack import pack

    # It counts with tiktoken where that is installed; here everybody counts alike.
    with patch("llm_ctxpack.packer.count_tokens", lambda text, encoding: count_tokens(text)):  # noqa: ARG005
        items = [
            Candidate(str(number), text, priority=score, truncatable=False)
            for number, (text, score) in enumerate(zip(task.texts, task.scores, strict=True))
        ]
        return [int(packed.id) for packed in pack(items, task.budget).items]


def langchain_trim(task: Task) -> Selected:
    from langchain_core.messages import HumanMessage, trim_messages

    messages = [HumanMessage(text) for text in task.texts]
    kept = trim_messages(
        messages,
        max_tokens=task.budget,
        strategy="last",
        token_counter=lambda given: sum(count_tokens(message.content) for message in given),
    )
    return [int(message.content[:7]) for message in kept]


OURS: dict[str, Peer] = {
    "cupel, greedy": cupel_with(GreedySlice()),
    "cupel, knapsack with automatic buckets": cupel_with(KnapsackSlice("auto")),
}
TASKS: dict[str, tuple[Callable[[int], Task], dict[str, Peer]]] = {
    "choose among scored passages": (
        chunks,
        {**OURS, "promptbudget": promptbudget, "contextcram": contextcram, "llm-ctxpack": llm_ctxpack},
    ),
    "keep the latest of a conversation": (conversation, {**OURS, "langchain-core": langchain_trim}),
}
MODULES = {"langchain-core": "langchain_core", "llm-ctxpack": "llm_ctxpack"}


def measure_peers(sizes: tuple[int, ...] = (100, 1_000, 10_000), *, seconds: float = 0.5) -> list[dict[str, Any]]:
    """Measure whoever is installed; a peer that takes longer than two seconds is not asked about larger tasks."""
    return list(_rows(sizes, seconds))


def _rows(sizes: tuple[int, ...], seconds: float) -> Iterator[dict[str, Any]]:
    for task_name, (make, peers) in TASKS.items():
        slow: set[str] = set()
        for size in sizes:
            task = make(size)
            for name, peer in peers.items():
                if name in slow or not installed(name):
                    continue
                with garbage_collection(enabled=True):
                    best = timed(lambda: peer(task), seconds=seconds, least=1).best  # noqa: B023
                if best > 2_000_000:
                    slow.add(name)
                yield {"task": task_name, "items": size, "peer": label(name), **_result(peer(task), task), "best": best}


def _result(selected: Selected, task: Task) -> dict[str, float]:
    used = sum(count_tokens(task.texts[number]) for number in selected)
    return {
        "value": round(sum(task.scores[number] for number in sorted(selected)), 4),
        "used": round(used / task.budget, 4),
    }


def installed(name: str) -> bool:
    return name in OURS or find_spec(MODULES.get(name, name)) is not None


def label(name: str) -> str:
    return name if name in OURS else f"{name} {version(name)}"
