"""Checks that slicers with an entry per kind share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from cupel._checks import as_integer, as_tuple
from cupel.errors import InvalidItemError, SlicerConfigError
from cupel.model import ContextKind

if TYPE_CHECKING:
    from collections.abc import Iterable


class _HasKind(Protocol):
    @property
    def kind(self) -> ContextKind: ...


E = TypeVar("E", bound=_HasKind)


def as_kind(kind: ContextKind | str) -> ContextKind:
    """Coerce an entry's kind; a blank one is a fault of the slicer's configuration."""
    try:
        return ContextKind.of(kind)
    except InvalidItemError as blank:
        raise SlicerConfigError(str(blank)) from None


def as_amount(name: str, value: object, kind: ContextKind) -> int:
    """Coerce an entry's number of items or tokens."""
    return as_integer(f"{name} for kind '{kind}'", as_integer(name, value), least=0, error=SlicerConfigError)


def checked_entries(field: str, entries: Iterable[E], entry_type: type[E]) -> tuple[E, ...]:
    """Freeze a list of entries: the right type, and no kind twice (rulings 5.22, 5.33)."""
    frozen = as_tuple(field, entries, entry_type, expected=f"a list of {entry_type.__name__}")
    seen: dict[ContextKind, str] = {}
    for position, entry in enumerate(frozen):
        if entry.kind in seen:
            msg = f"{field}[{position}]: kind '{entry.kind}' has an entry already ('{seen[entry.kind]}'); keep one"
            raise SlicerConfigError(msg)
        seen[entry.kind] = entry.kind.value
    return frozen
