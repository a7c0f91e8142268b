"""Items of a line, decoded all at once, are those that the reader of single items gives."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cupel.batch._requests import read_item, read_items

INSTANTS = [
    "2026-01-31T09:30:00Z",
    "2026-01-31T09:30:00.123456Z",
    "2026-01-31T09:30:00.1234569Z",  # finer than a datetime: cut, not rounded
    "2026-01-31T09:30:00+01:00",
    "2026-01-31T09:30:00+0100",
    "2026-01-31T09:30Z",
    "2026-01-31t09:30:00z",
    "2026-01-31 09:30:00Z",
    "2026-01-31T09:30:00",
    "2026-01-31T24:00:00Z",
    "2026-W05-6T09:30:00Z",
    "20260131T093000Z",
    "0001-01-01T00:00:00+01:00",
    "yesterday",
    "",
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", " ", "é"]),
)
ODD = st.one_of(SCALARS, st.just([]), st.just({}), st.just(["a", 1]))
VALUES = {
    "content": st.text(st.characters(codec="utf-8"), min_size=1, max_size=5),
    "tokens": st.integers(-5, 500),
    "kind": st.sampled_from(["Message", "mEsSaGe", "Note", "Document"]),
    "source": st.sampled_from(["Chat", "rag", "Web"]),
    "priority": st.integers(-3, 3),
    "tags": st.lists(st.sampled_from("abc"), max_size=3),
    "metadata": st.dictionaries(st.sampled_from("abc"), ODD, max_size=2),
    "timestamp": st.sampled_from(INSTANTS[:5]),
    "future_relevance_hint": st.one_of(st.floats(0, 1), st.integers(0, 1), st.just("NaN")),
    "futureRelevanceHint": st.floats(0, 1),
    "pinned": st.booleans(),
    "original_tokens": st.integers(0, 500),
    "originalTokens": st.integers(0, 500),
}
OPTIONAL = {key: st.one_of(value, st.none()) for key, value in VALUES.items() if key not in {"content", "tokens"}}
GOOD = st.fixed_dictionaries({key: VALUES[key] for key in ("content", "tokens")}, optional=OPTIONAL)


def one_by_one(forms):
    return [read_item(form, place) for place, form in enumerate(forms)]


def outcome(read, given):
    try:
        return read(given)
    except (TypeError, ValueError) as error:
        return type(error), str(error)


def same(forms):
    text = json.dumps(forms).encode()
    found, expected = outcome(read_items, msgspec.Raw(text)), outcome(one_by_one, msgspec.json.decode(text))
    assert repr(found) == repr(expected)  # by what they show, since no NaN equals another


@settings(max_examples=150)
@given(st.lists(GOOD, max_size=4))
def test_good_items_are_the_same(forms):
    same(forms)


@settings(max_examples=150)
@given(st.lists(GOOD, min_size=1, max_size=3), st.sampled_from([*VALUES, "kin"]), st.one_of(ODD, st.text(max_size=3)))
def test_a_bad_value_is_refused_in_the_same_words(forms, key, value):
    forms[-1][key] = value
    same(forms)


@pytest.mark.parametrize("text", INSTANTS)
def test_every_spelling_of_an_instant_is_read_alike(text):
    same([{"content": "a", "tokens": 1, "timestamp": text}])


def test_deep_metadata_is_refused():
    deep = 0
    for _ in range(150):
        deep = [deep]
    same([{"content": "a", "tokens": 1, "metadata": {"deep": deep}}])
    with pytest.raises(ValueError, match="nested too deeply"):
        read_items(msgspec.Raw(json.dumps([{"content": "a", "tokens": 1, "metadata": {"deep": deep}}]).encode()))
