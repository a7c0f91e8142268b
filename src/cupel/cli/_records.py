"""One record of an input file, and the item it describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard, cast

from cupel._wire import ITEM
from cupel.model import ContextItem

_METADATA: Final = "metadata."


@dataclass(frozen=True, slots=True)
class Record:
    """Where a record stands, and its fields: as JSON gave them, or as a row of text that still has to be read."""

    where: str
    fields: object
    textual: bool = False


class BadRecordError(Exception):
    """A record that cannot become an item; the message names the field."""


def item_of(record: Record, count: Callable[[str], int]) -> ContextItem:
    """Build the item of a record; a record without a token count gets the counter's."""
    form = _row(cast("Mapping[str, str]", record.fields)) if record.textual else record.fields
    if _is_object(form) and form.get("tokens") is None and isinstance(content := form.get("content"), str):
        return ITEM.read({**form, "tokens": count(content) if content else 0}, error=BadRecordError)
    return ITEM.read(form, error=BadRecordError)


def is_message(record: Record) -> bool:
    """Tell whether a record is a message of a chat history: no item has a role or a type."""
    form = record.fields
    return _is_object(form) and not record.textual and "tokens" not in form and bool({"role", "type"} & form.keys())


def _is_object(form: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(form, Mapping)


def _row(cells: Mapping[str, str]) -> dict[str, Any]:
    """Read a row of text; a column `metadata.NAME` holds one entry of the metadata."""
    own = {key: text for key, text in cells.items() if not key.startswith(_METADATA)}
    fields = ITEM.read_cells(own, error=BadRecordError)
    entries = {key.removeprefix(_METADATA): text for key, text in cells.items() if key not in own and text}
    if entries:
        fields["metadata"] = {**fields.get("metadata", {}), **entries}
    return fields
