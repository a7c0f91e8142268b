"""One turn of a conversation in the making: what must be sent, what may be, and what the provider's rules allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cupel._planning import Decision
from cupel.messages._entries import Piece
from cupel.messages._formats import OUTPUTS, texts_in
from cupel.messages._forms import BEGUN, CUT

if TYPE_CHECKING:
    from cupel._planning import Candidate, Entry
    from cupel.messages._entries import Pieces
    from cupel.messages._fit import FitTask
    from cupel.model import ContextItem

_TASK_SHARE = 0.5
"""The user's first message says what the conversation is about, and stays unless it takes more of the window."""

Decide = Callable[[Sequence["Candidate"]], Decision | None]


@dataclass(slots=True, kw_only=True)
class Draft:
    """The pieces of a history, and the request that is being made of them."""

    request: FitTask
    items: list[ContextItem]
    source: Pieces
    pieces: list[Piece]
    values: list[float] = field(default_factory=list[float])
    """What each piece is worth."""
    last: Sequence[Entry] = ()
    """The last request."""
    recent: float = 0.0
    """The newest pieces within this share of the room stay whole."""
    barred: dict[int, str] = field(default_factory=dict[int, str])
    """Pieces that cannot be sent, or not beside the others, with the reason."""
    cuts: dict[int, str] = field(default_factory=dict[int, str])
    """Forms of pieces that must be sent and do not fit whole."""
    must: set[int] = field(default_factory=set[int])
    """Pieces that must be sent."""
    offered: list[int] = field(default_factory=list[int])
    """Pieces that are candidates, in order."""

    def __post_init__(self) -> None:
        units = self.request.history.units
        for index, piece in enumerate(self.pieces):
            rejection = next((units[unit].rejection for unit in piece.units if units[unit].rejection), None)
            if rejection is not None:
                self.barred[index] = rejection

    def decide(self, decide: Decide, *, first: bool) -> tuple[Decision, dict[int, str]]:
        """Return the best legal request, and the form of each piece that it sends."""
        new = set[int]() if first else self._new()
        task = self._task()
        # What must be sent, from all that should to the least that can; only then is it an error.
        for wanted, added in ((new | task, new), (task, set[int]()), (set[int](), set[int]())):
            self.must = self.needed(wanted)
            self.make_room()
            step = self._legal(decide, added)
            if step is not None:
                return step, self._sent(step)
        units = [unit for index in sorted(self.must) for unit in self.pieces[index].units]
        raise self.request.too_large({unit: self.items[unit].tokens for unit in units})

    def _new(self) -> set[int]:
        """Return everything behind the newest piece of the last request."""
        sent = {entry.key for entry in self.last if entry.form != BEGUN}
        newest = max((index for index, piece in enumerate(self.pieces) if piece.key in sent), default=None)
        return set() if newest is None else set(range(newest + 1, len(self.pieces)))

    def _task(self) -> set[int]:
        units = self.request.history.units
        for index, piece in enumerate(self.pieces):
            if all(units[unit].role == "user" for unit in piece.units) and index not in self.barred:
                return {index} if piece.tokens <= _TASK_SHARE * self.request.room else set()
        return set()

    def needed(self, wanted: set[int]) -> set[int]:
        """Return the pieces of what is pinned and wanted, and of what these cannot be sent without."""
        history, items = self.request.history, self.items
        holder = {unit: index for index, piece in enumerate(self.pieces) for unit in piece.units}
        units = {unit for index in wanted if index not in self.barred for unit in self.pieces[index].units}
        units |= {unit for unit, item in enumerate(items) if item.pinned and history.units[unit].rejection is None}
        costs = [item.tokens for item in items]
        left = self.request.room - sum(costs[unit] for unit in units)
        units |= history.rules.complete(units, costs, left)
        return {holder[unit] for unit in units} - self.barred.keys()

    def make_room(self) -> None:
        """Cut the outputs of what must be sent if it does not fit whole, the largest first; once cut, they stay so."""
        cuts = {entry.key: entry.form for entry in self.last if entry.form.startswith(CUT)}
        must = {index: self.pieces[index] for index in sorted(self.must)}
        self.cuts = {i: cuts[piece.key] for i, piece in must.items() if cuts.get(piece.key) in piece.forms}
        excess = sum(piece.form(self.cuts.get(i, "")).tokens for i, piece in must.items()) - self.request.room
        for index, piece in sorted(must.items(), key=lambda pair: -pair[1].tokens):
            if excess <= 0:
                return
            before = piece.form(self.cuts.get(index, "")).tokens
            name = self._cut(piece, piece.tokens - before + excess)
            if name is not None and piece.forms[name].tokens < before:
                excess -= before - piece.forms[name].tokens
                self.cuts[index] = name

    def _cut(self, piece: Piece, excess: int) -> str | None:
        history = self.request.history
        count = history.counter.count
        sizes = [count(text) for at in piece.positions for text in texts_in(history.parsed[at].view, OUTPUTS)]
        return self.source.cut(piece, history, _level(sizes, sum(sizes) - excess)) if sizes else None

    def _legal(self, decide: Decide, new: set[int]) -> Decision | None:
        """Return the best request that the provider takes: what it would refuse leaves, others come in."""
        history = self.request.history
        barred = dict(self.barred)
        while True:
            self.offered = [index for index in range(len(self.pieces)) if index not in barred]
            step = decide(self._candidates(new))
            if step is None:
                return None
            chosen = {unit for index in self._sent(step) for unit in self.pieces[index].units}
            trimmed = history.rules.drop_violations(chosen)
            if not trimmed:
                self.barred = barred
                return step
            for index, piece in enumerate(self.pieces):
                rule = next((trimmed[unit] for unit in piece.units if unit in trimmed), None)
                if rule is not None:
                    barred[index] = rule

    def _candidates(self, new: set[int]) -> list[Candidate]:
        before = {entry.key: entry for entry in self.last}
        recent = self._recent()
        return [
            self.pieces[index].candidate(
                self.values[index],
                must=index in self.must,
                new=index in new,
                recent=index in recent,
                cut=self.cuts.get(index),
                before=before.get(self.pieces[index].key),
            )
            for index in self.offered
        ]

    def _recent(self) -> set[int]:
        """Return the newest pieces within their share of the room."""
        left = self.recent * self.request.room
        found: set[int] = set()
        for index in reversed(range(len(self.pieces))):
            left -= self.pieces[index].tokens
            if left < 0:
                break
            found.add(index)
        return found

    def _sent(self, step: Decision) -> dict[int, str]:
        return {self.offered[index]: form for index, form in step.chosen.items()}


def _level(sizes: Sequence[int], allowed: int) -> int:
    """Return the limit at which texts of these sizes, each cut to it, take no more than is allowed; at least 1."""
    ordered = sorted(sizes)
    for done, size in enumerate(ordered):
        share = allowed // (len(ordered) - done)
        if size > share:
            return max(1, share)
        allowed -= size
    return max(1, *ordered)
