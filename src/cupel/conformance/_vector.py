"""Find vector files and parse them into tables that know their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Any

from cupel._checks import shown
from cupel._documents import decode_toml, is_list, is_object
from cupel.errors import CupelError

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
    """A TOML table together with its file and its path in it, so that every complaint can name the field."""

    values: Mapping[str, Any]
    file: str
    path: str = ""
    shared: TomlTable | None = None
    """Where an option is looked up when the table itself does not have it."""

    def error(self, key: str, problem: str) -> VectorError:
        """Return the complaint about one field of this table."""
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
        """Return an array of tables; with `short`, a bare string stands for the table that has just this field."""
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
