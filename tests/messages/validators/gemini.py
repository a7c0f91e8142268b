"""The rules of Gemini's `generateContent`, from its public documentation and error messages.

A rule that is not documented clearly is applied in its strict form.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

Message = dict[str, Any]

_MODEL_DATA = frozenset(("functionCall", "executableCode", "codeExecutionResult", "toolCall", "toolResponse"))
_USER_DATA = frozenset(("functionResponse",))
_DATA = _MODEL_DATA | _USER_DATA | {"text", "inlineData", "fileData"}
"""A part holds one of these."""
_BESIDE = frozenset(("thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"))
_FOLLOWED = {"executableCode": "codeExecutionResult", "toolCall": "toolResponse"}
"""Work of the provider's side, and what must follow it in its content."""


def violations(contents: list[Message], original: list[Message]) -> Iterator[str]:
    """Yield everything that the provider would object to; `original` is the history of the request."""
    for index, content in enumerate(contents):
        yield from (f"{index}: {problem}" for problem in _shape(content))
    if role_of(contents[0]) != "user" or _held(contents[0], "functionResponse"):
        yield "the first content must be the user's"
    if role_of(contents[-1]) != "user":
        yield "requests ending with a model turn are not supported"
    yield from _pairs(contents)
    yield from _server_work(contents)
    yield from _signatures(contents, original)


def role_of(content: Message) -> str:
    """The role of a content, the user's if it has none."""
    return content.get("role") or "user"


def _held(content: Message, name: str) -> list[Message]:
    return [part[name] for part in content.get("parts") or () if name in part]


def _shape(content: Message) -> Iterator[str]:
    role = role_of(content)
    if role not in ("user", "model"):
        yield f"please use a valid role: user, model, not {role}"
    for extra in sorted(content.keys() - {"role", "parts"}):
        yield f"unknown name {extra}"
    if not content.get("parts"):
        yield "parts must not be empty"
    for part in content.get("parts") or ():
        data = sorted(part.keys() & _DATA)
        for extra in sorted(part.keys() - _DATA - _BESIDE):
            yield f"unknown name {extra} in a part"
        if len(data) != 1:
            yield f"required oneof field data must have one initialized field, found {data}"
        elif data[0] in (_USER_DATA if role == "model" else _MODEL_DATA):
            yield f"{data[0]} does not belong to the role {role}"
        if part.get("text") == "" and "thoughtSignature" not in part:
            yield "an empty text part"
        if part.get("thought") and role != "model":
            yield "only the model thinks"


def _pairs(contents: list[Message]) -> Iterator[str]:
    """Calls come after the user, and are answered one by one, in order, in the next content."""
    for index, content in enumerate(contents):
        calls, answers = _held(content, "functionCall"), _held(content, "functionResponse")
        before = contents[index - 1] if index else None
        after = contents[index + 1] if index + 1 < len(contents) else {"parts": []}
        if calls and (before is None or role_of(before) != "user"):
            yield f"{index}: a function call turn comes immediately after a user turn or a function response turn"
        if calls and len(calls) != len(_held(after, "functionResponse")):
            yield f"{index}: the number of function response parts must equal the number of function call parts"
        if answers:
            asked = _held(before, "functionCall") if before is not None else []
            yield from (f"{index}: {problem}" for problem in _answers(content, asked, answers))
        for call in calls:
            if not call.get("name") or not isinstance(call.get("args", {}), dict):
                yield f"{index}: a call has a name, and its args are an object"


def _answers(content: Message, asked: list[Message], answers: list[Message]) -> Iterator[str]:
    if not asked:
        yield "a function response turn comes immediately after a function call turn"
    if len(answers) != len(content["parts"]):
        yield "a text or file beside a function response is read as the model's"
    for call, answer in zip_longest(asked, answers):
        if call is None or answer is None:
            yield "the number of function response parts must equal the number of function call parts"
            return
        if (call.get("id"), call.get("name")) != (answer.get("id"), answer.get("name")):
            yield f"the response {answer.get('id')} {answer.get('name')} does not match its call"
        if not isinstance(answer.get("response"), dict):
            yield "function_response.response must be an object"


def _server_work(contents: list[Message]) -> Iterator[str]:
    """Code stays with its output, and tools of the provider with their responses."""
    for index, content in enumerate(contents):
        for first, then in _FOLLOWED.items():
            begun = [one.get("id") for one in _held(content, first)]
            ended = [one.get("id") for one in _held(content, then)]
            if begun != ended:
                yield f"{index}: {first} {begun} is followed by {then} {ended}"


def _signatures(contents: list[Message], original: list[Message]) -> Iterator[str]:
    """In the current turn, the first call of every step has its signature; a signature stays in its own part."""
    signed = [part for content in original for part in content["parts"] if "thoughtSignature" in part]
    for index, content in enumerate(contents):
        for part in content["parts"]:
            if "thoughtSignature" in part and part not in signed:
                yield f"{index}: a thought signature in a part that did not have it"
    if not any("thoughtSignature" in part for part in _calls(original)):
        return  # a model without signatures
    for index, content in enumerate(_current_turn(contents)):
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and "thoughtSignature" not in calls[0]:
            yield f"step {index}: function call is missing a thought_signature"


def _calls(contents: list[Message]) -> list[Message]:
    """The call parts of the current turn."""
    return [part for content in _current_turn(contents) for part in content["parts"] if "functionCall" in part]


def _current_turn(contents: list[Message]) -> list[Message]:
    """The contents after the newest one of the user that holds something besides responses."""
    said = [at for at, content in enumerate(contents) if role_of(content) == "user" and _speaks(content)]
    return contents[said[-1] + 1 :] if said else contents


def _speaks(content: Message) -> bool:
    return any("functionResponse" not in part for part in content["parts"])
