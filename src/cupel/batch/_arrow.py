"""The one place that imports pyarrow, which ships no types."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cupel.errors import MissingExtraError


def arrow() -> Any:
    """Return pyarrow, or say which extra brings it."""
    try:
        import_module("pyarrow.compute")
        return import_module("pyarrow")
    except ImportError:
        raise MissingExtraError("pyarrow", "batch") from None


def parquet() -> Any:
    """Return pyarrow.parquet."""
    arrow()
    return import_module("pyarrow.parquet")
