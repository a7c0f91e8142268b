"""What a run hands from stage to stage, and what users hold, cannot be changed afterwards."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

import msgspec
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("model", "scorers", "slicers", "placers", "diagnostics", "pipeline")
# A stream's selection grows until the stream ends.
CHANGING = {"StreamSelection"}


def records() -> Iterator[type]:
    """Every dataclass and struct of the core, private ones too."""
    for package in (import_module(f"cupel.{name}") for name in PACKAGES):
        found = iter_modules(getattr(package, "__path__", ()), f"{package.__name__}.")
        for module in (package, *(import_module(one.name) for one in found)):
            for _, value in inspect.getmembers(module, inspect.isclass):
                is_record = is_dataclass(value) or issubclass(value, msgspec.Struct)
                if value.__module__ == module.__name__ and is_record and value.__name__ not in CHANGING:
                    yield value


RECORDS = list(records())


def test_the_search_finds_records_of_both_sorts() -> None:
    assert {"ContextItem", "UShapedPlacer", "Classified", "GreedySlice"} <= {each.__name__ for each in RECORDS}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record.__module__}.{record.__qualname__}")
def test_it_is_frozen_and_has_no_dict_but_for_what_it_computes_once(record: type) -> None:
    if issubclass(record, msgspec.Struct):
        assert record.__struct_config__.frozen
    else:
        assert record.__dataclass_params__.frozen  # type: ignore[attr-defined]
    computes = any(isinstance(value, cached_property) for value in vars(record).values())
    assert (record.__dictoffset__ != 0) == computes
