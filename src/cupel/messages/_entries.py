"""A conversation as candidates for the next request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

from cupel._planning import Candidate, Entry, FormOption
from cupel.messages._forms import BEGUN, CUT, SHORT, WHOLE, MessageForm
from cupel.messages._traces import Traces

if TYPE_CHECKING:
    from cupel.messages._forms import Shortening
    from cupel.messages._history import History

_WORTH = 0.9
"""What a shorter form is worth of the whole."""
_LEAST_LIMIT, _PARTS = 300, 20
"""A text has a short form if it takes more tokens than this, and than one of so many parts of the window."""


@dataclass(slots=True)
class Piece:
    """Units that stand interleaved, as one candidate: their messages, and the forms that were made of them."""

    key: str
    units: tuple[int, ...]
    positions: tuple[int, ...]
    tokens: int
    forms: dict[str, MessageForm] = field(default_factory=dict[str, MessageForm])

    def form(self, name: str) -> MessageForm:
        """Return a form by name; the whole has no other messages."""
        return self.forms[name] if name else MessageForm(self.tokens, {})

    def candidate(
        self, value: float, *, must: bool, new: bool, recent: bool, cut: str | None, before: Entry | None
    ) -> Candidate:
        """Return the piece as a candidate; `before` is what stood for it in the last request.

        What must be sent or is recent is whole; or `cut`, where it does not fit whole. The form it was sent in stays
        possible.
        """
        sent_as = None if before is None else before.form
        begun = before.tokens if before is not None and new and cut is None and sent_as == BEGUN else 0
        names = {name for name in (cut, sent_as) if name in self.forms}
        if not (must or recent) and SHORT in self.forms:
            names.add(SHORT)
        options = [FormOption(name, self.forms[name].tokens, _WORTH) for name in names]
        if cut is None:
            options.append(FormOption(WHOLE, self.tokens, 1.0))
        options.sort(key=lambda option: (option.tokens, option.form))
        return Candidate(self.key, value, tuple(options), held=must, new=new, begun=begun)


class Pieces:
    """Follows a history from turn to turn: what it consists of, what that is worth, and its shorter forms.

    Everything here is a function of the history and the window, so another process finds the same.
    """

    def __init__(self, shortening: Shortening | None, window: int) -> None:
        self._shortening = shortening
        self._limit = max(_LEAST_LIMIT, window // _PARTS)
        self._traces = Traces()
        self._forms: dict[str, dict[str, MessageForm]] = {}

    def follow(self, history: History, last: Sequence[Entry]) -> list[Piece]:
        """Return the pieces of a history; only those that were not there before are looked at closely."""
        pieces = _pieces(history)
        if [piece.key for piece in pieces[: len(self._traces.keys)]] != self._traces.keys:
            self._traces, self._forms = Traces(), {}
        for piece in pieces[len(self._traces.keys) :]:
            self._forms[piece.key] = piece.forms
            self._shorten(piece, history, SHORT, self._limit)
            shown, asked = _texts(piece, history)
            self._traces.add(piece.key, piece.tokens, shown=shown, asked=asked)
        wanted = {entry.key: entry.form.removeprefix(CUT) for entry in last if entry.form.startswith(CUT)}
        for piece in pieces:
            piece.forms = self._forms[piece.key]
            limit = wanted.get(piece.key, "")
            if limit.isdecimal():
                self.cut(piece, history, int(limit))
        return pieces

    def values(self) -> list[float]:
        """Return what each piece is worth to the conversation."""
        return self._traces.values()

    def cut(self, piece: Piece, history: History, limit: int) -> str | None:
        """Give a piece a form of its own, with outputs of at most so many tokens each, and return the form's name."""
        name = f"{CUT}{limit}"
        if name not in piece.forms:
            self._shorten(piece, history, name, limit)
        return name if name in piece.forms else None

    def _shorten(self, piece: Piece, history: History, name: str, limit: int) -> None:
        if self._shortening is not None:
            form = self._shortening.form(history, piece.positions, name, limit)
            if form is not None:
                piece.forms[name] = form


def grown(last: Sequence[Entry], pieces: Sequence[Piece], history: History) -> tuple[Entry, ...]:
    """Return the last request as it is seen now: where a piece has grown out of entries, its beginning stands for them.

    A question that was sent with its first calls becomes one piece with more calls and the answer, if the user and the
    assistant must take turns.
    """
    now, then = {piece.key for piece in pieces}, {entry.key for entry in last}
    start = next((at for at, entry in enumerate(last) if entry.key not in now), len(last))
    unknown = last[start:]
    fresh = [piece for piece in reversed(pieces) if piece.key not in then] if unknown else []
    counts = [_beginning(piece, unknown, history) for piece in fresh]
    count = max(counts, default=0)
    if not count:
        return tuple(last)
    begun = Entry(fresh[counts.index(count)].key, BEGUN, sum(entry.tokens for entry in unknown[:count]))
    return (*last[:start], begun, *unknown[count:])


def _beginning(piece: Piece, entries: Sequence[Entry], history: History) -> int:
    """Return how many entries, sent whole one after the other, are the first messages of a piece."""
    start = 0
    for count, entry in enumerate(entries):
        digest = entry.key.partition("#")[0]
        ends = range(start + 1, len(piece.positions))
        end = next((end for end in ends if _digest(history, piece.positions[start:end]) == digest), None)
        if end is None or entry.form != WHOLE:
            return count
        start = end
    return len(entries)


def _digest(history: History, positions: Sequence[int]) -> str:
    return blake2b(b"".join(history.parsed[position].digest for position in positions), digest_size=12).hexdigest()


def _pieces(history: History) -> list[Piece]:
    """Return the units in order, those that stand interleaved taken together; equal ones are numbered."""
    found: list[Piece] = []
    seen: dict[str, int] = {}
    known = history.parsed
    for units in _clusters(history):
        positions = tuple(history.positions(units))
        digest = _digest(history, positions)
        seen[digest] = number = seen.get(digest, 0) + 1
        tokens = sum(known[position].tokens for position in positions)
        found.append(Piece(digest if number == 1 else f"{digest}#{number}", tuple(units), positions, tokens))
    return found


def _clusters(history: History) -> list[list[int]]:
    clusters: list[list[int]] = []
    reach = -1
    for index, unit in enumerate(history.units):
        if unit.positions[0] < reach:
            clusters[-1].append(index)
        else:
            clusters.append([index])
        reach = max(reach, unit.positions[-1])
    return clusters


def _texts(piece: Piece, history: History) -> tuple[str, str]:
    """Return what the model was shown in a piece, and what it asked for."""
    infos = [history.infos[position] for position in piece.positions]
    shown = "\n".join(text for info in infos if info.role in ("tool", "user") for text in info.texts)
    asked = "\n".join(text for info in infos if info.calls for text in info.texts)
    return shown, asked.replace("\\n", "\n").replace('\\"', '"')
