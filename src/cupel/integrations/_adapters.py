"""Parts that several adapters share: recent entries, ids for calls, and the selection of retrieved documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from threading import Lock
from typing import TypeVar

from cupel import presets
from cupel.model import ContextBudget, ContextItem, ContextKind, ContextSource
from cupel.pipeline import Pipeline
from cupel.tokens import TokenCounter, counter_or_default

D = TypeVar("D")
V = TypeVar("V")


class Recent(MutableMapping[str, V]):
    """A mapping, safe to share between threads, that forgets the oldest entries beyond a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[str, V] = {}
        self._lock = Lock()

    def __getitem__(self, key: str) -> V:
        return self._entries[key]

    def __setitem__(self, key: str, value: V) -> None:
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = value
            if len(self._entries) > self._limit:
                del self._entries[next(iter(self._entries))]

    def __delitem__(self, key: str) -> None:
        del self._entries[key]

    def take(self, key: str) -> V | None:
        """Remove an entry and return it, if there is one; of two threads, only one gets it."""
        return self._entries.pop(key, None)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)


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
