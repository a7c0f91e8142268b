"""Select from Arrow tables of requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate
from typing import Any, Final, cast

import msgspec

from cupel._internal.checks import shown, wrong_type
from cupel._internal.documents import ITEM
from cupel.batch._requests import Chosen, choice_columns, guarded, read_budget, select_items
from cupel.batch._source import BatchError, arrow, explained
from cupel.errors import CupelError
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import Pipeline

_NAMES: Final = ", ".join(field.name for field in ITEM.fields)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RequestColumns:
    """The requests of a table, read on demand: `items` (structs), `budget` (a struct or a number), `query` (a text)."""

    def __init__(self, table: Any, shared: ContextBudget | None) -> None:
        pa = arrow()
        names: list[str] = table.column_names
        twice = sorted(name for name in set(names) if names.count(name) > 1)
        if twice:
            raise BatchError(f"the table has two columns {shown(twice[0])}; rename one")
        if "items" not in names:
            other = "; conversations are read from JSON lines" if "messages" in names else ""
            raise BatchError(f"the table has no column 'items'; its columns are {', '.join(names) or 'none'}{other}")
        items = table.column("items")
        self._items: Any = items.combine_chunks() if isinstance(items, pa.ChunkedArray) else items
        _check_items(pa, self._items.type)
        self._shared = shared
        self._others = {
            name: _readable(_plain, table.column(name)) if name in names else [None] * table.num_rows
            for name in ("budget", "query")
        }
        self._lengths: list[int | None] = pa.compute.list_value_length(self._items).to_pylist()
        self.starts = list(accumulate((length or 0 for length in self._lengths), initial=0))
        self.values: Any = self._items.flatten()
        """The items of all requests, one after the other."""

    def select(self, pipeline: Pipeline, *, report: bool) -> list[Chosen]:
        """Select for each request."""
        columns = _columns(self.values)
        try:
            items = ITEM.of_columns(columns, len(self.values))
        except (CupelError, TypeError, ValueError):
            items = None  # an item is bad: find its request

        def select(row: int) -> Chosen:
            if self._lengths[row] is None:
                raise ValueError("items is missing")
            start, stop = self.starts[row], self.starts[row + 1]
            if items is not None:
                own = items[start:stop]
            else:
                own = [_build_one(columns, position, position - start) for position in range(start, stop)]
            budget, query = (_checked(f"{name}:", column[row]) for name, column in self._others.items())
            return select_items(pipeline, own, read_budget(budget, self._shared), query, report=report)

        return [guarded(partial(select, row)) for row in range(len(self._lengths))]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A value that Python or an item cannot hold; it makes its item invalid."""

    reason: str


def _readable(read: Callable[[Any], list[Any]], column: Any) -> list[Any]:
    """Read a column at once, or value by value where one of them cannot be read."""
    try:
        return read(column)
    except Exception as error:  # noqa: BLE001  (pyarrow raises many kinds)
        if len(column) == 1:
            return [Unreadable(explained(error))]
        return [value for place in range(len(column)) for value in _readable(read, column.slice(place, 1))]


def _checked(where: str, value: Any) -> Any:
    if isinstance(value, Unreadable):
        raise ValueError(f"{where} {value.reason}")  # noqa: TRY004
    return value


def _check_items(pa: Any, found: Any) -> None:
    """Refuse a column whose type cannot hold items."""
    types = pa.types
    is_list = types.is_list(found) or types.is_large_list(found) or types.is_fixed_size_list(found)
    if not (is_list and types.is_struct(found.value_type)):
        raise BatchError(f"column 'items' must be a list of structs, got {found}")
    named: list[str] = []
    for field in found.value_type:
        if field.name not in ITEM.spellings:
            raise BatchError(f"column 'items' has an unknown field {shown(field.name)}; an item has {_NAMES}")
        named.append(ITEM.spellings[field.name].name)
        if named[-1] == "timestamp" and types.is_timestamp(field.type) and field.type.tz is None:
            raise BatchError(
                f"column 'items': timestamp must carry a time zone, got {field.type}; cast it to one, such as UTC"
            )
    for required in ITEM.fields:
        if required.required and required.name not in named:
            raise BatchError(f"column 'items' has no field {shown(required.name)}")
    if len(set(named)) != len(named):
        given = ", ".join(field.name for field in found.value_type)
        raise BatchError(f"column 'items' has a field twice, in both spellings: {given}")


def _columns(structs: Any) -> dict[str, list[Any]]:
    """Return the values of each field that has a column."""
    fields = zip(structs.type, structs.flatten(), strict=True)
    found = ((ITEM.spellings[field.name].name, column) for field, column in fields)
    return {name: _readable(_READERS.get(name, _plain), column) for name, column in found}


def _build_one(columns: dict[str, list[Any]], position: int, place: int) -> ContextItem:
    try:
        cells = {name: [_checked(f"{name} cannot be read:", column[position])] for name, column in columns.items()}
        return ITEM.of_columns(cells, 1)[0]
    except (CupelError, TypeError, ValueError) as error:
        raise ValueError(f"items[{place}]: {explained(error)}") from None


def _plain(column: Any) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def _timestamps(column: Any) -> list[Any]:
    pa = arrow()
    if not pa.types.is_timestamp(column.type):
        return _plain(column)
    # Through microseconds since the epoch: pyarrow's own conversion looks the zone up for every value.
    instants = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()).to_pylist()
    return [None if value is None else _EPOCH + timedelta(microseconds=value) for value in instants]


def _metadata(column: Any) -> list[Any]:
    return [None if value is None else _metadata_of(value) for value in column.to_pylist()]


def _metadata_of(value: Any) -> Any:
    """Read one value: a struct, whose empty fields are absent; the pairs of a map; or a JSON object."""
    if isinstance(value, Mapping):
        return {key: entry for key, entry in cast("Mapping[str, Any]", value).items() if entry is not None}
    if isinstance(value, list):
        return _of_pairs(value)  # pyright: ignore[reportUnknownArgumentType]
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, TypeError):
        return value


def _of_pairs(pairs: list[Any]) -> Any:
    if not all(isinstance(pair, tuple) for pair in pairs):
        return pairs  # a plain list, which building the item reports
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for place, (key, _) in enumerate(pairs) if key in [other for other, _ in pairs[:place]])
        raise ValueError(f"the map has the key {shown(twice)} twice")
    return found


_READERS: Final[dict[str, Callable[[Any], list[Any]]]] = {"metadata": _metadata, "timestamp": _timestamps}


RESULT_COLUMNS: Final = ("items", "selected", "total_tokens", "total_candidates", "report", "error")


@dataclass(frozen=True, slots=True)
class BatchSelector:
    """Selects for every row of an Arrow table: requests in, selections out, the same rows in the same order.

    A request has a column `items`, a list of structs with the fields of `ContextItem`, and a column `budget`, a struct
    with the fields of `ContextBudget` or just a number of tokens; `budget` here is for rows that have none. A column
    `query` holds the question of each row, for policies that score by relevance. The answer keeps all columns but
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

    policy: Pipeline
    budget: ContextBudget | None = None
    report: bool = False

    def __post_init__(self) -> None:
        Pipeline.of(self.policy)
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
                raise BatchError(f"the requests have a column {shown(name)}, which the answer has too: rename it")
        columns = RequestColumns(requests, self.budget)
        if "budget" not in requests.column_names and self.budget is None:
            raise BatchError("the requests have no column 'budget', and no budget is given for all of them")
        choices = columns.select(self.policy, report=self.report)
        return _answer(pa, _own(pa, requests.select(kept)), columns, choices, report=self.report)


def _own(pa: Any, table: Any) -> Any:
    """Return a table with its own buffers; a slice shares those of the whole table, which would be sent with it."""
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
