"""The decision on one turn, and its differences from the last request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple

from msgspec.structs import replace

from cupel._internal.checks import as_finite
from cupel._planning._planner import Candidate, Change, Entry, Planner, TurnTerms, What
from cupel._planning._prices import Bill, Prices, estimated
from cupel._planning._state import Answer, State
from cupel.errors import ConfigurationError

Action = Literal["append", "repack"]

_SMOOTHING = 0.8


class Opening(NamedTuple):
    """Tools and system prompt, which come before the entries."""

    digest: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Decision:
    """One request, decided, and the state that it leads to."""

    entries: tuple[Entry, ...]
    chosen: dict[int, str]
    """The form of each candidate that is sent, by index, in the order in which they are sent."""
    common: int
    """The number of entries of the last request that it begins with."""
    action: Action
    reason: str
    changes: tuple[Change, ...]
    bill: Bill
    state: State
    terms: TurnTerms


class TurnStart(NamedTuple):
    """Everything that is known before a turn is planned."""

    state: State
    prices: Prices
    opening: Opening
    cold: bool
    """The provider has forgotten the last request, or there was none."""

    @classmethod
    def of(cls, state: State, prices: Prices, opening: Opening, idle: float | None) -> TurnStart:
        """Return the start of a turn, `idle` seconds after the last one."""
        if idle is not None:
            idle = as_finite("idle", idle, least=0, most=inf, error=ConfigurationError)
        cold = not state.turns or opening.digest != state.opening or (idle is not None and idle > prices.ttl)
        return cls(state, prices, opening, cold)

    @property
    def last(self) -> tuple[Entry, ...]:
        """The part of the last request that the provider may still have cached."""
        return () if self.cold else self.state.last

    def terms(self, planner: Planner, worth: float, room: int) -> tuple[TurnTerms, float]:
        """Return the numbers that decide, and the smoothed value of a freshly selected window."""
        value = _smoothed(self.state.reselected, planner.reselected(room))
        added = sum(max(0, c.whole.tokens - c.begun) for c in planner.candidates if c.new)
        growth = _smoothed(self.state.growth, added) if self.state.turns else 0.0
        read = self.prices.read + self.state.expiry * (self.prices.write - self.prices.read)
        gain = worth * room / value if value > 0 else 0.0
        return TurnTerms(room, read, self.prices.write, gain, growth), value


def decide(
    state: State,
    candidates: Sequence[Candidate],
    *,
    prices: Prices,
    worth: float,
    room: int,
    opening: Opening,
    idle: float | None = None,
    gaps: bool = True,
) -> Decision | None:
    """Decide the next request; None if the held candidates do not fit."""
    start = TurnStart.of(state, prices, opening, idle)
    planner = Planner(candidates)
    terms, value = start.terms(planner, worth, room)
    plan = planner.plan(start.last, terms) if gaps else planner.unbroken(start.last, terms)
    if plan is None:
        return None
    return conclude(start, planner, planner.entries(state.last, plan), terms=terms, value=value)


def conclude(
    start: TurnStart,
    planner: Planner,
    entries: tuple[Entry, ...],
    *,
    terms: TurnTerms,
    value: float,
    answers: tuple[Answer, ...] = (),
) -> Decision:
    """Return the decision to send these entries, with its bill, its changes and the state after it."""
    state = start.state
    common = _common(state.last, entries)
    begun = _begun(planner, state.last[common:], entries[common:])
    same = sum(entry.size for entry in entries[:common]) + begun
    tokens = sum(entry.size for entry in entries)
    bill = _bill(start, planner, entries, same)
    action: Action = "append" if common + (begun > 0) == len(state.last) else "repack"
    after = replace(
        state,
        turns=state.turns + 1,
        opening=start.opening.digest,
        last=entries,
        reselected=value,
        growth=terms.growth,
        answers=answers,
        pending=bill,
        before=state.total,
    )
    return Decision(
        entries=entries,
        chosen={planner.places[entry.key]: entry.form for entry in entries},
        common=common,
        action=action,
        reason=_reason(start, action, common=common, written=tokens - same),
        changes=tuple(_changes(planner, state.last, entries, terms, tokens)),
        bill=bill,
        state=after,
        terms=terms,
    )


def _bill(start: TurnStart, planner: Planner, entries: Sequence[Entry], same: int) -> Bill:
    """Estimate the cost of a request that begins with `same` tokens of the last one."""
    opening = start.opening.tokens
    sent = new = opening + sum(entry.size for entry in entries)
    if start.state.turns:
        found = ((planner.candidates[planner.places[entry.key]], entry) for entry in entries)
        new = sum(max(0, entry.size - candidate.begun) for candidate, entry in found if candidate.new)
    if start.cold:
        return estimated(start.prices, same=0, sent=sent, new=new)
    return estimated(start.prices, same=opening + same, sent=sent, new=new)


def _smoothed(before: float, now: float) -> float:
    return _SMOOTHING * before + (1 - _SMOOTHING) * now if before else float(now)


def _common(last: Sequence[Entry], entries: Sequence[Entry]) -> int:
    pairs = zip(last, entries, strict=False)
    return next((i for i, (one, other) in enumerate(pairs) if one != other), min(len(last), len(entries)))


def _begun(planner: Planner, last: Sequence[Entry], entries: Sequence[Entry]) -> int:
    """Return the tokens of an entry that keeps its place and its beginning, though it has grown."""
    if not last or not entries or last[0].key != entries[0].key:
        return 0
    candidate = planner.candidates[planner.places[entries[0].key]]
    return 0 if candidate.cut else candidate.begun


def _changes(
    planner: Planner, last: Sequence[Entry], entries: Sequence[Entry], terms: TurnTerms, tokens: int
) -> Iterator[Change]:
    before, after = ({entry.key: entry for entry in request} for request in (last, entries))
    for key, entry in (before | after).items() if last else ():
        index = planner.places.get(key)
        if index is None:
            continue  # the caller took it away
        candidate = planner.candidates[index]
        was = before[key].tokens if key in before else 0
        what: What
        if candidate.new:
            if not candidate.cut:
                continue
            what, was = "shortened", 0
        elif key not in after:
            what = "evicted"
        elif key not in before:
            what = "recalled"
        elif entry.tokens != was:
            what = "shortened" if entry.tokens < was else "restored"
        else:
            continue
        worth = terms.gain * candidate.value / max(candidate.whole.tokens, 1)
        yield terms.change(what, key, entry.tokens, worth, size=tokens, before=was)


def _reason(start: TurnStart, action: Action, *, common: int, written: int) -> str:
    cold = "; the cache is cold" if start.cold and start.state.turns else ""
    if not start.state.turns:
        return "the first request"
    if action == "append":
        return f"everything in the last request stays{cold}"
    kept = f"{common} of {len(start.state.last)} parts of the last request keep their place"
    return f"{kept}, {written:,} tokens are written{cold}"
