"""A window of items that remembers its last selection."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from cupel import (
    GROUP_KEY,
    ConfigurationError,
    ContextBudget,
    ContextItem,
    InvalidBudgetError,
    InvalidItemError,
    PinnedExceedsBudgetError,
    Pipeline,
    Prices,
    ReflexiveScorer,
    RelevanceScorer,
    Session,
    forms,
)

PIPELINE = Pipeline(scorer=ReflexiveScorer())
START = datetime(2026, 1, 1, tzinfo=UTC)


def message(number: int, tokens: int = 10, hint: float = 0.5, **options: Any) -> ContextItem:
    time = START + timedelta(seconds=number)
    return ContextItem(f"message {number}", tokens, timestamp=time, future_relevance_hint=hint, **options)


def document(name: str, tokens: int, hint: float) -> ContextItem:
    return ContextItem(f"document {name}", tokens, kind="Document", future_relevance_hint=hint)


def test_marks_are_the_end_of_what_was_sent_before_and_the_end() -> None:
    session = Session(PIPELINE, 200)
    talk = [message(0), message(1)]
    assert session.select(talk[:1]).marks == (0,)
    assert session.select(talk).marks == (0, 1)


def test_items_stay_where_they_were_sent_and_what_is_new_comes_last() -> None:
    session = Session(PIPELINE, 200)
    documents = [document(name, 30, hint) for name, hint in (("a", 0.3), ("b", 0.9))]
    talk = [message(0)]
    first = session.select([*talk, *documents])
    assert [item.content for item in first] == ["message 0", "document b", "document a"]
    second = session.select([*documents, *talk], new=[message(1)])
    assert [item.content for item in second] == [*(item.content for item in first), "message 1"]
    assert (second.action, second.bill.read, second.bill.new) == ("append", 70, 10)
    third = session.select([*documents, *talk, message(1), document("c", 20, 0.8)], new=[message(2)])
    assert [item.content for item in third][-2:] == ["document c", "message 2"]
    assert third.action == "append"
    assert [change.what for change in third.changes] == ["recalled"]


def test_over_many_turns_the_laws_hold_in_any_order_and_after_a_restart() -> None:
    random = Random(5)
    budget = ContextBudget(400, 300, output_reserve=50)
    session = Session(Pipeline(scorer=ReflexiveScorer()), budget)
    pool = [document(str(number), random.randrange(5, 60), random.random()) for number in range(20)]
    evicted = 0
    for turn in range(40):
        new = [message(turn, random.randrange(1, 25), random.random())]
        restarted = Session.from_json(session.to_json(), PIPELINE, budget)
        result = session.select(pool, new=new)
        again = restarted.select(random.sample(pool, len(pool)), new=new)
        assert again.items == result.items
        assert again.bill == result.bill
        assert session.to_json() == restarted.to_json()
        assert result.total_tokens <= 300
        assert result.items[-1] is new[0]
        assert len({item.content for item in result}) == len(result)
        bill = result.bill
        assert bill.read + bill.rewritten + bill.new == bill.sent == result.total_tokens
        assert len(result.report) == len(pool) + 1
        assert all(0 <= mark < len(result) for mark in result.marks)
        evicted += sum(change.what == "evicted" for change in result.changes)
        pool += new
    assert evicted
    assert session.total.price < session.total.sent


def test_forms_of_one_thing_are_alternatives() -> None:
    long = ContextItem("a long log " * 20, 90, future_relevance_hint=0.9)
    made = forms(long, ("the log in short", 0.8), id="log")
    session = Session(PIPELINE, 100)
    assert [item.content for item in session.select(made)] == [long.content]
    assert [item.content for item in session.select(made, new=[message(1, 40)])] == ["the log in short", "message 1"]
    small = Session(PIPELINE, 20)
    result = small.select(made)
    assert [item.content for item in result] == ["the log in short"]
    with pytest.raises(InvalidItemError, match="all forms of 'log'"):
        small.select(made[:1], new=made[1:])


def test_equal_items_are_told_apart_and_an_item_given_twice_is_new() -> None:
    same = [message(0), message(0)]
    session = Session(PIPELINE, 100)
    assert len(session.select(same)) == 2
    result = session.select([*same, message(1)], new=[message(1)])
    assert [item.content for item in result] == ["message 0", "message 0", "message 1"]
    by_number = Session(PIPELINE, 100, key=lambda item: item.content.split()[-1])
    by_number.select([message(7)])
    changed = by_number.select([document("7", 10, 0.5)])
    assert (changed.action, changed.bill.read) == ("repack", 0), "known by its key, but it says something else"


def test_what_cannot_be_sent_is_said() -> None:
    session = Session(PIPELINE, 20)
    result = session.select([message(0, -1), message(1)])
    assert [(entry.item.content, entry.reason.name) for entry in result.report.excluded] == [
        ("message 0", "NegativeTokens")
    ]
    with pytest.raises(PinnedExceedsBudgetError, match="30 tokens"):
        session.select([message(0)], new=[message(2, 30)])
    assert session.total.sent == 10, "the failed turn left no trace"


def test_a_group_comes_and_goes_whole() -> None:
    pair = [message(n, 20, metadata={GROUP_KEY: "pair"}, hint=hint) for n, hint in ((1, 0.2), (3, 0.1))]
    alone = [message(n, 20, hint=0.9) for n in (0, 2, 4)]
    session = Session(PIPELINE, 100)
    first = session.select([*alone, *pair])
    assert [item.content for item in first] == [f"message {n}" for n in (0, 1, 3, 2, 4)], "at its first item's place"
    second = session.select([*alone, *pair], new=[message(5, 40)])
    assert sorted(item.content for item in second) == [f"message {n}" for n in (0, 2, 4, 5)]
    assert {entry.item.content for entry in second.report.excluded} == {"message 1", "message 3"}
    assert [(change.what, change.tokens) for change in second.changes] == [("evicted", 40)]
    small = Session(PIPELINE, 40)
    assert [item.content for item in small.select([alone[0]], new=pair)] == ["message 1", "message 3"]
    again = small.select(pair)
    assert (again.bill.read, again.marks) == (40, (1,))
    with pytest.raises(InvalidItemError, match="all members of group 'pair'"):
        session.select(pair[:1], new=pair[1:])


def test_the_members_of_a_group_may_have_forms() -> None:
    long = ContextItem("a long log " * 20, 60, future_relevance_hint=0.9, metadata={GROUP_KEY: "step"})
    call = message(0, 10, metadata={GROUP_KEY: "step"})
    pool = [call, *forms(long, ("the log in short", 0.8), id="log")]
    session = Session(PIPELINE, 100)
    assert [item.content for item in session.select(pool)] == ["message 0", long.content]
    second = session.select(pool, new=[message(1, 60)])
    assert [item.content for item in second] == ["message 0", "the log in short", "message 1"]
    assert [item.content for item in session.select(pool, new=[message(2, 90)])] == ["message 2"]


def test_a_query_reaches_the_scorer() -> None:
    session = Session(Pipeline(scorer=RelevanceScorer()), 10)
    pool = [ContextItem("the parser fails on tabs", 10), ContextItem("how to bake bread", 10)]
    assert session.select(pool, query="why does the parser fail?").items == [pool[0]]


def test_a_cold_cache_and_the_providers_account() -> None:
    session = Session(PIPELINE, 100, prices=Prices.automatic(minimum=0, step=1, ttl=60))
    session.select([message(0, 50)])
    assert session.copy().select([message(0, 50)], idle=59).bill.read == 50
    assert session.select([message(0, 50)], idle=61).bill.read == 0
    bill = session.observe({"prompt_tokens": 80, "prompt_tokens_details": {"cached_tokens": 0}})
    assert bill is not None
    assert bill.sent == 80
    assert session.select([message(0, 50), message(1, 20)]).total_tokens <= 100 - 30


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((ReflexiveScorer(), 100), {}, TypeError, "policy must be a Pipeline"),
        ((PIPELINE, "100"), {}, TypeError, "budget must be"),
        ((PIPELINE, True), {}, TypeError, "budget must be"),
        ((PIPELINE, 10**400), {}, InvalidBudgetError, "<= 9007199254740992, got an integer of 1329"),
        ((PIPELINE, 100), {"key": "content"}, TypeError, "key"),
        ((PIPELINE, 100), {"prices": {}}, TypeError, "prices"),
        ((PIPELINE, 100), {"worth": float("inf")}, ConfigurationError, "worth"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Session(*arguments, **options)
    session = Session(PIPELINE, 100)
    with pytest.raises(TypeError, match=r"items\[0\]"):
        session.select(["text"])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="idle"):
        session.select([], idle=-1)
    keyless = Session(PIPELINE, 100, key=lambda item: item.tokens)  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match="the result of key"):
        keyless.select([message(0)])
    with pytest.raises(TypeError, match="the result of key must be a string, got list"):
        Session(PIPELINE, 100, key=lambda item: list(item.tags)).select([message(0)])  # type: ignore[arg-type,return-value]
    session.select([message(0)])
    with pytest.raises(ConfigurationError, match=r"usage.input_tokens must be from 0 to 2\*\*53"):
        session.observe({"input_tokens": 10**400})
    with pytest.raises(ConfigurationError, match="state must be the text that to_json returned"):
        Session.from_json('{"version":' * 100_000, PIPELINE, 100)


def test_copies_and_pickles_are_branches() -> None:
    """Whatever copies a session, the copy goes on by itself: it has a lock of its own, and the same next turn."""
    session = Session(PIPELINE, 100)
    session.select([message(0, 50)])
    for branch in (session.copy(), copy.copy(session), copy.deepcopy(session), pickle.loads(pickle.dumps(session))):
        assert repr(branch) == "<Session: 1 turn of at most 100 tokens>"
        with session._only_writer():
            assert branch.select([message(0, 50)], new=[message(1)]).bill.read == 50
    assert session.total.sent == 50
