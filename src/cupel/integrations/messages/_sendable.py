"""Messages as they are sent: the caller's own where they are plain data, copies of SDK objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from cupel.integrations.messages._plain import fields, is_model, is_sequence, plain

_ANTHROPIC = ("role", "content")
"""What a request may hold of the messages that Anthropic's API returns."""
_RESPONSE_ONLY = frozenset(("annotations", "created_by", "parsed"))
"""What OpenAI's responses hold at the top of a message or item, and its requests may not."""


def sendable(message: Any, path: str) -> Any:
    """Return `message` itself if it is plain data that can be sent, or else a copy that can.

    An SDK's object, whole or inside a message, becomes the dict that its provider takes; so does a dict with an empty
    `tool_calls`, which OpenAI refuses.
    """
    if not _has_models(message) and not _has_empty_calls(message):
        return message
    copy = {**plain(message, path), **_required_nulls(message)}
    if copy.get("type") == "message" and "model" in copy:
        return {key: copy[key] for key in _ANTHROPIC}
    if "id" in (audio := fields(copy.get("audio"))):
        copy["audio"] = {"id": audio["id"]}
    if copy.get("tool_calls") == []:
        del copy["tool_calls"]
    return {key: value for key, value in copy.items() if key not in _RESPONSE_ONLY}


def _has_empty_calls(message: object) -> bool:
    calls = cast("Mapping[str, object]", message).get("tool_calls") if isinstance(message, Mapping) else None
    return is_sequence(calls) and not calls


def _has_models(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_models, cast("Mapping[object, object]", value).values()))
    return any(map(_has_models, value)) if is_sequence(value) else is_model(value)


def _required_nulls(message: object) -> dict[str, None]:
    """The fields that must be sent though they are null, such as the outputs of code that made none."""
    declared: Mapping[str, Any] = getattr(type(message), "model_fields", {})
    return {
        field.alias or name: None
        for name, field in declared.items()
        if field.is_required() and getattr(message, name, None) is None
    }
