"""Vectors of texts, remembered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Final

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
