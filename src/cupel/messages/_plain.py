"""Reading provider messages without touching them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

import msgspec

from cupel._checks import shown, wrong_type
from cupel.errors import InvalidItemError

if TYPE_CHECKING:
    from cupel.messages._reading import Role

JSON = Mapping[str, Any]
"""A message, item or content block as plain data."""
MAX_DEPTH: Final = 100
"""How deeply a message may be nested; what providers accept is far less."""


def plain(value: object, path: str, depth: int = 0) -> Any:
    """Return `value` as dicts, lists and scalars: SDK objects are dumped, everything else is passed through.

    Only the copy is ever read.
    """
    if depth > MAX_DEPTH:
        msg = f"{path[:80]}… is nested more than {MAX_DEPTH} levels deep, or contains itself"
        raise InvalidItemError(msg)
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        return {_key(key, path): plain(inner, f"{path}.{key}", depth + 1) for key, inner in entries.items()}
    if is_sequence(value):
        return [plain(inner, f"{path}[{index}]", depth + 1) for index, inner in enumerate(value)]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if is_model(value):
        return plain(_dumped(value, path), path, depth + 1)
    raise wrong_type(path, "plain data or an SDK object", value)


def plain_message(message: object, path: str) -> JSON:
    """Return a message as plain data."""
    read = plain(message, path)
    if not isinstance(read, dict):
        raise wrong_type(path, "a message", message)
    return cast("JSON", read)


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise wrong_type(f"every key of {path}", "a string", key)
    return key


def is_model(value: object) -> bool:
    """Return whether `value` is an SDK's object, which knows how to dump itself."""
    return not isinstance(value, type) and callable(getattr(value, "model_dump", None))


def _dumped(value: Any, path: str) -> Any:
    # Fields that the SDK adds to what the provider sent are None, or named as not for sending.
    excluded = getattr(value, "__api_exclude__", None)
    try:
        return value.model_dump(mode="json", exclude_none=True, by_alias=True, exclude=excluded)
    except (RecursionError, TypeError, ValueError) as error:
        msg = f"{path} cannot be read: {type(value).__name__}.model_dump() raised {shown(error)}"
        raise InvalidItemError(msg) from error


def role_of(message: JSON, path: str, roles: Mapping[str, Role]) -> Role:
    """Return who speaks, by what the format calls it."""
    name = message.get("role")
    if name is not None and not isinstance(name, str):
        raise wrong_type(f"{path}.role", "a string", name)
    if name is None or name not in roles:
        msg = f"{path}.role must be one of {', '.join(roles)}, got {shown(name)}"
        raise InvalidItemError(msg)
    return roles[name]


def is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    """Return True for lists and tuples, the only forms that can be read without being used up."""
    return isinstance(value, (list, tuple))


def fields(value: object) -> dict[str, Any]:
    """Return the fields of an object, and none of anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def objects(value: object, path: str) -> list[dict[str, Any]]:
    """Return the entries of a list that must hold objects; None counts as an empty list."""
    if value is None:
        return []
    if not is_sequence(value):
        raise wrong_type(path, "a list of objects", value)
    for index, entry in enumerate(value):
        if not isinstance(entry, dict):
            raise wrong_type(f"{path}[{index}]", "an object", entry)
    return cast("list[dict[str, Any]]", value)


def blocks(value: object, path: str) -> list[dict[str, Any]]:
    """Return the entries of a list of content blocks; each must have a type."""
    for index, entry in enumerate(objects(value, path)):
        if not isinstance(entry.get("type"), str):
            msg = f"{path}[{index}].type must name a kind of content, got {shown(entry.get('type'))}"
            raise InvalidItemError(msg)
    return objects(value, path)


def compact_json(value: object) -> str:
    """Return `value` as JSON without spaces, for counting."""
    try:
        return msgspec.json.encode(value).decode()
    except (OverflowError, UnicodeEncodeError):  # integers beyond 64 bits, half a surrogate pair
        return json.dumps(value, separators=(",", ":"))
