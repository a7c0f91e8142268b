"""The optimiser's parts: prices prove bounds, cores lose nothing, models say what choices say."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel.slicers._optimum import (
    SHIFT,
    Block,
    Cap,
    Effort,
    Floor,
    Member,
    Model,
    Option,
    Problem,
    by_capacity,
    capacity_price,
    core,
    priced,
    reduced,
    rows_of,
    solve,
)
from tests.laws.generators import law

OPTIONS = st.builds(Option, st.sampled_from([0, 1, 2, 3, 5, 5, 8]), st.sampled_from([0, 1, 2, 3, 3, 5, 7]))
MEMBERS = st.builds(Member, st.lists(OPTIONS, min_size=1, max_size=3).map(tuple), st.integers(-1, 1))


@st.composite
def problems(draw):
    """Few blocks, every rule, many ties."""
    count = draw(st.integers(1, 4))
    blocks = []
    for number in range(count):
        needs = draw(st.lists(st.integers(0, number - 1), max_size=2, unique=True)) if number else []
        blocks.append(Block(draw(st.lists(MEMBERS, min_size=1, max_size=2).map(tuple)), tuple(needs)))
    exclusive = (
        draw(st.lists(st.sets(st.integers(0, count - 1), min_size=2).map(tuple), max_size=1)) if count > 1 else []
    )
    most = st.sampled_from([None, None, 1, 2, 8])
    caps = [Cap(draw(most), draw(most)) for _ in range(2)]
    return Problem(blocks, draw(st.sampled_from([0, 3, 5, 8, 12, 30])), exclusive, caps)


def choices(problem):
    each = ([None, *product(*(range(len(member.options)) for member in block.members))] for block in problem.blocks)
    return [list(choice) for choice in product(*each) if problem.allows(list(choice))]


@law(150)
@given(problem=problems(), data=st.data())
def test_no_choice_exceeds_the_bound_of_any_prices(problem, data):
    rows = rows_of(problem)
    prices = data.draw(st.lists(st.integers(-5, 5 << SHIFT), min_size=len(rows), max_size=len(rows)))
    found = priced(problem, rows, prices)
    assert max(map(problem.value, choices(problem))) <= found.bound


@law(150)
@given(problem=problems(), data=st.data())
def test_a_core_keeps_every_choice_worth_more_and_the_one_to_be_kept(problem, data):
    rows = rows_of(problem)
    lawful = choices(problem)
    kept = data.draw(st.sampled_from(lawful))
    prices = data.draw(st.lists(st.integers(0, 2 << SHIFT), min_size=len(rows), max_size=len(rows)))
    more_than = data.draw(st.integers(0, 12))
    left = core(priced(problem, rows, prices), more_than, kept)
    for choice in [kept, *(one for one in lawful if problem.value(one) > more_than)]:
        for options, is_in, places in zip(left.options, left.forced, choice, strict=True):
            assert places is not None or not is_in
            assert places is None or options is not None
            assert places is None or all(place in own for place, own in zip(places, options, strict=True))


@law(100)
@given(problem=problems(), data=st.data())
def test_a_model_has_the_rows_and_the_value_of_each_choice(problem, data):
    rows = rows_of(problem)
    lawful = choices(problem)
    kept = data.draw(st.sampled_from(lawful))
    left = core(by_capacity(problem, rows), data.draw(st.integers(0, 12)), kept)
    for model, choice in (
        (Model(problem, rows), data.draw(st.sampled_from(lawful))),
        (Model(problem, rows, left), kept),
    ):
        solution = model.write(choice)
        assert model.read(solution) == choice
        value = sum(value * share for value, share in zip(model.values, solution, strict=True))
        assert model.constant + value == problem.value(choice)
        for line in model.lines:
            total = sum(factor * solution[column] for column, factor in zip(line.columns, line.factors, strict=True))
            assert total <= line.most
            assert line.least is None or total >= line.least


@law(200)
@given(
    problem=problems(),
    floors=st.lists(st.builds(Floor, st.integers(0, 1), st.integers(1, 9), st.booleans()), max_size=3),
)
def test_floors_come_first_in_their_order_and_then_the_value(problem, floors):
    pytest.importorskip("highspy")
    best = max(
        ([min(one.amount, problem.reached(one, choice)) for one in floors], problem.value(choice))
        for choice in choices(problem)
    )
    wanted = Problem(problem.blocks, problem.capacity, problem.exclusive, problem.caps, floors)
    answer = solve(wanted, Effort(0.0, 400, exact=True))
    assert (answer.reached, answer.value) == best
    assert (answer.bound, answer.is_settled) == (answer.value, True)


@given(problem=problems())
def test_what_does_not_fit_by_itself_is_left_out(problem):
    small = reduced(problem)
    assert max(map(small.value, choices(small))) == max(map(problem.value, choices(problem)))
    assert all(
        o.tokens <= problem.capacity for block in small.blocks for member in block.members for o in member.options
    )


def test_the_price_of_a_token_is_that_of_the_step_that_no_longer_fits():
    forms = Member((Option(3, 1), Option(4, 3), Option(7, 5), Option(1, 6)))  # the hull is 3 for 1, then 4 for 4
    assert capacity_price(Problem([Block((forms,))], 3)) == 1 << SHIFT
    assert capacity_price(Problem([Block((forms,))], 5)) == 0
    pair = Block((forms, Member((Option(0, 1),))))  # together they begin with 3 for 2
    assert capacity_price(Problem([pair], 1)) == 3 << (SHIFT - 1)


def test_a_gap_reaches_exactly_as_far_as_it_says():
    assert Effort(0.0, 0, exact=False).reach(1000) == 1000
    assert Effort(0.5, 0, exact=False).reach(1000) == 2000
    assert Effort(0.25, 0, exact=False).reach(1000) == 1333
