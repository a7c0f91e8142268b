"""The parts of `OptimalSlice`: prices prove bounds, cores lose nothing, rows admit exactly the choices."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cupel.slicers._optimal as search
from cupel import OptimalSlice
from cupel.slicers._optimal import Priced, Problem, Solved, price_of_capacity, reach, rows, solve
from tests.oracle.generators import law

FORMS = st.tuples(st.sampled_from([0, 1, 2, 3, 5, 5, 8]), st.sampled_from([0, 1, 2, 3, 3, 5, 7]))
ENTITIES = st.tuples(st.lists(FORMS, min_size=1, max_size=3), st.integers(-1, 1))
KINDS = (0, 1)
MINIMA = [(kind, in_tokens) for kind in KINDS for in_tokens in (False, True)]


def amounts_of(tokens, kind):
    """Tokens, entities and tokens of each kind, and the same as minima."""
    own = [amount if kind == of else 0 for of in KINDS for amount in (1, tokens)]
    return (tokens, *own, *(-amount for amount in own))


def problem_of(groups, bounds, maxima):
    """A problem of groups of entities, which are lists of values with their amounts."""
    flat = [form for group in groups for entity in group for form in entity]
    numbers = iter(range(len(flat)))
    groups = [tuple(tuple(next(numbers) for _ in entity) for entity in group) for group in groups]
    return Problem(groups, [value for value, _ in flat], [amounts for _, amounts in flat], bounds, maxima)


@st.composite
def problems(draw):
    """Few groups, every limit from above, many ties."""
    groups = [
        [[(value, amounts_of(tokens, kind)) for value, tokens in forms] for forms, kind in group]
        for group in draw(st.lists(st.lists(ENTITIES, min_size=1, max_size=2), min_size=1, max_size=4))
    ]
    most = [draw(st.sampled_from([99, 99, 1, 2, 8])) for _ in MINIMA]
    return problem_of(groups, [draw(st.sampled_from([0, 3, 5, 8, 12, 30])), *most], 5)


def choices(problem):
    each = ([(), *product(*group)] for group in problem.groups)
    return [list(choice) for choice in product(*each) if problem.keeps(list(choice))]


def prices(problem, least, most):
    return st.lists(st.floats(least, most), min_size=len(problem.bounds), max_size=len(problem.bounds))


@law(150)
@given(problem=problems(), data=st.data())
def test_no_choice_exceeds_the_bound_of_any_prices(problem, data):
    found = Priced(problem, data.draw(prices(problem, -5, 5)))
    assert max(map(problem.value, choices(problem))) << 20 <= found.total


@law(150)
@given(problem=problems(), data=st.data())
def test_a_core_keeps_every_choice_worth_more_and_the_one_to_be_kept(problem, data):
    allowed = choices(problem)
    kept = data.draw(st.sampled_from(allowed))
    more_than = data.draw(st.integers(0, 12))
    left = Priced(problem, data.draw(prices(problem, 0, 2))).core(more_than, kept)
    for choice in [kept, *(one for one in allowed if problem.value(one) > more_than)]:
        assert all(choice[number] for number in left.forced)
        for group, columns in zip(left.groups, choice, strict=True):
            assert not columns or all(at in entity for at, entity in zip(columns, group, strict=True))


@law(100)
@given(problem=problems(), data=st.data())
def test_the_rows_admit_every_choice_that_is_left_and_no_other(problem, data):
    allowed = choices(problem)
    kept = data.draw(st.sampled_from(allowed))
    found = Priced(problem, [price_of_capacity(problem)])
    for left in (problem, found.core(data.draw(st.integers(0, 12)), kept)):
        columns = sorted(column for group in left.groups for entity in group for column in entity)[:9]
        assert kept_by(left, {column for taken in kept for column in taken})
        for mask in product((False, True), repeat=len(columns)):
            taken = {column for column, is_in in zip(columns, mask, strict=True) if is_in}
            if kept_by(left, taken):
                own = [tuple(at for entity in group for at in entity if at in taken) for group in problem.groups]
                assert own in allowed
                assert all(own[number] for number in left.forced)


def kept_by(left, taken):
    return all(
        least <= sum(factor for column, factor in factors.items() if column in taken) <= most
        for factors, least, most in rows(left)
    )


@law(200)
@given(problem=problems(), amounts=st.lists(st.sampled_from([0, 1, 2, 5, 9]), min_size=4, max_size=4))
def test_minima_come_first_in_their_order_and_then_the_value(problem, amounts):
    wanted = replace(problem, bounds=[*problem.bounds, *(-amount for amount in amounts)])

    def reached(choice):
        return [min(amount, -got) for amount, got in zip(amounts, wanted.added(choice)[5:], strict=True)]

    best = max((reached(choice), problem.value(choice)) for choice in choices(problem))
    answer = solve(wanted, exact())
    assert (reached(answer.choice), answer.value) == best
    assert (answer.bound, answer.is_settled) == (answer.value, True)


@given(problem=problems())
def test_forms_that_do_not_fit_by_themselves_are_left_out(problem):
    capacity = problem.bounds[0]
    small = problem.within(capacity)
    assert max(map(small.value, choices(small))) == max(map(problem.value, choices(problem)))
    assert all(small.amounts[at][0] <= capacity for group in small.groups for entity in group for at in entity)


FOUR = [(value, (tokens,)) for value, tokens in ((3, 1), (4, 3), (7, 5), (1, 6))]


@pytest.mark.parametrize(
    ("group", "capacity", "price"),
    [
        ([FOUR], 3, 1.0),  # the hull is 3 for 1, then 4 for 4
        ([FOUR], 5, 0.0),
        ([FOUR, [(0, (1,))]], 1, 1.5),  # together they begin with 3 for 2
    ],
)
def test_the_price_of_a_token_is_that_of_the_step_that_no_longer_fits(group, capacity, price):
    assert price_of_capacity(problem_of([group], [capacity], 1)) == price


@pytest.mark.parametrize(("gap", "expected"), [(0.0, 1000), (0.5, 2000), (0.25, 1333)])
def test_a_gap_reaches_exactly_to_its_share(gap, expected):
    assert reach(1000, gap) == expected


@pytest.mark.parametrize(("forced", "expected"), [((), 5), ((1,), 4)])
def test_the_size_of_a_core_counts_decisions(forced, expected):
    groups = [(), ((0,), (1,), (2, 3)), ((4, 5),)]
    assert Problem(groups, [], [], [], 0, frozenset(forced)).size == expected


# Two of 5 tokens are better than one of 6, which is denser: prices leave the choice open.
ROWS = ((7, 6), (5, 5), (5, 5))
UNDECIDED = problem_of([[[(value, (tokens,))]] for value, tokens in ROWS], [10], 1)
QUICK = OptimalSlice(gap=0.0, exact=False)


def exact():
    """The best, if there is a solver."""
    pytest.importorskip("highspy")
    return OptimalSlice(gap=0.0)


def test_the_solver_decides_what_prices_leave_open():
    assert solve(UNDECIDED, exact()).value == 10
    assert solve(UNDECIDED, QUICK).value < 10


@pytest.mark.parametrize("share", [0.0, 1.0], ids=["worse", "over the capacity"])
def test_a_solution_that_is_not_better_is_not_taken(monkeypatch, share):
    monkeypatch.setattr(search, "run_solver", lambda *_: Solved(dict.fromkeys(range(3), share), (), 10.0))
    own = solve(UNDECIDED, QUICK)
    found = solve(UNDECIDED, exact())
    assert (found.choice, found.value) == (own.choice, own.value)
    assert found.bound == 10


def test_a_solver_that_fails_proves_nothing(monkeypatch):
    monkeypatch.setattr(search, "run_solver", lambda *_: None)
    assert solve(UNDECIDED, exact()) == solve(UNDECIDED, QUICK)


def test_a_solver_that_fails_on_a_minimum_proves_nothing(monkeypatch):
    monkeypatch.setattr(search, "run_solver", lambda *_: None)
    wanted = problem_of([[[(1, (6, 1, -2))]]] * 3, [10, 3, -4], 2)
    found = solve(wanted, exact())
    assert found == solve(wanted, QUICK)
    assert (wanted.added(found.choice)[2], found.is_settled) == (-2, False)


def test_values_that_a_float_cannot_hold_prove_no_bound():
    found = solve(problem_of([[[(value << 40, (tokens,))]] for value, tokens in ROWS], [10], 1), exact())
    assert found.value == 10 << 40
    assert found.bound > found.value
