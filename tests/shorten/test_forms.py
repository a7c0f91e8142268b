"""Items that are forms of one thing."""

from datetime import UTC, datetime

import pytest

import cupel
from cupel import ContextItem, InvalidItemError
from cupel.shorten import forms, head_tail, stub
from cupel.tokens import CharacterEstimate

COUNTER = CharacterEstimate(4.0)
TEXT = "one line of many\n" * 200
FULL = ContextItem(
    TEXT,
    850,
    kind="ToolOutput",
    source="Tool",
    tags=["build"],
    priority=3,
    timestamp=datetime(2026, 1, 2, tzinfo=UTC),
    metadata={"turn": 7},
)


def test_forms_differ_in_text_tokens_and_worth_alone():
    full, short, least = forms(
        FULL, head_tail(TEXT, 100, counter=COUNTER), (stub(TEXT, counter=COUNTER), 0.1), id="call-17", counter=COUNTER
    )
    assert full.metadata == {"turn": 7, "cupel:id": "call-17"}
    assert (full.content, full.tokens) == (TEXT, 850)
    for item in (short, least):
        assert item.tokens == COUNTER.count(item.content)
        assert item.original_tokens == 850
        for field in ("kind", "source", "tags", "priority", "timestamp", "pinned", "future_relevance_hint"):
            assert getattr(item, field) == getattr(FULL, field)
    assert short.metadata == {"turn": 7, "cupel:id": "call-17", "cupel:worth": (short.tokens / 850) ** 0.5}
    assert least.metadata["cupel:worth"] == 0.1


def test_an_item_brings_its_own_count_and_worth():
    _, given, paired = forms(
        FULL, ContextItem("a", 40, metadata={"cupel:worth": 0.7, "cupel:id": "x"}), (ContextItem("b", 30), 1), id="x"
    )
    assert (given.tokens, given.metadata["cupel:worth"]) == (40, 0.7)
    assert (paired.tokens, paired.metadata["cupel:worth"]) == (30, 1.0)
    assert type(paired.metadata["cupel:worth"]) is float


def test_the_name_is_an_everyday_one():
    assert cupel.forms is forms
    assert (cupel.ID_KEY, cupel.WORTH_KEY) == ("cupel:id", "cupel:worth")


def test_an_item_without_tokens_has_forms_of_full_worth():
    assert forms(ContextItem("ab", 0), ContextItem("a", 0), id="x")[1].metadata["cupel:worth"] == 1.0


@pytest.mark.parametrize(
    ("shorter", "message"),
    [
        ([("a", 1.5)], r"shorter\[0\]: worth must be from 0 to 1, got 1\.5"),
        ([("a", -0.1)], r"shorter\[0\]: worth must be from 0 to 1, got -0\.1"),
        ([("a", float("nan"))], r"shorter\[0\]: worth must be from 0 to 1, got nan"),
        (["a", ""], r"shorter\[1\] must not be empty"),
        (["a", "a"], r"shorter\[1\] must differ from shorter\[0\]"),
        ([TEXT], r"shorter\[0\] must differ from full"),
        ([ContextItem("a", 851)], r"shorter\[0\] must have from 0 to the 850 tokens of the full item, got 851"),
        ([ContextItem("a", -1)], r"shorter\[0\] must have from 0 to the 850 tokens"),
        (
            [ContextItem("a", 1, metadata={"cupel:id": "y"})],
            r"shorter\[0\]\.metadata\['cupel:id'\] must be 'x' or absent, got 'y'",
        ),
        (
            [(ContextItem("a", 1, metadata={"cupel:worth": 0.2}), 0.3)],
            r"shorter\[0\]\.metadata\['cupel:worth'\] must be 0\.3",
        ),
    ],
)
def test_forms_that_cannot_be_are_refused(shorter, message):
    with pytest.raises(InvalidItemError, match=message):
        forms(FULL, *shorter, id="x", counter=COUNTER)


@pytest.mark.parametrize("metadata", [{"cupel:id": "y"}, {"cupel:worth": 0.5}])
def test_a_full_item_that_says_otherwise_is_refused(metadata):
    with pytest.raises(InvalidItemError, match=r"full\.metadata"):
        forms(ContextItem("ab", 9, metadata=metadata), "a", id="x", counter=COUNTER)


def test_a_pinned_item_has_no_forms():
    with pytest.raises(InvalidItemError, match="full must not be pinned"):
        forms(ContextItem("ab", 9, pinned=True), "a", id="x")
    with pytest.raises(InvalidItemError, match="id must not be empty"):
        forms(FULL, id="")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("text", "a"), "full must be a ContextItem, got str"),
        ((FULL, 3), r"shorter\[0\] must be an item, a text, or a pair"),
        ((FULL, ("a", "0.5")), r"shorter\[0\]: worth must be a number, got str"),
        ((FULL, ("a", True)), r"shorter\[0\]: worth must be a number, got bool"),
        ((FULL, ("a", 0.5, 1)), r"shorter\[0\] must be an item, a text, or a pair"),
    ],
)
def test_wrong_types_are_named(arguments, message):
    with pytest.raises(TypeError, match=message):
        forms(*arguments, id="x", counter=COUNTER)
    with pytest.raises(TypeError, match="id must be a string, got int"):
        forms(FULL, id=3)
