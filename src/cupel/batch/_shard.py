"""A shard: the unit of work, of writing and of resuming."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from cupel.batch._marks import Mark

SHARD_ROWS: Final = 1000
SHARD_BYTES: Final = 16_000_000
"""What a worker takes on at a time, uncompressed: its memory is a small multiple of this, however large the file is."""


class Shard(msgspec.Struct, frozen=True):
    """Consecutive rows of the input, and where they are: bytes of a text file, or rows of a Parquet row group."""

    index: int
    first_row: int
    rows: int
    start: int
    stop: int
    row_group: int = -1


class RowError(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row that gave no selection, with its request, so that it can be run again."""

    row: int
    error: str
    id: Any = None
    request: Any = None


class ShardResult(msgspec.Struct, frozen=True):
    """What became of a shard's rows, and what the files that hold it look like."""

    index: int
    rows: int
    written: int
    errors: int
    answers: Mark
    faults: Mark | None = None
    first_error: str | None = None
