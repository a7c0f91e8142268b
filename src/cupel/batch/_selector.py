"""Selection as a function from Arrow table to Arrow table."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from cupel._checks import shown, wrong_type
from cupel.batch._arrow import arrow
from cupel.batch._choice import Chosen, choice_columns, choose
from cupel.batch._columns import RequestColumns
from cupel.batch._errors import BatchError
from cupel.model import ContextBudget
from cupel.policy import Policy

RESULT_COLUMNS: Final = ("items", "selected", "total_tokens", "total_candidates", "report", "error")


@dataclass(frozen=True, slots=True)
class BatchSelector:
    """Selects for every row of an Arrow table: requests in, selections out, the same rows in the same order.

    A request has a column `items`, a list of structs with the fields of `ContextItem`, and a column `budget`, a struct
    with the fields of `ContextBudget` or just a number of tokens; `budget` here is for rows that have none. A column
    `query` is what a row's items are to answer, for policies that score by relevance. The answer keeps all columns but
    the first two, and has the selected `items` in placed order, their positions in the request (`selected`),
    `total_tokens`, `total_candidates`, with `report=True` the `report` as JSON, and `error`, which is null unless the
    row could not be selected for. A selector pickles, so it can be sent to the workers of any engine.

    >>> import pyarrow as pa
    >>> from cupel import ContextBudget, presets
    >>> items = [{"content": "hello", "tokens": 2}, {"content": "a long story", "tokens": 900}]
    >>> requests = pa.table({"items": [items]})
    >>> answer = BatchSelector(presets.chat(), ContextBudget(100, 100))(requests)
    >>> answer.select(["selected", "total_tokens", "total_candidates", "error"]).to_pylist()
    [{'selected': [0], 'total_tokens': 2, 'total_candidates': 2, 'error': None}]
    """

    policy: Policy
    budget: ContextBudget | None = None
    report: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.policy, Policy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("policy", "a Policy", self.policy)
        if self.budget is not None and not isinstance(self.budget, ContextBudget):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("budget", "a ContextBudget or None", self.budget)
        if not isinstance(self.report, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("report", "True or False", self.report)

    def __call__(self, requests: Any) -> Any:
        """Select for every row of a `pyarrow.Table` or `RecordBatch`; gives a table."""
        pa = arrow()
        if isinstance(requests, pa.RecordBatch):
            requests = pa.Table.from_batches([requests])
        if not isinstance(requests, pa.Table):
            raise TypeError(f"requests must be a pyarrow.Table or RecordBatch, got {type(requests).__name__}")
        kept = [name for name in requests.column_names if name not in ("items", "budget")]
        for name in kept:
            if name in RESULT_COLUMNS:
                raise BatchError(
                    f"the requests have a column {shown(name)}, which the answer needs for itself: rename it"
                )
        columns = RequestColumns(requests, self.budget)
        if "budget" not in requests.column_names and self.budget is None:
            raise BatchError("the requests have no column 'budget', and no budget is given for all of them")
        pipeline = self.policy.pipeline()
        choices = [choose(pipeline, read, report=self.report) for read in columns]
        return _answer(pa, _own(pa, requests.select(kept)), columns, choices, report=self.report)


def _own(pa: Any, table: Any) -> Any:
    """Return a table with buffers of its own: those of a slice are the whole table's, and would be sent with it."""
    if table.get_total_buffer_size() <= 2 * table.nbytes:
        return table
    return table.take(pa.array(range(table.num_rows), pa.int64()))


def _answer(pa: Any, kept: Any, columns: RequestColumns, choices: list[Chosen], *, report: bool) -> Any:
    failed = pa.array([choice.error is not None for choice in choices], pa.bool_())
    taken = [start + place for choice, start in zip(choices, columns.starts, strict=False) for place in choice.selected]
    offsets = pa.array(accumulate((len(choice.selected) for choice in choices), initial=0), pa.int32())
    items = pa.ListArray.from_arrays(offsets, columns.values.take(pa.array(taken, pa.int64())), mask=failed)
    errors = pa.array([choice.error for choice in choices], pa.string())
    for name, column in {"items": items, **choice_columns(choices, report=report), "error": errors}.items():
        kept = kept.append_column(name, column)
    return kept
