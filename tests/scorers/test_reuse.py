"""What the metadata of a step may say, what the scorer and the trace refuse, and what they make of it."""

from __future__ import annotations

import re
from collections import UserDict
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from cupel import (
    ConfigurationError,
    ContextBudget,
    ContextItem,
    InvalidItemError,
    Pipeline,
    ScorerConfigError,
    fit,
    policy,
)
from cupel.messages import MessageSession, to_items
from cupel.scorers import REUSE_KEY, ReuseScorer, trace_reuse

MALFORMED: list[tuple[Any, str]] = [
    (3, "the value must be a mapping, got int: 3"),
    ([1, 0, 0], "the value must be a mapping, got"),
    ({}, "age must be an integer, got NoneType: None"),
    ({"uses": 1}, "age must be an integer, got NoneType: None"),
    ({"age": 0}, "age must be >= 1, got 0"),
    ({"age": -3}, "age must be >= 1, got -3"),
    ({"age": 10**400}, "age must be <= 1000000000, got an integer of 1329 bits"),
    ({"age": 1.0}, "age must be an integer, got float: 1.0"),
    ({"age": True}, "age must be an integer, got bool: True"),
    ({"age": "1"}, "age must be an integer, got str: '1'"),
    ({"age": 1, "uses": -1}, "uses must be >= 0, got -1"),
    ({"age": 1, "uses": None}, "uses must be an integer, got NoneType: None"),
    ({"age": 1, "uses": 0.5}, "uses must be an integer, got float: 0.5"),
    ({"age": 1, "repeated": -0.1}, "repeated must be from 0 to 1, got -0.1"),
    ({"age": 1, "repeated": 1.1}, "repeated must be from 0 to 1, got 1.1"),
    ({"age": 1, "repeated": nan}, "repeated must be from 0 to 1, got nan"),
    ({"age": 1, "repeated": 10**400}, "repeated must fit a double, got an integer of 1329 bits"),
    ({"age": 1, "repeated": "half"}, "repeated must be a number, got str: 'half'"),
]


def step(told: Any, tokens: int = 50, **fields: Any) -> ContextItem:
    return ContextItem("the step", tokens, metadata={REUSE_KEY: told}, **fields)


@pytest.mark.parametrize(("told", "says"), MALFORMED)
def test_malformed_metadata_names_the_item(told, says):
    with pytest.raises(InvalidItemError, match=re.escape(f"item 'the step': metadata['cupel:reuse']: {says}")):
        ReuseScorer().score_all([step({"age": 1}), step(told)])


def test_an_item_with_a_long_text_is_named_in_short():
    with pytest.raises(InvalidItemError, match="age must be an integer") as caught:
        ReuseScorer().score_all([ContextItem("x" * 10_000, 9, metadata={REUSE_KEY: {}})])
    assert len(str(caught.value)) < 400


def test_a_run_with_malformed_metadata_fails():
    with pytest.raises(InvalidItemError, match="item 'the step'"):
        Pipeline(scorer=ReuseScorer()).run([step({"age": "old"})], ContextBudget(100, 100))


@pytest.mark.parametrize("told", [UserDict(age=2, uses=1), {"age": np.int64(2), "uses": np.int64(1), "other": "kept"}])
def test_mappings_and_integers_of_other_types_are_read(told):
    plain = step({"age": 2, "uses": 1, "repeated": 0.0})
    assert ReuseScorer().score_all([plain, step(told)]) == [1.0, 1.0]


def test_a_share_of_another_type_is_read():
    halves = [step({"age": 2, "repeated": half}) for half in (0, 0.5, Fraction(1, 2), np.float32(0.5))]
    assert ReuseScorer().score_all(halves) == [1.0, 0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"calls": 0}, ScorerConfigError, "calls must be >= 1, got 0"),
        ({"calls": 1.5}, TypeError, "calls must be an integer, got float: 1.5"),
        ({"calls": True}, TypeError, "calls must be an integer, got bool: True"),
        ({"calls": None}, TypeError, "calls must be an integer, got NoneType"),
        ({"words": 0}, ScorerConfigError, "words must be finite and > 0, got 0"),
        ({"words": -1.0}, ScorerConfigError, "words must be finite and > 0, got -1.0"),
        ({"words": inf}, ScorerConfigError, "words must be finite and > 0, got inf"),
        ({"words": nan}, ScorerConfigError, "words must be finite and > 0, got nan"),
        ({"words": "4"}, TypeError, "words must be a number, got str: '4'"),
    ],
)
def test_wrong_calls_and_words_are_refused(options, error, says):
    with pytest.raises(error, match=re.escape(says)):
        ReuseScorer(**options)


@pytest.mark.parametrize("fields", [{"calls": 0}, {"words": 0}])
def test_a_policy_with_wrong_options_names_their_place(fields):
    with pytest.raises(ConfigurationError, match=re.escape("$.scorer")):
        policy.from_dict({"scorer": {"type": "reuse", **fields}})


@pytest.mark.parametrize("words", [1e308, 1e-308, 5e-324])
def test_scores_are_numbers_whatever_words_count(words):
    items = [step({"age": 1}, tokens=2**53), step({"age": 10**9}, tokens=1, kind="ToolOutput")]
    scores = ReuseScorer(words=words, calls=10**400).score_all(items)
    assert max(scores) == 1.0
    assert all(0.0 <= score <= 1.0 for score in scores)


@pytest.mark.parametrize("items", [[], [step({"age": 1}, tokens=0)], [step({"age": 1, "repeated": 1})] * 2])
def test_without_anything_of_worth_all_scores_are_zero(items):
    assert ReuseScorer().score_all(items) == [0.0] * len(items)


def test_a_shortened_item_counts_with_the_length_that_it_had():
    items = [step({"age": 1}, tokens=400), step({"age": 1}, tokens=4, original_tokens=400), step({"age": 1}, tokens=4)]
    assert ReuseScorer().score_all(items) == [1.0, 1.0, 0.1]


def test_steps_that_were_used_often_are_alike_and_of_those_used_alike_the_newer_scores_higher():
    items = [step({"age": age, "uses": uses}) for age, uses in ((4, 2), (4, 5), (5, 3), (5, 2), (6, 9))]
    often, alike, older, same, oldest = ReuseScorer().score_all(items)
    assert 1.0 == often == alike > older == same > oldest > 0.0


def test_metadata_counts_more_than_the_order_of_time():
    """The others are traced among all items, as if this one had none."""
    texts = ("the parser is in app.py", "cat app.py")
    plain = [ContextItem(text, 100, kind="ToolOutput") for text in texts]
    told = ContextItem(texts[0], 100, kind="ToolOutput", metadata={REUSE_KEY: {"age": 2, "uses": 0}})
    traced, given = (ReuseScorer(calls=1).score_all(items) for items in (plain, [told, plain[1]]))
    assert traced[1] == given[1] == 1.0
    assert given[0] < traced[0] < 1.0


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (5, "steps must be an iterable with a (text, arguments) pair of strings for each step, got int: 5"),
        (None, "steps must be an iterable with a (text, arguments) pair of strings for each step, got NoneType"),
        ("text", "steps[0] must be a (text, arguments) pair of strings, got str: 't'"),
        ([("a", "b"), ("a", "b", "c")], "steps[1] must be a (text, arguments) pair of strings, got tuple"),
        ([("a", None)], "steps[0][1] must be a string, got NoneType: None"),
        ([(b"a", "b")], "steps[0][0] must be a string, got bytes: b'a'"),
    ],
)
def test_a_trace_of_anything_but_pairs_of_texts_names_the_step(steps, says):
    with pytest.raises(TypeError, match=re.escape(says)):
        trace_reuse(steps)


def test_a_trace_reads_an_iterator_once():
    steps = [("def parse_header(): ...", "cat app.py"), ("ok", "grep parse_header")]
    assert trace_reuse(iter(steps)) == trace_reuse(steps) == [(2, 1, 0.0, 0), (1, 0, 0.0, 0)]
    assert trace_reuse([]) == []


def call(number: int, arguments: str, output: str) -> list[dict[str, Any]]:
    function = {"name": "run", "arguments": arguments}
    calls = [{"id": f"c{number}", "type": "function", "function": function}]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": f"c{number}", "content": output},
    ]


HISTORY = [
    {"role": "user", "content": "Why does it fail?"},
    *call(1, '{"command": "ls"}', "app.py setup.cfg\n" + "nothing else of note\n" * 40),
    *call(2, '{"command": "cat app.py"}', "import os\n" * 40),
    *call(3, '{"command": "date"}', "Monday\n" * 40),
    {"role": "user", "content": "And now?"},
]


def test_to_items_says_how_each_step_was_used():
    told = [item.metadata[REUSE_KEY] for item in to_items(HISTORY, provider="openai")]
    assert [one["age"] for one in told] == [5, 4, 3, 2, 1]
    assert [one["uses"] for one in told] == [0, 1, 0, 0, 0]
    assert {one["repeated"] for one in told} == {0.0}


@pytest.mark.parametrize("cut", [fit, lambda *args, **options: MessageSession(args[1], **options).fit(args[0])])
def test_reports_of_fit_and_sessions_say_how_a_step_was_used(cut):
    report = cut(HISTORY, 400, provider="openai").report
    items = [entry.item for entry in (*report.included, *report.excluded)]
    (listing,) = (item for item in items if "setup.cfg" in item.content)
    assert listing.metadata[REUSE_KEY] == {"age": 4, "uses": 1, "repeated": 0.0, "said": 0}
