"""The optimiser's parts: prices prove bounds, cores lose nothing, models say what choices say."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cupel.slicers._optimizer as search
from cupel.slicers._highs import Model, Solved
from cupel.slicers._optimizer import (
    SHIFT,
    Core,
    Effort,
    Problem,
    ScaledForm,
    by_capacity,
    core,
    priced,
    reduced,
    solve,
)
from tests.oracle.generators import law

FORMS = st.tuples(st.sampled_from([0, 1, 2, 3, 5, 5, 8]), st.sampled_from([0, 1, 2, 3, 3, 5, 7]))
ENTITIES = st.tuples(st.lists(FORMS, min_size=1, max_size=3), st.integers(-1, 1))
KINDS = (0, 1)
MINIMA = [(kind, in_tokens) for kind in KINDS for in_tokens in (False, True)]


def scaled(value, tokens, kind):
    """A form with its amounts: tokens, entities and tokens of each kind, and the same as minima."""
    own = [amount if kind == of else 0 for of in KINDS for amount in (1, tokens)]
    return ScaledForm(value, (tokens, *own, *(-amount for amount in own)))


@st.composite
def problems(draw):
    """Few groups, every limit from above, many ties."""
    groups = [
        tuple(tuple(scaled(*form, kind) for form in forms) for forms, kind in group)
        for group in draw(st.lists(st.lists(ENTITIES, min_size=1, max_size=2), min_size=1, max_size=4))
    ]
    most = [draw(st.sampled_from([99, 99, 1, 2, 8])) for _ in MINIMA]
    return Problem(groups, [draw(st.sampled_from([0, 3, 5, 8, 12, 30])), *most], 5)


def choices(problem):
    each = ([None, *product(*(range(len(entity)) for entity in group))] for group in problem.groups)
    return [list(choice) for choice in product(*each) if problem.keeps(list(choice))]


def prices(problem, least, most):
    return st.lists(st.integers(least, most << SHIFT), min_size=len(problem.bounds), max_size=len(problem.bounds))


@law(150)
@given(problem=problems(), data=st.data())
def test_no_choice_exceeds_the_bound_of_any_prices(problem, data):
    found = priced(problem, data.draw(prices(problem, -5, 5)))
    assert max(map(problem.value, choices(problem))) <= found.bound


@law(150)
@given(problem=problems(), data=st.data())
def test_a_core_keeps_every_choice_worth_more_and_the_one_to_be_kept(problem, data):
    allowed = choices(problem)
    kept = data.draw(st.sampled_from(allowed))
    more_than = data.draw(st.integers(0, 12))
    left = core(priced(problem, data.draw(prices(problem, 0, 2))), more_than, kept)
    for choice in [kept, *(one for one in allowed if problem.value(one) > more_than)]:
        for forms, is_in, places in zip(left.forms, left.forced, choice, strict=True):
            assert places is not None or not is_in
            assert places is None or forms is not None
            assert places is None or all(place in own for place, own in zip(places, forms, strict=True))


@law(100)
@given(problem=problems(), data=st.data())
def test_a_model_has_the_rows_and_the_value_of_each_choice(problem, data):
    allowed = choices(problem)
    kept = data.draw(st.sampled_from(allowed))
    left = core(by_capacity(problem), data.draw(st.integers(0, 12)), kept)
    everything = Core([tuple(tuple(range(len(entity))) for entity in group) for group in problem.groups],
                      [False] * len(problem.groups))  # fmt: skip
    for open_forms, choice in ((everything, data.draw(st.sampled_from(allowed))), (left, kept)):
        model = Model(problem, open_forms)
        solution = model.write(choice)
        assert model.read(solution) == choice
        value = sum(value * share for value, share in zip(model.values, solution, strict=True))
        assert model.constant + value == problem.value(choice)
        for columns, factors, least, most in model.rows:
            assert least <= sum(f * solution[c] for c, f in zip(columns, factors, strict=True)) <= most


@law(200)
@given(problem=problems(), amounts=st.lists(st.sampled_from([0, 1, 2, 5, 9]), min_size=4, max_size=4))
def test_minima_come_first_in_their_order_and_then_the_value(problem, amounts):
    pytest.importorskip("highspy")

    def reached(choice):
        forms = problem.taken(choice)
        return [min(amount, -sum(form.amounts[row] for form in forms)) for row, amount in enumerate(amounts, 5)]

    best = max((reached(choice), problem.value(choice)) for choice in choices(problem))
    wanted = Problem(problem.groups, [*problem.bounds, *(-amount for amount in amounts)], 5)
    answer = solve(wanted, Effort(0.0, 400, exact=True))
    assert (answer.reached, answer.value) == best
    assert (answer.bound, answer.is_settled) == (answer.value, True)


@given(problem=problems())
def test_forms_that_do_not_fit_by_themselves_are_left_out(problem):
    small = reduced(problem)
    assert max(map(small.value, choices(small))) == max(map(problem.value, choices(problem)))
    assert all(form.amounts[0] <= problem.bounds[0] for group in small.groups for entity in group for form in entity)


FOUR = tuple(ScaledForm(value, (tokens,)) for value, tokens in ((3, 1), (4, 3), (7, 5), (1, 6)))


@pytest.mark.parametrize(
    ("group", "capacity", "price"),
    [
        ((FOUR,), 3, 1 << SHIFT),  # the hull is 3 for 1, then 4 for 4
        ((FOUR,), 5, 0),
        ((FOUR, (ScaledForm(0, (1,)),)), 1, 3 << (SHIFT - 1)),  # together they begin with 3 for 2
    ],
)
def test_the_price_of_a_token_is_that_of_the_step_that_no_longer_fits(group, capacity, price):
    found = by_capacity(Problem([group], [capacity], 1))
    assert found.margins[0][0][0] == (3 << SHIFT) - price


@pytest.mark.parametrize(("gap", "expected"), [(0.0, 1000), (0.5, 2000), (0.25, 1333)])
def test_a_gap_reaches_exactly_to_its_share(gap, expected):
    assert Effort(gap, 0, exact=False).reach(1000) == expected


# Two of 5 tokens are better than one of 6, which is denser: prices leave the choice open.
UNDECIDED = Problem([((ScaledForm(value, (tokens,)),),) for value, tokens in ((7, 6), (5, 5), (5, 5))], [10], 1)
EFFORT = Effort(0.0, 400, exact=True)


def test_the_solver_decides_what_prices_leave_open():
    pytest.importorskip("highspy")
    assert solve(UNDECIDED, EFFORT).value == 10
    assert solve(UNDECIDED, EFFORT._replace(exact=False)).value < 10


@pytest.mark.parametrize("solution", [(0, 0, 0), (1, 1, 1)], ids=["worse", "over the capacity"])
def test_a_solution_that_is_not_better_is_not_taken(monkeypatch, solution):
    monkeypatch.setattr(search, "run_solver", lambda *_: Solved(solution, (), 10.0))
    own = solve(UNDECIDED, EFFORT._replace(exact=False))
    found = solve(UNDECIDED, EFFORT)
    assert (found.chosen, found.value) == (own.chosen, own.value)
    assert found.bound == 10


def test_a_solver_that_fails_proves_nothing(monkeypatch):
    monkeypatch.setattr(search, "run_solver", lambda *_: None)
    assert solve(UNDECIDED, EFFORT) == solve(UNDECIDED, EFFORT._replace(exact=False))


def test_a_solver_that_fails_on_a_minimum_proves_nothing(monkeypatch):
    monkeypatch.setattr(search, "run_solver", lambda *_: None)
    wanted = Problem([((ScaledForm(1, (6, 1, -2)),),)] * 3, [10, 3, -4], 2)
    found = solve(wanted, EFFORT)
    assert found == solve(wanted, EFFORT._replace(exact=False))
    assert (found.reached, found.is_settled) == ([2], False)


def test_values_that_a_float_cannot_hold_prove_no_bound():
    pytest.importorskip("highspy")
    huge = [((ScaledForm(value << 40, (tokens,)),),) for value, tokens in ((7, 6), (5, 5), (5, 5))]
    found = solve(Problem(huge, [10], 1), EFFORT)
    assert found.value == 10 << 40
    assert found.bound > found.value
