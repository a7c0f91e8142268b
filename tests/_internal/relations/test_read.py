"""Relations are read from metadata, and contradictions are refused."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import ContextItem, InvalidItemError
from cupel._internal.relations import Form, hull, read_relations, useful_forms


def item(content, tokens=10, *, pinned=False, kind="Message", **marks):
    metadata = {f"cupel:{key}": value for key, value in marks.items()}
    return ContextItem(content, tokens, kind=kind, pinned=pinned, metadata=metadata)


def read(*items, pinned=(), unusable=()):
    return read_relations(items, [1.0] * len(items), pinned, unusable)


def groups(relations):
    """The ids of the entities of each group that can be in."""
    return [[relations.entities[one].id for one in group.entities] for group in relations.groups if group.is_open]


def test_a_pool_without_relations_has_none():
    assert read(item("a"), ContextItem("b", 1, metadata={"cupel:trust": 0.5, "mine": 1})) is None
    assert read() is None


def test_forms_of_an_entity_go_from_the_fewest_tokens_up():
    full, plain, stub = item("full", 900, id="x"), item("plain"), item("stub", 2, id="x", worth=0.25)
    relations = read_relations([full, plain, stub], [0.8, 0.5, 0.8])
    entity, alone = relations.entities
    assert [(form.position, form.tokens, form.value) for form in entity.forms] == [(2, 2, 0.2), (0, 900, 0.8)]
    assert (alone.id, alone.positions, len(alone.forms)) == (None, (1,), 1)
    assert relations.entity_of == {0: 0, 2: 0, 1: 1}


def test_a_worth_of_zero_leaves_nothing_of_an_infinite_score():
    relations = read_relations([item("stub", id="x", worth=0)], [float("inf")])
    assert relations.entities[0].forms[0].value == 0.0


def test_a_group_comes_where_its_first_entity_does():
    relations = read(item("a", id="a"), item("b", id="b", group="g"), item("c", id="c"), item("d", id="d", group="g"))
    assert groups(relations) == [["a"], ["b", "d"], ["c"]]
    assert list(relations.group_of) == [0, 1, 2, 1]


def test_a_pinned_form_closes_the_other_forms():
    relations = read(item("another form", 5, id="p", worth=0.5), pinned=[item("p", pinned=True, id="p")])
    assert groups(relations) == []
    assert relations.pinned == {"p": "p"}


def test_a_member_that_cannot_be_in_closes_its_group():
    relations = read(
        item("with a negative member", id="h", group="g"),
        item("negative by itself", -3, id="n", group="k"),
        item("its mate", id="m", group="k"),
        item("free", id="f"),
        unusable=[item("gone", -1, group="g")],
    )
    assert groups(relations) == [["f"]]
    assert [entity.id for entity in relations.entities if entity.forms] == ["f"]


def test_a_part_keeps_the_relations_within_it():
    relations = read(
        item("a", id="a"),
        item("b", 9, id="b", group="g"),
        item("short b", 3, id="b", group="g", worth=0.5),
        item("c", id="c"),
        item("d", id="d", group="g"),
    ).part([2, 0, 4])
    assert [entity.id for entity in relations.entities] == ["a", "b", "d"]
    assert groups(relations) == [["a"], ["b", "d"]]
    assert [form.position for form in relations.entities[1].forms] == [0]


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=8, unique_by=lambda point: point[0]
    )
)
def test_the_hull_is_the_least_concave_line_over_all_points(points):
    points.sort()
    tokens, values = [x for x, _ in points], [y for _, y in points]
    corners = hull(tokens, values)
    slopes = [(values[b] - values[a]) / (tokens[b] - tokens[a]) for a, b in pairwise(corners)]
    assert (corners[0], corners[-1]) == (0, len(points) - 1)
    assert slopes == sorted(slopes, reverse=True)
    for (start, end), slope in zip(pairwise(corners), slopes, strict=True):
        for between in range(start, end):
            assert values[between] <= values[start] + slope * (tokens[between] - tokens[start]) + 1e-9


def test_a_form_of_equal_tokens_and_less_value_is_not_useful():
    forms = [Form(0, 5, 0.3), Form(1, 5, 0.4), Form(2, 5, 0.4), Form(3, 9, 0.4)]
    assert [form.position for form in useful_forms(forms)] == [1]


@pytest.mark.parametrize("marks", [{"requires": ["nobody"]}, {"exclusive": "x"}, {"requires": 3}])
def test_other_keys_of_the_prefix_are_no_relations(marks):
    assert read(item("a", **marks)) is None


LONG = "x" * 10_000_000


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ({"id": 17}, "metadata['cupel:id'] must be a string, got int: 17"),
        ({"id": ""}, "metadata['cupel:id'] must not be empty, got ''"),
        ({"id": "a", "worth": "high"}, "metadata['cupel:worth'] must be a number, got str: 'high'"),
        ({"id": "a", "worth": True}, "metadata['cupel:worth'] must be a number, got bool: True"),
        ({"id": "a", "worth": 1.5}, "metadata['cupel:worth'] must be from 0 to 1, got 1.5"),
        ({"id": "a", "worth": float("nan")}, "metadata['cupel:worth'] must be from 0 to 1, got nan"),
        ({"worth": 0.5}, "metadata['cupel:worth'] needs a 'cupel:id' that names the entity, got none"),
        ({"group": None}, "metadata['cupel:group'] must be a string, got None; an item without one lacks the key"),
    ],
)
def test_bad_marks_name_the_item_and_the_key(marks, message):
    with pytest.raises(InvalidItemError) as refusal:
        read(item("the one", **marks))
    assert str(refusal.value) == f"item 'the one': {message}"


def test_messages_stay_short():
    with pytest.raises(InvalidItemError) as refusal:
        read(item(LONG, id="x", group=LONG), item(LONG, id="x"))
    assert len(str(refusal.value)) < 600


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ({"kind": "File"}, {}, "must agree in kind, got Message for 'o' and File for 't'"),
        ({"group": "g"}, {}, "must agree in cupel:group, got none for 'o' and 'g' for 't'"),
    ],
)
def test_forms_that_disagree_are_refused(one, other, message):
    with pytest.raises(InvalidItemError) as refusal:
        read(item("t", id="x", **one), item("o", id="x", **other))
    assert str(refusal.value) == f"forms of 'x' {message}"


@pytest.mark.parametrize(
    ("candidates", "pinned", "message"),
    [
        (
            [{"group": "g"}],
            [{"group": "g"}],
            "group 'g' must be pinned as a whole or not at all, got 'p0' pinned and 'c0' not",
        ),
        ([], [{"id": "x"}, {"id": "x"}], "at most one item of cupel:id 'x' may be pinned, got 'p0' and 'p1'"),
    ],
)
def test_pins_that_cannot_hold_are_refused(candidates, pinned, message):
    with pytest.raises(InvalidItemError) as refusal:
        read(
            *(item(f"c{place}", **marks) for place, marks in enumerate(candidates)),
            pinned=[item(f"p{place}", pinned=True, **marks) for place, marks in enumerate(pinned)],
        )
    assert str(refusal.value) == message


def test_an_entity_with_a_pinned_form_is_pinned_with_its_group():
    pinned = [item("p", pinned=True, id="x", group="g"), item("q", pinned=True, group="g")]
    assert groups(read(item("short", 2, id="x", group="g", worth=0.5), pinned=pinned)) == []
