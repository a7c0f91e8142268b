"""`cupel evaluate` and `cupel tune`: figures, files, limits and what they refuse."""

import gzip
import json

import pytest

from tests.evaluation.pools import hinted_case

HINTS = '{"scorer": "reflexive", "name": "hints"}'
MIXED = """\
name = "mixed"
[scorer]
type = "composite"
scorers = [{ scorer = "priority", weight = 3 }, { scorer = "reflexive", weight = 1 }]
"""


def row(number, **fields):
    case = hinted_case(number, truth=0.9)
    items = [
        {
            "content": i.content,
            "tokens": i.tokens,
            "priority": i.priority,
            "future_relevance_hint": i.future_relevance_hint,
        }
        for i in case.items
    ]
    return {"items": items, "budget": 60, "needed": list(case.needed), "group": case.group, "id": case.name, **fields}


@pytest.fixture
def cases(folder):
    rows = [row(number) for number in range(40)]
    folder.joinpath("cases.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    folder.joinpath("hints.json").write_text(HINTS)
    folder.joinpath("mixed.toml").write_text(MIXED)
    return rows


def test_policies_are_measured_and_compared(cupel, cases):
    done = cupel("evaluate", "cases.jsonl", "--policy", "mixed.toml", "--policy", "hints.json")
    assert done.code == 0
    assert "hints keeps more than mixed" in done.out
    document = cupel(
        "evaluate", "cases.jsonl", "--policy", "mixed.toml", "--policy", "hints.json", "--format", "json"
    ).json
    assert [one["cases"] for one in document["evaluations"]] == [40, 40]
    assert document["comparisons"][0]["kept"]["low"] > 0


def test_a_broken_limit_is_exit_code_1(cupel, cases):
    assert cupel("evaluate", "cases.jsonl", "--policy", "hints.json", "--fail-below", "10%").code == 0
    done = cupel("evaluate", "cases.jsonl", "--policy", "hints.json", "--fail-below", "0.999")
    assert done.code == 1
    assert "less than 0.999" in done.err


def test_tuning_writes_the_better_policy(cupel, cases, folder):
    done = cupel("tune", "cases.jsonl", "--policy", "mixed.toml", "-o", "better.toml", "--trials", "20")
    assert done.code == 0
    assert "a gain of" in done.out
    better = cupel("evaluate", "cases.jsonl", "--policy", "mixed.toml", "--policy", "better.toml")
    assert "mixed-tuned keeps more than mixed" in better.out


def test_no_gain_is_exit_code_1_and_no_file(cupel, cases, folder):
    done = cupel("tune", "cases.jsonl", "--policy", "hints.json", "-o", "better.toml")
    assert done.code == 1
    assert "no gain beyond chance" in done.out
    assert not folder.joinpath("better.toml").exists()


def test_cases_may_be_compressed_share_items_and_take_the_budget_of_the_command(cupel, cases, folder):
    rows = []
    for number in range(4):
        first = row(number)
        del first["budget"]
        rows += [first, {"needed": [0], "group": first["group"]}]
    folder.joinpath("packed.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    done = cupel("evaluate", "packed.jsonl.gz", "--budget", "60", "--policy", "hints.json", "--format", "json")
    assert done.json["evaluations"][0]["cases"] == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no case in it"),
        ("[1]", "bad.jsonl:1[0]: a case must be an object"),
        ('{"items": []', "bad.jsonl:1: $: not valid JSON"),
        ('{"needed": [0]}', "items is missing"),
        ('{"items": [], "budget": 5}', "needed is missing"),
        ('{"items": [], "needed": [0]}', "budget is missing"),
        ('{"items": [], "budget": 5, "needed": [0]}', "needed[0] is not among the 0 items"),
        ('{"items": [{"content": "a", "tokens": 1}], "budget": 5, "needed": []}', "needed is empty"),
        ('{"items": [{"content": 1}], "budget": 5, "needed": [0]}', "items[0]"),
        ('{"items": [{"content": "a", "tokens": 1}], "budget": 5, "needed": [0], "query": " "}', "query must not be"),
        ('{"items": [{"content": "a", "tokens": 1}], "budget": 5, "needed": [0], "quary": "?"}', "unknown key 'quary'"),
        ('{"items": [{"content": "a", "tokens": 1}], "budget": "x", "needed": [0]}', "bad.jsonl:1"),
        ('{"items": [{"content": "a", "tokens": 1}], "budget": 5, "needed": "a"}', "needed must be an iterable"),
    ],
)
def test_bad_cases_are_named_with_their_line(cupel, folder, text, message):
    folder.joinpath("bad.jsonl").write_text(text)
    done = cupel("evaluate", "bad.jsonl", "--policy", "chat")
    assert done.code == 2
    assert message in done.err


def test_too_few_cases_cannot_be_tuned(cupel, folder, cases):
    folder.joinpath("few.jsonl").write_text("".join(json.dumps(one) + "\n" for one in cases[:5]))
    done = cupel("tune", "few.jsonl", "--policy", "mixed.toml")
    assert done.code == 2
    assert "too few cases to tune: 5 in 5 groups" in done.err


def test_an_empty_policy_name_is_refused(cupel, cases):
    outcome = cupel("evaluate", "cases.jsonl", "--policy", "")
    assert outcome.code == 2
    assert "the name of a policy is empty" in outcome.err
