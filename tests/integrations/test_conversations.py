"""Conversations that are told apart by their beginnings, without any framework."""

import json
from time import perf_counter
from typing import Any

import pytest

from cupel import ConfigurationError, InvalidItemError, Prices
from cupel.integrations._adapters import Recent
from cupel.integrations._conversations import PLACE, Conversations, _keys
from cupel.integrations._sessions import Sessions

BUDGET = 600


def user(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **fields}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


class Talk:
    """Conversations over one store, and the turns of their sessions."""

    def __init__(self, store: Any = None) -> None:
        self.turns: list[Any] = []
        sessions: Sessions[Any] = Sessions("openai", PLACE, BUDGET, prices=Prices.marked(), on_turn=self.turns.append)
        self.conversations = Conversations(sessions, store)

    def fit(self, *messages: dict[str, Any], **options: Any) -> list[Any]:
        chosen, self.request = self.conversations.fit(list(messages), **options)
        return chosen

    @property
    def continues(self) -> bool:
        """Whether the newest request continues an earlier one."""
        return self.turns[-1].bill.read > 0


def test_a_history_that_begins_with_a_known_one_continues_it():
    talk = Talk()
    talk.fit(user("one"))
    assert not talk.continues
    talk.fit(user("one"), said("1"), user("two"))
    assert talk.continues


def test_other_beginnings_begin_other_conversations():
    talk = Talk()
    talk.fit(user("one"))
    talk.fit(user("another"), said("1"), user("two"))
    assert not talk.continues


def test_equal_beginnings_are_branches_that_stay_apart():
    talk = Talk()
    talk.fit(user("one"))
    talk.fit(user("one"), said("1"), user("left"))
    talk.fit(user("one"), said("1"), user("right"))
    assert talk.continues
    for side in ("left", "right"):
        talk.fit(user("one"), said("1"), user(side), said("2"), user("on"))
        assert talk.turns[-1].bill.read == talk.turns[1].total_tokens


def test_the_longest_beginning_counts():
    talk = Talk()
    talk.fit(user("one"))
    talk.fit(user("one"), said("1"), user("two " * 50))
    talk.fit(user("one"), said("1"), user("two " * 50), said("2"), user("three"))
    assert talk.turns[-1].bill.read == talk.turns[-2].total_tokens


def test_another_attempt_starts_from_the_same_state():
    talk = Talk()
    talk.fit(user("one"))
    history = (user("one"), said("1"), user("two"))
    first, read = talk.fit(*history), talk.turns[-1].bill.read
    assert talk.fit(*history) == first
    assert talk.turns[-1].bill.read == read


def test_another_process_continues_from_the_store():
    store: dict[str, str] = {}
    Talk(store).fit(user("one"))
    talk = Talk(store)
    talk.fit(user("one"), said("1"), user("two"))
    assert talk.continues


def test_a_conversation_leaves_two_states_in_the_store():
    store: dict[str, str] = {}
    history = [user("one")]
    for number in range(6):
        Talk(store).fit(*history)
        assert len(store) == min(number + 1, 2)
        history += [said("yes"), user(f"part {number}")]
    assert all(key.startswith("cupel_session:") for key in store)
    assert "part" not in str(store), "contents are not stored"


def test_states_in_memory_are_bounded_and_the_oldest_is_forgotten():
    states = Recent(3)
    for name in "abcd":
        states[name] = name
    states["b"] = "again"
    states["e"] = "e"
    assert dict(states) == {"d": "d", "b": "again", "e": "e"}
    del states["d"]
    assert len(states) == 2


def test_cache_breakpoints_that_move_do_not_make_another_conversation():
    talk = Talk()
    marked = {"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}
    plain = {"type": "text", "text": "one"}
    talk.fit(user([marked]))
    talk.fit(user([plain]), said("1"), user("two"))
    assert talk.continues


def test_usage_settles_the_request_and_keeps_the_budget_in_the_providers_tokens():
    talk, history = Talk(), [user("word " * 400)]
    for text in ("more " * 400, "even more " * 400):
        talk.fit(*history)
        talk.conversations.observe(talk.request, {"prompt_tokens": 2 * talk.turns[-1].total_tokens})
        history += [said("yes"), user(text)]
    talk.fit(*history)
    assert talk.turns[-1].total_tokens < 0.7 * BUDGET


def test_usage_of_a_request_that_the_store_has_forgotten_is_ignored():
    store: dict[str, str] = {}
    talk = Talk(store)
    talk.fit(user("one"))
    store.clear()
    talk.conversations.observe(talk.request, {"prompt_tokens": 9})
    talk.conversations.observe(talk.request, None)
    assert store == {}


def test_tools_and_system_prompt_may_change_from_turn_to_turn():
    talk = Talk()
    talk.fit(user("one"), system="Be brief.")
    talk.fit(user("one"), said("1"), user("two"), system="Be thorough.", tools=[{"name": "look"}])
    assert talk.turns[-1].total_tokens <= BUDGET


@pytest.mark.parametrize("text", ["nonsense", '{"state": 3}', '{"other": ""}'])
def test_a_store_that_holds_something_else_is_refused_by_its_key(text: str):
    store: dict[str, str] = {}
    Talk(store).fit(user("one"))
    store.update(dict.fromkeys(store, text))
    with pytest.raises(ConfigurationError, match=r"store\['cupel_session:\w+'\] is not a state.*delete it"):
        Talk(store).fit(user("one"), said("1"), user("two"))


def test_a_store_is_a_mapping():
    with pytest.raises(TypeError, match="store must be a MutableMapping, got list"):
        Talk([])


@pytest.mark.parametrize("content", [{1: "a"}, object(), [[[]]]])
def test_messages_that_cannot_be_read_are_refused_by_the_session(content: Any):
    with pytest.raises((TypeError, ValueError), match=r"messages\[0\]"):
        Talk().fit(user(content))


def test_a_message_that_contains_itself_is_refused_by_the_session():
    message = user("one")
    message["content"] = [message]
    with pytest.raises(ValueError, match="nested more than 250 levels"):
        Talk().fit(message)


def test_large_integers_and_broken_text_are_told_apart_too():
    talk = Talk()
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": json.dumps({"number": 10**30})}}
    opening = (user("one \ud800"), {"role": "assistant", "content": None, "tool_calls": [call]})
    answer = {"role": "tool", "tool_call_id": "1", "content": "2"}
    talk.fit(*opening, answer)
    talk.fit(*opening, answer, said("done"), user("two"))
    assert talk.continues


def test_finding_a_conversation_costs_little_beside_reading_it():
    history = [message for turn in range(3000) for message in (user(f"ask {turn}"), said("line of text\n" * 100))]
    started = perf_counter()
    assert len(set(_keys(history))) == 100
    assert perf_counter() - started < 1


def test_a_store_is_asked_for_few_prefixes_however_long_the_history_is():
    class Counted(dict[str, str]):
        asked = 0

        def __contains__(self, key: object) -> bool:
            self.asked += 1
            return super().__contains__(key)

    store = Counted()
    Talk(store).fit(*[user(f"ask {number}") for number in range(500)])
    assert 0 < store.asked <= 100


def test_an_empty_history_begins_nothing():
    talk = Talk()
    with pytest.raises(InvalidItemError, match="an empty request is refused"):
        talk.fit()
    talk.fit(user("one"))
    assert not talk.continues
