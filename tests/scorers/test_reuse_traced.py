"""What a conversation's later calls say its steps are worth."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cupel.policy
from cupel import ContextItem, InvalidItemError, Pipeline, ScorerConfigError
from cupel.messages import MessageSession
from cupel.model import ContextKind
from cupel.scorers import REUSE_KEY, ReuseScorer, trace_reuse
from tests.messages.chat import COUNTER
from tests.messages.simulated import Message, requests


def exchange(number: int, asked: str, shown: str) -> list[Message]:
    call = {"name": "look", "arguments": json.dumps({"names": asked})}
    calls = [{"id": f"c{number}", "type": "function", "function": call}]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
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


def test_of_several_that_hold_a_name_the_newest_counts_as_used() -> None:
    steps = [(f"{number}: the_name_1 is here\nand more of {number}", "") for number in range(3)]
    assert [reuse.uses for reuse in trace_reuse([*steps, ("done", "look at the_name_1")])] == [0, 0, 1, 0]
    assert [reuse.uses for reuse in trace_reuse([*steps, ("done", "look at nothing_2")])] == [0, 0, 0, 0]


def test_names_in_the_assistants_own_calls_count_as_shown() -> None:
    steps = [("written", "write src/new_file.py"), ("fine", "ls"), ("ran", "run src/new_file.py")]
    assert [reuse.uses for reuse in trace_reuse(steps)] == [1, 0, 0]


def test_ordinary_words_and_names_that_are_everywhere_are_no_use() -> None:
    assert trace_reuse([("the parser fails", ""), ("x", "look at the parser")])[0].uses == 0
    everywhere = [(f"{number} the_name_1", "") for number in range(9)]
    assert {reuse.uses for reuse in trace_reuse([*everywhere, ("x", "look at the_name_1")])} == {0}


def test_lines_that_later_steps_repeat_are_counted_by_their_share() -> None:
    steps = [
        ("a long line of text\nanother long line", ""),
        ("a long line that is new\nanother new line", ""),
        ("7: a long line of text\nanother long line", ""),
    ]
    assert [reuse.repeated for reuse in trace_reuse(steps)] == [1.0, 0.0, 0.0]


def test_the_newest_step_is_of_age_one() -> None:
    assert [reuse.age for reuse in trace_reuse([("a", ""), ("b", ""), ("c", "")])] == [3, 2, 1]
    assert trace_reuse([]) == []


def item(tokens: int = 100, *, kind: ContextKind = ContextKind.TOOL_OUTPUT, **reuse: float) -> ContextItem:
    metadata = {REUSE_KEY: {"age": 1, "uses": 0, "repeated": 0.0, **reuse}}
    return ContextItem("a step", tokens, kind=kind, metadata=metadata)


def scores(*items: ContextItem, **options: Any) -> list[float]:
    return ReuseScorer(**options).score_all(list(items))


@given(st.integers(1, 200), st.integers(1, 200))
def test_a_newer_step_is_never_worth_less(age: int, other: int) -> None:
    newer, older = sorted((age, other))
    one, two = scores(item(age=newer), item(age=older))
    assert one >= two
    one, two = scores(item(age=newer, uses=2), item(age=older, uses=2))
    assert one >= two


def test_the_best_step_scores_one_and_use_and_novelty_are_worth_something() -> None:
    used, unused, repeated = scores(item(age=9, uses=2), item(age=9), item(age=9, repeated=1.0))
    assert (used, repeated) == (1.0, 0.0)
    assert 0 < unused < used
    assert scores(item(repeated=1.0)) == [0.0]
    assert scores() == []


def test_a_longer_step_is_worth_more_but_less_per_token() -> None:
    short, long = scores(item(100), item(400))
    assert short == pytest.approx(long / 2)


def test_a_shorter_form_scores_as_the_step() -> None:
    whole = item(400)
    form = ContextItem("a st…", 100, kind=whole.kind, metadata=whole.metadata, original_tokens=400)
    one, other = scores(whole, form)
    assert one == other


def test_the_assistants_own_words_are_worth_more() -> None:
    spoken, step = scores(item(kind=ContextKind.MESSAGE), item(), words=4)
    assert step == pytest.approx(spoken / 4)


def test_items_that_nobody_traced_are_steps_in_the_order_of_their_time() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    texts = ["src/old_file.py was written", "nothing of interest", "run src/old_file.py again"]
    dated = [ContextItem(text, 10, timestamp=start + timedelta(hours=at)) for at, text in enumerate(texts)]
    expected = [
        ContextItem(text, 10, metadata={REUSE_KEY: r.to_dict()})
        for text, r in zip(texts, trace_reuse([(text, text) for text in texts]), strict=True)
    ]
    assert scores(*dated) == pytest.approx(scores(*expected))
    assert scores(*dated[::-1]) == pytest.approx(scores(*expected)[::-1])


@pytest.mark.parametrize(
    ("reuse", "words"),
    [
        (7, "must be"),
        ({}, "age"),
        ({"age": 0}, "age must be"),
        ({"age": 1, "uses": -1}, "uses must be"),
        ({"age": 1, "repeated": 1.5}, "repeated must be"),
        ({"age": "1"}, "age must be"),
    ],
)
def test_metadata_that_makes_no_sense_is_named(reuse: Any, words: str) -> None:
    with pytest.raises(InvalidItemError, match=rf"item 'a': metadata\['cupel:reuse'\]: .*{words}"):
        ReuseScorer().score_all([ContextItem("a", 1, metadata={REUSE_KEY: reuse})])


@pytest.mark.parametrize("options", [{"calls": 0}, {"words": 0}, {"words": -1.0}, {"words": float("nan")}])
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ScorerConfigError):
        ReuseScorer(**options)


def test_it_can_be_written_down() -> None:
    pipeline = Pipeline(scorer=ReuseScorer(calls=3, words=2.0))
    assert cupel.policy.loads(cupel.policy.dumps(pipeline)) == pipeline
