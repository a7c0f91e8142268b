"""The solver: HiGHS, which the extra `optimal` brings."""

from __future__ import annotations

from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NamedTuple

from cupel.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cupel._optimum._model import Model

_TOLERANCE = 1e-9
_LARGEST = 1 << 30
"""Up to here whole numbers are far enough apart for the solver's own tolerances, whatever a float rounds."""


class Solved(NamedTuple):
    """What the solver found."""

    solution: Sequence[float]
    prices: Sequence[float]
    """For each line how much value one unit more of it would bring; of a relaxation only."""
    bound: float
    """What no solution exceeds, by the solver's own account."""


def check_solver() -> None:
    """Raise when the solver is not installed."""
    _highspy()


def is_exact_for(model: Model) -> bool:
    """Tell whether the solver's floats can hold the numbers of a model and their sums without doubt."""
    largest = max(map(abs, chain(model.values, *(line.factors for line in model.lines))), default=0)
    return largest * max(1, len(model.values)) <= _LARGEST << 10 and largest <= _LARGEST


def relax(model: Model) -> Solved | None:
    """Solve a model whose columns may be cut; None if the solver failed, which says nothing about the model."""
    # The dense row of the capacity makes presolve most of the time.
    return _run(model, {"presolve": "off", "solver": "simplex"})


def branch(model: Model, start: Sequence[float], gap: float) -> Solved | None:
    """Solve a model in whole columns, from a solution that is known; None if the solver failed."""
    options = {
        "mip_rel_gap": gap,
        "mip_abs_gap": 0.5,
        "mip_feasibility_tolerance": _TOLERANCE,
        "primal_feasibility_tolerance": _TOLERANCE,
    }
    return _run(model, options, start)


def _highspy() -> Any:
    try:
        import highspy  # an extra, and slow to import
    except ImportError:
        raise MissingExtraError("highspy", "optimal") from None
    return highspy


def _run(model: Model, options: Mapping[str, object], start: Sequence[float] | None = None) -> Solved | None:
    """Solve with one thread; where other code in the process has started HiGHS with more, with as many as that."""
    for threads in (1, 0):
        solved = _attempt(model, {**options, "threads": threads}, start)
        if solved is not None:
            return solved
    return None


def _attempt(model: Model, options: Mapping[str, object], start: Sequence[float] | None) -> Solved | None:
    highspy = _highspy()
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)  # noqa: FBT003
    for name, value in {"parallel": "off", "random_seed": 0, **options}.items():
        solver.setOptionValue(name, value)
    scale = max(1.0, max(map(abs, model.values), default=0) / _LARGEST)
    solver.passModel(_matrix(highspy, model, scale, is_whole=start is not None))
    if start is not None:
        known = highspy.HighsSolution()
        known.col_value = list(start)
        solver.setSolution(known)
    if solver.run() == highspy.HighsStatus.kError or solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    found, info = solver.getSolution(), solver.getInfo()
    bound = info.mip_dual_bound if start is not None else info.objective_function_value
    return Solved(found.col_value, [-price * scale for price in found.row_dual], -bound * scale)


def _matrix(highspy: Any, model: Model, scale: float, *, is_whole: bool) -> Any:
    """Write a model as the solver's, which minimises."""
    matrix = highspy.HighsLp()
    width, height = len(model.values), len(model.lines)
    matrix.num_col_, matrix.num_row_ = width, height
    matrix.col_cost_ = [-value / scale for value in model.values]
    matrix.offset_ = -model.constant / scale
    matrix.col_lower_ = [0.0] * width
    matrix.col_upper_ = [1.0] * width
    matrix.row_lower_ = [-highspy.kHighsInf if line.least is None else float(line.least) for line in model.lines]
    matrix.row_upper_ = [float(line.most) for line in model.lines]
    matrix.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    matrix.a_matrix_.num_col_, matrix.a_matrix_.num_row_ = width, height
    matrix.a_matrix_.start_ = [0, *accumulate(len(line.columns) for line in model.lines)]
    matrix.a_matrix_.index_ = list(chain.from_iterable(line.columns for line in model.lines))
    matrix.a_matrix_.value_ = [float(factor) for line in model.lines for factor in line.factors]
    if is_whole:
        matrix.integrality_ = [highspy.HighsVarType.kInteger] * width
    return matrix
