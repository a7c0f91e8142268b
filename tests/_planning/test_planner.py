"""The planner against a naive transcription of its rule, against all cuts, and against the laws it promises."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cupel import ContextBudget, ContextItem, GreedySlice, ScoredItem
from cupel._planning import (
    Bill,
    Candidate,
    Change,
    Decision,
    Entry,
    FormOption,
    Opening,
    Planner,
    Prices,
    State,
    TurnTerms,
    decide,
)

NOTHING = Opening("", 0)
VALUES = st.integers(0, 20).map(lambda number: number / 4)


@st.composite
def candidates(draw: st.DrawFn, *, forms: bool = True, most: int = 8) -> list[Candidate]:
    """A pool in order: some with short forms, some held, some without a place."""
    placed = draw(st.integers(0, most))
    free = draw(st.integers(0, most - placed)) if forms else 0
    pool: list[Candidate] = []
    for number in range(placed + free):
        tokens = draw(st.integers(0, 30))
        options = [FormOption("", tokens, 1.0)]
        if forms and tokens > 1 and draw(st.booleans()):
            options.insert(
                0, FormOption("short", draw(st.integers(0, tokens - 1)), draw(st.sampled_from((0.5, 0.9, 1.0))))
            )
        held = forms and draw(st.integers(0, 4)) == 0
        pool.append(Candidate(f"k{number}", draw(VALUES), tuple(options), held=held, free=number >= placed))
    return pool


TERMS = st.builds(
    TurnTerms,
    room=st.integers(0, 120),
    read=st.sampled_from((0.0, 0.1, 0.5)),
    write=st.sampled_from((0.5, 1.0, 1.25)),
    gain=st.sampled_from((0.0, 0.5, 2.0, 30.0)),
    growth=st.sampled_from((0.0, 5.0, 40.0)),
)


def naive(pool: list[Candidate], last: list[Entry], terms: TurnTerms) -> tuple[float, int, dict[str, str]] | None:
    """The rule as it is written down, with no thought for speed: every cut, and every piece looked for again."""
    best: tuple[float, int, dict[str, str]] | None = None
    for cut in range(len(last) + 1):
        prefix = legal_prefix(pool, last[:cut])
        if prefix is None:
            break
        found = filled(pool, prefix, terms)
        if found is None:
            continue
        sent, score = found
        if best is None or score >= best[0]:
            best = score, cut, sent
    return best


def legal_prefix(pool: list[Candidate], entries: list[Entry]) -> dict[str, FormOption] | None:
    """The forms of a prefix of the last request, or None if no request can begin with it."""
    by_key = {candidate.key: candidate for candidate in pool}
    chosen: dict[str, FormOption] = {}
    for entry in entries:
        candidate = by_key.get(entry.key)
        if candidate is None:
            return None
        option = next((o for o in candidate.options if (o.form, o.tokens) == (entry.form, entry.tokens)), None)
        if option is None or (candidate.held and option != candidate.options[-1]):
            return None
        chosen[entry.key] = option
    order = [candidate.key for candidate in pool if not candidate.free and candidate.key in chosen]
    if order != [key for key in chosen if not by_key[key].free]:
        return None
    reach = next((i for i, c in reversed(list(enumerate(pool))) if c.key in chosen and not c.free), -1)
    if any(c.held and not c.free and c.key not in chosen for c in pool[: max(reach, 0)]):
        return None
    return chosen


def filled(
    pool: list[Candidate], prefix: dict[str, FormOption], terms: TurnTerms
) -> tuple[dict[str, str], float] | None:
    reach = max((i for i, c in enumerate(pool) if c.key in prefix and not c.free), default=-1)
    tail = {c.key: c.options[-1] for c in pool if c.held and c.key not in prefix}
    size = sum(o.tokens for o in (*prefix.values(), *tail.values()))
    if size > terms.room:
        return None
    steps: list[tuple[float, int, FormOption, FormOption | None]] = []
    for index, candidate in enumerate(pool):
        if candidate.held or candidate.key in prefix or (index < reach and not candidate.free):
            continue
        below: FormOption | None = None
        for option in hull(candidate):
            density = worth(candidate, option, below) / cost if (cost := extra(option, below)) else float("inf")
            if not extra(option, below) and not worth(candidate, option, below):
                density = 0.0
            steps.append((density, index, option, below))
            below = option
    for density, index, option, below in sorted(steps, key=lambda step: (-step[0], step[1])):
        key = pool[index].key
        if size + extra(option, below) > terms.room or tail.get(key) is not below:
            continue
        size_after = size + extra(option, below)
        turns = lasting(terms, size_after)
        if terms.gain * density < terms.read + (terms.write - terms.read) / turns:
            break
        tail[key] = option
        size = size_after
    by_key = {candidate.key: candidate for candidate in pool}
    value = sum(by_key[key].value * option.share for key, option in (*prefix.items(), *tail.items()))
    rewritten = sum(option.tokens for key, option in tail.items() if not by_key[key].new)
    turns = lasting(terms, size)
    score = terms.gain * value - terms.read * size - (terms.write - terms.read) * rewritten / turns
    return {key: option.form for key, option in (*prefix.items(), *tail.items())}, score


def lasting(terms: TurnTerms, size: int) -> float:
    return 1 + 2 * (terms.room - size) / max(terms.growth, 1) if terms.growth else float("inf")


def extra(option: FormOption, below: FormOption | None) -> int:
    return option.tokens - (below.tokens if below else 0)


def worth(candidate: Candidate, option: FormOption, below: FormOption | None) -> float:
    return candidate.value * (option.share - (below.share if below else 0.0))


def hull(candidate: Candidate) -> list[FormOption]:
    """The forms worth taking one after the other: of all chains, the one whose steps are worth less and less."""
    short, whole = candidate.options[0], candidate.options[-1]
    if short is whole:
        return [whole]

    def density(option: FormOption, below: FormOption | None) -> float:
        gained = worth(candidate, option, below)
        return gained / extra(option, below) if extra(option, below) else (float("inf") if gained else 0.0)

    if density(whole, short) >= density(short, None):
        return [whole]
    return [short, whole] if worth(candidate, whole, short) > 0 else [short]


def entries_of(step: Decision) -> list[Entry]:
    return list(step.entries)


@settings(max_examples=250, deadline=None)
@given(candidates(), TERMS, st.data())
def test_the_plan_is_what_the_rule_says_for_every_cut(pool: list[Candidate], terms: TurnTerms, data: Any) -> None:
    last = [
        Entry(c.key, option.form, option.tokens)
        for c in data.draw(st.permutations(pool))
        if data.draw(st.booleans())
        for option in [data.draw(st.sampled_from(c.options))]
    ]
    if data.draw(st.booleans()):
        last.sort(key=lambda entry: entry.key)
    expected = naive(pool, last, terms)
    found = Planner(pool).plan(last, terms)
    if expected is None:
        assert found is None
        return
    assert found is not None
    score, cut, sent = expected
    assert found.score == pytest.approx(score)
    assert found.tokens <= terms.room
    if found.kept == cut:
        ours = {entry.key: entry.form for entry in last[: found.kept]}
        assert ours | {pool[index].key: option.form for index, option in found.suffix.items()} == sent


@settings(max_examples=150, deadline=None)
@given(candidates(forms=False, most=12), st.integers(0, 120))
def test_for_nothing_the_window_is_worth_at_least_what_greedy_takes(pool: list[Candidate], room: int) -> None:
    items = [ContextItem(c.key, c.options[-1].tokens) for c in pool]
    scored = [ScoredItem(item, c.value) for item, c in zip(items, pool, strict=True)]
    scored.sort(key=lambda entry: -entry.score)
    taken = GreedySlice().slice(scored, ContextBudget(room, room))
    greedy = sum(c.value for item, c in zip(items, pool, strict=True) if any(item is one for one in taken))
    step = decide(State(), pool, prices=Prices(read=0, write=0), worth=1.0, room=room, opening=NOTHING)
    assert step is not None
    assert sum(pool[index].value for index in step.chosen) >= greedy - 1e-9


@settings(max_examples=150, deadline=None)
@given(st.data(), st.booleans(), st.integers(40, 200))
def test_turn_after_turn_the_laws_hold(data: Any, gaps: bool, room: int) -> None:
    state = State()
    pool: list[Candidate] = []
    prices = data.draw(
        st.sampled_from((Prices.marked(), Prices.automatic(minimum=20, step=8), Prices(read=0, write=0)))
    )
    for turn in range(data.draw(st.integers(1, 8))):
        new = [
            Candidate(f"t{turn}n{n}", data.draw(VALUES), (FormOption("", tokens, 1.0),), held=True, new=bool(turn))
            for n, tokens in enumerate(data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=3)))
        ]
        opening = Opening(str(data.draw(st.integers(0, 5)) == 0), 7)
        idle = data.draw(st.sampled_from((None, 10.0, 4000.0)))
        step = decide(state, [*pool, *new], prices=prices, worth=1.0, room=room, opening=opening, idle=idle, gaps=gaps)
        assert step is not None
        everyone = [*pool, *new]
        sent = [everyone[index] for index in step.chosen]
        assert sum(entry.tokens for entry in step.entries) <= room
        assert [c.key for c in sent] == [entry.key for entry in step.entries]
        assert len({c.key for c in sent}) == len(sent), "nothing twice"
        assert [c.key for c in sent[len(sent) - len(new) :]] == [c.key for c in new], "new last"
        assert list(step.chosen) == sorted(step.chosen), "in order"
        bill = step.bill
        assert bill.read + bill.rewritten + bill.new == bill.sent == 7 + sum(entry.tokens for entry in step.entries)
        assert min(bill.read, bill.rewritten, bill.new) >= 0
        if not gaps:
            optional = [i for i in range(len(pool)) if everyone[i].key in {entry.key for entry in step.entries}]
            assert optional == list(range(optional[0], len(pool))) if optional else True
        again = decide(
            State.from_json(state.to_json()),
            everyone,
            prices=prices,
            worth=1.0,
            room=room,
            opening=opening,
            idle=idle,
            gaps=gaps,
        )
        assert again == step
        assert step.state.total.sent == state.total.sent + bill.sent
        state = step.state
        pool += [
            Candidate(
                c.key,
                data.draw(VALUES),
                (FormOption("short", c.whole.tokens // 2, 0.9), c.whole) if gaps and c.whole.tokens > 2 else (c.whole,),
            )
            for c in new
        ]


@settings(max_examples=150, deadline=None)
@given(candidates(forms=False), TERMS, st.data())
def test_without_gaps_no_start_is_better(pool: list[Candidate], terms: TurnTerms, data: Any) -> None:
    start = data.draw(st.integers(0, len(pool)))
    last = [Entry(c.key, "", c.whole.tokens) for c in pool[start : data.draw(st.integers(start, len(pool)))]]
    found = Planner(pool).unbroken(last, terms)
    scores: list[float] = []
    for begin in range(len(pool) + 1):
        sent = pool[begin:]
        size = sum(c.whole.tokens for c in sent)
        if size <= terms.room:
            same = 0
            while same < min(len(last), len(sent)) and last[same].key == sent[same].key:
                same += 1
            rewritten = sum(c.whole.tokens for c in sent[same:])
            scores.append(terms.score(sum(c.value for c in sent), size, rewritten))
    assert found is not None
    assert found.score == pytest.approx(max(scores))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"read": -0.1}, "read must be finite and >= 0"),
        ({"write": float("inf")}, "write must be finite"),
        ({"read": 1.0, "write": 0.5}, "read must not exceed write"),
        ({"ttl": -1}, "ttl"),
        ({"marks": -1}, "marks must be >= 0"),
        ({"step": 0}, "step must be >= 1"),
    ],
)
def test_prices_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    from cupel import ConfigurationError

    with pytest.raises(ConfigurationError, match=words):
        Prices(**options)
    with pytest.raises(TypeError, match="read must be a number"):
        Prices(read="cheap")  # type: ignore[arg-type]


def test_bills_add_up_and_say_what_they_are() -> None:
    bill = Bill(sent=12_400, read=9_100, rewritten=600, new=2_700, price=5_035)
    assert str(bill) == (
        "12.4k tokens sent: 9.1k read from the cache, 600 written again, 2.7k new; price of 5.0k uncached tokens"
    )
    estimate = Bill(settled=False)
    assert "price of 5.0k uncached tokens, estimated" in str(bill + estimate)
    change = Change(what="evicted", label="x", key="x", tokens=1, worth=0.26, read=0.1, write=1.25, turns=3.9)
    assert change.place == pytest.approx(0.1 + 1.15 / 3.9)


@pytest.mark.parametrize(
    ("what", "worth", "said"),
    [
        ("evicted", 0.1, "evicted messages[3] (90 tokens): keeping a token costs 0.20 a turn and is worth 0.10"),
        ("evicted", 0.3, "evicted messages[3] (90 tokens)"),
        ("recalled", 0.1, "recalled messages[3] (90 tokens)"),
        ("restored", 0.1, "restored messages[3] (20 → 90 tokens)"),
    ],
)
def test_a_change_names_the_prices_only_if_they_decided(what: Any, worth: float, said: str) -> None:
    prices: Any = {"read": 0.1, "write": 1.1, "turns": 10.0}
    assert str(Change(what=what, label="messages[3]", key="", tokens=90, before=20, worth=worth, **prices)) == said
