"""Requests are told apart by the messages they share with earlier ones."""

import json

import pytest

from cupel.watch._conversations import Store
from cupel.watch._reading import call_of, read_request
from tests.watch.agent import PATHS, body, history, step


class Seen:
    """Places requests one after the other."""

    def __init__(self, **options):
        self.store = Store(**options)
        self.clock = 0.0

    def __call__(self, messages, provider="openai", **more):
        raw = json.dumps(body(provider, messages, **more)).encode()
        self.clock += 1
        read = read_request(call_of("POST", PATHS[provider]), raw)
        return self.store.place(read, len(raw), self.clock)

    @property
    def branches(self):
        return [live.branch for live in self.store.live]

    @property
    def shape(self):
        """The number of turns of each branch of each conversation."""
        found = {}
        for branch in sorted(self.branches, key=lambda branch: (branch.turns[0].at, branch.session)):
            found.setdefault(branch.conversation, []).append(len(branch.turns))
        return list(found.values())


def user(text):
    return {"role": "user", "content": text}


SYSTEM = {"role": "system", "content": "You are an agent."}


def test_a_longer_history_continues_the_conversation():
    seen = Seen()
    for count in range(5):
        placed = seen([SYSTEM, *history("openai", count)])
    assert seen.shape == [[5]]
    assert placed.turn.number == 4
    branch = placed.live.branch
    assert [form.message for form in branch.sent(branch.turns[2])] == [SYSTEM, *history("openai", 2)]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_common_system_prompt_is_no_common_conversation(role):
    seen, prompt = Seen(), {**SYSTEM, "role": role}
    seen([prompt, user("one")])
    seen([prompt, user("two")])
    assert seen.shape == [[1], [1]]
    assert [one.title for one in seen.branches] == ["two", "one"]


def test_parallel_agents_with_one_beginning_become_branches():
    seen = Seen()
    for text in ("a", "b", "c"):
        seen([*history("openai", 2), *step("openai", 9, text)])
    for text in ("b", "a", "c"):
        seen([*history("openai", 2), *step("openai", 9, text), user("go on")])
    assert seen.shape == [[2, 2, 2]]
    assert [(one.parent, one.forked) for one in sorted(seen.branches, key=lambda one: one.name)] == [
        (None, 0),
        ("0", 6),
        ("1", 6),
    ]


def test_an_agent_that_is_started_again_is_one_branch():
    seen = Seen()
    for _ in range(3):
        for count in range(5):
            seen([SYSTEM, *history("openai", count)])
    assert seen.shape == [[5, 5, 5]]


def test_going_back_in_a_conversation_does_not_join_an_older_branch():
    seen = Seen()
    seen(history("openai", 1))
    for count in range(5):
        seen(history("openai", 1)[:1] + history("openai", 3 + count)[1:])
    before = seen.shape
    placed = seen(history("openai", 4))
    assert placed.live.branch.parent is not None
    assert seen.shape != before


def test_the_same_request_again_is_a_retry():
    seen = Seen()
    seen(history("openai", 2))
    assert seen(history("openai", 2)).turn.action == "retry"
    assert seen.shape == [[2]]


def test_the_same_messages_of_another_agent_are_a_branch():
    """Such as a call that asks a small model for a title."""
    seen = Seen()
    seen([user("Hello")], "anthropic", tools=[{"name": "read", "input_schema": {}}])
    other = seen([user("Hello")], "anthropic", system="Write a title.", tools=[])
    assert other.turn.action == "looked"
    main = seen(
        [user("Hello"), {"role": "assistant", "content": "Hi"}, user("Go")],
        "anthropic",
        tools=[{"name": "read", "input_schema": {}}],
    )
    assert (main.live.branch.name, seen.shape) == ("0", [[2, 1]])


def test_the_same_messages_with_another_system_prompt_are_a_branch():
    seen = Seen()
    seen([user("Hello")], "anthropic", system="You are an agent.")
    assert seen([user("Hello")], "anthropic", system="Write a title.").turn.action == "looked"
    assert seen.shape == [[1, 1]]


@pytest.mark.parametrize(("tools", "shape"), [(["read"], [[2]]), ([], [[1, 1]])])
def test_a_longer_history_with_another_system_prompt_and_other_tools_is_a_branch(tools, shape):
    seen = Seen()
    longer = [user("Hello"), {"role": "assistant", "content": "Hi"}, user("Go")]
    seen(longer[:1], "anthropic", tools=[{"name": "read", "input_schema": {}}])
    seen(longer, "anthropic", system="Check it.", tools=[{"name": name, "input_schema": {}} for name in tools])
    assert seen.shape == shape


def test_cache_marks_that_move_change_nothing():
    seen = Seen()
    for count in range(1, 4):
        messages = history("anthropic", count)
        last = messages[-1]["content"][0]
        messages[-1] = {"role": "user", "content": [{**last, "cache_control": {"type": "ephemeral"}}]}
        seen(messages, "anthropic")
    assert seen.shape == [[3]]


def test_a_last_message_that_the_client_changes_later_is_still_shown_as_it_was():
    seen = Seen()
    seen([user("Go"), *step("openai", 1), user("Now <reminder>")])
    branch = seen([user("Go"), *step("openai", 1), user("Now"), *step("openai", 2)]).live.branch
    first, second = ([form.message for form in branch.sent(turn)] for turn in branch.turns)
    assert first == [user("Go"), *step("openai", 1), user("Now <reminder>")]
    assert second[3] == user("Now")


def test_a_compacted_history_is_a_branch_of_its_conversation():
    seen = Seen()
    whole = history("openai", 6)
    seen(whole)
    placed = seen([user("Summary of the work so far."), *whole[-4:], user("Go on")])
    assert placed.live.branch.parent == "0"
    assert seen.shape == [[1, 1]]


def test_one_common_word_is_no_common_conversation():
    seen = Seen()
    seen([user("one"), user("continue")])
    seen([user("two"), user("continue")])
    assert seen.shape == [[1], [1]]


def test_formats_are_apart():
    seen = Seen()
    seen([user("Hello")], "openai")
    seen([user("Hello")], "anthropic")
    assert seen.shape == [[1], [1]]
    seen([user("Summary"), user("two"), user("three")], "openai")
    seen([user("Other summary"), user("two"), user("three")], "anthropic")
    assert seen.shape == [[1], [1], [1], [1]]


def test_memory_is_bounded():
    seen = Seen(memory=20_000)
    for number in range(200):
        seen([user(f"{number} " + "word " * 400)])
    held = [live.size for live in seen.store.live]
    assert 15_000 < sum(held) <= 20_000
    assert [one.title.split()[0] for one in seen.branches] == [f"{199 - at}" for at in range(len(held))]


def test_the_newest_request_is_kept_whatever_its_size():
    seen = Seen(memory=10)
    for text in ("one", "two"):
        seen([user(text)])
    assert seen.shape == [[1]]
    assert seen.branches[0].title == "two"


def test_the_oldest_branches_of_a_conversation_are_forgotten():
    seen = Seen()
    for number in range(140):
        seen([user("Hello"), user(f"{number}")])
    assert [branch.name for branch in seen.branches] == [f"{number}" for number in range(139, 11, -1)]


def test_the_oldest_turns_of_a_branch_are_forgotten(monkeypatch):
    monkeypatch.setattr("cupel.watch._conversations._MOST_TURNS", 20)
    seen = Seen()
    for _ in range(30):
        placed = seen([user("again")])
    assert [turn.number for turn in placed.live.branch.turns] == list(range(10, 30))


def test_the_title_is_what_the_user_said_first():
    reminder = {"type": "text", "text": "<reminder>be kind</reminder>"}
    seen = Seen()
    seen(
        [user([reminder]), user([reminder, {"type": "text", "text": "Fix the parser"}]), user("and more")], "anthropic"
    )
    assert seen.branches[0].title == "Fix the parser"


def test_the_title_is_nothing_that_the_model_said():
    seen = Seen()
    seen([SYSTEM, {"role": "assistant", "content": "How can I help?"}, user("Fix the parser")])
    assert seen.branches[0].title == "Fix the parser"


def test_names_are_unique():
    seen = Seen()
    seen.clock = 5
    names = set()
    for _ in range(3):
        seen.clock = 5
        names.add(seen([SYSTEM, user(f"{len(names)}")]).live.branch.session)
    assert len(names) == 3
