"""Items, many at a time: built from columns, one list for each field, at a third of the cost of one after the other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from operator import attrgetter
from typing import Any, Final

import msgspec

from cupel.batch._requests import ITEM_FIELDS, as_datetime, read_item
from cupel.errors import CupelError
from cupel.model import EMPTY, ContextItem, ContextKind, ContextSource

DEFAULTS: Final[dict[str, Any]] = {
    "content": None,
    "tokens": None,
    "kind": ContextKind.MESSAGE,
    "source": ContextSource.CHAT,
    "priority": None,
    "tags": (),
    "metadata": EMPTY,
    "timestamp": None,
    "future_relevance_hint": None,
    "pinned": False,
    "original_tokens": None,
}
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
    return [read_item(form, position) for position, form in enumerate(forms)]


def decoded(text: bytes | msgspec.Raw) -> Any:
    """Decode JSON; nothing but JSON is a bad value, not a bad program."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"not JSON: {error}"
        raise ValueError(msg) from None


def _decoder(rename: Any) -> msgspec.json.Decoder[list[Any]]:
    fields: Any = [(name, Any, None) for name in ITEM_FIELDS]
    form: Any = msgspec.defstruct("ItemForm", fields, rename=rename, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(list[form])


_DECODERS: Final = (_decoder(None), _decoder("camel"))


def _columns(forms: list[Any]) -> list[Any]:
    columns: list[Any] = []
    for name, default in DEFAULTS.items():
        column: list[Any] = list(map(attrgetter(name), forms))
        if column.count(None) == len(column):
            columns.append(repeat(default))
        else:
            columns.append(_READERS[name](column) if name in _READERS else column)
    return columns


def _or(default: object) -> Callable[[list[Any]], list[Any]]:
    return lambda column: [default if value is None else value for value in column]


def _names(name_type: type[ContextKind | ContextSource], default: object) -> Callable[[list[Any]], list[Any]]:
    def read(column: list[Any]) -> list[Any]:
        names: dict[Any, Any] = {value: name_type.of(value) for value in set(column) if value is not None}
        names[None] = default
        return [names[value] for value in column]

    return read


def _timestamps(column: list[Any]) -> list[Any]:
    return [as_datetime(value) if isinstance(value, str) else value for value in column]


_READERS: Final[dict[str, Callable[[list[Any]], list[Any]]]] = {
    "kind": _names(ContextKind, ContextKind.MESSAGE),
    "source": _names(ContextSource, ContextSource.CHAT),
    "tags": _or(()),
    "metadata": _or(EMPTY),
    "timestamp": _timestamps,
    "pinned": _or(default=False),
}
