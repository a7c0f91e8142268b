"""The optimiser's open decisions as columns and rows for HiGHS."""

from __future__ import annotations

from functools import reduce
from itertools import accumulate, chain
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from cupel.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.slicers._optimizer import Choice, Core, Problem, ScaledForm

_HALF, _TOLERANCE = 0.5, 1e-9
_LARGEST = 1 << 30
"""Up to here whole numbers are far enough apart for the solver's own tolerances, whatever a float rounds."""


_Taken: TypeAlias = "tuple[tuple[int, int], ...]"
"""Entities of a group and places of their forms."""


class Model:
    """Columns between 0 and 1, each for forms that are taken together; decided forms have none."""

    def __init__(self, problem: Problem, core: Core) -> None:
        self.columns: list[tuple[int, _Taken]] = []
        """The group of each column, and the entities and places of its forms."""
        self.rows: list[tuple[list[int], list[int], float, float]] = []
        """Columns, their factors, and the least and the most of the sum: first for entities, then for the limits."""
        self._presence: list[range | None] = []
        """For each group the columns that add up to its being in; None if that is decided."""
        self._core = core
        decided: list[ScaledForm] = []
        for number, (places, is_in) in enumerate(zip(*core, strict=True)):
            single = tuple((at, own[0]) for at, own in enumerate(places or ()) if len(own) == 1)
            if is_in:
                decided += (problem.groups[number][at][place] for at, place in single)
            alternatives: list[list[_Taken]] = [[single]] if single and not is_in else []
            alternatives += [[((at, place),) for place in own] for at, own in enumerate(places or ()) if len(own) > 1]
            self._add(number, alternatives, is_in=is_in)
        forms = [self._form(problem, group, taken) for group, taken in self.columns]
        self.values = [form.value for form in forms]
        self.constant = sum(form.value for form in decided)
        for row, bound in enumerate(problem.bounds):
            costly = [column for column, form in enumerate(forms) if form.amounts[row]]
            left = bound - sum(form.amounts[row] for form in decided)
            self.rows.append((costly, [forms[column].amounts[row] for column in costly], -inf, left))

    def _add(self, number: int, alternatives: list[list[_Taken]], *, is_in: bool) -> None:
        """Add the columns of a group: of each list one is taken if the group is in."""
        first: range | None = None
        for own in alternatives:
            columns = range(len(self.columns), len(self.columns) + len(own))
            self.columns += [(number, taken) for taken in own]
            if is_in:
                self.rows.append(([*columns], [1] * len(own), 1, 1))
            elif first is not None:  # every entity is in as much as the first
                self.rows.append(([*columns, *first], [1] * len(own) + [-1] * len(first), 0, 0))
            elif len(own) > 1:
                self.rows.append(([*columns], [1] * len(own), -inf, 1))
            first = first or columns
        self._presence.append(None if is_in else first)

    @staticmethod
    def _form(problem: Problem, group: int, taken: _Taken) -> ScaledForm:
        return reduce(lambda one, other: one.joined(other), (problem.groups[group][at][place] for at, place in taken))

    def read(self, solution: Sequence[float]) -> Choice:
        """Return the choice that a solution encodes, rounded."""
        choice = [None if at is None else [places[0] for places in at] for at in self._core.forms]
        for (group, taken), share in zip(self.columns, solution, strict=True):
            places = choice[group]
            if share > _HALF and places is not None:
                for at, place in taken:
                    places[at] = place
        pairs = zip(choice, self.shares(solution), strict=True)
        return [None if at is None or share <= _HALF else tuple(at) for at, share in pairs]

    def shares(self, solution: Sequence[float]) -> list[float]:
        """Return how much of each group a solution has."""
        pairs = zip(self._presence, self._core.forced, strict=True)
        return [float(is_in) if own is None else sum(solution[column] for column in own) for own, is_in in pairs]

    def write(self, choice: Choice) -> list[float]:
        """Return a choice as a solution."""
        places = [choice[group] for group, _ in self.columns]
        pairs = zip(self.columns, places, strict=True)
        return [float(own is not None and all(own[at] == place for at, place in taken)) for (_, taken), own in pairs]

    def is_exact(self) -> bool:
        """Return whether the solver's floats hold all numbers and their sums without doubt."""
        largest = max(map(abs, chain(self.values, *(factors for _, factors, _, _ in self.rows))), default=0)
        return largest * max(1, len(self.values)) <= _LARGEST << 10 and largest <= _LARGEST


class Solved(NamedTuple):
    """A solution, the price of each row in a relaxation, and the solver's own bound."""

    solution: Sequence[float]
    prices: Sequence[float]
    bound: float


def load_solver() -> Any:
    """Return the solver's module."""
    try:
        import highspy  # an extra, and slow to import
    except ImportError:
        raise MissingExtraError("highspy", "optimal") from None
    return highspy


def run_solver(model: Model, start: Sequence[float] | None = None, gap: float = 0.0) -> Solved | None:
    """Solve the relaxation, or from a known solution in whole columns; None if HiGHS failed, which proves nothing."""
    # The dense row of the capacity makes presolve most of a relaxation's time.
    tolerances = dict.fromkeys(("mip_feasibility_tolerance", "primal_feasibility_tolerance"), _TOLERANCE)
    whole = {"mip_rel_gap": gap, "mip_abs_gap": 0.5, **tolerances}
    options = {"presolve": "off", "solver": "simplex"} if start is None else whole
    highspy = load_solver()
    scale = max(1.0, max(map(abs, model.values), default=0) / _LARGEST)
    for threads in (1, 0):  # one thread fails where other code in the process has started HiGHS with more
        solver = highspy.Highs()
        fixed = {"output_flag": False, "parallel": "off", "random_seed": 0, "threads": threads}
        for name, value in {**fixed, **options}.items():
            solver.setOptionValue(name, value)
        solver.passModel(_matrix(highspy, model, scale, is_whole=start is not None))
        if start is not None:
            known = highspy.HighsSolution()
            known.col_value = list(start)
            solver.setSolution(known)
        if solver.run() != highspy.HighsStatus.kError and solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            found, info = solver.getSolution(), solver.getInfo()
            bound = info.objective_function_value if start is None else info.mip_dual_bound
            return Solved(found.col_value, [-price * scale for price in found.row_dual], -bound * scale)
    return None


def _matrix(highspy: Any, model: Model, scale: float, *, is_whole: bool) -> Any:
    """Write a model as the solver's, which minimises."""
    matrix = highspy.HighsLp()
    width, height = len(model.values), len(model.rows)
    matrix.num_col_, matrix.num_row_ = width, height
    matrix.col_cost_ = [-value / scale for value in model.values]
    matrix.offset_ = -model.constant / scale
    matrix.col_lower_, matrix.col_upper_ = [0.0] * width, [1.0] * width
    columns, factors = [row[0] for row in model.rows], [row[1] for row in model.rows]
    matrix.row_lower_, matrix.row_upper_ = [float(row[2]) for row in model.rows], [float(row[3]) for row in model.rows]
    matrix.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    matrix.a_matrix_.num_col_, matrix.a_matrix_.num_row_ = width, height
    matrix.a_matrix_.start_ = [0, *accumulate(map(len, columns))]
    matrix.a_matrix_.index_ = [*chain(*columns)]
    matrix.a_matrix_.value_ = [*map(float, chain(*factors))]
    if is_whole:
        matrix.integrality_ = [highspy.HighsVarType.kInteger] * width
    return matrix
