"""Score items by the meaning of a query, through the caller's embedding model."""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from operator import is_
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias, cast

from cupel._checks import as_function, as_text, shown
from cupel.errors import ScorerConfigError, StrategyContractError
from cupel.scorers._base import PassScorer, checked_query, required_query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cupel.model import ContextItem

_MOST: Final = 20_000
"""Vectors to keep, or those of one pass if they are more; 768 numbers each take 123 MB."""
_CHUNK: Final = 4_096
"""Vectors that are converted at a time."""
_DECIMALS: Final = 9
"""Scores are rounded, so that the summation order of a processor's vector unit does not decide between items."""

Vectors: TypeAlias = "Sequence[Sequence[float]] | NDArray[Any]"
Embed: TypeAlias = "Callable[[list[str]], Vectors | Awaitable[Vectors]]"
Subject: TypeAlias = "str | ContextItem"


class VectorStore:
    """Unit vectors as the rows of one matrix, by text or by the item that brings its own. Copies start empty."""

    __slots__ = ("_lock", "_matrix", "_pool", "_rows", "_subjects")

    def __init__(self) -> None:
        self._lock = Lock()
        self._rows: dict[str | int, int] = {}
        self._subjects: list[Subject] = []
        """The subject of each row; it keeps an item alive whose `id` is a key."""
        self._matrix: NDArray[np.float64] | None = None
        """Rows beyond the subjects are spare."""
        self._pool: tuple[list[ContextItem], NDArray[np.intp]] | None = None
        """The items scored last, and their rows."""

    def missing(self, subjects: Iterable[Subject]) -> list[Subject]:
        """Return the subjects without a vector, each once."""
        with self._lock:
            unknown = {_key(subject): subject for subject in subjects if _key(subject) not in self._rows}
        return list(unknown.values())

    def knows(self, items: Sequence[ContextItem]) -> bool:
        """Return whether these items were scored last."""
        with self._lock:
            return self._known_rows(items) is not None

    def add(self, subjects: Sequence[Subject], vectors: NDArray[np.float64], needed: _Needed) -> None:
        """Add vectors; beyond the limit and an eighth, evict the oldest that are not `needed` until the limit holds."""
        with self._lock:
            self._append(subjects, vectors)
            limit = max(_MOST, needed.most)
            if len(self._subjects) > limit + limit // 8:
                kept = {_key(subject) for subject in needed.subjects()}
                self._evict(kept, len(self._subjects) - max(_MOST, len(kept)))

    def cosines(
        self, items: Sequence[ContextItem], query: str, subjects: Callable[[Sequence[ContextItem]], list[Subject]]
    ) -> list[float] | None:
        """Return each item's cosine with the query, or None if a vector is missing."""
        import numpy as np

        with self._lock:
            rows, wanted = self._rows_of(items, subjects), self._rows.get(query)
            if rows is None or wanted is None or self._matrix is None:
                return None
            matrix = self._matrix[: len(self._subjects)]  # never written again: new rows follow, eviction copies
        if not matrix[wanted].any():
            raise _breach(f"the vector of the query {shown(query)} must not be zero: it has no direction")
        # einsum adds up a row in an order that does not depend on the other rows, as BLAS may.
        if 2 * len(rows) < len(matrix):
            products = np.einsum("ij,j->i", matrix[rows], matrix[wanted])
        else:
            products = np.einsum("ij,j->i", matrix, matrix[wanted])[rows]
        scores: list[float] = np.clip(products.round(_DECIMALS), 0.0, 1.0).tolist()
        return scores

    def _rows_of(
        self, items: Sequence[ContextItem], subjects: Callable[[Sequence[ContextItem]], list[Subject]]
    ) -> NDArray[np.intp] | None:
        import numpy as np

        rows = self._known_rows(items)
        if rows is not None:
            return rows
        found = [self._rows.get(_key(subject), -1) for subject in subjects(items)]
        if -1 in found:
            return None
        rows = np.array(found, dtype=np.intp)
        self._pool = (list(items), rows)
        return rows

    def _known_rows(self, items: Sequence[ContextItem]) -> NDArray[np.intp] | None:
        if self._pool is not None:
            known, rows = self._pool
            if len(known) == len(items) and all(map(is_, known, items)):
                return rows
        return None

    def _append(self, subjects: Sequence[Subject], vectors: NDArray[np.float64]) -> None:
        import numpy as np

        start, width = len(self._subjects), vectors.shape[1]
        if self._matrix is not None and self._matrix.shape[1] != width:
            raise _breach(f"vectors must have one length, got {width} after {self._matrix.shape[1]}")
        new = [at for at, subject in enumerate(subjects) if _key(subject) not in self._rows]
        size = start + len(new)
        if self._matrix is None or size > len(self._matrix):
            larger = np.empty((size + size // 8, width), dtype=np.float64)
            if self._matrix is not None:
                larger[:start] = self._matrix[:start]
            self._matrix = larger
        self._matrix[start:size] = vectors if len(new) == len(vectors) else vectors[new]
        for row, at in enumerate(new, start):
            self._rows[_key(subjects[at])] = row
            self._subjects.append(subjects[at])

    def _evict(self, kept: set[str | int], surplus: int) -> None:
        stay: list[int] = []
        for row, subject in enumerate(self._subjects):
            if surplus and _key(subject) not in kept:
                surplus -= 1
            else:
                stay.append(row)
        self._matrix = cast("NDArray[np.float64]", self._matrix)[stay]
        self._subjects = [self._subjects[row] for row in stay]
        self._rows = {_key(subject): row for row, subject in enumerate(self._subjects)}
        self._pool = None

    def __reduce__(self) -> tuple[type[VectorStore], tuple[()]]:
        return VectorStore, ()


class _Needed(NamedTuple):
    """The subjects of one pass, listed only when they are asked for, and at most how many they are."""

    most: int
    subjects: Callable[[], list[Subject]]


def _key(subject: Subject) -> str | int:
    return subject if isinstance(subject, str) else id(subject)


@dataclass(frozen=True, slots=True)
class EmbeddingScorer(PassScorer):
    """Scores by the cosine between the vectors of an item and of the query; 0 for a right angle or more.

    Vectors are kept by content, the newest 20,000 or those of one pass; a further query over the
    same items is one matrix product. Scores are rounded to nine decimals. An item whose vector is zero scores 0.

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
    """The query this scorer is bound to; `bind` sets it."""
    _store: VectorStore = field(default_factory=VectorStore, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        as_function("embed", self.embed)
        if self.vector_key is not None and not as_text("vector_key", self.vector_key):
            msg = "vector_key must not be empty, got ''"
            raise ScorerConfigError(msg)
        if self.query is not None:
            object.__setattr__(self, "query", checked_query(self.query))

    def bind(self, query: str) -> Self:
        """Return this scorer for one query; both share their vectors."""
        bound = replace(self, query=query)
        object.__setattr__(bound, "_store", self._store)
        return bound

    async def warm(self, items: Sequence[ContextItem]) -> None:
        """Embed the texts of the items and the query that have no vector yet."""
        needed = self._needed(items, self.query)
        texts = [subject for subject in self._store.missing(needed.subjects()) if isinstance(subject, str)]
        if texts:
            answer = self.embed(texts)
            self._add(texts, await answer if isawaitable(answer) else answer, needed)

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        query = required_query(self, self.query)
        # A loop, because another thread may evict vectors between the two calls.
        while (scores := self._store.cosines(items, query, self._subjects)) is None:
            self._learn(items, query)
        return scores

    def _learn(self, items: Sequence[ContextItem], query: str) -> None:
        """Add the vectors of the items and the query that are not known."""
        needed = self._needed(items, query)
        missing: list[Subject] = [query] if self._store.knows(items) else self._store.missing(needed.subjects())
        owners = [subject for subject in missing if not isinstance(subject, str)]
        if owners:
            own = [self._own(item) for item in owners]
            self._store.add(owners, _unit_vectors(own, f"metadata[{shown(self.vector_key)}]"), needed)
        texts = [subject for subject in missing if isinstance(subject, str)]
        if texts:
            answer = self.embed(texts)
            if isawaitable(answer):
                _abandon(answer)
                msg = "embed is asynchronous: select with arun, or await scorer.warm(items) first"
                raise ScorerConfigError(msg)
            self._add(texts, answer, needed)

    def _add(self, texts: list[str], answer: object, needed: _Needed) -> None:
        vectors = _vectors_of(answer)
        if len(vectors) != len(texts):
            raise _breach(f"embed returned {len(vectors)} vectors for {len(texts)} texts")
        self._store.add(texts, _unit_vectors(vectors, "a vector of embed"), needed)

    def _needed(self, items: Sequence[ContextItem], query: str | None) -> _Needed:
        queries: list[Subject] = [] if query is None else [query]
        return _Needed(len(items) + len(queries), lambda: [*self._subjects(items), *queries])

    def _subjects(self, items: Sequence[ContextItem]) -> list[Subject]:
        """Return each item's text, or the item itself if it brings its vector."""
        if self.vector_key is None:
            return [item.content for item in items]
        return [item.content if self._own(item) is None else item for item in items]

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

    units = np.empty((0, 0), dtype=np.float64)
    for start in range(0, len(vectors), _CHUNK):
        numbers = _numbers(vectors[start : start + _CHUNK], name)
        if not start:
            units = np.empty((len(vectors), numbers.shape[1]), dtype=np.float64)
        elif units.shape[1] != numbers.shape[1]:
            raise _breach(f"vectors must have one length, got {units.shape[1]} and {numbers.shape[1]}")
        largest = np.abs(numbers).max(axis=1, keepdims=True, initial=0.0)
        numbers = numbers / np.where(largest > 0.0, largest, 1.0)  # or squares could overflow
        lengths = np.sqrt(np.einsum("ij,ij->i", numbers, numbers))[:, np.newaxis]
        units[start : start + len(numbers)] = numbers / np.where(lengths > 0.0, lengths, 1.0)
    return units


def _numbers(vectors: Any, name: str) -> NDArray[np.float64]:
    """Return vectors as a matrix of finite numbers; raise for the first that has others."""
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
    """Return one vector as numbers: slow, for objects like Fraction and to name a vector that holds something else."""
    import numpy as np

    try:
        return np.array(array("d", vector))  # refuses strings, which float would read
    except (TypeError, ValueError, OverflowError):
        raise _breach(f"{name} must hold numbers, got {shown(vector)}") from None


def _breach(message: str) -> StrategyContractError:
    return StrategyContractError(EmbeddingScorer.__name__, message)


def _abandon(answer: object) -> None:
    close = getattr(answer, "close", None)  # a coroutine that is never awaited would warn
    if callable(close):
        close()
