"""Reading and writing Parquet a shard at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cupel.batch._arrow import arrow, parquet
from cupel.batch._errors import BatchError
from cupel.batch._shard import SHARD_BYTES, SHARD_ROWS, Shard

_READ_BUFFER: Final = 1 << 20


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


def empty_requests(path: Path) -> Any:
    """Give a table with the input's columns and no rows."""
    return _open(path).schema_arrow.empty_table()


def read_parquet_shard(path: Path, shard: Shard) -> Any:
    """Read the rows of a shard as a table."""
    cursor: _Cursor | None = getattr(_local, "cursor", None)
    if cursor is None or not cursor.reaches(path, shard):
        cursor = _local.cursor = _Cursor(path, shard)
    table = cursor.read(shard)
    if table.num_rows != shard.rows:
        msg = f"{path}: row group {shard.row_group} has changed since the job began"
        raise BatchError(msg)
    return table


_local = threading.local()


class _Cursor:
    """A place in a row group that only moves forward.

    A row group cannot be entered in the middle. Shards reach a worker in ascending order, so it decodes a group at most
    once, skipping over what other workers have taken; nothing but the current batch is held in memory.
    """

    def __init__(self, path: Path, shard: Shard) -> None:
        self._key = (path, shard.row_group)
        self._position = 0
        self._rest: Any = None
        self._batches: Iterator[Any] = _open(path).iter_batches(
            shard.rows,
            row_groups=[shard.row_group],
            use_threads=False,  # one process a core
        )

    def reaches(self, path: Path, shard: Shard) -> bool:
        return self._key == (path, shard.row_group) and self._position <= shard.start

    def read(self, shard: Shard) -> Any:
        pieces: list[Any] = []
        while self._position < shard.stop:
            batch = self._rest if self._rest is not None else next(self._batches, None)
            self._rest = None
            if batch is None:
                break
            start = max(0, shard.start - self._position)
            stop = min(batch.num_rows, shard.stop - self._position)
            if stop > start:
                pieces.append(batch.slice(start, stop - start))
            if stop < batch.num_rows:
                self._rest = batch.slice(stop)
            self._position += min(stop, batch.num_rows)
        return arrow().Table.from_batches(pieces) if pieces else arrow().table({})


def _open(path: Path) -> Any:
    pa = arrow()
    try:
        # Buffered: otherwise the column chunks of a whole row group are read at once.
        return parquet().ParquetFile(path, buffer_size=_READ_BUFFER, pre_buffer=False)
    except pa.ArrowInvalid as error:
        msg = f"{path}: not a Parquet file: {error}"
        raise BatchError(msg) from None


def as_rows(table: Any) -> list[dict[str, Any]]:
    """Give a table as plain values; nanoseconds are cut to microseconds, which is what Python's datetimes have."""
    pa = arrow()
    schema = pa.schema([pa.field(field.name, _in_microseconds(pa, field.type)) for field in table.schema])
    rows: list[dict[str, Any]] = table.cast(schema, safe=False).to_pylist(maps_as_pydicts="strict")
    return rows


def _in_microseconds(pa: Any, found: Any) -> Any:
    if pa.types.is_timestamp(found):
        return pa.timestamp("us", found.tz)
    if pa.types.is_struct(found):
        return pa.struct([pa.field(field.name, _in_microseconds(pa, field.type)) for field in found])
    if pa.types.is_list(found) or pa.types.is_large_list(found):
        return pa.list_(_in_microseconds(pa, found.value_type))
    return found


def write_part(path: Path, table: Any) -> None:
    """Write a table in Arrow's own format: parts are read once, soon, so Parquet's encoding would be for nothing."""
    ipc = arrow().ipc
    with ipc.new_file(path, table.schema, options=ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table.combine_chunks())  # in one piece, since a file has one dictionary a column


class ParquetOutput:
    """A Parquet file that grows by one part, hence by one row group, at a time."""

    def __init__(self, path: Path, schema: Any) -> None:
        self._writer = parquet().ParquetWriter(path, schema)

    def add(self, part: Path) -> None:
        """Append a part."""
        pa = arrow()
        with pa.memory_map(str(part)) as stream:
            table = pa.ipc.open_file(stream).read_all()
            if table.num_rows:
                self._writer.write_table(table)

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()
