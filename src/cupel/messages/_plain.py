"""Provider messages as plain data: read without being touched, and copied into a form that can be sent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

import msgspec

from cupel._internal.checks import did_you_mean, shown, wrong_type
from cupel.errors import InvalidItemError

if TYPE_CHECKING:
    from cupel.messages._units import Role


JSON = Mapping[str, Any]
"""A message, item or content block as plain data."""
_MEANT = frozenset(("body", "contents", "message", "text"))
"""Keys that were meant to be `content`."""
_EMPTY = frozenset(("id", "name", "role", "status", "type"))
"""Keys of a message that holds nothing."""
_FRAMEWORKS: Final = {
    "agents.items": "openai_agents",
    "google.adk": "google_adk",
    "haystack": "haystack",
    "langchain_core": "langchain",
    "llama_index": "llamaindex",
    "pydantic_ai": "pydantic_ai",
}
"""Packages whose messages are no provider's, and the module that reads them."""
_CONVERSE = frozenset(("reasoningContent", "text", "toolResult", "toolUse"))
_LONGEST_KEY = 12
MAX_DEPTH: Final = 250
"""How deeply a message may be nested; providers accept far less."""


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
    if value is None or isinstance(value, (str, int, float, bool, bytes)):
        return value
    if is_model(value):
        return plain(_dumped(value, path), path, depth + 1)
    raise wrong_type(path, "plain data or an SDK object", value)


def plain_message(message: object, path: str) -> JSON:
    """Return a message as plain data."""
    home = f"{type(message).__module__}."
    for package, module in _FRAMEWORKS.items():
        if home.startswith(f"{package}."):
            msg = f"{path} is a {type(message).__name__} of {package}: pass it through cupel.integrations.{module}"
            raise TypeError(msg)
    read = plain(message, path)
    if not isinstance(read, dict):
        raise wrong_type(path, "a message", message)
    return cast("JSON", read)


def refuse_bytes(value: object, path: str) -> None:
    """Raise if a message holds bytes, which JSON cannot."""
    if isinstance(value, bytes):
        raise wrong_type(path, "plain data or an SDK object", value)
    for key, inner in fields(value).items():
        refuse_bytes(inner, f"{path}.{key}")
    for index, inner in enumerate(value if is_sequence(value) else ()):
        refuse_bytes(inner, f"{path}[{index}]")


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise wrong_type(f"every key of {path}", "a string", key)
    return key


def is_model(value: object) -> bool:
    """Return whether `value` is an SDK's object, which has a method to dump itself."""
    return not isinstance(value, type) and callable(getattr(value, "model_dump", None))


def _dumped(value: Any, path: str) -> Any:
    # Fields that the SDK adds to those of the provider are None, or named as not for sending.
    excluded = getattr(value, "__api_exclude__", None)
    try:
        return value.model_dump(mode="json", exclude_none=True, by_alias=True, exclude=excluded)
    except (RecursionError, TypeError, ValueError) as error:
        msg = f"{path} cannot be read: {type(value).__name__}.model_dump() raised {shown(error)}"
        raise InvalidItemError(msg) from error


def role_of(message: JSON, path: str, roles: Mapping[str, Role]) -> Role:
    """Return the role of a message, from the field that the format uses."""
    name = message.get("role")
    if name is not None and not isinstance(name, str):
        raise wrong_type(f"{path}.role", "a string", name)
    if name is None or name not in roles:
        hint = "; that is Chat Completions: pass provider='openai', or convert the message" if name == "tool" else ""
        msg = f"{path}.role must be one of {', '.join(roles)}, got {shown(name)}{hint}"
        raise InvalidItemError(msg)
    return roles[name]


def check_keys(message: JSON, path: str, name: str = "content") -> None:
    """Raise if a message has no content, under the name that its format uses, but a key that was meant to be it."""
    if name in message:
        return
    if "parts" in message:
        msg = f"{path}.parts belongs to Gemini's format: name it with provider='gemini', or convert the message"
        raise InvalidItemError(msg)
    if "content" in message:
        msg = f"{path}.content belongs to another format than Gemini's: convert the message to a content with parts"
        raise InvalidItemError(msg)
    close = next((key for key in message if key in _MEANT or _is_close(key, name)), None)
    if close is not None:
        msg = f"{path} has no {name} but {close!r}; did you mean {name!r}?"
        raise InvalidItemError(msg)
    if message.get("role") in ("developer", "system", "user") or message.keys() <= _EMPTY:
        msg = f"{path} has no {name}: a message without any is refused by every provider; remove it"
        raise InvalidItemError(msg)


def _is_close(key: str, name: str) -> bool:
    return len(key) <= _LONGEST_KEY and did_you_mean(key, (name,)) != ""


def check_text(entry: JSON, name: str, path: str, expected: str = "a string") -> None:
    """Raise if a field of a message or block is no text."""
    if not isinstance(entry.get(name), str):
        raise wrong_type(f"{path}.{name}", expected, entry.get(name))


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
            hint = "; blocks without one are Bedrock's: pass provider='bedrock'" if entry.keys() & _CONVERSE else ""
            msg = f"{path}[{index}].type must name a kind of content, got {shown(entry.get('type'))}{hint}"
            raise InvalidItemError(msg)
    return objects(value, path)


def compact_json(value: object) -> str:
    """Return `value` as JSON without spaces, for counting."""
    try:
        return msgspec.json.encode(value).decode()
    except (OverflowError, UnicodeEncodeError):  # integers beyond 64 bits, half a surrogate pair
        return json.dumps(value, separators=(",", ":"), default=repr)


def has_models(value: object) -> bool:
    """Return whether a message is an SDK's object or holds one."""
    if isinstance(value, Mapping):
        return any(map(has_models, cast("Mapping[object, object]", value).values()))
    return any(map(has_models, value)) if is_sequence(value) else is_model(value)


def model_fields(value: object, path: str) -> Any:
    """Return a message as plain data: the fields of its objects, and the nulls that the provider sent."""
    if isinstance(value, Mapping):
        return {key: model_fields(inner, path) for key, inner in cast("Mapping[str, object]", value).items()}
    if is_sequence(value):
        return [model_fields(inner, path) for inner in value]
    if not is_model(value):
        return value
    excluded = getattr(value, "__api_exclude__", None)
    given = cast("Any", value).model_dump(mode="json", exclude_unset=True, by_alias=True, exclude=excluded)
    return _with_nulls(plain(value, path), given)


def _with_nulls(held: object, given: object) -> Any:
    if known := fields(held):
        return {**known, **{key: _with_nulls(known.get(key), inner) for key, inner in fields(given).items()}}
    if is_sequence(held) and is_sequence(given):
        return [_with_nulls(one, other) for one, other in zip(held, given, strict=True)]
    return held
