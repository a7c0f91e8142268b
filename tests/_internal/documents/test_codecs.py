"""Codecs name the path of what they refuse, whatever the nesting."""

from datetime import UTC, datetime

import pytest

from cupel import PolicyConfigError, SlicerConfigError
from cupel._internal.documents import (
    TEXT,
    Field,
    Instant,
    Integer,
    ListOf,
    MapOf,
    Number,
    OrWord,
    Record,
    RefusedError,
    Text,
)

PAIR = Record(dict, (Field("least", Integer()), Field("names", ListOf(TEXT), [])))
NESTED = MapOf(ListOf(PAIR))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "$: expected an object, got a list"),
        ({"a": 3}, "$.a: expected a list, got the number 3"),
        ({"a b": [{}]}, "$[\"a b\"][0]: the key 'least' is missing"),
        ({"a": [{"least": 1}, {"least": "1"}]}, "$.a[1].least: expected an integer, got the string '1'"),
        ({"a": [{"least": 1, "names": [None]}]}, "$.a[0].names[0]: expected a string, got null"),
        ({"a": [{"least": 1, "nmes": []}]}, "$.a[0].nmes: unknown key 'nmes'; did you mean 'names'? (known: least,"),
        ({3: []}, "$: keys must be strings, got 3"),
    ],
)
def test_the_error_names_the_path(value, problem):
    with pytest.raises(RefusedError) as refused:
        NESTED.decode(value)
    assert str(refused.value.raised_as(PolicyConfigError)).startswith(problem)


def test_an_error_in_writing_names_the_path():
    record = Record(dict, (Field("size", ListOf(Integer(least=0, enforced=True)), get=lambda value: value["size"]),))
    with pytest.raises(RefusedError) as refused:
        record.encode({"size": [1, -1]})
    assert refused.value.path == ("size", 1)


def test_a_class_that_refuses_keeps_its_error():
    def build(size):
        raise SlicerConfigError(f"size must be > 0, got {size}")

    with pytest.raises(RefusedError) as refused:
        ListOf(Record(build, (Field("size", Integer()),))).decode([{"size": 0}])
    error = refused.value.raised_as(PolicyConfigError)
    assert (type(error), str(error)) == (SlicerConfigError, "$[0]: size must be > 0, got 0")


def test_a_default_is_left_out_and_a_key_may_differ_from_the_name():
    record = Record(dict, (Field("first", Text(), "x", key="f"), Field("second", Number(), 2.0)))
    assert record.decode({"f": "y"}) == {"first": "y"}


@pytest.mark.parametrize("value", [True, "1", None, 1.5])
def test_an_integer_is_a_whole_number(value):
    with pytest.raises(RefusedError, match="expected an integer"):
        Integer().decode(value)


def test_a_word_may_mean_none():
    codec = OrWord(Integer(), "unlimited", None)
    assert [codec.decode(value) for value in ("unlimited", None, 3)] == [None, None, 3]
    assert codec.encode(None) == "unlimited"


def test_an_instant_without_an_offset_is_refused_where_it_must_be_aware():
    assert Instant(aware=True).decode("2026-01-31T09:30:00Z") == datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
    with pytest.raises(RefusedError, match="has no offset; add one, such as 'Z'"):
        Instant(aware=True).decode("2026-01-31T09:30:00")
