"""Markers, and choosing which lines or rows of a long text are kept within some room."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from cupel._internal.text import plural

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

MARKER = 32
"""About how many characters a marker takes, with its line ends."""
_LEAST = 24
"""Fewer characters of a piece are not worth a marker."""
_SIGN = "[cupel:"
_HIDDEN = "[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*"
_STYLES = (*range(0x1D400, 0x1D6A4, 26), 0x24D0)
"""Where the alphabets of letters in mathematical styles begin, and of those in circles."""


def _alike(letter: str, others: str) -> str:
    """Return a pattern of the characters that look like a letter."""
    return f"[{letter}{others}{''.join(chr(style + ord(letter) - ord('a')) for style in _STYLES)}]"


_LETTERS = ("[\\[［〔【]", *map(_alike, "cupel", ("ｃсϲⅽᴄ", "ｕυᴜ", "ｐрρᴘ", "ｅеᴇ", "ｌӏⅼʟ")))  # noqa: RUF001
_WORD = _HIDDEN.join((*_LETTERS, "")) + "(?=[:：∶﹕꞉])"  # noqa: RUF001
"""The beginning of a marker, also in letters that a model takes for these, with hidden characters between them."""
_FORGED = re.compile(_WORD, re.IGNORECASE)
FOREIGN = re.compile(f"{_WORD}(?!: image omitted\\])", re.IGNORECASE)
"""The beginning of a marker that is not this package's own: images are replaced before a text is cut."""
_IMAGES = (";base64,", *(f'"{sign}' for sign in ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")))
"""How images in base64 begin: as a data URL, or as a string with a PNG, JPEG, GIF or WebP file."""
_IMAGE = re.compile(
    r'data:image/[\w.+-]+;base64,[A-Za-z0-9+/=]{100,}|(?<=")(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR)[A-Za-z0-9+/=]{200,}(?=")'
)


_COLOUR = re.compile(r"\x1b\[[\d;]*m")


class Marker(str):
    """A line that describes an omission: `[cupel: lines 6–135 omitted]`."""

    __slots__ = ()

    @classmethod
    def of(cls, what: str) -> Marker:
        """Return the text of the marker."""
        return cls(f"{_SIGN} {what} omitted]")

    @classmethod
    def span(cls, unit: str, first: int, last: int) -> Marker:
        """Return the marker of omitted lines or rows, which are counted from 1."""
        return cls.of(f"{unit} {first}" if first == last else f"{unit}s {first}–{last}")

    @classmethod
    def amount(cls, number: int, unit: str) -> Marker:
        """Return the marker of an amount: `[cupel: 1,200 characters omitted]`."""
        return cls.of(plural(number, unit))


def escape_markers(text: str) -> str:
    """Return a text in which nothing looks like a marker of this package: `[cupel:` becomes `[cupel :`.

    A tool's output may imitate a marker. Escape it before it is sent, whether it is shortened or not.

    >>> escape_markers("[cupel: lines 2–9 omitted]")
    '[cupel : lines 2–9 omitted]'
    """
    return _FORGED.sub(r"\g<0> ", text)


def escape_foreign(text: str) -> str:
    """Return a text with its markers escaped, except for those of images."""
    return FOREIGN.sub(r"\g<0> ", text)


def without_images(text: str) -> str:
    """Return a text without colours of a terminal, and with a marker in place of each image in base64."""
    text = _COLOUR.sub("", text) if "\x1b[" in text else text
    return _IMAGE.sub(Marker.of("image"), text) if any(sign in text for sign in _IMAGES) else text


def rendered(segments: Iterable[str], end: str = "\n") -> str:
    """Return segments as one text, each marker on a separate line."""
    parts: list[str] = []
    at_start = True
    for segment in segments:
        if isinstance(segment, Marker):
            parts += (segment, end) if at_start else (end, segment, end)
            at_start = True
        elif segment:
            parts.append(segment)
            at_start = segment.endswith("\n")
    if at_start and len(parts) > 1 and isinstance(parts[-2], Marker):
        parts.pop()
    return "".join(parts)


def spread(lengths: Sequence[int], middle: Iterable[int] = (), *, head: float, tail: float) -> Iterator[int]:
    """Yield positions from the end, from the beginning and from `middle`, each in its share of the characters."""
    count = len(lengths)
    given = bytearray(count)
    streams = [iter(range(count - 1, -1, -1)), iter(range(count)), iter(middle)]
    weights = [tail, head, max(1 - head - tail, 0.01)]
    used = [0.0 if weight else float("inf") for weight in weights]
    while min(used) < float("inf"):
        at = used.index(min(used))
        position = next((one for one in streams[at] if not given[one]), None)
        if position is None:
            used[at] = float("inf")
        else:
            given[position] = 1
            used[at] += (lengths[position] + 1) / weights[at]
            yield position


class Cutting(NamedTuple):
    """When a piece is cut: lengths are in characters."""

    long: int
    """A longer piece is cut at first."""
    first: int
    """This many characters of it are kept at first, and later twice as many."""
    least: int
    """A shorter piece is kept whole or omitted."""
    spare: float
    """Any other piece is cut only to fill this share of the room, or more."""
    marker: int = 0
    """The room for the marker in a cut piece, unless the piece itself accounts for it."""


class Pieces:
    """Pieces of a text in the order in which they are kept; a larger room keeps all that a smaller one does.

    Long ones are cut at first, except for those that should be whole.
    """

    def __init__(
        self, lengths: Sequence[int], ranking: Iterable[int], cutting: Cutting, whole: Container[int] = ()
    ) -> None:
        self._cutting, self._whole = cutting, whole
        self._lengths = lengths
        self._coming = self._steps(ranking)
        self._taken: list[tuple[int, int]] = []
        """Positions with the characters that are kept of each; a long piece comes back with more."""
        self._totals: list[int] = []
        self._peaks: list[int] = []
        self._sizes: dict[int, int] = {}

    def within(self, room: int) -> dict[int, int]:
        """Return the positions that are kept, each with the characters that it may have."""
        while not self._peaks or self._peaks[-1] <= room:
            step = next(self._coming, None)
            if step is None:
                break
            self._totals.append(self._total() + self._added(*step, self._sizes))
            self._peaks.append(max(self._totals[-1], self._peaks[-1] if self._peaks else 0))
            self._taken.append(step)
            self._sizes[step[0]] = step[1]
        count = bisect_right(self._peaks, room)
        kept = dict(self._taken[:count])
        if count < len(self._taken):
            position, size = self._taken[count]
            has = kept.get(position, 0)
            more = room - (self._totals[count - 1] if count else MARKER) - self._added(position, has, kept)
            more -= 0 if position in kept else self._cutting.marker
            is_worth_it = more >= (_LEAST if position in kept else max(_LEAST, room * self._cutting.spare))
            if is_worth_it and self._lengths[position] >= self._cutting.least and has + more < size:
                kept[position] = has + more
        return kept

    def _total(self) -> int:
        return self._totals[-1] if self._totals else MARKER

    def _added(self, position: int, size: int, kept: dict[int, int]) -> int:
        """Return the characters that a piece adds, with the markers around it."""
        length = self._lengths[position]
        if position in kept:
            return size - kept[position] - (self._cutting.marker if size == length else 0)
        left = position > 0 and position - 1 not in kept
        right = position + 1 < len(self._lengths) and position + 1 not in kept
        return size + (self._cutting.marker if 0 < size < length else 0) + MARKER * (left + right - 1)

    def _steps(self, ranking: Iterable[int]) -> Iterator[tuple[int, int]]:
        long: list[int] = []
        size = self._cutting.first
        for position in ranking:
            length = self._lengths[position]
            is_long = length > self._cutting.long and position not in self._whole
            long += [position] * is_long
            yield position, size if is_long else length
        while long:
            size *= 2
            for position in long:
                yield position, self._lengths[position] if self._lengths[position] < size * 3 // 2 else size
            long = [position for position in long if self._lengths[position] >= size * 3 // 2]


def gaps(kept: Iterable[int], count: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of positions that are not kept."""
    place = 0
    for position in (*sorted(kept), count):
        if position > place:
            yield place, position
        place = position + 1
