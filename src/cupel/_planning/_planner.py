"""Choose where to cut the last request, and the candidates to send after the cut.

A request shares its prefix with the last one: up to the cut, tokens are read from the provider's cache; after it they
are written. For every place to cut, the suffix is filled by value per token, as long as a token is worth its place:
the price of reading it, and its share of the writing, spread over the turns that the suffix will last. Those are many
where much room is left, so cuts go deeper by themselves than they must.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Annotated, Literal, NamedTuple

import msgspec

from cupel.diagnostics import BudgetExceeded, ExclusionReason, NotWorthItsPlace

_LASTING = 2.0
"""A later cut writes only a part again, so a suffix lasts about twice the turns that its room is filled in."""
_NEAR, _APART = 32, 64
"""Cuts are tried after each of the last `_NEAR` entries; before them, some that are 1 / `_APART` of the room apart."""


class FormOption(NamedTuple):
    """One form of a candidate."""

    form: str
    tokens: int
    share: float
    """The share of the candidate's value that this form keeps."""


class Candidate(msgspec.Struct, frozen=True):
    """Something that the window may contain, in one of its forms."""

    key: str
    value: float
    options: tuple[FormOption, ...]
    """From the shortest form to the longest."""
    held: bool = False
    """It must be sent, in its longest form."""
    new: bool = False
    """It came since the last request, and comes last."""
    free: bool = False
    """It has no fixed place and may be sent after newer candidates."""
    begun: int = 0
    """Tokens of this new candidate that the last request already contained."""
    cut: bool = False
    """Its longest form is shorter than it was when it came."""
    preferred: bool = False
    """It is taken before all candidates that are not."""
    trace: int = 0
    """Tokens of the line that a note needs where this candidate is left out."""

    @property
    def whole(self) -> FormOption:
        """The longest form."""
        return self.options[-1]

    def option(self, entry: Entry) -> FormOption | None:
        """Return the form that the last request contained, if there still is one like it."""
        return next((o for o in self.options if o.form == entry.form and o.tokens == entry.tokens), None)


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One part of the last request, without its content."""

    key: str
    form: str
    tokens: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    noted: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    """Tokens of the note in front of it."""
    steps: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    """The number of omitted steps that the note tells of."""
    lines: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    """The number of them that have their own line."""

    @property
    def size(self) -> int:
        """Tokens of the entry with its note."""
        return self.tokens + self.noted


What = Literal["evicted", "recalled", "restored", "shortened"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A difference between this request and the last one, and the numbers that decided.

    >>> numbers = {"tokens": 90, "worth": 0.26, "read": 0.1, "write": 1.25, "turns": 3.9}
    >>> print(Change(what="evicted", label="messages[3:5]", key="", **numbers))
    evicted messages[3:5] (90 tokens): keeping a token costs 0.39 a turn and is worth 0.26
    """

    what: What
    label: str
    """A readable name of the messages or the item."""
    key: str
    positions: tuple[int, ...] = ()
    """Their positions in the history."""
    tokens: int
    """Its tokens now, or before it was evicted."""
    before: int = 0
    """Its tokens before it was shortened or restored."""
    worth: float
    """The worth of one of its tokens, per turn."""
    read: float
    """The price of reading a token, including rewriting it as often as the cache is found cold."""
    write: float
    turns: float
    """The number of turns that the writing is spread over."""

    @property
    def place(self) -> float:
        """The cost of keeping a token, per turn."""
        return self.read + (self.write - self.read) / self.turns

    def __str__(self) -> str:
        if self.what in ("shortened", "restored"):
            return f"{self.what} {self.label} ({self.before:,} → {self.tokens:,} tokens)"
        said = f"{self.what} {self.label} ({self.tokens:,} tokens)"
        if self.what == "evicted" and self.worth < self.place:
            return f"{said}: keeping a token costs {self.place:.2f} a turn and is worth {self.worth:.2f}"
        return said


class TurnTerms(msgspec.Struct, frozen=True):
    """The numbers that decide: room, prices, the money for a unit of value, and the growth of a turn."""

    room: int
    read: float
    write: float
    gain: float
    growth: float
    least: int = 0
    """Up to this many tokens, candidates are taken whatever their price."""
    preferred: int = 0
    """Up to this many tokens, preferred candidates are taken whatever their price."""
    notes: int = 0
    """The most tokens that notes may take."""

    def turns(self, tokens: int) -> float:
        """Return how many turns a window of this size is expected to last; for ever, while nothing grows."""
        return 1.0 + _LASTING * (self.room - tokens) / max(self.growth, 1.0) if self.growth else inf

    def place(self, tokens: int) -> float:
        """Return the cost of one token after the cut, per turn, in a window of this size."""
        return self.read + (self.write - self.read) / self.turns(tokens)

    def exclusion(self, tokens: int, worth: float, left: int) -> ExclusionReason:
        """Return why tokens of this worth are not in a request that has some `left`."""
        if tokens > left:
            return BudgetExceeded(tokens, left)
        return NotWorthItsPlace(worth, self.place(min(self.room - left + tokens, self.room)))

    def change(self, what: What, key: str, tokens: int, worth: float, *, size: int, before: int = 0) -> Change:
        """Return a change of a candidate in a request of some size, with the numbers that decided."""
        return Change(
            what=what,
            label=key,
            key=key,
            tokens=tokens,
            before=before,
            worth=worth,
            read=self.read,
            write=self.write,
            turns=self.turns(size),
        )

    def score(self, value: float, tokens: int, rewritten: int) -> float:
        """Return a request's value less its price."""
        return self.gain * value - self.read * tokens - (self.write - self.read) * rewritten / self.turns(tokens)


class Plan(msgspec.Struct, frozen=True):
    """A request: a prefix of the last one, then candidates by index with their forms."""

    kept: int
    """The number of entries of the last request that it begins with."""
    suffix: dict[int, FormOption]
    tokens: int
    score: float


class Upgrade(NamedTuple):
    """A step from one form of a candidate, or from nothing, to the next longer one."""

    density: float
    """Value per token."""
    candidate: int
    option: FormOption
    below: FormOption | None
    """The shorter form that this one replaces."""
    tokens: int
    value: float


class Planner:
    """The candidates of one turn, in the order of their places; those that have none come last."""

    __slots__ = ("candidates", "held", "places", "traces", "upgrades")

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.candidates = candidates
        self.places = {candidate.key: index for index, candidate in enumerate(candidates)}
        self.held = [index for index, candidate in enumerate(candidates) if candidate.held]
        self.traces = [*accumulate((0 if c.held else c.trace for c in candidates), initial=0)]
        """Tokens of the lines that notes need, before each candidate."""
        found = (step for index, c in enumerate(candidates) if not c.held for step in upgrades_of(index, c))
        self.upgrades = sorted(found, key=self._rank)

    def _rank(self, upgrade: Upgrade) -> tuple[bool, bool, float, int]:
        """Order upgrades: preferred candidates first, then the shortest forms of all that would need a note."""
        candidate = self.candidates[upgrade.candidate]
        is_longer = upgrade.below is not None and candidate.trace > 0
        return not candidate.preferred, is_longer, -upgrade.density, upgrade.candidate

    def reselected(self, room: int) -> float:
        """Return the value of a window chosen without regard to the last request."""
        suffix = Suffix(self, {}, 0, 0.0, -1)
        suffix.fill(TurnTerms(room, 0.0, 0.0, 1.0, 1.0))
        return suffix.value

    def plan(self, last: Sequence[Entry], terms: TurnTerms) -> Plan | None:
        """Return the best request, or None if the held candidates do not fit; of equals, the one that keeps most."""
        reusable = self._reusable(last)
        cuts = _cuts([last[place].size for place in range(len(reusable))], terms.room)
        prefix: dict[int, FormOption] = {}
        tokens, value, newest = 0, 0.0, -1
        best: Plan | None = None
        for place in range(len(reusable) + 1):
            if place:
                index, option = reusable[place - 1]
                prefix[index] = option
                tokens += last[place - 1].size
                value += self.candidates[index].value * option.share
                newest = newest if self.candidates[index].free else index
            if place not in cuts:
                continue
            suffix = Suffix(self, prefix, tokens, value, newest)
            if suffix.tokens > terms.room:
                continue
            suffix.fill(terms)
            score = terms.score(suffix.value, suffix.size(terms), suffix.rewritten)
            if best is None or score >= best.score:
                best = Plan(place, suffix.chosen, suffix.tokens, score)
        return best

    def unbroken(self, last: Sequence[Entry], terms: TurnTerms) -> Plan | None:
        """Return the best request without gaps: besides the held candidates, everything from some candidate on."""
        reusable = self._reusable(last)
        began = next((index for index, _ in reusable if not self.candidates[index].held), None)
        best: Plan | None = None
        starts = [i for i, candidate in enumerate(self.candidates) if not candidate.held]
        for start in (len(self.candidates), *reversed(starts)):
            same = start == began or (began is None and start == len(self.candidates))
            reach = len(self.candidates) if same else min(start, len(self.candidates) if began is None else began)
            kept = sum(1 for index, _ in reusable if index < reach)
            prefix = dict(reusable[:kept])
            tokens = sum(entry.size for entry in last[:kept])
            value = sum(self.candidates[index].value * option.share for index, option in prefix.items())
            suffix = Suffix(self, prefix, tokens, value, -1)
            suffix.take(index for index in starts if index >= start and index not in prefix)
            if suffix.tokens > terms.room:
                break
            score = terms.score(suffix.value, suffix.tokens, suffix.rewritten)
            if best is None or score > best.score or (score == best.score and kept > best.kept):
                best = Plan(kept, suffix.chosen, suffix.tokens, score)
        return best

    def entries(self, last: Sequence[Entry], plan: Plan) -> tuple[Entry, ...]:
        """Return a plan as entries in the order of sending: prefix, others by place, recalled ones, new ones."""
        anchors = self._anchors(last)
        suffix = sorted(plan.suffix, key=lambda index: self._place(index, anchors))
        added = (Entry(self.candidates[i].key, plan.suffix[i].form, plan.suffix[i].tokens) for i in suffix)
        return (*last[: plan.kept], *added)

    def _anchors(self, last: Sequence[Entry]) -> dict[int, tuple[int, int]]:
        """Return for each free candidate after which place the last request contained it, and at which number."""
        anchors: dict[int, tuple[int, int]] = {}
        place = -1
        for number, entry in enumerate(last):
            index = self.places.get(entry.key)
            if index is None:
                continue
            if self.candidates[index].free:
                anchors[index] = (place, number)
            else:
                place = index
        return anchors

    def _place(self, index: int, anchors: dict[int, tuple[int, int]]) -> tuple[bool, int, bool, int]:
        candidate = self.candidates[index]
        if not candidate.free:
            return candidate.new, index, False, 0
        place, number = anchors.get(index, (len(self.candidates), index))
        return candidate.new, place, True, number

    def _reusable(self, last: Sequence[Entry]) -> list[tuple[int, FormOption]]:
        """Return the longest prefix of the last request that another request could begin with."""
        reusable: list[tuple[int, FormOption]] = []
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
                    break  # a held candidate has its place before it
                newest = index
            reusable.append((index, option))
            present.add(index)
        return reusable


class Suffix:
    """The part of a request after one cut: the held candidates, and those that are worth their place."""

    __slots__ = ("absent", "chosen", "newest", "planner", "prefix", "rewritten", "tokens", "value")

    def __init__(self, planner: Planner, prefix: dict[int, FormOption], tokens: int, value: float, newest: int) -> None:
        self.planner = planner
        self.prefix = prefix
        self.newest = newest
        """The last place in the prefix; candidates with an earlier one cannot be sent after it."""
        self.chosen: dict[int, FormOption] = {}
        self.tokens = tokens
        self.value = value
        self.rewritten = 0
        self.absent = planner.traces[-1] - planner.traces[newest + 1]
        """Tokens of the lines for all candidates after the prefix that are left out."""
        self.take(index for index in planner.held if index not in prefix)

    def size(self, terms: TurnTerms) -> int:
        """Return the tokens of the request with its notes, which are shorter where there is no room for them."""
        return min(self.tokens + min(self.absent, terms.notes), max(self.tokens, terms.room))

    def take(self, indexes: Iterable[int]) -> None:
        """Add candidates in their longest forms."""
        for index in indexes:
            candidate = self.planner.candidates[index]
            option = self.chosen[index] = candidate.whole
            self.tokens += option.tokens
            self.value += candidate.value * option.share
            if not candidate.new:
                self.rewritten += option.tokens

    def fill(self, terms: TurnTerms) -> None:
        """Take upgrades, best first, while each fits and is worth its place."""
        prefix, newest, chosen, candidates = self.prefix, self.newest, self.chosen, self.planner.candidates
        room, gain, place, tokens, absent = terms.room, terms.gain, terms.place, self.tokens, self.absent
        for density, index, option, below, cost, worth in self.planner.upgrades:
            candidate = candidates[index]
            rest = absent - candidate.trace if below is None else absent
            after = tokens + cost + min(rest, terms.notes)
            if after > room or index in prefix or (index < newest and not candidate.free):
                continue
            if below is not None and chosen.get(index) is not below:
                continue
            if tokens + cost > terms.least and gain * density < place(after):
                if not candidate.preferred and (below is not None or not candidate.trace):
                    break  # all that follow are worth less
                if not candidate.preferred or after > terms.preferred:
                    continue
            chosen[index] = option
            tokens += cost
            absent = rest
            self.value += worth
            self.rewritten += 0 if candidate.new else cost
        self.tokens, self.absent = tokens, absent


def upgrades_of(index: int, candidate: Candidate) -> Iterator[Upgrade]:
    """Return the steps from nothing to the longest form, each worth less per token than the one before.

    Forms that would break that order are worth less than a mixture of their neighbours, and are left out.
    """
    hull: list[Upgrade] = []
    for option in candidate.options:
        step = _upgrade(index, candidate, option, hull[-1].option if hull else None)
        while hull and step.density >= hull[-1].density:
            hull.pop()
            step = _upgrade(index, candidate, option, hull[-1].option if hull else None)
        if step.value > 0 or not hull:
            hull.append(step)
    return iter(hull)


def _upgrade(index: int, candidate: Candidate, option: FormOption, below: FormOption | None) -> Upgrade:
    tokens = option.tokens - (below.tokens if below else 0)
    value = candidate.value * (option.share - (below.share if below else 0.0))
    cost = tokens if below else tokens - candidate.trace  # a candidate that is sent needs no line in a note
    density = value / cost if cost > 0 else (inf if value > 0 else 0.0)
    return Upgrade(density, index, option, below, tokens, value)


def _cuts(tokens: Sequence[int], room: int) -> set[int]:
    """Return the places to try: all near the end, and before them some that lie apart."""
    found = {0, *range(max(0, len(tokens) - _NEAR), len(tokens) + 1)}
    since = 0
    for place, cost in enumerate(tokens, 1):
        since += cost
        if since * _APART >= room:
            found.add(place)
            since = 0
    return found
