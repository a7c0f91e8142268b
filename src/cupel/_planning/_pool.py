"""Where to cut the last request, and what stands behind the cut.

A request shares its beginning with the last one: up to the cut, tokens are read from the provider's cache; behind it
they are written. For every place to cut, the tail is filled by value for each token, as long as a token is worth its
place: what it costs to read, and its share of the writing, spread over the turns that the tail will last. Those are
many where much room is left, so cuts go deeper by themselves than they must.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

from cupel._planning._tail import Tail, pieces_of

if TYPE_CHECKING:
    from cupel._planning._tail import Upgrade

_LASTING = 2.0
"""A later cut writes only a part again, so a tail lasts about twice the turns that its room is filled in."""
_NEAR, _APART = 32, 64
"""Places to cut are all of the last so many entries; before them, only some that share 1 / `_APART` of the room."""


class FormOption(NamedTuple):
    """One form of a candidate."""

    form: str
    tokens: int
    share: float
    """How much of the candidate's value it keeps."""


class Candidate(msgspec.Struct, frozen=True):
    """What may stand in the window, in one of its forms."""

    key: str
    value: float
    options: tuple[FormOption, ...]
    """From the shortest form to the whole."""
    held: bool = False
    """It must be sent, in its longest form."""
    new: bool = False
    """It came since the last request; it is held, and comes last."""
    free: bool = False
    """It has no place of its own and may be sent behind what is newer."""
    begun: int = 0
    """Of what is new, the tokens of a beginning that stood in the last request, as an entry of this key."""

    @property
    def whole(self) -> FormOption:
        """The longest form."""
        return self.options[-1]

    def option(self, entry: Entry) -> FormOption | None:
        """Return the form that stood in the last request, if there still is one like it."""
        return next((o for o in self.options if o.form == entry.form and o.tokens == entry.tokens), None)


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """What stood in the last request."""

    key: str
    form: str
    tokens: Annotated[int, msgspec.Meta(ge=0)]


class TurnTerms(msgspec.Struct, frozen=True):
    """What decides: tokens of room, prices, the money for a unit of value, and tokens that a turn adds."""

    room: int
    read: float
    write: float
    gain: float
    growth: float

    def turns(self, tokens: int) -> float:
        """Return for how many turns a window of so many tokens is expected to last; for ever, while nothing grows."""
        return 1.0 + _LASTING * (self.room - tokens) / max(self.growth, 1.0) if self.growth else inf

    def place(self, tokens: int) -> float:
        """Return what a token behind the cut costs a turn in a window of so many tokens."""
        return self.read + (self.write - self.read) / self.turns(tokens)

    def score(self, value: float, tokens: int, rewritten: int) -> float:
        """Return a request's value less its price, in money."""
        return self.gain * value - self.read * tokens - (self.write - self.read) * rewritten / self.turns(tokens)


class Plan(msgspec.Struct, frozen=True):
    """A request: the beginning of the last one, then candidates by index with their forms."""

    kept: int
    """How many entries of the last request it begins with."""
    tail: dict[int, FormOption]
    tokens: int
    score: float


class Pool:
    """The candidates of one turn, in the order of their places; those that have none come last."""

    __slots__ = ("candidates", "held", "pieces", "places")

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.candidates = candidates
        self.places = {candidate.key: index for index, candidate in enumerate(candidates)}
        self.held = [index for index, candidate in enumerate(candidates) if candidate.held]
        pieces = (piece for index, c in enumerate(candidates) if not c.held for piece in pieces_of(index, c))
        self.pieces: list[Upgrade] = sorted(pieces, key=lambda piece: (-piece.density, piece.candidate))

    def anew(self, room: int) -> float:
        """Return the value of a window chosen without regard to the last request."""
        tail = Tail(self, {}, 0, 0.0, -1)
        tail.fill(TurnTerms(room, 0.0, 0.0, 1.0, 1.0))
        return tail.value

    def plan(self, last: Sequence[Entry], terms: TurnTerms) -> Plan | None:
        """Return the best request, or None if what is held does not fit; of equals, the one that keeps most."""
        standing = self._standing(last)
        cuts = _cuts([option.tokens for _, option in standing], terms.room)
        prefix: dict[int, FormOption] = {}
        tokens, value, newest = 0, 0.0, -1
        best: Plan | None = None
        for place in range(len(standing) + 1):
            if place:
                index, option = standing[place - 1]
                prefix[index] = option
                tokens += option.tokens
                value += self.candidates[index].value * option.share
                newest = newest if self.candidates[index].free else index
            if place not in cuts:
                continue
            tail = Tail(self, prefix, tokens, value, newest)
            if tail.tokens > terms.room:
                continue
            tail.fill(terms)
            score = terms.score(tail.value, tail.tokens, tail.rewritten)
            if best is None or score >= best.score:
                best = Plan(place, tail.chosen, tail.tokens, score)
        return best

    def unbroken(self, last: Sequence[Entry], terms: TurnTerms) -> Plan | None:
        """Return the best request without gaps: beside what is held, everything from some candidate on."""
        standing = self._standing(last)
        began = next((index for index, _ in standing if not self.candidates[index].held), None)
        best: Plan | None = None
        starts = [i for i, candidate in enumerate(self.candidates) if not candidate.held]
        for start in (len(self.candidates), *reversed(starts)):
            same = start == began or (began is None and start == len(self.candidates))
            reach = len(self.candidates) if same else min(start, len(self.candidates) if began is None else began)
            kept = sum(1 for index, _ in standing if index < reach)
            prefix = dict(standing[:kept])
            tokens = sum(option.tokens for option in prefix.values())
            value = sum(self.candidates[index].value * option.share for index, option in prefix.items())
            tail = Tail(self, prefix, tokens, value, -1)
            tail.take(index for index in starts if index >= start and index not in prefix)
            if tail.tokens > terms.room:
                break
            score = terms.score(tail.value, tail.tokens, tail.rewritten)
            if best is None or score > best.score or (score == best.score and kept > best.kept):
                best = Plan(kept, tail.chosen, tail.tokens, score)
        return best

    def _standing(self, last: Sequence[Entry]) -> list[tuple[int, FormOption]]:
        """Return what another request could begin with: the candidates of the last one, in the forms they had."""
        standing: list[tuple[int, FormOption]] = []
        newest, waiting, present = -1, 0, set[int]()
        holding = [index for index in self.held if not self.candidates[index].new]
        for entry in last:
            index = self.places.get(entry.key)
            if index is None:
                break
            candidate = self.candidates[index]
            option = candidate.option(entry)
            if option is None or candidate.new or (candidate.held and option is not candidate.whole):
                break
            if not candidate.free:
                while waiting < len(holding) and holding[waiting] < index and holding[waiting] in present:
                    waiting += 1
                if index < newest or (waiting < len(holding) and holding[waiting] < index):
                    break  # what must be sent has its place before it
                newest = index
            standing.append((index, option))
            present.add(index)
        return standing


def _cuts(tokens: Sequence[int], room: int) -> set[int]:
    """The places to try: all near the end, and before them some that lie apart."""
    found = {0, *range(max(0, len(tokens) - _NEAR), len(tokens) + 1)}
    since = 0
    for place, cost in enumerate(tokens, 1):
        since += cost
        if since * _APART >= room:
            found.add(place)
            since = 0
    return found
