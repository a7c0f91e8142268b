"""Parts that several adapters share: ids for calls, and the selection of retrieved documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from cupel import presets
from cupel.model import ContextBudget, ContextItem, ContextKind, ContextSource
from cupel.pipeline import Pipeline
from cupel.tokens import TokenCounter, counter_or_default

D = TypeVar("D")


class CallIds:
    """Gives ids to the calls of frameworks that do not always have any, message by message.

    A call without an id is named after its place in its message. A result belongs to the call with its id, or else to
    the first equal call without a result.

    >>> ids = CallIds()
    >>> ids.ask([(None, "roll"), (None, "roll")]), ids.answer(None, "roll"), ids.answer(None, "roll")
    (['call 0', 'call 1'], 'call 0', 'call 1')
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[str, object]] = []

    def ask(self, calls: Iterable[tuple[str | None, object]]) -> list[str]:
        """Return the ids of a message's calls, each given as its own id, if any, and the call."""
        self._waiting = [(key or f"call {place}", call) for place, (key, call) in enumerate(calls)]
        return [key for key, _ in self._waiting]

    def answer(self, key: str | None, call: object = None) -> str:
        """Return the id of the call that a result belongs to; without `call`, of any that has no result yet."""
        found = [one for one in self._waiting if one[0] == key] if key else []
        found = found or [one for one in self._waiting if call is None or one[1] == call]
        if not found:
            return str(key)
        self._waiting.remove(found[0])
        return found[0][0]


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
    """Return the documents that fit, as the policy places them, without those that have no text.

    A document's relevance is the retriever's score, or else its rank: retrievers return the best first. The default
    policy is `presets.rag()`, which puts the best at both ends.
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
