"""Scores by the meaning of a query, through the caller's embedding model."""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from math import isfinite, sqrt
from operator import mul
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, cast

from cupel._checks import as_function, as_text, shown
from cupel.errors import ScorerConfigError, StrategyContractError
from cupel.scorers._base import PassScorer, checked_query, required_query

if TYPE_CHECKING:
    from cupel.model import ContextItem


_MOST: Final = 20_000
"""Vectors that are kept, or those of one pass if they are more: 768 numbers each make 120 MB."""


class Vectors:
    """The unit vectors of the texts met last, by content. Copies start empty."""

    __slots__ = ("_known", "_lock")

    def __init__(self) -> None:
        self._known: dict[str, Sequence[float]] = {}
        self._lock = Lock()

    def of(self, texts: Iterable[str]) -> dict[str, Sequence[float] | None]:
        """Return the vector of each text, None for one that is not known."""
        with self._lock:
            return {text: self._known.get(text) for text in texts}

    def keep(self, vectors: Mapping[str, Sequence[float]], room: int) -> None:
        """Remember vectors, and forget the oldest beyond the limit or, if it is more, `room`."""
        with self._lock:
            self._known.update(vectors)
            surplus = len(self._known) - max(_MOST, room)
            for text in list(self._known)[: max(0, surplus)]:
                del self._known[text]

    def __reduce__(self) -> tuple[type[Vectors], tuple[()]]:
        return Vectors, ()


Vector: TypeAlias = Sequence[float]
Embed: TypeAlias = "Callable[[list[str]], Sequence[Vector] | Awaitable[Sequence[Vector]]]"


@dataclass(frozen=True, slots=True)
class EmbeddingScorer(PassScorer):
    """Scores by the cosine between the vectors of an item and of the query; 0 where they point apart.

    `embed` turns a list of texts into as many vectors. It is asked once about each text, all new texts of a pass
    together; vectors are remembered by content. Items that bring their vector in `metadata[vector_key]` are not
    embedded. An asynchronous `embed` is awaited by `Pipeline.arun`, or by `await scorer.warm(items)` before any other
    way of selecting.

    >>> from cupel import ContextItem
    >>> def letters(texts):
    ...     return [[text.count(letter) for letter in "abc"] for text in texts]
    >>> items = [ContextItem("aabb", 1), ContextItem("ac", 1), ContextItem("c", 1)]
    >>> [round(score, 3) for score in EmbeddingScorer(letters).bind("ab").score_all(items)]
    [1.0, 0.5, 0.0]
    """

    embed: Embed
    vector_key: str | None = field(default=None, kw_only=True)
    query: str | None = field(default=None, kw_only=True)
    """The query this scorer is bound to; `bind` sets it."""
    _vectors: Vectors = field(default_factory=Vectors, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        as_function("embed", self.embed)
        if self.vector_key is not None and not as_text("vector_key", self.vector_key):
            msg = "vector_key must not be empty, got ''"
            raise ScorerConfigError(msg)
        if self.query is not None:
            object.__setattr__(self, "query", checked_query(self.query))

    def bind(self, query: str) -> Self:
        """Return this scorer for one query; the two share the vectors they know."""
        bound = replace(self, query=query)
        object.__setattr__(bound, "_vectors", self._vectors)
        return bound

    async def warm(self, items: Sequence[ContextItem]) -> None:
        """Embed what is not known yet of the items and the query."""
        vectors, missing = self._known(items, self.query)
        if missing:
            answer = self.embed(missing)
            self._learn(vectors, missing, await answer if isawaitable(answer) else answer)

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        query = required_query(self, self.query)
        vectors, missing = self._known(items, query)
        if missing:
            answer = self.embed(missing)
            if isawaitable(answer):
                _abandon(answer)
                msg = "embed is asynchronous: select with arun, or await scorer.warm(items) first"
                raise ScorerConfigError(msg)
            self._learn(vectors, missing, answer)
        wanted = cast("Vector", vectors[query])
        return [max(0.0, _cosine(self._vector(item, vectors), wanted)) for item in items]

    def _known(self, items: Sequence[ContextItem], query: str | None) -> tuple[dict[str, Vector | None], list[str]]:
        texts = [item.content for item in items if self._own(item) is None]
        vectors = self._vectors.of(texts if query is None else [*texts, query])
        return vectors, [text for text, vector in vectors.items() if vector is None]

    def _own(self, item: ContextItem) -> Any:
        return None if self.vector_key is None else item.metadata.get(self.vector_key)

    def _vector(self, item: ContextItem, vectors: dict[str, Vector | None]) -> Vector:
        own = self._own(item)
        if own is None:
            return cast("Vector", vectors[item.content])
        return _unit(own, f"metadata[{shown(self.vector_key)}]")

    def _learn(self, vectors: dict[str, Vector | None], missing: list[str], answer: object) -> None:
        try:
            found = list(cast("Sequence[Vector]", answer))
        except TypeError:
            raise _breach(f"embed must return a list of vectors, got {shown(answer)}") from None
        if len(found) != len(missing):
            raise _breach(f"embed returned {len(found)} vectors for {len(missing)} texts")
        new = {text: _unit(vector, "a vector of embed") for text, vector in zip(missing, found, strict=True)}
        vectors.update(new)
        self._vectors.keep(new, len(vectors))


def _unit(vector: Any, name: str) -> Vector:
    """Scale a vector to length 1, so that a product is a cosine; one without a direction stays as it is."""
    try:
        numbers = array("d", vector)
    except (TypeError, ValueError, OverflowError):
        raise _breach(f"{name} must hold numbers, got {shown(vector)}") from None
    if not all(map(isfinite, numbers)):
        raise _breach(f"{name} must hold finite numbers, got {shown(vector)}")
    largest = max(map(abs, numbers), default=0.0)
    if largest == 0.0:
        return numbers
    scaled = [value / largest for value in numbers]  # or their squares could overflow
    length = sqrt(sum(map(mul, scaled, scaled)))
    return array("d", [value / length for value in scaled])


def _cosine(left: Vector, right: Vector) -> float:
    if len(left) != len(right):
        raise _breach(f"vectors must have one length, got {len(left)} and {len(right)}")
    product: float = sum(map(mul, left, right))
    return min(1.0, product)


def _breach(message: str) -> StrategyContractError:
    return StrategyContractError(EmbeddingScorer.__name__, message)


def _abandon(answer: object) -> None:
    close = getattr(answer, "close", None)  # a coroutine that nobody awaits would warn
    if callable(close):
        close()
