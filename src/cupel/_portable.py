"""The four methods of values that travel as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from cupel._documents import WireForm


class Portable:
    """A value with a JSON form; the class says which."""

    __slots__ = ()

    @classmethod
    def _form(cls) -> WireForm[Any]:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form as plain values; fields that have their default are left out."""
        return self._form().write(self)

    @classmethod
    def from_dict(cls, form: Mapping[str, Any]) -> Self:
        """Read the JSON form, with keys in camelCase or in Python's spelling; the error names the path."""
        value: Self = cls._form().read(form, (), aside=None if cls._form().checked else {})
        return value

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the JSON form as text."""
        from cupel._documents import encode_json  # only when a value travels

        return encode_json(self._form().pack(self), indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read the JSON form from text: every key once, numbers that are numbers; the error names the path."""
        value: Self = cls._form().read_json(text, aside=None if cls._form().checked else {})
        return value
