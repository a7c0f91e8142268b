"""Read, answer and write Parquet, a shard at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from cupel.batch._selector import BatchSelector
from cupel.batch._source import SHARD_BYTES, SHARD_ROWS, BatchError, RowError, Shard, arrow, explained, parquet


def as_lines(table: Any) -> list[bytes | str]:
    """Return each row as a line of JSON, or the reason why it cannot be written, as a string."""
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
    """Return a table as plain values; nanoseconds are truncated to the microseconds of Python's datetimes."""
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
    """Return a failed row as a line that can be run again; values that JSON cannot hold become text."""
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


_READ_BUFFER: Final = 1 << 20
_ROWS_AT_ONCE: Final = 16
"""Rows decoded at a time: with dictionaries and compression, a small file may decode to very large rows."""


def plan_parquet(path: Path, shard_rows: int | None) -> list[Shard]:
    """Cut each row group into shards of bounded size."""
    metadata = _open(path).metadata
    shards: list[Shard] = []
    first_row = 0
    for group in range(metadata.num_row_groups):
        rows: int = metadata.row_group(group).num_rows
        size: int = metadata.row_group(group).total_byte_size
        step = shard_rows or max(1, min(SHARD_ROWS, SHARD_BYTES * rows // max(size, 1)))
        for start in range(0, rows, step):
            stop = min(rows, start + step)
            shards.append(Shard(len(shards), first_row + start, stop - start, start, stop, group))
        first_row += rows
    return shards


def read_parquet_shard(path: Path, shard: Shard) -> Iterator[Any]:
    """Read the rows of a shard as tables, in order, each of bounded size when decoded."""
    cursor: _Cursor | None = getattr(_local, "cursor", None)
    if cursor is None or not cursor.reaches(path, shard):
        cursor = _local.cursor = _Cursor(path, shard.row_group)
    rows = 0
    for table in cursor.read(shard):
        rows += table.num_rows
        yield table
    if rows != shard.rows:
        raise BatchError(f"{path}: row group {shard.row_group} has changed since the job began")


_local = threading.local()


class _Cursor:
    """A position in a row group that only moves forward.

    A row group can be decoded only from its start. Shards reach a worker in ascending order, so it decodes a group at
    most once and skips the shards of other workers; only the current rows are in memory.
    """

    def __init__(self, path: Path, row_group: int) -> None:
        self._key = (path, row_group)
        self._position = 0
        self._rest: Any = None
        self._batches: Iterator[Any] = _open(path).iter_batches(
            _ROWS_AT_ONCE,
            row_groups=[row_group],
            use_threads=False,  # each core has its own process
        )

    def reaches(self, path: Path, shard: Shard) -> bool:
        return self._key == (path, shard.row_group) and self._position <= shard.start

    def read(self, shard: Shard) -> Iterator[Any]:
        pieces: list[Any] = []
        size = 0
        for piece in self._pieces(shard):
            pieces.append(piece)
            size += piece.nbytes
            if size >= SHARD_BYTES:
                yield arrow().Table.from_batches(pieces)
                pieces, size = [], 0
        if pieces:
            yield arrow().Table.from_batches(pieces)

    def _pieces(self, shard: Shard) -> Iterator[Any]:
        while self._position < shard.stop:
            batch = self._rest if self._rest is not None else next(self._batches, None)
            self._rest = None
            if batch is None:
                return
            start = max(0, shard.start - self._position)
            stop = min(batch.num_rows, shard.stop - self._position)
            if stop < batch.num_rows:
                self._rest = batch.slice(stop)
            self._position += stop
            if stop > start:
                yield batch.slice(start, stop - start)


def _open(path: Path) -> Any:
    pa = arrow()
    try:
        # Buffered: without a buffer the column chunks of a whole row group are read at once.
        return parquet().ParquetFile(path, buffer_size=_READ_BUFFER, pre_buffer=False)
    except pa.ArrowInvalid as error:
        raise BatchError(f"{path}: not a Parquet file: {error}") from None


def check_parquet(selector: BatchSelector, path: Path) -> None:
    """Raise if the columns of the input cannot be read as requests."""
    empty = _empty_requests(path)
    selector(empty)
    if "row" in empty.column_names:
        raise BatchError("the requests have a column 'row', which the answer has too: rename it")


def schema_of_answers(selector: BatchSelector, path: Path) -> Any:
    """Return the columns of the answers."""
    return _numbered(selector(_empty_requests(path)), 0).drop_columns(["error"]).schema


def _empty_requests(path: Path) -> Any:
    return _open(path).schema_arrow.empty_table()


def answer_parquet(
    selector: BatchSelector, path: Path, shard: Shard, *, as_table: bool
) -> Iterator[tuple[Any, list[RowError]]]:
    """Select for each row of a shard; yield answers, as tables or as lines, and the rows without one."""
    first_row = shard.first_row
    for requests in read_parquet_shard(path, shard):
        answer = _numbered(selector(requests), first_row)
        errors: list[str | None] = answer.column("error").to_pylist()
        good = answer.filter(arrow().compute.is_null(answer.column("error"))).drop_columns(["error"])
        if not as_table:
            good = _lines(good, errors, first_row)
        bad = [place for place, error in enumerate(errors) if error is not None]
        yield good, [_row_error(requests, place, first_row + place, errors[place]) for place in bad]
        first_row += requests.num_rows


def _numbered(answer: Any, first_row: int) -> Any:
    pa = arrow()
    return answer.add_column(0, "row", pa.array(range(first_row, first_row + answer.num_rows), pa.int64()))


def _lines(good: Any, errors: list[str | None], first_row: int) -> list[bytes]:
    """Return answers as lines; record the reason for each that cannot be written in `errors`."""
    lines = as_lines(good)
    for row, line in zip(good.column("row").to_pylist(), lines, strict=True):
        if isinstance(line, str):
            errors[row - first_row] = line
    return [line for line in lines if isinstance(line, bytes)]


def _row_error(requests: Any, place: int, row: int, error: str | None) -> RowError:
    request = as_request(requests, place)
    return RowError(row, error or "", msgspec.json.decode(request).get("id"), request)


class PartWriter:
    """Writes a part in Arrow's stream format: it is read only once, so encoding it as Parquet would not pay."""

    def __init__(self, path: Path, schema: Any) -> None:
        ipc = arrow().ipc
        self._stream = ipc.new_stream(path, schema, options=ipc.IpcWriteOptions(compression="lz4"))

    def write(self, table: Any) -> None:
        """Append a table."""
        self._stream.write_table(table.combine_chunks())

    def close(self) -> None:
        """Write the end of the stream."""
        self._stream.close()


class ParquetOutput:
    """Appends parts to a Parquet file, each as one row group or more."""

    def __init__(self, path: Path, schema: Any) -> None:
        self._writer = parquet().ParquetWriter(path, schema)

    def add(self, part: Path) -> None:
        """Append a part."""
        pa = arrow()
        with pa.memory_map(str(part)) as stream, pa.ipc.open_stream(stream) as batches:
            for batch in batches:
                if batch.num_rows:
                    self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()
