"""One turn, decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from msgspec.structs import replace

from cupel._planning._bill import Bill, estimated
from cupel._planning._pool import Candidate, Entry, Plan, Pool, TurnTerms
from cupel._planning._prices import Prices
from cupel._planning._state import State

Action = Literal["append", "repack"]
What = Literal["evicted", "recalled", "restored", "shortened"]

_SMOOTHING = 0.8


class Opening(NamedTuple):
    """What stands before the entries: tools and system prompt."""

    digest: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something that does not stand in this request as it stood in the last one, and the numbers that decided.

    >>> numbers = {"tokens": 90, "worth": 0.26, "read": 0.1, "write": 1.25, "turns": 3.9}
    >>> print(Change(what="evicted", label="messages[3:5]", key="", **numbers))
    evicted messages[3:5]: a token of it is worth 0.26, a place costs 0.39 (0.10 read + 1.15 write over 3.9 turns)
    """

    what: What
    label: str
    """What it is, for people."""
    key: str
    positions: tuple[int, ...] = ()
    """Where it stands in the history, or among the items."""
    tokens: int
    """What it takes now, or took before it was evicted."""
    worth: float
    """What a token of it is worth a turn."""
    read: float
    """What it costs to read a token, with what its writing costs as often as the cache is found cold."""
    write: float
    turns: float
    """Over how many turns the writing is spread."""

    @property
    def place(self) -> float:
        """What a place for a token costs a turn."""
        return self.read + (self.write - self.read) / self.turns

    def __str__(self) -> str:
        parts = f"{self.read:.2f} read + {self.write - self.read:.2f} write over {self.turns:.1f} turns"
        return (
            f"{self.what} {self.label}: a token of it is worth {self.worth:.2f}, "
            f"a place costs {self.place:.2f} ({parts})"
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """One request, decided, and the state that it leads to."""

    entries: tuple[Entry, ...]
    chosen: dict[int, str]
    """The form of each candidate that is sent, by index, in the order in which they are sent."""
    common: int
    """How many entries of the last request it begins with."""
    action: Action
    reason: str
    changes: tuple[Change, ...]
    bill: Bill
    state: State


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
    """Decide the next request; None if what is held does not fit."""
    cold = not state.turns or opening.digest != state.opening or (idle is not None and idle > prices.ttl)
    last = () if cold else state.last
    pool = Pool(candidates)
    value = _smoothed(state.anew, pool.anew(room))
    terms = _terms(state, pool, prices, worth * room / value if value > 0 else 0.0, room)
    plan = pool.plan(last, terms) if gaps else pool.unbroken(last, terms)
    if plan is None:
        return None
    entries, chosen = _request(pool, state.last, plan)
    common = _common(state.last, entries)
    begun = _begun(pool, state.last[common:], entries[common:])
    same = sum(entry.tokens for entry in entries[:common]) + begun
    bill = _bill(state, pool, plan, prices, opening, same=None if cold else same)
    action: Action = "append" if common + (begun > 0) == len(state.last) else "repack"
    reason = _reason(state, action, cold=cold, common=common, written=plan.tokens - same, terms=terms, plan=plan)
    changes = tuple(_changes(pool, state.last, entries, terms, plan.tokens))
    after = replace(
        state,
        turns=state.turns + 1,
        opening=opening.digest,
        last=entries,
        anew=value,
        growth=terms.growth,
        pending=bill,
        before=state.total,
    )
    return Decision(entries, chosen, common, action, reason, changes, bill, after)


def _bill(state: State, pool: Pool, plan: Plan, prices: Prices, opening: Opening, *, same: int | None) -> Bill:
    """Estimate what a plan costs that begins with `same` tokens of the last request; None where the cache is cold."""
    sent = new = opening.tokens + plan.tokens
    if state.turns:
        tail = ((pool.candidates[index], option) for index, option in plan.tail.items())
        new = sum(option.tokens - candidate.begun for candidate, option in tail if candidate.new)
    if same is None:
        return estimated(prices, opening=0, same=0, sent=sent, new=new)
    return estimated(prices, opening=opening.tokens, same=opening.tokens + same, sent=sent, new=new)


def _terms(state: State, pool: Pool, prices: Prices, gain: float, room: int) -> TurnTerms:
    added = sum(candidate.whole.tokens - candidate.begun for candidate in pool.candidates if candidate.new)
    growth = _smoothed(state.growth, added) if state.turns else 0.0
    read = prices.read + state.expiry * (prices.write - prices.read)
    return TurnTerms(room, read, prices.write, gain, growth)


def _smoothed(before: float, now: float) -> float:
    return _SMOOTHING * before + (1 - _SMOOTHING) * now if before else float(now)


def _request(pool: Pool, last: Sequence[Entry], plan: Plan) -> tuple[tuple[Entry, ...], dict[int, str]]:
    """The entries in the order of sending: the kept beginning, the others by place, what is recalled, what is new."""
    entries = [*last[: plan.kept]]
    chosen = {pool.places[entry.key]: entry.form for entry in entries}
    anchors = _anchors(pool, last)
    for index in sorted(plan.tail, key=lambda index: _rank(pool, index, anchors)):
        option = plan.tail[index]
        chosen[index] = option.form
        entries.append(Entry(pool.candidates[index].key, option.form, option.tokens))
    return tuple(entries), chosen


def _anchors(pool: Pool, last: Sequence[Entry]) -> dict[int, tuple[int, int]]:
    """Behind which place each free candidate stood in the last request, and at which number."""
    anchors: dict[int, tuple[int, int]] = {}
    place = -1
    for number, entry in enumerate(last):
        index = pool.places.get(entry.key)
        if index is None:
            continue
        if pool.candidates[index].free:
            anchors[index] = (place, number)
        else:
            place = index
    return anchors


def _rank(pool: Pool, index: int, anchors: dict[int, tuple[int, int]]) -> tuple[bool, int, bool, int]:
    candidate = pool.candidates[index]
    if not candidate.free:
        return candidate.new, index, False, 0
    place, number = anchors.get(index, (len(pool.candidates), index))
    return candidate.new, place, True, number


def _common(last: Sequence[Entry], entries: Sequence[Entry]) -> int:
    pairs = zip(last, entries, strict=False)
    return next((i for i, (one, other) in enumerate(pairs) if one != other), min(len(last), len(entries)))


def _begun(pool: Pool, last: Sequence[Entry], entries: Sequence[Entry]) -> int:
    """Tokens of a beginning that stands where it stood, though more has come to it."""
    here = last and entries and last[0].key == entries[0].key
    return pool.candidates[pool.places[entries[0].key]].begun if here else 0


def _changes(
    pool: Pool, last: Sequence[Entry], entries: Sequence[Entry], terms: TurnTerms, tokens: int
) -> Iterator[Change]:
    before, after = ({entry.key: entry for entry in request} for request in (last, entries))
    turns = terms.turns(tokens)
    for key, entry in (before | after).items() if last else ():
        index = pool.places.get(key)
        if index is None or pool.candidates[index].new:
            continue  # the caller took it away, or brought it
        candidate = pool.candidates[index]
        what: What
        if key not in after:
            what = "evicted"
        elif key not in before:
            what = "recalled"
        elif after[key].tokens != before[key].tokens:
            what = "shortened" if after[key].tokens < before[key].tokens else "restored"
        else:
            continue
        yield Change(
            what=what,
            label=key,
            key=key,
            tokens=entry.tokens,
            worth=terms.gain * candidate.value / max(candidate.whole.tokens, 1),
            read=terms.read,
            write=terms.write,
            turns=turns,
        )


def _reason(
    state: State, action: Action, *, cold: bool, common: int, written: int, terms: TurnTerms, plan: Plan
) -> str:
    taken = f"{plan.tokens:,} of {terms.room:,} tokens"
    if not state.turns:
        return f"the first request, {taken}"
    if action == "append":
        return f"what stood in the last request stays, {taken}{'; the cache is cold' if cold else ''}"
    why = "the cache is cold" if cold else f"a place costs {terms.place(plan.tokens):.2f} a turn"
    kept = f"{common} of {len(state.last)} entries stay in place, {written:,} tokens are written"
    return f"{kept}, {terms.room - plan.tokens:,} stay free; {why}"
