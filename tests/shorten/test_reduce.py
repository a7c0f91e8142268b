"""The shorteners that rewrite a text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel.shorten import Rarity, arguments, head_tail, names, stub, table, values
from cupel.tokens import CharacterEstimate

COUNTER = CharacterEstimate(4.0)
ROWS = [
    {"flight": f"HAT{number}", "seats": {"economy": number, "business": None}, "cabin": "Y"} for number in range(60)
]
CELLS = st.one_of(st.none(), st.integers(), st.text(max_size=5), st.booleans())


def unfolded(value):
    """Read a table back: the inverse of `table`, for documents without keys and rows of their own."""
    if isinstance(value, list):
        return [unfolded(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"keys", "rows"}:
        return [
            unfolded(dict(zip(value["keys"], row, strict=True)) if isinstance(row, list) else row)
            for row in value["rows"]
        ]
    return {key: unfolded(entry) for key, entry in value.items()}


@given(st.lists(st.dictionaries(st.sampled_from(["id", "name", "price"]), CELLS), max_size=8))
def test_a_table_loses_nothing(rows):
    assert unfolded(json.loads(table(json.dumps({"found": rows}), None))) == {"found": rows}


def test_a_row_with_other_keys_stays_an_object():
    rows = [
        {"flight": "HAT1", "seats": 3},
        {"flight": "HAT2", "seats": 4},
        {"flight": "HAT3"},
        {"flight": "HAT4", "seats": 5},
    ]
    assert json.loads(table(json.dumps(rows), None)) == {
        "keys": ["flight", "seats"],
        "rows": [["HAT1", 3], ["HAT2", 4], {"flight": "HAT3"}, ["HAT4", 5]],
    }


def test_a_table_over_the_limit_counts_the_rows_it_lost():
    shorter = json.loads(table(json.dumps(ROWS), 150, counter=COUNTER))
    *rows, mark = shorter["rows"]
    assert 5 < len(rows) < 60
    assert mark == f"[cupel: {60 - len(rows)} more omitted]"


def test_values_are_distinct_and_typed():
    text = json.dumps({"a": [1, 1.0, True, "1", None, [1, {"b": 2}]], "c": {"d": None, "e": []}})
    assert values(text, None) == '{"a":[1,1.0,true,"1",{"b":2}]}'


def test_values_of_rows_are_listed_under_their_key_once():
    assert json.loads(values(json.dumps(ROWS), None)) == {
        "flight": [f"HAT{number}" for number in range(60)],
        "seats": {"economy": list(range(60))},
        "cabin": "Y",
    }


@pytest.mark.parametrize(
    "text",
    [
        "not json " * 99,
        '{"a":1,"a":2}' + " " * 400,
        '[1e999, "' + "x" * 400 + '"]',
        "[NaN," + "1," * 300 + "1]",
        "[" * 4000,
    ],
)
@pytest.mark.parametrize("form", [table, values, arguments])
def test_a_text_that_is_no_json_is_shortened_as_text(form, text):
    assert form(text, 40, counter=COUNTER) == head_tail(text, 40, counter=COUNTER) != ""
    if form is not arguments:
        assert form(text, None, counter=COUNTER) == text


@pytest.mark.parametrize("form", [table, values, arguments])
def test_a_limit_for_nothing_but_a_mark_is_still_json(form):
    assert json.loads(form(json.dumps(ROWS), 12, counter=COUNTER)) == {"cupel": "1,180 tokens omitted"}


def test_long_strings_are_cut_in_place():
    shorter = json.loads(table(json.dumps({"id": 7, "body": "word " * 900}), 60, counter=COUNTER))
    assert shorter["id"] == 7
    assert " characters omitted]" in shorter["body"]


def test_arguments_keep_what_is_short():
    call = {
        "path": "a.py",
        "edits": [{"old": "x = 1", "new": "\n".join(f"row_{number} = {number}" for number in range(500))}],
    }
    shorter = json.loads(arguments(json.dumps(call), 100, counter=COUNTER))
    assert (shorter["path"], shorter["edits"][0]["old"]) == ("a.py", "x = 1")
    assert "[cupel: lines " in shorter["edits"][0]["new"]


def test_arguments_take_a_form():
    shorter = arguments(json.dumps({"a": "x" * 900, "b": 1}), 40, counter=COUNTER, form=lambda text, limit: "short")
    assert shorter == '{"a":"short","b":1}'


def test_names_are_ranked_by_kind_and_rarity():
    text = "the ordinary words of parse_header in src/cupel/model.py at 10.0.0.1 are __init__ and CamelCase\n" * 9
    listed = names(text, 45, counter=COUNTER, known={"parse_header": 99}).partition("with ")[2].rstrip("]").split()
    assert listed[:4] == ["src/cupel/model.py", "10.0.0.1", "__init__", "CamelCase"]
    assert "parse_header" not in listed[:4]


def test_rarity_counts_texts_not_occurrences():
    rarity = Rarity()
    rarity.add("alpha_1 alpha_1, alpha_1.")
    rarity.add("alpha_1 the and of 日本語テキスト")
    assert rarity == {"alpha_1": 2, "日本語テキスト": 1}


def test_a_stub_says_less_where_there_is_less_room():
    text = "a line of output\n" * 100
    hint = "stored as\nrun-17.log"
    limits = {stub(text, limit, counter=COUNTER, tool="read_file\n[2]", hint=hint) for limit in range(40)}
    assert limits == {
        "",
        "[cupel: 100 lines, 425 tokens omitted]",
        "[cupel: read_file [2): 100 lines, 425 tokens omitted]",
        "[cupel: read_file [2): 100 lines, 425 tokens omitted; stored as run-17.log]",
    }
    assert stub(stub(text, tool="read_file"), tool="read_file") == stub(text, tool="read_file")
