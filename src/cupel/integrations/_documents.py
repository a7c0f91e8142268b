"""Choosing retrieved documents: what the frameworks' document components share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from cupel import presets
from cupel.model import ContextBudget, ContextItem, ContextKind, ContextSource
from cupel.pipeline import Pipeline
from cupel.tokens import TokenCounter, counter_or_default

D = TypeVar("D")


def select_documents(
    documents: Sequence[D],
    budget: int | ContextBudget,
    policy: Pipeline | None,
    counter: TokenCounter | None,
    *,
    text: Callable[[D], str | None],
    score: Callable[[D], float | None],
    query: str | None = None,
) -> list[D]:
    """Return the documents that fit, as the policy places them; documents without text are left out.

    A retriever's score becomes the item's relevance. Where a document has none, its rank stands in for it: retrievers
    return the best first. Without a policy, `presets.rag()` chooses and puts the best at both ends.
    """
    count = counter_or_default(counter).count
    window = ContextBudget.of(budget)
    sources: dict[int, D] = {}
    items: list[ContextItem] = []
    for rank, document in enumerate(documents):
        content = text(document)
        if not content:
            continue
        relevance = score(document)
        item = ContextItem(
            content,
            count(content),
            kind=ContextKind.DOCUMENT,
            source=ContextSource.RAG,
            future_relevance_hint=1.0 - rank / len(documents) if relevance is None else float(relevance),
        )
        sources[id(item)] = document
        items.append(item)
    pipeline = Pipeline.of(presets.rag() if policy is None else policy)
    return [sources[id(item)] for item in pipeline.run(items, window, query=query)]
