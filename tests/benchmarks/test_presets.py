"""The rulers of the presets have two halves that share nothing, with and without data beside the checkout."""

from benchmarks.presets import NEWEST, table
from benchmarks.rulers import agents, code, conversations, without_queries


def test_what_is_generated_has_two_halves_of_its_own(tmp_path):
    (name, first), (_, second) = conversations("first", tmp_path), conversations("second", tmp_path)
    assert name == "generated"
    assert not {case.items[0].content for case in first} & {case.items[0].content for case in second}
    assert [case.query for case in first] == [case.query for case in conversations("first", tmp_path)[1]]
    (one,), (other,) = agents("first", tmp_path), agents("second", tmp_path)
    assert not {recording.name for recording in one.recordings} & {recording.name for recording in other.recordings}
    assert {case.query for case in without_queries(first)} == {None}


def test_code_is_asked_for_by_sentences_that_it_does_not_contain():
    first, second = code("first"), code("second")
    sources = [{item.source for item in cases[0].items} for cases in (first, second)]
    assert not sources[0] & sources[1]
    told = [case for case in first if case.query in case.items[case.needed[0]].content]
    assert len(told) < len(first) / 100


def test_the_table_has_a_column_for_each_ruler():
    found = {
        "conversations": "generated",
        "questions": 60,
        "functions": 40,
        "python": "3.11",
        "agents": {"generated agent": {"sessions": 4, "budget": 4000}},
        "rows": [
            {"preset": NEWEST, "generated agent": [0.5, 1.0]},
            {"preset": "chat", "asked": [0.25], "not asked": [0.0], "code": [1.0], "generated agent": [0.75, 0.5]},
        ],
    }
    lines = table(found).splitlines()
    assert lines[2] == f"| {NEWEST} |  |  |  | .50 1.00 |"
    assert lines[3] == "| chat | .25 | .00 | 1.00 | .75 .50 |"
    assert "60 questions about conversations and 40 about code" in lines[-1]
