"""Items, many at a time: built from columns, one list for each field, at a third of the cost of one after the other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from itertools import repeat
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from cupel._wire import ITEM, Field, Value
from cupel.batch._requests import read_item
from cupel.errors import CupelError
from cupel.model import ContextItem, ContextKind, ContextSource

DEFAULTS: Final[dict[str, Any]] = {field.name: field.default for field in ITEM.fields}
"""The fields in their order, each with what an item has that says nothing of it."""


def build(columns: list[Any]) -> list[ContextItem]:
    """Build items from a column for each field, in the order of `DEFAULTS`; raises for the first bad one."""
    return [
        ContextItem(
            content,
            tokens,
            kind=kind,
            source=source,
            priority=priority,
            tags=tags,
            metadata=metadata,
            timestamp=timestamp,
            future_relevance_hint=hint,
            pinned=pinned,
            original_tokens=original,
        )
        for content, tokens, kind, source, priority, tags, metadata, timestamp, hint, pinned, original in zip(
            *columns, strict=False
        )
    ]


def read_items(text: msgspec.Raw) -> list[ContextItem]:
    """Build a request's items from JSON; the error names the item.

    What does not come through by columns, for a bad item or for two spellings in one list, is read one by one.
    """
    for decoder in _DECODERS:
        try:
            return build(_columns(decoder.decode(text)))
        except (CupelError, TypeError, ValueError, RecursionError):
            continue
    forms = decoded(text)
    if not isinstance(forms, list):
        msg = (
            f"items must be a list, got {type(forms).__name__}: {forms!r:.80}"
            if forms is not None
            else "items is missing"
        )
        raise TypeError(msg)
    return list(map(read_item, forms, range(len(forms))))  # pyright: ignore[reportUnknownArgumentType]


def decoded(text: bytes | msgspec.Raw) -> Any:
    """Decode JSON; nothing but JSON is a bad value, not a bad program."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"not JSON: {error}"
        raise ValueError(msg) from None


def _decoder(spelling: str) -> msgspec.json.Decoder[list[Any]]:
    fields: Any = [(field.name, Any, None) for field in ITEM.fields]
    keys = {field.name: getattr(field, spelling) for field in ITEM.fields}
    form: Any = msgspec.defstruct("ItemForm", fields, rename=keys, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(list[form])


_DECODERS: Final = (_decoder("name"), _decoder("key"))


def _columns(forms: list[Any]) -> list[Any]:
    columns: list[Any] = []
    for (default, read), column in zip(_READERS, zip(*map(astuple, forms), strict=True), strict=False):
        missing = column.count(None)
        if missing == len(column):
            columns.append(repeat(default))
        elif read is not None:
            columns.append(read(column))
        elif missing and default is not None:
            columns.append([default if value is None else value for value in column])
        else:
            columns.append(column)
    return columns


def _reader(field: Field) -> Callable[[tuple[Any, ...]], list[Any]] | None:
    """Return what reads a column; where an item checks values by itself it is left to that, as `Form.read` does."""
    default, value = field.default, field.value
    if isinstance(default, (ContextKind, ContextSource)):
        return partial(_names, type(default), default)
    if not isinstance(value, Value) or not value.convert:
        return None
    each = partial(_read_each, value.read, default)
    return partial(_instants, each) if field.name == "timestamp" else each


def _read_each(read: Callable[[Any], Any], default: object, column: tuple[Any, ...]) -> list[Any]:
    return [default if value is None else read(value) for value in column]


def _names(name_type: type[ContextKind | ContextSource], default: object, column: tuple[Any, ...]) -> list[Any]:
    names: dict[Any, Any] = {value: default if value is None else name_type.of(value) for value in set(column)}
    return [names[value] for value in column]


def _instants(each: Callable[[tuple[Any, ...]], list[Any]], column: tuple[Any, ...]) -> list[Any]:
    """Read instants at once if all have the usual form: what msgspec takes, but for offsets without a colon."""
    try:
        msgspec.convert(column, tuple[datetime, ...])
        if {text[-1] == "Z" or text[-3] == ":" for text in column} == {True}:
            return list(map(datetime.fromisoformat, column))
    except (msgspec.ValidationError, ValueError):
        pass
    return each(column)


_READERS: Final = [(field.default, _reader(field)) for field in ITEM.fields]
