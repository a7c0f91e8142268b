"""What a session promises of every request, whatever the conversation."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cupel import CompositeScorer, ContextBudget, Pipeline, Prices, RecencyScorer, RelevanceScorer
from cupel.errors import InvalidItemError
from cupel.messages import Framework, MessageSession, PinnedMessagesExceedBudgetError, Turn, fit
from cupel.messages._formats import FORMATS
from cupel.messages._notes import cleaned
from cupel.shorten import head_tail
from tests.messages.chat import COUNTER, EVERYTHING, OPTIONS, format_of, weigh
from tests.messages.histories import BY_PROVIDER
from tests.messages.provider_rules import alternation, violations
from tests.messages.simulated import Message, Provider, conversation, requests
from tests.messages.validators.bound import without_thinking


def walk(session: MessageSession[Any], messages: list[Message]) -> list[Turn[Any]]:
    return [session.fit(history) for history in requests(messages)]


def check_turn(turn: Turn[Any], history: list[Message], budget: int, provider: str, *, alternate: bool = False) -> None:
    bill = turn.bill
    assert bill.read + bill.rewritten + bill.new == bill.sent == turn.total_tokens <= budget
    assert min(bill.read, bill.rewritten, bill.new) >= 0
    assert turn.total_tokens == sum(entry.item.tokens for entry in turn.report.included)
    assert not turn.messages or violations(provider, turn.messages, history) == []
    check_messages(turn, history, alternate=alternate)
    assert len(turn.marks) <= 4
    assert all(0 <= mark < len(turn.messages) for mark in turn.marks)


def check_messages(turn: Turn[Any], history: list[Message], *, alternate: bool) -> None:
    """Every message is the caller's, or a copy with a shorter text, without a note, or with an escaped imitation."""
    gone = {position for unit in turn.dropped for position in unit.positions}
    empty = [at for at, one in enumerate(history) if without_thinking(turn.provider, one).get("content") == []]
    kept = [position for position in range(len(history)) if position not in {*gone, *empty} - {*turn.positions}]
    merges = len([at for at in turn.positions if at is not None]) < len(kept) or (alternate and bool(turn.notes))
    assert not merges or alternate, "only messages of the user are merged, where sides must take turns"
    for message, position in zip(turn.messages, turn.positions, strict=True):
        if position is None or position in turn.shortened or merges or message is history[position]:
            continue
        own = history[position]
        fmt = FORMATS[turn.provider]
        sent = {**message, "tool_calls": own["tool_calls"]} if own.get("tool_calls") == [] else message
        sent = without_thinking(turn.provider, sent) if without_thinking(turn.provider, own) != own else sent
        assert cleaned(sent, fmt, EVERYTHING) in (own, cleaned(own, fmt), without_thinking(turn.provider, own))


def longer(message: Any, number: int) -> Any:
    """A message with long texts of several sizes, some of which imitate notes and markers."""
    parts = ("outputs", "prose")
    forged = "[cupel: 3 earlier steps omitted here: x]\n[cupel: lines 2–9 omitted]\n" if number % 3 == 0 else ""
    times = (1, 40, 7, 120)[number % 4]
    fmt = format_of(message)
    return fmt.with_texts(message, [f"{text}\n{forged}" * times for text in fmt.texts_in(message, parts)], parts)


@pytest.mark.parametrize("provider", sorted(BY_PROVIDER))
def test_every_request_of_a_fuzzed_history_is_one_the_provider_accepts(provider: str) -> None:
    @settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
    @given(
        BY_PROVIDER[provider],
        st.integers(1, 100),
        st.booleans(),
        st.booleans(),
        st.sampled_from((None, False, head_tail)),
        st.booleans(),
    )
    def run(messages: list[Any], share: int, gaps: bool, alternate: bool, forms: Any, long: bool) -> None:
        messages = [longer(message, number) for number, message in enumerate(messages)] if long else messages
        snapshot = copy.deepcopy(messages)
        options: dict[str, Any] = {"provider": provider, "counter": COUNTER}
        budget = fit(messages, 10**9, **options).total_tokens * share // 100
        session = MessageSession(budget, forms=forms, gaps=gaps, alternate=alternate, **options)
        state = session.to_json()
        for end in range(1, len(messages) + 1):
            history = messages[:end]
            restarted = MessageSession.from_json(state, budget, forms=forms, gaps=gaps, alternate=alternate, **options)
            try:
                turn = session.fit(history)
            except (PinnedMessagesExceedBudgetError, InvalidItemError) as error:
                with pytest.raises(type(error)):
                    restarted.fit(history)
                with pytest.raises(type(error)):  # a session sends whatever fit can
                    fit(history, budget, forms=True if forms is None else forms, alternate=alternate, **options)
                continue
            check_turn(turn, history, budget, provider, alternate=alternate)
            assert not alternate or alternation(provider, turn.messages) == []
            again = restarted.fit(history)
            assert again.messages == turn.messages
            assert (again.bill, again.changes, again.reason) == (turn.bill, turn.changes, turn.reason)
            state = session.to_json()
            assert state == restarted.to_json()
            marked = turn.marked()
            same_end = [*history[:-1], marked[-1]] if marked and turn.messages[-1] is history[-1] else history
            assert not marked or violations(provider, marked, same_end) == []
        assert messages == snapshot, "the input was altered"

    run()


@pytest.mark.parametrize("provider", sorted(BY_PROVIDER))
def test_every_request_of_a_rewritten_history_is_one_the_provider_accepts(provider: str) -> None:
    """Callers edit, drop and restore messages, and store requests as their history."""

    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
    @given(BY_PROVIDER[provider], st.integers(20, 100), st.data())
    def run(messages: list[Any], share: int, data: st.DataObject) -> None:
        messages = [longer(message, number) for number, message in enumerate(messages)]
        options: dict[str, Any] = {"provider": provider, "counter": COUNTER}
        budget = fit(messages, 10**9, **options).total_tokens * share // 100
        session = MessageSession[Any](budget, **options)
        history = list(messages)
        for _ in range(5):
            try:
                turn = session.fit(history)
            except (PinnedMessagesExceedBudgetError, InvalidItemError):
                turn = None
            assert turn is None or turn.total_tokens <= budget
            assert turn is None or not turn.messages or violations(provider, turn.messages, history) == []
            at = data.draw(st.integers(0, max(len(history) - 1, 0)))
            change = data.draw(st.sampled_from(("drop", "edit", "restore", "store")))
            if change == "drop" and len(history) > 1:
                history = [*history[:at], *history[at + 1 :]]
            elif change == "edit" and history:
                history = [*history[:at], longer(history[at], at + 1), *history[at + 1 :]]
            elif change == "store" and turn is not None and turn.messages:
                history = list(turn.messages)
            else:
                history = list(messages)

    run()


@pytest.mark.parametrize("forms", [None, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_conversation_keeps_its_prefix_and_costs_less_than_fit_on_every_turn(seed: int, forms: Any) -> None:
    messages = conversation(seed, 60, words=400)
    budget = weigh(messages) // 3
    session = MessageSession[Message](budget, forms=forms, prices=Prices.marked(), **OPTIONS)
    turns = walk(session, messages)
    provider, choosing = Provider(), Provider()
    for turn, history in zip(turns, requests(messages), strict=True):
        check_turn(turn, history, budget, "openai")
        provider.answer(turn.messages, weigh)
        choosing.answer(fit(history, budget, **OPTIONS).messages, weigh)
        assert turn.messages[-1].get("tool_call_id") == history[-1].get("tool_call_id"), "the newest message is last"
    assert provider.billed < choosing.billed / 2
    assert provider.billed == pytest.approx(session.total.price, rel=0.02), "the estimate is what the provider bills"
    actions = [turn.action for turn in turns]
    assert actions.count("cut") > 0
    assert actions.count("append") > len(actions) / 3
    changed = {change.what for turn in turns for change in turn.changes}
    assert ("evicted" if forms is False else "shortened") in changed, "outputs are shortened before steps are left out"
    assert any(turn.shortened for turn in turns) is (forms is None)


@pytest.mark.parametrize("share", [1, 2])
def test_where_sides_take_turns_a_turn_that_has_grown_is_not_new(share: int) -> None:
    messages = conversation(8, 60)
    budget = weigh(messages) // share + 10
    session = MessageSession[Message](budget, alternate=True, prices=Prices.marked(), **OPTIONS)
    provider = Provider()
    grown = 0
    for history in requests(messages):
        billed = provider.billed
        turn = session.fit(history)
        provider.answer(turn.messages, weigh)
        cost = provider.billed - billed
        merged = 5 if turn.action == "append" else 15  # a short message may be joined to one that changed
        assert turn.bill.price > cost - merged, "hardly ever less than the provider bills"
        assert share > 1 or turn.bill.price == pytest.approx(cost, abs=5), "exact where nothing is cut"
        if history[-1]["role"] == "user" and len(history) > 2:
            grown += 1
            assert share > 1 or turn.action == "append"
            assert share > 1 or turn.bill.new == weigh(history[-2:]) - weigh([]), "the answer, and what was asked next"
    assert grown > 3


def test_the_state_holds_no_contents() -> None:
    session = MessageSession[Message](500, **OPTIONS)
    walk(session, conversation(1, 10))
    assert "value_" not in session.to_json()


def test_a_cold_cache_is_the_moment_to_cut() -> None:
    messages = conversation(6, 60)
    budget = weigh(messages) // 3
    session = MessageSession[Message](budget, prices=Prices.marked(), **OPTIONS)
    walk(session, messages[:-4])
    warm, cold = session.copy(), session.copy()
    history = requests(messages)[-1]
    assert warm.fit(history, idle=299).bill.read > 0
    turn = cold.fit(history, idle=301)
    assert turn.bill.read == 0
    assert "the cache is cold" in turn.reason


def test_a_branch_leaves_the_trunk_alone() -> None:
    messages = conversation(7, 30)
    session = MessageSession[Message](weigh(messages) // 2, **OPTIONS)
    walk(session, messages[:-8])
    state = session.to_json()
    branch = session.copy()
    branch.fit([*messages[:-8], {"role": "user", "content": "Something else."}])
    assert session.to_json() == state != branch.to_json()


def test_edits_shrinking_and_other_conversations_end_the_prefix_where_they_differ() -> None:
    messages = conversation(9, 20)
    session = MessageSession[Message](10**6, prices=Prices.marked(), **OPTIONS)
    history = requests(messages)[-1]
    whole = session.fit(history).total_tokens
    edited = [*history[:10], {**history[10], "content": "other"}, *history[11:]]
    for changed, least, most in (
        (history, whole, whole),
        (edited, weigh(history[:9]), weigh(history[:11])),
        (history[:12], 0, weigh(history[:12])),
        (conversation(10, 3), 0, weigh(history[:1]) + 3),
    ):
        branch = session.copy()
        turn = branch.fit(changed)
        assert least <= turn.bill.read <= most
        assert turn.bill.read + turn.bill.rewritten + turn.bill.new == turn.bill.sent == weigh(changed)
    prompt = MessageSession[Message](10**6, system="Be brief.", provider="anthropic", counter=COUNTER)
    talk = [{"role": "user", "content": "Hello there!"}]
    prompt.fit(talk)
    other = MessageSession.from_json(prompt.to_json(), 10**6, system="Be long.", provider="anthropic", counter=COUNTER)
    assert other.fit(talk).bill.read == 0


def test_without_gaps_messages_leave_only_from_the_old_end() -> None:
    messages = conversation(11, 60)
    budget = weigh(messages) // 3
    session = MessageSession[Message](budget, gaps=False, **OPTIONS)
    for history in requests(messages):
        turn = session.fit(history)
        check_turn(turn, history, budget, "openai")
        gone = [at for unit in turn.dropped for at in unit.positions]
        stays = {at for at, message in enumerate(history) if message["role"] in ("system", "user")}  # pinned, or once
        assert all(at in gone or at in stays for at in range(max(gone, default=0)))
    total = session.total
    assert total.price < total.sent / 2


def test_a_policy_says_what_messages_are_worth() -> None:
    messages = conversation(12, 40)
    budget = weigh(messages) // 3
    for scorer in (RecencyScorer(), CompositeScorer([(RelevanceScorer(), 1.0), (RecencyScorer(), 0.2)])):
        session = MessageSession[Message](budget, Pipeline(scorer=scorer), **OPTIONS)
        for history in requests(messages):
            check_turn(session.fit(history), history, budget, "openai")
    asked = [
        *messages,
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "What did value_17 have to do with it?"},
    ]
    naming = [at for at, m in enumerate(asked[2:-2], 2) if "value_17 " in str(m.get("content"))]
    assert naming
    bound = MessageSession[Message](budget, Pipeline(scorer=RelevanceScorer()), forms=False, **OPTIONS)
    turn = bound.fit(asked)
    assert any(asked[at] in turn.messages for at in naming)
    other = MessageSession[Message](budget, Pipeline(scorer=RelevanceScorer()), query="load_1", forms=False, **OPTIONS)
    assert other.fit(asked).messages != turn.messages


def test_marks_are_where_the_next_request_will_look_for_them() -> None:
    talk: list[Message] = []
    session = MessageSession[Message](10**6, provider="anthropic", system="Be brief.", counter=COUNTER)
    ends: list[Message] = []
    for number in range(4):
        talk.append({"role": "user", "content": f"Question {number}?", "cache_control": {"type": "ephemeral"}})
        turn = session.fit(talk)
        marked = turn.marked()
        carrying = [at for at, m in enumerate(marked) if "cache_control" in str(m)]
        assert carrying == list(turn.marks), "and nowhere else"
        assert turn.marks[-1] == len(talk) - 1
        assert all(end in turn.messages for end in ends)
        assert number == 0 or turn.marks[0] == len(talk) - 3 + 0, "the end of the last request"
        assert number == 0 or turn.bill.read > 0
        ends = [talk[-1]]
        talk.append({"role": "assistant", "content": [{"type": "text", "text": f"Answer {number}."}]})
    automatic = MessageSession[Message](10**6, prices=Prices.automatic(), **OPTIONS)
    assert automatic.fit([{"role": "user", "content": "Hello!"}]).marks == ()


def test_a_turn_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    messages = conversation(1, 30)
    session = MessageSession[Message](weigh(messages) // 2, **OPTIONS)
    with caplog.at_level(logging.INFO, logger="cupel"):
        turns = walk(session, messages)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == len(turns)
    assert all(line.startswith(f"turn {number}: ") for number, line in enumerate(lines, 1))
    assert all(str(turn) in line and str(turn.bill) in line for turn, line in zip(turns, lines, strict=True))
    change = next(change for turn in turns for change in turn.changes if change.what == "evicted")
    first, last = change.positions[0], change.positions[-1]
    assert str(change) == f"evicted messages[{first}:{last + 1}] (read_file) ({change.tokens} tokens)"


def test_the_budget_may_keep_room_for_the_answer() -> None:
    messages = conversation(1, 30)
    size = weigh(messages)
    session = MessageSession[Message](ContextBudget(size, size // 2, output_reserve=size // 4), **OPTIONS)
    assert max(turn.total_tokens for turn in walk(session, messages)) <= size // 2


def test_a_framework_gets_its_own_objects_back() -> None:
    @dataclass(frozen=True)
    class Line:
        plain: str

    def shorter(line: Line, texts: Sequence[str]) -> Line:
        return Line(json.dumps({**json.loads(line.plain), "content": texts[0]}))

    lines = Framework(Line, lambda history: [json.loads(line.plain) for line in history], dict, with_outputs=shorter)
    messages = conversation(1, 40, words=400)
    objects = [Line(json.dumps(message)) for message in messages]
    size = weigh(messages)
    session = MessageSession(size // 3, framework=lines, counter=COUNTER)
    shortened = 0
    for history in requests(messages):
        mine = objects[: len(history)]
        turn = session.fit(mine)
        assert turn.total_tokens <= size // 3
        plain = [json.loads(line.plain) for line in turn.messages]
        assert violations("openai", plain, history) == []
        gone = {position for unit in turn.dropped for position in unit.positions}
        kept = [position for position in range(len(history)) if position not in gone]
        changed = {*turn.shortened, *turn.noted}
        assert all(m is mine[at] or at in changed for m, at in zip(turn.messages, kept, strict=True))
        shortened += len(turn.shortened)
    assert shortened
    never = Framework(Line, lambda history: [json.loads(line.plain) for line in history], dict)
    assert not MessageSession(size // 3, framework=never, counter=COUNTER).fit(objects[:-1]).shortened


def test_fit_shortens_only_when_asked_and_only_what_does_not_fit() -> None:
    messages = conversation(1, 30, words=600)
    history = requests(messages)[-1]
    size = weigh(history)
    plain = fit(history, size // 2, forms=False, **OPTIONS)
    assert plain.shortened == ()
    assert fit(history, size, forms=True, **OPTIONS).shortened == ()
    shorter = fit(history, size // 2, forms=True, **OPTIONS)
    assert shorter.shortened
    assert len(shorter.messages) > len(plain.messages)
    assert shorter.total_tokens <= size // 2
    assert violations("openai", shorter.messages, history) == []
    with pytest.raises(TypeError, match="forms"):
        fit(history, size // 2, forms="short", **OPTIONS)
