"""The methods of values that travel as JSON."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from cupel._internal.documents import PackedRecord


class Portable:
    """A value with a JSON document."""

    __slots__ = ()

    _document: ClassVar[str]
    """The record of the class as `module:name`; it belongs to a higher layer and is imported when a value travels."""

    @classmethod
    def _record(cls) -> PackedRecord[Any]:
        module, name = cls._document.split(":")
        record: PackedRecord[Any] = getattr(import_module(module), name)
        return record

    def to_dict(self) -> dict[str, Any]:
        """Return the document as plain values; fields that have their default are left out."""
        return self._record().write(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Read the document, with keys in camelCase or in Python's spelling; the error names the path."""
        value: Self = cls._record().read(fields, rooted=True)
        return value

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the document as JSON text."""
        from cupel._internal.documents import encode_json  # only when a value travels

        return encode_json(self._record().encode(self), indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read the document from JSON text: every key once, no NaN or Infinity; the error names the path."""
        value: Self = cls._record().read_json(text)
        return value
