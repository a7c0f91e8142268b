"""What a conversation's own habits say its messages are worth."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel.messages import MessageSession
from cupel.messages._reuse import ReuseModel, UsageTracker
from cupel.tokens import CharacterEstimate
from tests.sessions.simulated import Message, requests

COUNTER = CharacterEstimate()


def exchange(number: int, asked: str, shown: str) -> list[Message]:
    call = {"name": "look", "arguments": json.dumps({"names": asked})}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": f"c{number}", "content": shown},
    ]


def looking(seed: int, turns: int, *, back: Any) -> list[Message]:
    """A conversation whose calls each use a name from the output `back` turns ago."""
    random = Random(seed)
    messages: list[Message] = [{"role": "user", "content": "Find out why it fails."}]
    shown: list[list[str]] = []
    for turn in range(turns):
        wanted = shown[-1 - min(back(random), len(shown) - 1)][0] if shown else ""
        shown.append([f"load_{random.randrange(10**6)}" for _ in range(6)])
        lines = [f"{random.choice(shown[-1])} took {random.randrange(10**4)} ms" for _ in range(random.choice((9, 40)))]
        messages += exchange(turn, wanted, "\n".join([*shown[-1], *lines]))
    return messages


def kept(messages: list[Message], budget: int) -> float:
    """The share of calls whose name was still in the window before them."""
    session = MessageSession[Message](budget, provider="openai", counter=COUNTER)
    found: list[bool] = []
    for history in requests(messages):
        window = json.dumps(session.fit(history).messages)
        wanted = json.loads(messages[len(history)]["tool_calls"][0]["function"]["arguments"])["names"]
        found.append(wanted in window)
    late = found[len(found) // 2 :]
    return sum(late) / len(late)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_where_only_the_newest_are_used_they_stay(seed: int) -> None:
    messages = looking(seed, 80, back=lambda random: int(random.expovariate(0.4)))
    assert kept(messages, 3000) > 0.7


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_where_one_old_output_is_used_on_and_on_it_stays(seed: int) -> None:
    assert kept(looking(seed, 80, back=lambda random: 10**6 if random.random() < 0.5 else 0), 3000) > 0.95


def after_call(shown: list[str], asked: list[str], call: str) -> list[float]:
    """The values of segments after ten more, the first of which has a call."""
    tracker = UsageTracker()
    for number, (text, own) in enumerate(zip(shown, asked, strict=True)):
        tracker.add(f"k{number}", 100, shown=text, asked=own)
    for number in range(10):
        tracker.add(f"more {number}", 100, shown=f"nothing of {number}", asked="" if number else call)
    return tracker.values(range(len(shown)))


def test_of_several_that_hold_a_name_the_newest_counts_as_used() -> None:
    shown = [f"{number}: the_name_1 is here\nand more of {number}" for number in range(3)]
    used = after_call(shown, [""] * 3, "look at the_name_1")
    unused = after_call(shown, [""] * 3, "look at nothing_2")
    assert used[2] > unused[2]
    assert used[:2] == unused[:2]


def test_names_in_the_assistants_own_calls_count_as_shown() -> None:
    own = ["write src/new_file.py", "ls"]
    used = after_call(["written", "fine"], own, "run src/new_file.py")
    unused = after_call(["written", "fine"], own, "run src/other_file.py")
    assert used[0] > unused[0]
    assert used[1] == unused[1]


def test_what_later_outputs_repeat_is_worth_less() -> None:
    tracker = UsageTracker()
    tracker.add("k0", 100, shown="a long line of text\nanother long line", asked="")
    tracker.add("k1", 100, shown="a long line that is new\nanother new line", asked="")
    before = tracker.values(range(2))
    tracker.add("k2", 100, shown="7: a long line of text\nanother long line", asked="")
    after = tracker.values(range(2))
    assert before[0] > 0
    assert after[0] == 0
    assert after[1] > 0


@given(st.lists(st.lists(st.integers(0, 40), max_size=4) | st.none(), max_size=40))
def test_habits_count_as_a_recount_of_everything_would(calls: list[list[int] | None]) -> None:
    habits = ReuseModel()
    uses: list[int] = []
    seen: dict[tuple[int, int], int] = {}
    used: dict[tuple[int, int], int] = {}

    def kind(index: int) -> tuple[int, int]:
        return (len(uses) - index).bit_length() - 1, min(uses[index], 2)

    for call in calls:
        if call is not None:
            chosen = {index for index in call if index < len(uses)}
            for index in range(len(uses)):
                seen[kind(index)] = seen.get(kind(index), 0) + 1
            for index in chosen:
                used[kind(index)] = used.get(kind(index), 0) + 1
            habits.ask(chosen)
            for index in chosen:
                uses[index] += 1
        habits.add()
        uses.append(0)
    chances = habits.chances(range(len(uses)))
    assert len(chances) == len(uses)
    assert all(0 < chance < 1 for chance in chances)
    assert {k: n for k, n in habits._seen.items() if n} == seen
    assert {k: n for k, n in habits._used.items() if n} == used
    for index in range(1, len(uses)):  # age alone makes nothing more likely
        if uses[index] == uses[index - 1] and index < len(uses) - 1:
            assert chances[index - 1] <= chances[index]
