"""Rows of a table as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from cupel.batch._arrow import arrow
from cupel.batch._errors import explained


def as_lines(table: Any) -> list[bytes | str]:
    """Return each row as a line of JSON, or as a string what keeps it from being one."""
    try:
        return [_as_line(row) for row in _as_rows(table)]
    except Exception as error:  # noqa: BLE001  (pyarrow raises many kinds; one bad value is one bad row)
        if table.num_rows == 1:
            return [f"cannot be written as JSON: {explained(error)}"]
        return [line for place in range(table.num_rows) for line in as_lines(table.slice(place, 1))]


def _as_line(row: dict[str, Any]) -> bytes:
    if isinstance(row.get("report"), str):
        row["report"] = msgspec.Raw(row["report"].encode())
    return msgspec.json.encode(row)


def _as_rows(table: Any) -> list[dict[str, Any]]:
    """Return a table as plain values; nanoseconds are cut to microseconds, which is what Python's datetimes have."""
    pa = arrow()
    schema = pa.schema([pa.field(field.name, _in_microseconds(pa, field.type)) for field in table.schema])
    rows: list[dict[str, Any]] = table.cast(schema, safe=False).to_pylist(maps_as_pydicts="strict")
    return rows


def _in_microseconds(pa: Any, found: Any) -> Any:
    types = pa.types
    if types.is_timestamp(found):
        return pa.timestamp("us", found.tz)
    if types.is_duration(found) or types.is_time64(found):
        return pa.duration("us") if types.is_duration(found) else pa.time64("us")
    if types.is_struct(found):
        return pa.struct([pa.field(field.name, _in_microseconds(pa, field.type)) for field in found])
    if types.is_map(found):
        return pa.map_(found.key_type, _in_microseconds(pa, found.item_type))
    if types.is_list(found) or types.is_large_list(found):
        return pa.list_(_in_microseconds(pa, found.value_type))
    return found


def as_request(table: Any, position: int) -> msgspec.Raw:
    """Return a row that failed in a form to be run again as a line; values that JSON cannot hold become text."""
    line = as_lines(table.slice(position, 1))[0]
    if isinstance(line, str):
        scalars = {name: table.column(name)[position] for name in table.column_names}
        line = msgspec.json.encode({name: _legible(scalar) for name, scalar in scalars.items()}, enc_hook=repr)
    return msgspec.Raw(line)


def _legible(scalar: Any) -> Any:
    types, found = arrow().types, scalar.type
    if not scalar.is_valid:
        return None
    if types.is_struct(found):
        return {field.name: _legible(scalar[place]) for place, field in enumerate(found)}
    if types.is_list(found) or types.is_large_list(found) or types.is_fixed_size_list(found) or types.is_map(found):
        return [_legible(entry) for entry in scalar.values]
    try:
        value = scalar.as_py()
        msgspec.json.encode(value)
    except Exception:  # noqa: BLE001
        return str(scalar.cast(arrow().string()) if types.is_timestamp(found) else getattr(scalar, "value", scalar))
    return value
