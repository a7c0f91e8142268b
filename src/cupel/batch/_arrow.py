"""The one place that imports pyarrow, which ships no types."""

from __future__ import annotations

from typing import Any, cast

from cupel.errors import MissingExtraError


def arrow() -> Any:
    """Return pyarrow, or say which extra brings it."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
        import pyarrow.compute  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs, reportUnusedImport]
    except ImportError:
        raise MissingExtraError("pyarrow", "batch") from None
    return cast("Any", pa)


def parquet() -> Any:
    """Return pyarrow.parquet."""
    arrow()
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

    return cast("Any", pq)
