"""Parse vectors into tables with their paths, and compare results with them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from cupel._internal.checks import shown
from cupel._internal.documents import BUDGET, ITEM, PackedRecord, decode_toml, is_list, is_object
from cupel.errors import CupelError
from cupel.model import ContextBudget, ContextItem, ScoredItem

STAGES = ("scoring", "slicing", "placing", "pipeline", "simulation")


class VectorError(CupelError, ValueError):
    """A vector that cannot be read: the file, the field in it (empty when the whole file is meant), and the problem.

    >>> print(VectorError("a.toml", "items[0].tokens", "is missing"))
    a.toml: items[0].tokens: is missing
    """

    def __init__(self, path: str, field: str, problem: str) -> None:
        super().__init__(path, field, problem)
        self.path = path
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        where = f"{self.path}: {self.field}" if self.field else self.path
        return f"{where}: {self.problem}"


class VectorLevel(Enum):
    """Which part of a suite a vector belongs to; only required and optional ones count towards conformance."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    OTHER = "other"

    @classmethod
    def of(cls, path: Path) -> VectorLevel:
        """Return the level that the nearest directory called `required` or `optional` gives a file.

        >>> VectorLevel.of(Path("suite/required/scoring/recency.toml"))
        <VectorLevel.REQUIRED: 'required'>
        """
        for directory in path.absolute().parent.parts[::-1]:
            if directory in {"required", "optional"}:
                return cls(directory)
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class TomlTable:
    """A TOML table with its file and its path in it, so that every error can name the field."""

    values: Mapping[str, Any]
    file: str
    path: str = ""
    shared: TomlTable | None = None
    """Where an option is looked up when the table itself does not have it."""

    def error(self, key: str, problem: str) -> VectorError:
        """Return the error for one field of this table."""
        return VectorError(self.file, ".".join(filter(None, (self.path, key))), problem)

    def has(self, key: str) -> bool:
        """Whether the table itself has the field."""
        return key in self.values

    def option(self, *keys: str, default: Any = None) -> Any:
        """Return the first of several spellings that is set, here or in the shared table, unchecked."""
        for table in (self, self.shared):
            for key in keys:
                if table is not None and key in table.values:
                    return table.values[key]
        return default

    def need(self, key: str) -> Any:
        """Return a field that must be there, unchecked."""
        if (value := self.option(key)) is None:
            raise self.error(key, "is missing")
        return value

    def text(self, key: str) -> str:
        """Return a field that must be a string."""
        if not isinstance(value := self.need(key), str):
            raise self.error(key, f"must be a string, not {shown(value)}")
        return value

    def number(self, key: str) -> float:
        """Return a field that must be a number."""
        value = self.need(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"must be a number, not {shown(value)}")
        return float(value)

    def array(self, key: str) -> list[Any]:
        """Return an array of anything; an absent one is empty (ruling 11.2)."""
        value = self.values.get(key, [])
        if not is_list(value):
            raise self.error(key, f"must be an array, not {shown(value)}")
        return value

    def texts(self, key: str) -> list[str]:
        """Return an array of strings; an absent one is empty."""
        value = self.array(key)
        if not all(isinstance(entry, str) for entry in value):
            raise self.error(key, f"must be an array of strings, not {shown(value)}")
        return value

    def table(self, key: str) -> TomlTable:
        """Return a sub-table; an absent one is empty."""
        return self._child(self.option(key, default={}), key)

    def tables(self, key: str, *, short: str | None = None) -> list[TomlTable]:
        """Return an array of tables; with `short`, a bare string means a table with only this field."""
        rows = [{short: entry} if short and isinstance(entry, str) else entry for entry in self.array(key)]
        return [self._child(row, f"{key}[{position}]") for position, row in enumerate(rows)]

    def _child(self, values: Any, key: str) -> TomlTable:
        if not is_object(values):
            raise self.error(key, f"must be a table, not {shown(values)}")
        return TomlTable(values, self.file, f"{self.path}.{key}" if self.path else key)


@dataclass(frozen=True, slots=True)
class Vector:
    """One parsed vector file."""

    path: Path
    name: str
    stage: str
    level: VectorLevel
    document: TomlTable


def find_vectors(paths: Iterable[str | PathLike[str]]) -> list[Path]:
    """Return the vector files among files and below directories: sorted within a directory, each file once.

    >>> find_vectors(["no/such/directory"])
    Traceback (most recent call last):
      ...
    cupel...VectorError: no/such/directory: no such file or directory

    Raises:
        VectorError: A path does not exist, or a directory holds no vector.
    """
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        if path.is_dir():
            files = sorted(path.rglob("*.toml"))
        elif path.exists():
            files = [path]
        else:
            raise VectorError(str(path), "", "no such file or directory")
        if not files:
            raise VectorError(str(path), "", "no vectors (*.toml) below this directory")
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def load_vector(path: str | PathLike[str]) -> Vector:
    """Parse one vector file (TOML 1.1).

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as directory:
    ...     file = Path(directory, "empty.toml")
    ...     _ = file.write_text('test = { stage = "pipeline" }')
    ...     vector = load_vector(file)
    >>> vector.name, vector.stage, vector.level.value
    ('empty', 'pipeline', 'other')

    Raises:
        VectorError: The file cannot be read, is not TOML, or does not say which stage it tests.
    """
    file = Path(path)
    try:
        values = decode_toml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise VectorError(str(path), "", f"cannot be read: {error}") from error
    document = TomlTable(values, str(path))
    if not document.has("test"):
        raise document.error("test", "is missing")
    test = document.table("test")
    stage = test.text("stage")
    if stage not in STAGES:
        raise test.error("stage", f"unknown stage {shown(stage)}, expected one of {', '.join(STAGES)}")
    name = test.text("name") if test.has("name") else file.stem
    return Vector(file, name, stage, VectorLevel.of(file), document)


def build_items(tables: list[TomlTable]) -> list[ContextItem]:
    """Build the items in file order; a table with `same_as` repeats an earlier object, not an equal one."""
    items: list[ContextItem] = []
    for table in tables:
        if table.has("same_as"):
            items.append(items[position_of(table, "same_as", items)])
        else:
            items.append(_build_item(table))
    return items


def _build_item(table: TomlTable) -> ContextItem:
    fields = _fields(ITEM, table)
    if isinstance(timestamp := fields.get("timestamp"), str):
        try:
            fields["timestamp"] = datetime.fromisoformat(timestamp)
        except ValueError:
            raise table.error("timestamp", f"must be a date-time, not {shown(timestamp)}") from None
    return ContextItem(**{"content": table.need("content"), "tokens": table.need("tokens"), **fields})


def _fields(record: PackedRecord[Any], table: TomlTable) -> dict[str, Any]:
    """Return the fields of a record that a table has, in either spelling; the class checks their values."""
    return {field.name: value for field, value in record.named(table.values, partial=True)}


def build_scored(tables: list[TomlTable]) -> list[ScoredItem]:
    """Build scored items; without a score a pinned item has the 1.0 that the Place stage gives it, another one 0.0."""
    items = build_items(tables)
    return [
        ScoredItem(item, table.number("score") if table.has("score") else float(item.pinned))
        for item, table in zip(items, tables, strict=True)
    ]


def build_budget(table: TomlTable) -> ContextBudget:
    """Build a budget whose ceiling is its target unless the vector sets one (ruling 11.2)."""
    target = table.need("target_tokens")
    most = table.option("max_tokens", default=target)
    return ContextBudget(**{"max_tokens": most, "target_tokens": target, **_fields(BUDGET, table)})


def position_of(table: TomlTable, key: str, items: list[ContextItem]) -> int:
    """Read a field that points at one of the items by position."""
    return check_position(table, key, table.need(key), items)


def check_position(table: TomlTable, key: str, position: Any, items: list[ContextItem]) -> int:
    """Check that a number is the position of an item."""
    if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < len(items):
        raise table.error(key, f"must be the position of one of {len(items)} items, not {shown(position)}")
    return position


def first_positions(items: list[ContextItem]) -> dict[int, int]:
    """Number the items by identity; an object listed twice has its first position."""
    return {id(item): position for position, item in reversed(list(enumerate(items)))}


def find_item(table: TomlTable, items: list[ContextItem]) -> ContextItem:
    """Return the item that an expectation refers to: the one at `index` if given, else the first with its content."""
    content = table.text("content")
    candidates = [items[position_of(table, "index", items)]] if table.has("index") else items
    for item in candidates:
        if item.content == content:
            return item
    raise table.error("content", f"must be the content of one of the items, not {shown(content)}")


DEFAULT_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first difference between a vector and the result."""

    what: str
    expected: Any
    actual: Any


Differences: TypeAlias = Iterator[Mismatch | None]
"""The comparisons of a vector with the results of its stage, each made when it is asked for; None where they agree."""


def same_score(actual: float, expected: float, epsilon: float) -> bool:
    """Compare scores: closer than epsilon, or the same non-finite value."""
    if not (math.isfinite(actual) and math.isfinite(expected)):
        return actual == expected or (math.isnan(actual) and math.isnan(expected))
    return abs(actual - expected) < epsilon


def epsilon_of(document: TomlTable) -> float:
    """Return the tolerance for scores that a vector asks for."""
    tolerance = document.table("tolerance")
    return tolerance.number("score_epsilon") if tolerance.has("score_epsilon") else DEFAULT_EPSILON


def compare_value(what: str, expected: Any, actual: Any) -> Mismatch | None:
    """Compare two values exactly."""
    return None if expected == actual else Mismatch(what, expected, actual)


def compare_multiset(what: str, expected: Sequence[Any], actual: Sequence[Any]) -> Mismatch | None:
    """Compare selections: order is free, repetition counts (ruling 11.4)."""
    return None if Counter(expected) == Counter(actual) else Mismatch(what, list(expected), list(actual))


def compare_rows(
    what: str, expected: Sequence[TomlTable], actual: Sequence[Mapping[str, Any]], epsilon: float = DEFAULT_EPSILON
) -> Mismatch | None:
    """Compare a list of tables with rows of the same length, in the fields that a table sets and any row has.

    A field called `score_approx` is compared with tolerance.
    """
    if len(expected) != len(actual):
        return Mismatch(what, _outline(table.values for table in expected), _outline(actual))
    known = {field for row in actual for field in row}
    for position, (table, row) in enumerate(zip(expected, actual, strict=True)):
        for field, wanted in table.values.items():
            if field not in known:
                continue
            got = row.get(field)
            same = same_score(row[field], table.number(field), epsilon) if field == "score_approx" else wanted == got
            if not same:
                return Mismatch(f"{what}[{position}].{field}", wanted, got)
    return None


def _outline(rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return an identifying value of each row."""
    return [next((row[key] for key in ("content", "kind", "stage") if key in row), "?") for row in rows]
