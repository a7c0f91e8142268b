"""Context items: what they accept, what they refuse, and what they keep."""

from __future__ import annotations

import copy
import gc
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest

from cupel import PRIORITY_KEY, SOURCE_TYPE_KEY, TRUST_KEY, ContextItem, ContextKind, ContextSource, InvalidItemError

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)
EARLY = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
LATE = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-1)))


def full_item() -> ContextItem:
    return ContextItem(
        "text",
        7,
        kind="Document",
        source="Rag",
        priority=3,
        tags=["a", "b"],
        metadata={"k": [1]},
        timestamp=NOON,
        future_relevance_hint=0.5,
        pinned=True,
        original_tokens=9,
    )


def test_defaults() -> None:
    item = ContextItem("text", 7)
    assert (item.kind, item.source) == (ContextKind.MESSAGE, ContextSource.CHAT)
    assert (item.priority, item.timestamp, item.future_relevance_hint, item.original_tokens) == (None,) * 4
    assert (item.tags, dict(item.metadata), item.pinned) == ((), {}, False)


def test_everything_is_kept() -> None:
    item = full_item()
    assert (item.content, item.tokens, str(item.kind), str(item.source)) == ("text", 7, "Document", "Rag")
    assert (item.priority, item.tags, item.metadata) == (3, ("a", "b"), {"k": [1]})
    assert (item.timestamp, item.future_relevance_hint, item.pinned, item.original_tokens) == (NOON, 0.5, True, 9)


@pytest.mark.parametrize(
    ("field", "value", "error", "says"),
    [
        ("content", "", InvalidItemError, "content must not be empty"),
        ("content", None, TypeError, "content must be a string, got NoneType: None"),
        ("content", 5, TypeError, "content must be a string, got int: 5"),
        ("tokens", True, TypeError, "tokens must be an integer, got bool: True"),
        ("tokens", 10.0, TypeError, "tokens must be an integer, got float: 10.0"),
        ("tokens", "10", TypeError, "tokens must be an integer, got str: '10'"),
        ("tokens", np.float64(10), TypeError, "tokens must be an integer, got float64"),
        ("tokens", np.bool_(1), TypeError, "tokens must be an integer, got bool"),
        ("kind", " \t", InvalidItemError, r"kind must not be blank, got ' \\t'"),
        ("kind", 5, TypeError, "kind must be a string, got int: 5"),
        ("kind", ["a"], TypeError, "kind must be a string, got list"),
        ("kind", ContextSource.CHAT, TypeError, "kind must be a string, got ContextSource"),
        ("source", "", InvalidItemError, "source must not be blank, got ''"),
        ("source", None, TypeError, "source must be a string, got NoneType"),
        ("priority", 1.5, TypeError, "priority must be an integer, got float: 1.5"),
        ("priority", False, TypeError, "priority must be an integer, got bool"),
        ("tags", "abc", TypeError, "tags must be an iterable of strings, got one string: 'abc'"),
        ("tags", 5, TypeError, "tags must be an iterable of strings, got int: 5"),
        ("tags", ["a", 2], TypeError, r"tags\[1\] must be a string, got int: 2"),
        ("metadata", [1], TypeError, "metadata must be a mapping, got list"),
        ("metadata", {1: 2}, TypeError, "metadata keys must be strings, got int: 1"),
        ("timestamp", datetime(2024, 1, 1), InvalidItemError, "must carry a time zone, got the naive 2024-01-01"),  # noqa: DTZ001
        (
            "timestamp",
            EARLY,
            InvalidItemError,
            "an instant from year 1 to 9999 in UTC, got 0001-01-01T00",
        ),
        ("timestamp", LATE, InvalidItemError, "an instant from year 1 to 9999 in UTC, got 9999-12-31T23"),
        ("timestamp", date(2024, 1, 1), TypeError, "timestamp must be an aware datetime, got date"),
        ("timestamp", "2024-01-01T00:00:00Z", TypeError, "timestamp must be an aware datetime, got str"),
        ("future_relevance_hint", "0.5", TypeError, "future_relevance_hint must be a number, got str"),
        ("future_relevance_hint", True, TypeError, "future_relevance_hint must be a number, got bool"),
        ("future_relevance_hint", np.bool_(1), TypeError, "future_relevance_hint must be a number, got bool"),
        ("future_relevance_hint", 0.5j, TypeError, "future_relevance_hint must be a number, got complex"),
        ("future_relevance_hint", 10**400, InvalidItemError, "must fit a double, got an integer of 1329 bits"),
        ("tokens", 2**53 + 1, InvalidItemError, "must be <= 9007199254740992, got 9007199254740993"),
        ("original_tokens", 10**30, InvalidItemError, "must be <= 9007199254740992"),
        ("pinned", 1, TypeError, "pinned must be True or False, got int: 1"),
        ("pinned", 0, TypeError, "pinned must be True or False, got int: 0"),
        ("pinned", None, TypeError, "pinned must be True or False, got NoneType"),
        ("original_tokens", 1.0, TypeError, "original_tokens must be an integer, got float"),
    ],
)
def test_refuses_bad_values(field: str, value: object, error: type[Exception], says: str) -> None:
    fields = {"content": "x", "tokens": 1, field: value}
    with pytest.raises(error, match=says):
        ContextItem(fields.pop("content"), fields.pop("tokens"), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value", "kept"),
    [
        ("content", " ", " "),
        ("tokens", -5, -5),
        ("tokens", 2**53, 2**53),
        ("tokens", -(2**53), -(2**53)),
        ("future_relevance_hint", 2, 2.0),
        ("future_relevance_hint", float("inf"), float("inf")),
        ("tags", (tag for tag in "ab"), ("a", "b")),
        ("tags", [], ()),
        ("metadata", {}, {}),
        ("metadata", {"a": None}, {"a": None}),
    ],
)
def test_accepts_unusual_values(field: str, value: object, kept: object) -> None:
    fields = {"content": "x", "tokens": 1, field: value}
    item = ContextItem(fields.pop("content"), fields.pop("tokens"), **fields)  # type: ignore[arg-type]
    assert getattr(item, field) == kept
    assert type(getattr(item, field)) is type(kept) or field == "metadata"


class Count(int):
    """An integer that says something else when asked."""

    def __int__(self) -> int:
        return -1

    __index__ = __int__


class Text(str):
    """A string that says something else when asked."""

    __slots__ = ()

    def __str__(self) -> str:
        return "else"


class Moment(datetime):
    pass


def exactly(value: object) -> object:
    return [exactly(part) for part in value] if isinstance(value, tuple) else (type(value), value)


@pytest.mark.parametrize(
    ("field", "value", "plain"),
    [
        ("content", Text("x"), "x"),
        ("tokens", Count(3), 3),
        ("priority", Count(4), 4),
        ("original_tokens", Count(5), 5),
        ("tokens", np.int64(-3), -3),
        ("priority", np.uint8(4), 4),
        ("original_tokens", np.int32(5), 5),
        ("future_relevance_hint", np.float64(0.25), 0.25),
        ("future_relevance_hint", np.float32(0.25), 0.25),
        ("future_relevance_hint", Fraction(1, 4), 0.25),
        ("tags", ["a", Text("b")], ("a", "b")),
        ("timestamp", Moment(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)),
        (
            "timestamp",
            Moment(2024, 1, 1, 1, microsecond=7, tzinfo=timezone(timedelta(hours=1))),
            datetime(2024, 1, 1, microsecond=7, tzinfo=UTC),
        ),
    ],
)
def test_other_types_become_the_plain_value_they_are(field: str, value: object, plain: object) -> None:
    fields = {"content": "x", "tokens": 1, field: value}
    item = ContextItem(fields.pop("content"), fields.pop("tokens"), **fields)  # type: ignore[arg-type]
    assert exactly(getattr(item, field)) == exactly(plain)


def test_names_and_metadata_keys_become_plain_strings() -> None:
    item = ContextItem("x", 1, kind=Text("Doc"), source=Text("Db"), metadata={Text("k"): 1, "l": 2})
    assert exactly((item.kind.value, item.kind.key, item.source.value, *item.metadata)) == exactly(
        ("Doc", "doc", "Db", "k", "l")
    )
    assert item.metadata == {"k": 1, "l": 2}


def test_an_empty_string_of_another_type_is_empty() -> None:
    with pytest.raises(InvalidItemError, match="content must not be empty, got ''"):
        ContextItem(Text(), 1)


def test_timestamps_become_utc_instants() -> None:
    """Two wall-clock times of one zone around the end of summer time: the later reading is the earlier instant."""
    new_york = ZoneInfo("America/New_York")
    summer = ContextItem("a", 1, timestamp=datetime(2024, 11, 3, 1, 45, tzinfo=new_york, fold=0))
    winter = ContextItem("b", 1, timestamp=datetime(2024, 11, 3, 1, 30, tzinfo=new_york, fold=1))
    assert summer.timestamp is not None
    assert winter.timestamp is not None
    assert summer.timestamp < winter.timestamp
    assert summer.timestamp.tzinfo is UTC


def test_utc_under_another_name_is_normalised() -> None:
    item = ContextItem("a", 1, timestamp=datetime(2024, 1, 1, tzinfo=timezone(timedelta(0))))
    assert item.timestamp == datetime(2024, 1, 1, tzinfo=UTC)
    assert item.timestamp.tzinfo is UTC


def test_is_frozen() -> None:
    item = full_item()
    with pytest.raises(AttributeError):
        item.tokens = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        item.metadata["k"] = 2  # type: ignore[index]


def test_metadata_is_a_copy() -> None:
    metadata = {"a": 1}
    item = ContextItem("x", 1, metadata=metadata)
    metadata["a"] = 2
    assert item.metadata == {"a": 1}


def test_all_items_without_metadata_share_one_empty_mapping() -> None:
    empty: dict[str, int] = {}
    item = ContextItem("x", 1, metadata=empty)
    empty["a"] = 2
    assert item.metadata == {}
    assert item.metadata is ContextItem("y", 1).metadata


def test_equality_covers_every_field() -> None:
    item = full_item()
    assert item == full_item()
    assert hash(item) == hash(full_item())
    assert item == msgspec.structs.replace(item, kind="DOCUMENT", source="rAG")
    for change in (
        {"content": "other"},
        {"tokens": 8},
        {"kind": "Memory"},
        {"source": "Tool"},
        {"priority": 4},
        {"tags": ["a"]},
        {"metadata": {"k": [2]}},
        {"timestamp": NOON + timedelta(seconds=1)},
        {"future_relevance_hint": 0.6},
        {"pinned": False},
        {"original_tokens": 8},
    ):
        assert item != msgspec.structs.replace(item, **change), change


def test_travels_between_processes_and_copies() -> None:
    item = full_item()
    for twin in (pickle.loads(pickle.dumps(item)), copy.copy(item), copy.deepcopy(item)):
        assert twin == item
        assert twin is not item


def test_repr_shows_what_is_set() -> None:
    assert repr(ContextItem("x", 1)) == "ContextItem(content='x', tokens=1)"


def test_reserved_metadata_keys() -> None:
    assert (TRUST_KEY, SOURCE_TYPE_KEY, PRIORITY_KEY) == ("cupel:trust", "cupel:source-type", "cupel:priority")


def test_the_garbage_collector_has_nothing_to_look_at() -> None:
    """A million tracked items would slow every collection down."""
    assert not gc.is_tracked(ContextItem("x", 1, tags=["a"]))


def test_an_item_without_tokens_says_how_to_count_them() -> None:
    with pytest.raises(TypeError, match=r"tokens is missing: .*ContextItem\.counted\("):
        ContextItem("The build failed.")  # type: ignore[call-arg]
