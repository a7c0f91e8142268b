"""Score items by the meaning of a query, through the caller's embedding model."""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from itertools import islice
from operator import is_
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from cupel._internal.checks import as_function, as_text, shown
from cupel.errors import ScorerConfigError, StrategyContractError
from cupel.scorers._base import PassScorer, checked_query, required_query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cupel.model import ContextItem

_MOST: Final = 20_000
"""Vectors to keep, unless one pass needs more; with 768 numbers each they take 123 MB."""
_DECIMALS: Final = 9
"""Scores are rounded, so that the summation order of a processor's vector unit does not decide between items."""

Vectors: TypeAlias = "Sequence[Sequence[float]] | NDArray[Any]"
Embed: TypeAlias = "Callable[[list[str]], Vectors | Awaitable[Vectors]]"


class VectorStore:
    """Unit vectors by text, and the matrix of the items scored last. Copies start empty."""

    __slots__ = ("_lock", "_pool", "_vectors")

    def __init__(self) -> None:
        self._lock = Lock()
        self._vectors: dict[str, NDArray[np.float64]] = {}
        """From the oldest to the newest."""
        self._pool: tuple[list[ContextItem], NDArray[np.float64]] | None = None

    def known(self, texts: Iterable[str]) -> dict[str, NDArray[np.float64]]:
        """Return the vectors of the texts that have one."""
        with self._lock:
            return {text: self._vectors[text] for text in texts if text in self._vectors}

    def add(self, vectors: Mapping[str, NDArray[np.float64]], needed: int) -> None:
        """Add vectors, and evict the oldest beyond the limit; a pass keeps all the vectors that it needs."""
        with self._lock:
            self._vectors |= vectors
            surplus = len(self._vectors) - max(_MOST, needed)
            for text in [*islice(self._vectors, max(surplus, 0))]:
                del self._vectors[text]

    def matrix(self, items: Sequence[ContextItem]) -> NDArray[np.float64] | None:
        """Return the vectors of these items if they were scored last."""
        if self._pool is not None:
            known, matrix = self._pool
            if len(known) == len(items) and all(map(is_, known, items)):
                return matrix
        return None

    def keep(self, items: Sequence[ContextItem], matrix: NDArray[np.float64]) -> None:
        """Keep the vectors of the items scored last."""
        self._pool = (list(items), matrix)

    def __reduce__(self) -> tuple[type[VectorStore], tuple[()]]:
        return VectorStore, ()


@dataclass(frozen=True, slots=True)
class EmbeddingScorer(PassScorer):
    """Scores by the cosine between the vectors of an item and of the query; a negative cosine scores 0.

    Vectors are cached by content, the newest 20,000 or all those of one pass; another query over the same items is one
    matrix product. Scores are rounded to nine decimals. An item whose vector is zero scores 0.

    Args:
        embed: Turns a list of texts into as many vectors of one length, as lists or as an array. It is called once
            with all new texts of a pass. An asynchronous function is awaited by `Pipeline.arun`; before any other way
            of selecting, call `await scorer.warm(items)`.
        vector_key: The metadata key under which items bring their own vector; those are not embedded.

    >>> from cupel import ContextItem
    >>> def letters(texts):
    ...     return [[text.count(letter) for letter in "abc"] for text in texts]
    >>> items = [ContextItem("aabb", 1), ContextItem("ac", 1), ContextItem("c", 1)]
    >>> EmbeddingScorer(letters).bind("ab").score_all(items)
    [1.0, 0.5, 0.0]
    """

    embed: Embed
    vector_key: str | None = field(default=None, kw_only=True)
    query: str | None = field(default=None, kw_only=True)
    """The query that the scorer compares items with; `bind` sets it."""
    _store: VectorStore = field(default_factory=VectorStore, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        as_function("embed", self.embed)
        if self.vector_key is not None and not as_text("vector_key", self.vector_key):
            raise ScorerConfigError("vector_key must not be empty, got ''")
        if self.query is not None:
            object.__setattr__(self, "query", checked_query(self.query))

    def bind(self, query: str) -> Self:
        """Return this scorer for one query; both share their vectors."""
        bound = replace(self, query=query)
        object.__setattr__(bound, "_store", self._store)
        return bound

    async def warm(self, items: Sequence[ContextItem]) -> None:
        """Embed the texts of the items and the query that have no vector yet."""
        texts = [item.content for item in items if self._own(item) is None]
        missing = self._missing(texts if self.query is None else [*texts, self.query], {})
        if missing:
            answer = self.embed(missing)
            self._learn(missing, await answer if isawaitable(answer) else answer, len(items))

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        import numpy as np

        query = required_query(self, self.query)
        if not items:
            return []
        matrix = self._store.matrix(items)
        vectors: dict[str, NDArray[np.float64]] = {}
        if matrix is None:
            matrix = self._matrix(items, query, vectors)
        else:
            self._embed([query], vectors, len(items))
        wanted = vectors[query]
        if len(wanted) != matrix.shape[1]:
            raise _breach(f"vectors must have one length, got {len(wanted)} and {matrix.shape[1]}")
        if not wanted.any():
            raise _breach(f"the vector of the query {shown(query)} must not be zero: it has no direction")
        self._store.keep(items, matrix)
        # einsum sums each row in the same order, whatever the other rows are; with BLAS the order may depend on them.
        products = np.einsum("ij,j->i", matrix, wanted)
        scores: list[float] = np.clip(products.round(_DECIMALS), 0.0, 1.0).tolist()
        return scores

    def _matrix(
        self, items: Sequence[ContextItem], query: str, vectors: dict[str, NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return the vectors of the items as rows; add those of their texts and of the query to `vectors`."""
        import numpy as np

        own = [self._own(item) for item in items]
        brought = [vector for vector in own if vector is not None]
        units = iter(_unit_vectors(brought, f"metadata[{shown(self.vector_key)}]") if brought else ())
        texts = [item.content for item, vector in zip(items, own, strict=True) if vector is None]
        self._embed([*texts, query], vectors, len(items))
        rows = [
            vectors[item.content] if vector is None else next(units) for item, vector in zip(items, own, strict=True)
        ]
        odd = next((row for row in rows if len(row) != len(rows[0])), None)
        if odd is not None:
            raise _breach(f"vectors must have one length, got {len(rows[0])} and {len(odd)}")
        return np.stack(rows)

    def _embed(self, texts: list[str], vectors: dict[str, NDArray[np.float64]], count: int) -> None:
        """Add the vectors of these texts to `vectors`, in a pass over `count` items."""
        missing = self._missing(texts, vectors)
        if missing:
            answer = self.embed(missing)
            if isawaitable(answer):
                _abandon(answer)
                raise ScorerConfigError("embed is asynchronous: select with arun, or await scorer.warm(items) first")
            vectors |= self._learn(missing, answer, count)

    def _missing(self, texts: list[str], vectors: dict[str, NDArray[np.float64]]) -> list[str]:
        """Return the texts without a vector, each once; add the vectors of the others to `vectors`."""
        vectors |= self._store.known(texts)
        return [text for text in dict.fromkeys(texts) if text not in vectors]

    def _learn(self, texts: list[str], answer: object, count: int) -> dict[str, NDArray[np.float64]]:
        """Keep the vectors that `embed` returned."""
        vectors = _vectors_of(answer)
        if len(vectors) != len(texts):
            raise _breach(f"embed returned {len(vectors)} vectors for {len(texts)} texts")
        found = dict(zip(texts, _unit_vectors(vectors, "a vector of embed"), strict=True))
        self._store.add(found, count + 1)
        return found

    def _own(self, item: ContextItem) -> Any:
        return None if self.vector_key is None else item.metadata.get(self.vector_key)


def _vectors_of(answer: Any) -> Any:
    """Return an answer of `embed` as a sequence of vectors."""
    if isinstance(answer, (str, bytes)) or getattr(answer, "ndim", 2) != 2:  # noqa: PLR2004
        raise _breach(f"embed must return a list of vectors, got {shown(answer)}")
    if hasattr(answer, "ndim"):
        return answer
    try:
        return list(answer)
    except TypeError:
        raise _breach(f"embed must return a list of vectors, got {shown(answer)}") from None


def _unit_vectors(vectors: Any, name: str) -> NDArray[np.float64]:
    """Scale vectors to length 1, so that a product is a cosine; a zero vector stays zero."""
    import numpy as np

    numbers = _numbers(vectors, name)
    largest = np.maximum(numbers.max(axis=1, initial=0.0), -numbers.min(axis=1, initial=0.0))
    numbers /= np.where(largest > 0.0, largest, 1.0)[:, np.newaxis]  # so that squares cannot overflow
    lengths = np.sqrt(np.einsum("ij,ij->i", numbers, numbers))
    numbers /= np.where(lengths > 0.0, lengths, 1.0)[:, np.newaxis]
    return numbers


def _numbers(vectors: Any, name: str) -> NDArray[np.float64]:
    """Return vectors as a matrix; raise for the first with a number that is not finite."""
    import numpy as np

    try:
        matrix = np.asarray(vectors)
    except ValueError:
        matrix = None
    if matrix is None or matrix.ndim != 2 or matrix.dtype.kind not in "biuf":  # noqa: PLR2004
        rows = [_row(vector, name) for vector in vectors]
        odd = next((row for row in rows if len(row) != len(rows[0])), None)
        if odd is not None:
            raise _breach(f"vectors must have one length, got {len(rows[0])} and {len(odd)}")
        matrix = np.stack(rows)
    numbers = matrix.astype(np.float64)
    finite = np.isfinite(numbers).all(axis=1)
    if not finite.all():
        raise _breach(f"{name} must hold finite numbers, got {shown(vectors[int(finite.argmin())])}")
    return numbers


def _row(vector: Any, name: str) -> NDArray[np.float64]:
    """Convert one vector: slow, for objects such as Fraction, and for an error that names the vector."""
    import numpy as np

    try:
        numbers = list(vector)
    except TypeError:
        raise _breach(f"{name} must be a list of numbers, got {type(vector).__name__}: {shown(vector)}") from None
    found = array("d")
    for number in numbers:
        try:
            found.append(number)  # rejects strings, which float() would parse
        except (TypeError, ValueError, OverflowError):
            raise _breach(f"{name} must hold numbers, got {shown(number)} in {shown(vector)}") from None
    return np.array(found)


def _breach(message: str) -> StrategyContractError:
    return StrategyContractError(EmbeddingScorer.__name__, message)


def _abandon(answer: object) -> None:
    close = getattr(answer, "close", None)  # a coroutine that is never awaited would warn
    if callable(close):
        close()
