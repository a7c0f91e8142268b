"""Reading provider messages without touching them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard, cast

import msgspec

from cupel.errors import InvalidItemError

JSON = Mapping[str, Any]
"""A message, item or content block as plain data."""


def plain(value: object, path: str) -> Any:
    """`value` as dicts, lists and scalars: SDK objects are dumped, everything else is passed through.

    Only the copy is ever read; the caller's object is what comes back from a fit.
    """
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value)
        return {key: plain(inner, f"{path}.{key}") for key, inner in entries.items()}
    if is_sequence(value):
        return [plain(inner, f"{path}[{index}]") for index, inner in enumerate(value)]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        # Fields the SDK adds to what the provider sent are None; leaving them out gives the wire form.
        return plain(dump(exclude_none=True, by_alias=True), path)
    msg = f"{path} must be plain data or an SDK object, got {type(value).__name__}: {value!r}"
    raise TypeError(msg)


def is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    """True for lists and tuples, the only forms that can be read without being used up."""
    return isinstance(value, (list, tuple))


def objects(value: object, path: str) -> list[dict[str, Any]]:
    """The entries of a list that must hold objects; None counts as an empty list."""
    if value is None:
        return []
    if not is_sequence(value):
        msg = f"{path} must be a list of objects, got {type(value).__name__}: {value!r}"
        raise TypeError(msg)
    for index, entry in enumerate(value):
        if not isinstance(entry, dict):
            msg = f"{path}[{index}] must be an object, got {type(entry).__name__}: {entry!r}"
            raise TypeError(msg)
    return cast("list[dict[str, Any]]", value)


def blocks(value: object, path: str) -> list[dict[str, Any]]:
    """The entries of a list of content blocks; each must have a type."""
    for index, entry in enumerate(objects(value, path)):
        if not isinstance(entry.get("type"), str):
            msg = f"{path}[{index}].type must name a kind of content, got {entry.get('type')!r}"
            raise InvalidItemError(msg)
    return objects(value, path)


def compact_json(value: object) -> str:
    """`value` as JSON without spaces, for counting."""
    return msgspec.json.encode(value, enc_hook=str).decode()
