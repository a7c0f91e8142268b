"""The fields of an object in a document: a value each, or an object with fields of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

from cupel._checks import wrong_type
from cupel._documents._paths import Path, shown_path
from cupel._documents._values import Value

Aside: TypeAlias = dict[Path, dict[str, Any]]
"""Fields that this version does not know, by the path of the object that had them."""


class Readable(Protocol):
    """What stands inside a document as an object of its own."""

    @property
    def title(self) -> str:
        """The name in a schema."""
        ...

    @property
    def packed(self) -> Any:
        """The type that msgspec reads and writes in its place."""
        ...

    def pack(self, value: Any, /) -> Any:
        """Return what msgspec writes as the value's JSON form."""
        ...

    def unpack(self, packed: Any, /) -> Any:
        """Build a value from what msgspec has read; an error says only that it cannot be built like this."""
        ...

    def read(self, form: object, at: Path | None, *, error: type[Exception], aside: Aside | None) -> Any:
        """Build a value; the error names its path."""
        ...

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of what `read` takes."""
        ...


@dataclass(frozen=True, slots=True)
class Nested:
    """The value of a field that is an object with a form of its own, or a list of `many`."""

    form: Readable
    many: bool = False

    def read(self, value: object, at: Path, error: type[Exception], aside: Aside | None) -> Any:
        """Build what is at a path."""
        if not self.many:
            return self.form.read(value, at, error=error, aside=aside)
        if not isinstance(value, list):
            raise error(f"{shown_path(at)}: {wrong_type(str(at[-1]), 'a list', value)}")
        entries = cast("list[object]", value)
        return tuple(
            self.form.read(entry, (*at, index), error=error, aside=aside) for index, entry in enumerate(entries)
        )

    @property
    def packed(self) -> Any:
        """The type that msgspec reads and writes."""
        return list[self.form.packed] if self.many else self.form.packed  # type: ignore[name-defined]

    def write(self, value: Any) -> Any:
        """Return what msgspec writes."""
        return [self.form.pack(entry) for entry in value] if self.many else self.form.pack(value)

    def unpack(self, packed: Any) -> Any:
        """Build what msgspec has read."""
        return tuple(map(self.form.unpack, packed)) if self.many else self.form.unpack(packed)

    @property
    def schema(self) -> dict[str, Any]:
        """What `read` takes."""
        one = {"$ref": f"#/$defs/{self.form.title}"}
        return {"type": "array", "items": one} if self.many else one


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its Python name, its key in JSON, its values, and the default that need not be written."""

    name: str
    value: Value | Nested
    default: Any = None
    required: bool = False
    always: bool = False
    """Whether it is written even if it has the default's value."""
    key: str = ""
    """The key in JSON, camelCase unless given; readers take the Python name as well."""

    def __post_init__(self) -> None:
        if not self.key:
            first, *rest = self.name.split("_")
            object.__setattr__(self, "key", first + "".join(word.capitalize() for word in rest))
