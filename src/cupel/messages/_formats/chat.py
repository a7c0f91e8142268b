"""Conventions that OpenAI's and Anthropic's messages share: content is a text or a list of typed blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from cupel._internal.checks import warn
from cupel.errors import ConfigurationWarning, InvalidItemError
from cupel.messages._formats.marks import unmarked
from cupel.messages._plain import JSON, check_keys, check_text, fields, has_models, is_sequence, model_fields, role_of

if TYPE_CHECKING:
    from cupel.messages._units import Role

LONGEST_WORDS: Final = 160
"""Characters of each text of a message that a line of a note may quote."""
CLAUDES_PARTS: Final = frozenset(
    ("document", "image", "mcp_tool_use", "redacted_thinking", "search_result", "server_tool_use", "thinking")
)
CHATS_FIELDS: Final = ("audio", "function_call", "tool_calls")
CHATS_PARTS: Final = frozenset(("file", "image_url"))
RESPONSES_PARTS: Final = frozenset(("input_file", "input_image", "input_text", "output_text"))
"""Types of parts by which a format is told from others."""
_TEXTS = frozenset(("text", *RESPONSES_PARTS - {"input_file", "input_image"}))
_ANTHROPIC = ("role", "content")
"""Fields of a message in Anthropic's responses that a request may contain too."""
_RESPONSE_ONLY = frozenset(("annotations", "created_by", "parsed"))
"""Top-level fields of messages and items in OpenAI's responses that its requests may not contain."""
_NULLS: dict[object, tuple[str, ...]] = {
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("result",),
}
"""Top-level fields of an item that must be sent even if they are null."""


def same(message: JSON) -> JSON:
    """Return a message as it is."""
    return message


def unchecked(message: JSON, path: str) -> None:
    """Accept a message."""


def unsplit(message: Any) -> tuple[Any]:
    """Return a tuple of one message, for formats that split none."""
    return (message,)


def text_block(text: str) -> JSON:
    """Return a block of content that holds a text."""
    return {"type": "text", "text": text}


def user_message(text: str) -> JSON:
    """Return a message of the user that holds a text."""
    return {"role": "user", "content": text}


def said(message: JSON) -> tuple[str, str]:
    """Return the role and the words of a message."""
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [fields(block).get("text") for block in block_list(content)]
    return str(message.get("role", "assistant")), " ".join(str(text or "")[:LONGEST_WORDS] for text in texts)


def spoken_role(message: JSON, path: str, roles: Mapping[str, Role]) -> Role:
    """Return the role of a message in a format whose system prompt is a separate parameter."""
    if message.get("role") == "system" and (path == "messages[0]" or "system" not in roles):
        msg = f"{path}.role must not be system: pass the prompt as system=, the messages begin with the user"
        raise InvalidItemError(msg)
    return role_of(message, path, roles)


def refuse_chat(message: JSON, path: str) -> None:
    """Raise if a message of another format has a field in which only Chat Completions keep calls or speech."""
    if field := next((name for name in CHATS_FIELDS if message.get(name)), None):
        msg = f"{path}.{field} belongs to OpenAI's Chat Completions: pass provider='openai', or convert the message"
        raise InvalidItemError(msg)


def check_content(message: JSON, path: str) -> None:
    """Raise if the content of a message, but for the model's, is null."""
    if message.get("role") in ("developer", "system", "user") and "content" in message:
        check_keys({key: value for key, value in message.items() if value is not None}, path)


def check_parts(message: JSON, path: str, foreign: frozenset[str]) -> None:
    """Raise if a message or a text in it holds none; warn of parts that belong to another format."""
    check_content(message, path)
    for at, part in enumerate(map(fields, block_list(message.get("content")))):
        kind = part.get("type")
        if kind in _TEXTS:
            check_text(part, "text", f"{path}.content[{at}]")
        # Mistral has parts of this type too, which hold a list.
        if kind in foreign and not is_sequence(part.get("thinking")):
            msg = (
                f"{path}.content[{at}] is of type {kind!r}, which belongs to another format and which the provider may "
                "refuse: name the format of the history with provider=, or convert the part"
            )
            warn(ConfigurationWarning(msg))


def block_list(content: object) -> Sequence[Any]:
    """Return the blocks of a message's content; none if the content is a text."""
    return content if is_sequence(content) else ()


def canonical(message: JSON) -> JSON:
    """Return the fields of a message that a provider is sent, alike for all equivalent ways of writing them."""
    dropped = _RESPONSE_ONLY | {"status"}
    kept = {key: value for key, value in unmarked(message).items() if value is not None and key not in dropped}
    if kept.get("type") == "message" and "role" in kept:
        kept = {key: kept[key] for key in ("role", "content") if key in kept}
    if kept.get("tool_calls") == []:
        del kept["tool_calls"]
    content = kept.get("content")
    if is_sequence(content):
        parts = [{key: value for key, value in fields(part).items() if value is not None} or part for part in content]
        texts = [part for part in parts if fields(part).keys() == {"type", "text"}]
        kept["content"] = fields(texts[0])["text"] if len(texts) == len(parts) == 1 else parts
    return kept


def sendable(message: Any, view: JSON | None, path: str) -> Any:
    """Return a message, or the `view` that replaces it, if it is plain data that can be sent, or else a copy that can.

    An SDK's object, whole or inside a message, becomes the dict that its provider takes. Fields that only responses
    have are removed, and an empty `tool_calls`, which OpenAI refuses.
    """
    if view is not None:
        message = view
    if not has_models(message) and not _has_empty_calls(message) and not _is_response(message):
        return message
    copy = model_fields(message, path)
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


def join(message: Any, other: Any, *, alternate: bool) -> Any:
    """Merge two messages of the user if user and assistant must take turns; else return None."""
    before, after = fields(message), fields(other)
    if not alternate or not before.get("role") == after.get("role") == "user":
        return None
    return {**before, "content": _joined_content(before.get("content"), after.get("content"))}


def is_step(message: Any) -> bool:
    """Return whether a message calls tools or answers a call; such messages do not count where roles must alternate."""
    body = fields(message)
    if body.get("role") == "assistant":
        return bool(body.get("tool_calls") or body.get("function_call"))
    return body.get("role") != "user"


def _joined_content(one: Any, other: Any) -> Any:
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}\n\n{other}"
    parts = [*one, *other] if is_sequence(one) and is_sequence(other) else []
    if not parts:
        kind = next((fields(part).get("type") for part in (one if is_sequence(one) else other)), "text")
        text = "input_text" if str(kind).startswith("input_") else "text"
        parts = [*_as_parts(one, text), *_as_parts(other, text)]
    return parts


def _as_parts(content: Any, kind: str) -> Sequence[Any]:
    return content if is_sequence(content) else [{"type": kind, "text": content}]
