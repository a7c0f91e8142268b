"""Relations are read from metadata, and what contradicts itself is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import ContextItem, InvalidItemError
from cupel._relations import components, read_relations


def item(content, tokens=10, *, pinned=False, kind="Message", **marks):
    metadata = {f"cupel:{key}": value for key, value in marks.items()}
    return ContextItem(content, tokens, kind=kind, pinned=pinned, metadata=metadata)


def read(*items, pinned=(), unusable=()):
    return read_relations(items, [1.0] * len(items), pinned, unusable)


def units(relations):
    """The ids of the things of each unit that can be in."""
    return [[relations.things[thing].id for thing in unit.things] for unit in relations.units if unit.is_open]


def test_a_pool_without_relations_has_none():
    assert read(item("a"), ContextItem("b", 1, metadata={"cupel:trust": 0.5, "mine": 1})) is None
    assert read() is None


def test_forms_of_a_thing_go_from_the_fewest_tokens_up():
    full, plain, stub = item("full", 900, id="x"), item("plain"), item("stub", 2, id="x", worth=0.25)
    relations = read_relations([full, plain, stub], [0.8, 0.5, 0.8])
    thing, alone = relations.things
    assert [(form.position, form.tokens, form.value) for form in thing.forms] == [(2, 2, 0.2), (0, 900, 0.8)]
    assert (alone.id, alone.positions, len(alone.forms)) == (None, (1,), 1)
    assert relations.thing_of == {0: 0, 2: 0, 1: 1}


def test_a_worth_of_zero_leaves_nothing_of_an_infinite_score():
    relations = read_relations([item("stub", id="x", worth=0)], [float("inf")])
    assert relations.things[0].forms[0].value == 0.0


def test_groups_and_circles_are_units_and_what_is_required_comes_first():
    relations = read(
        item("a", id="a", requires=["b"]),
        item("b", id="b", requires=["c"]),
        item("c", id="c", requires=("b", "d")),
        item("d", id="d", group="g"),
        item("e", id="e", group="g"),
    )
    assert units(relations) == [["d", "e"], ["b", "c"], ["a"]]
    assert [unit.requires for unit in relations.units] == [(), (0,), (1,)]


def test_a_thing_may_require_itself():
    assert units(read(item("a", id="a", requires=["a"]))) == [["a"]]


def test_pinned_things_satisfy_requirements_and_close_their_other_forms():
    relations = read(
        item("a", id="a", requires=["p"]),
        item("another form", 5, id="p", worth=0.5),
        pinned=[item("p", pinned=True, id="p")],
    )
    assert units(relations) == [["a"]]
    assert relations.pins.things == {"p": "p"}


def test_what_cannot_be_in_closes_what_depends_on_it():
    relations = read(
        item("needs a rival of a pin", id="n", requires=["r"]),
        item("rival", id="r", exclusive="e"),
        item("with a negative member", id="h", group="g"),
        item("needs what cannot be counted", id="u", requires=["gone"]),
        item("needs both of an exclusive pair", id="b", requires=["left", "right"]),
        item("left", id="left", exclusive="side"),
        item("right", id="right", exclusive="side"),
        item("free", id="f"),
        pinned=[item("p", pinned=True, exclusive="e")],
        unusable=[item("m", -1, group="g"), item("gone", -1, id="gone")],
    )
    assert units(relations) == [["left"], ["right"], ["f"]]
    assert [thing.id for thing in relations.things if thing.forms] == ["left", "right", "f"]


def test_a_part_keeps_what_lies_within_it():
    relations = read(
        item("a", id="a", requires=["b", "c"]),
        item("b", 9, id="b", group="g"),
        item("short b", 3, id="b", group="g", worth=0.5),
        item("c", id="c"),
        item("d", id="d", group="g"),
    ).part([2, 0, 4])
    assert [thing.id for thing in relations.things] == ["a", "b", "d"]
    assert units(relations) == [["b", "d"], ["a"]]
    assert [form.position for form in relations.things[1].forms] == [0]


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
        ({"worth": 0.5}, "metadata['cupel:worth'] needs a 'cupel:id' that names the thing, got none"),
        ({"requires": "b"}, "metadata['cupel:requires'] must be a list of ids, got str: 'b'"),
        ({"requires": {"b"}}, "metadata['cupel:requires'] must be a list of ids, got set: {'b'}"),
        ({"requires": ["a", 3]}, "metadata['cupel:requires'][1] must be a string, got int: 3"),
        ({"requires": ["b"]}, "metadata['cupel:requires'] names 'b', but no item has this cupel:id"),
        ({"group": None}, "metadata['cupel:group'] must be a string, got NoneType: None"),
        ({"exclusive": ["e"]}, "metadata['cupel:exclusive'] must be a string, got list: ['e']"),
    ],
)
def test_bad_marks_name_the_item_and_the_key(marks, message):
    with pytest.raises(InvalidItemError) as refusal:
        read(item("the one", **marks))
    assert str(refusal.value) == f"item 'the one': {message}"


def test_messages_stay_short():
    with pytest.raises(InvalidItemError) as refusal:
        read(item(LONG, requires=[LONG]))
    assert len(str(refusal.value)) < 600


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ({"kind": "File"}, {}, "must agree in kind, got Message for 'o' and File for 't'"),
        ({"requires": ["x"]}, {"requires": []}, "must agree in cupel:requires, got [] for 'o' and ['x'] for 't'"),
        ({"group": "g"}, {}, "must agree in cupel:group, got none for 'o' and 'g' for 't'"),
        ({}, {"exclusive": "e"}, "must agree in cupel:exclusive, got 'e' for 'o' and none for 't'"),
    ],
)
def test_forms_that_disagree_are_refused(one, other, message):
    with pytest.raises(InvalidItemError) as refusal:
        read(item("t", id="x", **one), item("o", id="x", **other))
    assert str(refusal.value) == f"forms of 'x' {message}"


def test_the_order_of_requirements_is_no_disagreement():
    assert read(item("t", id="x", requires=["x", "y"]), item("o", id="x", requires=["y", "x"]), item("y", id="y"))


@pytest.mark.parametrize(
    ("candidates", "pinned", "message"),
    [
        (
            [{"group": "g"}],
            [{"group": "g"}],
            "group 'g' must be pinned as a whole or not at all, got 'p0' pinned and 'c0' not",
        ),
        ([], [{"id": "x"}, {"id": "x"}], "at most one item of cupel:id 'x' may be pinned, got 'p0' and 'p1'"),
        (
            [],
            [{"exclusive": "e"}, {"exclusive": "e"}],
            "at most one item of cupel:exclusive 'e' may be pinned, got 'p0' and 'p1'",
        ),
        (
            [{"id": "x"}],
            [{"requires": ["x"]}],
            "item 'p0' is pinned, so what it requires must be pinned too: 'x' is not",
        ),
    ],
)
def test_pins_that_cannot_hold_are_refused(candidates, pinned, message):
    with pytest.raises(InvalidItemError) as refusal:
        read(
            *(item(f"c{place}", **marks) for place, marks in enumerate(candidates)),
            pinned=[item(f"p{place}", pinned=True, **marks) for place, marks in enumerate(pinned)],
        )
    assert str(refusal.value) == message


def test_a_thing_with_a_pinned_form_is_pinned_with_its_group():
    pinned = [item("p", pinned=True, id="x", group="g"), item("q", pinned=True, group="g")]
    assert units(read(item("short", 2, id="x", group="g", worth=0.5), pinned=pinned)) == []


@st.composite
def graphs(draw):
    size = draw(st.integers(0, 7))
    return draw(st.lists(st.lists(st.integers(0, max(0, size - 1)), max_size=3), min_size=size, max_size=size))


@given(graphs())
def test_components_are_what_reaches_one_another(edges):
    reach = [{node} for node in range(len(edges))]
    for _ in edges:
        reach = [seen.union(*(reach[child] for node in seen for child in edges[node])) for seen in reach]
    found = components(edges)
    assert sorted(node for members in found for node in members) == list(range(len(edges)))
    for members in found:
        for node in members:
            assert members == [other for other in sorted(reach[node]) if node in reach[other]]
    place = {node: rank for rank, members in enumerate(found) for node in members}
    assert all(place[child] <= place[node] for node, children in enumerate(edges) for child in children)


def test_a_long_chain_of_requirements_is_no_recursion():
    chain = [item("0", id="0"), *(item(str(n), id=str(n), requires=[str(n - 1)]) for n in range(1, 5000))]
    assert len(units(read(*reversed(chain)))) == 5000
