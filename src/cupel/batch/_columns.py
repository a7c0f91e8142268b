"""Requests in Arrow columns.

Values are taken out of Arrow a column at a time, which costs a tenth of going row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import repeat
from typing import Any, Final, cast

import msgspec

from cupel.batch._arrow import arrow
from cupel.batch._choice import Request
from cupel.batch._errors import BatchError
from cupel.batch._requests import ITEM_FIELDS, SPELLINGS, as_datetime, explained, read_budget
from cupel.errors import CupelError
from cupel.model import EMPTY, ContextBudget, ContextItem, ContextKind, ContextSource

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RequestColumns:
    """The requests of a table: `items` (a list of structs) and `budget` (a struct or a number), read on demand."""

    def __init__(self, table: Any, shared: ContextBudget | None) -> None:
        pa = arrow()
        if "items" not in table.column_names:
            msg = f"the table has no column 'items'; its columns are {', '.join(table.column_names) or 'none'}"
            raise BatchError(msg)
        items = table.column("items")
        self._items: Any = items.combine_chunks() if isinstance(items, pa.ChunkedArray) else items
        _check_list(pa, self._items.type)
        self._shared = shared
        has_budgets = "budget" in table.column_names
        self._budgets: list[Any] = table.column("budget").to_pylist() if has_budgets else [None] * table.num_rows
        lengths = pa.compute.list_value_length(self._items).to_pylist()
        self._missing = [length is None for length in lengths]
        self.starts = [0]
        for length in lengths:
            self.starts.append(self.starts[-1] + (length or 0))
        self.values: Any = self._items.flatten()
        """The items of all requests, one after the other."""

    def __iter__(self) -> Iterator[Callable[[], Request]]:
        """Give a reader for each request; it raises what is wrong with that request."""
        columns = _values(self.values)
        try:
            items = _build(columns)
        except (CupelError, TypeError, ValueError):
            items = None  # somebody's item is bad: find out whose, request by request
        for row in range(len(self._missing)):
            yield partial(self._read, row, items, columns)

    def _read(self, row: int, items: list[ContextItem] | None, columns: list[Any]) -> Request:
        if self._missing[row]:
            msg = "items is missing"
            raise ValueError(msg)
        start, stop = self.starts[row], self.starts[row + 1]
        if items is not None:
            chosen = items[start:stop]
        else:
            chosen = [_build_one(columns, position, position - start) for position in range(start, stop)]
        return Request(chosen, read_budget(self._budgets[row], self._shared))


def _check_list(pa: Any, found: Any) -> None:
    types = pa.types
    is_list = types.is_list(found) or types.is_large_list(found) or types.is_fixed_size_list(found)
    if not (is_list and types.is_struct(found.value_type)):
        msg = f"column 'items' must be a list of structs, got {found}"
        raise BatchError(msg)
    named = [SPELLINGS.get(field.name) for field in found.value_type]
    for field, name in zip(found.value_type, named, strict=True):
        if name not in ITEM_FIELDS:
            msg = f"column 'items' has an unknown field {field.name!r}; an item has {', '.join(ITEM_FIELDS)}"
            raise BatchError(msg)
        if name == "timestamp" and types.is_timestamp(field.type) and field.type.tz is None:
            msg = f"column 'items': timestamp must carry a time zone, got {field.type}; cast it to one, such as UTC"
            raise BatchError(msg)
    for name in ITEM_FIELDS[:2]:
        if name not in named:
            msg = f"column 'items' has no field {name!r}"
            raise BatchError(msg)
    if len(set(named)) != len(named):
        given = ", ".join(field.name for field in found.value_type)
        msg = f"column 'items' has a field twice, in both spellings: {given}"
        raise BatchError(msg)


def _values(structs: Any) -> list[Any]:
    """Give one list a field of `ContextItem`, in their order; a field that no item has is the default for ever."""
    found = {SPELLINGS[field.name]: column for field, column in zip(structs.type, structs.flatten(), strict=True)}
    return [_READERS[name](found[name]) if name in found else repeat(default) for name, default in _DEFAULTS.items()]


def _build(columns: list[Any]) -> list[ContextItem]:
    return [
        ContextItem(
            content,
            tokens,
            kind=kind,
            source=source,
            priority=priority,
            tags=tags,
            metadata=metadata,
            timestamp=timestamp,
            future_relevance_hint=hint,
            pinned=pinned,
            original_tokens=original,
        )
        for content, tokens, kind, source, priority, tags, metadata, timestamp, hint, pinned, original in zip(
            *columns, strict=False
        )
    ]


def _build_one(columns: list[Any], position: int, place: int) -> ContextItem:
    try:
        cells: list[Any] = [column if isinstance(column, repeat) else [column[position]] for column in columns]
        return _build(cells)[0]
    except (CupelError, TypeError, ValueError) as error:
        msg = f"items[{place}]: {explained(error)}"
        raise ValueError(msg) from None


def _plain(column: Any) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def _or(default: object) -> Callable[[Any], list[Any]]:
    def read(column: Any) -> list[Any]:
        values = _plain(column)
        return [default if value is None else value for value in values] if column.null_count else values

    return read


def _names(name_type: type[ContextKind | ContextSource], default: object) -> Callable[[Any], list[Any]]:
    def read(column: Any) -> list[Any]:
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        names: list[Any] = []
        for value in encoded.dictionary.to_pylist():
            try:
                names.append(name_type.of(value))
            except (CupelError, TypeError):
                names.append(value)  # the item that has it will say what is wrong
        return [default if index is None else names[index] for index in encoded.indices.to_pylist()]

    return read


def _timestamps(column: Any) -> list[Any]:
    pa = arrow()
    if not pa.types.is_timestamp(column.type):
        return [as_datetime(value) if isinstance(value, str) else value for value in column.to_pylist()]
    # Through microseconds since the epoch: pyarrow's own conversion looks the zone up for every value.
    instants = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()).to_pylist()
    return [None if value is None else _EPOCH + timedelta(microseconds=value) for value in instants]


def _metadata(column: Any) -> list[Any]:
    return [EMPTY if value is None else _metadata_of(value) for value in column.to_pylist()]


def _metadata_of(value: Any) -> Any:
    """Read one value: a struct, whose empty fields are absent; the pairs of a map; or a JSON object."""
    if isinstance(value, Mapping):
        return {key: entry for key, entry in cast("Mapping[str, Any]", value).items() if entry is not None}
    if isinstance(value, list):
        return dict(cast("list[tuple[str, Any]]", value))
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, TypeError):
        return value


_DEFAULTS: Final[dict[str, Any]] = {
    "content": None,
    "tokens": None,
    "kind": ContextKind.MESSAGE,
    "source": ContextSource.CHAT,
    "priority": None,
    "tags": (),
    "metadata": EMPTY,
    "timestamp": None,
    "future_relevance_hint": None,
    "pinned": False,
    "original_tokens": None,
}
_READERS: Final[dict[str, Callable[[Any], list[Any]]]] = {
    "content": _plain,
    "tokens": _plain,
    "kind": _names(ContextKind, ContextKind.MESSAGE),
    "source": _names(ContextSource, ContextSource.CHAT),
    "priority": _plain,
    "tags": _or(()),
    "metadata": _metadata,
    "timestamp": _timestamps,
    "future_relevance_hint": _plain,
    "pinned": _or(default=False),
    "original_tokens": _plain,
}
