"""Messages as they are sent: the caller's own where they are plain data, copies of SDK objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from cupel.messages._plain import fields, is_model, is_sequence, plain

_ANTHROPIC = ("role", "content")
"""What a request may hold of the messages that Anthropic's API returns."""
_RESPONSE_ONLY = frozenset(("annotations", "created_by", "parsed"))
"""What OpenAI's responses hold at the top of a message or item, and its requests may not."""

_NULLS: dict[object, tuple[str, ...]] = {
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("result",),
}
"""What must be sent at the top of an item though it is null."""


def sendable(message: Any, path: str) -> Any:
    """Return `message` itself if it is plain data that can be sent, or else a copy that can.

    An SDK's object, whole or inside a message, becomes the dict that its provider takes; so does a dict that holds what
    only Anthropic's responses may, or an empty `tool_calls`, which OpenAI refuses.
    """
    if not _has_models(message) and not _has_empty_calls(message) and not _is_response(message):
        return message
    copy = _copied(message, path)
    if _is_response(copy):
        return {key: copy[key] for key in _ANTHROPIC}
    if "id" in (audio := fields(copy.get("audio"))):
        copy["audio"] = {"id": audio["id"]}
    if copy.get("tool_calls") == []:
        del copy["tool_calls"]
    needed = _NULLS.get(copy.get("type"), ())
    return {
        key: value for key, value in copy.items() if key not in _RESPONSE_ONLY and (value is not None or key in needed)
    }


def _is_response(message: object) -> bool:
    entries = fields(message)
    return entries.get("type") == "message" and "model" in entries


def _has_empty_calls(message: object) -> bool:
    calls = cast("Mapping[str, object]", message).get("tool_calls") if isinstance(message, Mapping) else None
    return is_sequence(calls) and not calls


def _has_models(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_models, cast("Mapping[object, object]", value).values()))
    return any(map(_has_models, value)) if is_sequence(value) else is_model(value)


def _copied(value: object, path: str) -> Any:
    """Return a message as plain data: what its objects hold, and the nulls that the provider gave them."""
    if isinstance(value, Mapping):
        return {key: _copied(inner, path) for key, inner in cast("Mapping[str, object]", value).items()}
    if is_sequence(value):
        return [_copied(inner, path) for inner in value]
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
