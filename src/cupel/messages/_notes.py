"""Notes that say which steps a request leaves out.

Each omitted step leaves a line: the tool's name and the beginning of its main argument. The lines of one gap form one
note, at the beginning of the next tool result that is sent, or in a message of the user where no result follows.
Notes in a stored history are removed before it is read; text in tool outputs that imitates a note or a marker is
escaped.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cupel.messages._formats import OUTPUTS, texts_in, with_texts
from cupel.messages._plain import JSON, fields, is_sequence
from cupel.shorten import escape_markers

if TYPE_CHECKING:
    from cupel.tokens import TokenCounter

LINE_TOKENS: Final = 30
"""The most tokens that one step takes in a note."""
NOTES_SHARE: Final = 10
"""All notes of a request together take at most this fraction (one tenth) of the budget."""
_LINE_CHARACTERS = 80
_PREFIX = "[cupel:"
_NOTE = re.compile(r"\A\[cupel: \d+ earlier steps? omitted here: [^\]]*\]\n?")
_TEXT_TYPES = frozenset(("text", "input_text", "output_text"))


class OmittedStep(NamedTuple):
    """An omitted step: where it began in the history, and the name and the line of each of its calls.

    A message without calls has one entry, named after its role.
    """

    position: int
    names: tuple[str, ...]
    lines: tuple[str, ...]
    tokens: int
    """Tokens of the lines."""


class Slot(NamedTuple):
    """Where a note goes: into the tool result at `position`, or into a message of the user before `position`."""

    position: int
    in_result: bool


def step_of(position: int, views: Sequence[JSON], counter: TokenCounter) -> OmittedStep:
    """Describe one unit of a history, given its messages as plain data."""
    calls = [(name, _words(arguments)) for view in views for name, arguments in calls_in(view)]
    entries = calls or [(f"{views[0].get('role', 'assistant')}:", _said(views[0]))]
    lines = tuple(_line(name, words, counter) for name, words in entries)
    return OmittedStep(
        position,
        tuple(_flat(name.rstrip(":")) for name, _ in entries),
        lines,
        sum(counter.count(line) + 1 for line in lines),
    )


class OmissionNote(NamedTuple):
    """A written note: its text, how many steps it covers, and how many of them have their own line."""

    text: str
    steps: int
    lines: int


def write_notes(
    gaps: Mapping[int, Sequence[OmittedStep]], counter: TokenCounter, limit: int
) -> dict[int, OmissionNote]:
    """Return the note of each gap, by its place, within `limit` tokens in all: the newest steps in full, older counted.

    Where not even counted notes fit, those of the oldest gaps are left out.
    """
    steps = sorted(step for gap in gaps.values() for step in gap)
    full = _newest_within(steps, limit)
    while True:
        lines = {place: sum(step.position in full for step in gap) for place, gap in gaps.items()}
        notes = {place: note_of(gap, lines[place]) for place, gap in gaps.items()}
        excess = sum(counter.count(note.text) for note in notes.values()) - limit
        if excess <= 0:
            return notes
        if not full:
            break
        full = _newest_within([step for step in steps if step.position in full], _tokens(steps, full) - excess)
    for place in sorted(notes):
        if excess > 0:
            excess -= counter.count(notes.pop(place).text)
    return notes


def note_of(gap: Sequence[OmittedStep], lines: int) -> OmissionNote:
    """Return a note on the steps of one gap: the newest of them line by line, the older ones counted."""
    older, newer = gap[: len(gap) - lines], gap[len(gap) - lines :]
    counted = Counter(name for step in older for name in step.names)
    words = ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counted.most_common())
    said = [*([words] if words else []), *(line for step in newer for line in step.lines)]
    return OmissionNote(note_text(len(gap), "; ".join(said)), len(gap), lines)


def note_text(steps: int, words: str) -> str:
    """Return a note in its fixed form; brackets and line breaks in its words are replaced."""
    return f"{_PREFIX} {steps} earlier step{'' if steps == 1 else 's'} omitted here: {_flat(words)}]"


def with_note(view: JSON, note: str) -> JSON:
    """Return a copy of a tool result or a message of the user that begins with a note."""
    if texts := texts_in(view, OUTPUTS):
        return with_texts(view, [_joined(note, texts[0]), *texts[1:]], OUTPUTS)
    if "output" in view:
        return {**view, "output": _content(view["output"], note, "input_text")}
    content = view.get("content")
    if is_sequence(content) and content and fields(content[0]).get("type") == "tool_result":
        result = fields(content[0])
        return {**view, "content": [{**result, "content": _content(result.get("content"), note, "text")}, *content[1:]]}
    kinds = (str(fields(block).get("type")) for block in content) if is_sequence(content) else ()
    kind = "input_text" if any(kind.startswith(("input_", "output_")) for kind in kinds) else "text"
    return {**view, "content": _content(content, note, kind)}


def note_message(note: str) -> JSON:
    """Return a message of the user that holds a note alone."""
    return {"role": "user", "content": note}


def can_hold_note(view: JSON) -> bool:
    """Return whether a message holds tool results to which text can be added."""
    if texts_in(view, OUTPUTS):
        return True
    if view.get("role") == "tool" or view.get("type") in ("function_call_output", "custom_tool_call_output"):
        return True
    content = view.get("content")
    return is_sequence(content) and bool(content) and fields(content[0]).get("type") == "tool_result"


def cleaned(view: JSON, *, is_output: bool = False) -> JSON | None:
    """Return a message without the note it begins with, imitations in its tool outputs escaped.

    The message itself comes back where there is nothing to change, and None where it holds nothing but a note.

    Args:
        view: the message as plain data.
        is_output: whether a message of the user is a tool's output.
    """
    if view.get("role") == "user" and (bare := _without_note(view)) is not view:
        return None if bare is None else cleaned(bare, is_output=is_output)
    parts = ("outputs", "prose") if is_output else OUTPUTS
    texts = texts_in(view, parts)
    clean = [escape_markers(_NOTE.sub("", text, count=1) if at == 0 else text) for at, text in enumerate(texts)]
    return view if clean == texts else with_texts(view, clean, parts)


def calls_in(view: JSON) -> list[tuple[str, Any]]:
    """Return the name and the arguments of each tool call in a message or item."""
    calls: list[Any] = [
        fields(call).get("function") or fields(call).get("custom") for call in _list(view, "tool_calls")
    ]
    calls += [view["function_call"]] if view.get("function_call") else []
    if str(view.get("type")).endswith("_call"):
        calls.append({"name": str(view["type"]).removesuffix("_call"), **view})
    calls += [block for block in _list(view, "content") if str(fields(block).get("type")).endswith("tool_use")]
    return [
        (str(call.get("name") or "tool"), next((call[key] for key in _ARGUMENTS if key in call), None))
        for call in map(fields, calls)
    ]


_ARGUMENTS = ("arguments", "input", "action", "code")


def _list(view: JSON, name: str) -> Sequence[Any]:
    value = view.get(name)
    return value if is_sequence(value) else ()


def _words(arguments: Any) -> str:
    """Return the beginning of a call's arguments: their values in order."""
    given: Any = arguments
    if isinstance(arguments, str):
        try:
            given = json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
    words: list[str] = []
    for leaf in _leaves(given):
        words.append(leaf)
        if sum(map(len, words)) > _LINE_CHARACTERS:
            break
    return " ".join(words)


def _leaves(value: Any) -> Iterable[str]:
    if is_sequence(value):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, dict):
        for inner in fields(value).values():  # pyright: ignore[reportUnknownArgumentType]  (a value of JSON)
            yield from _leaves(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _said(view: JSON) -> str:
    content = view.get("content")
    if isinstance(content, str):
        return content[: 2 * _LINE_CHARACTERS]
    return " ".join(str(fields(block).get("text") or "")[: 2 * _LINE_CHARACTERS] for block in _list(view, "content"))


def _line(name: str, words: str, counter: TokenCounter) -> str:
    whole = _flat(f"{name} {words[: 4 * _LINE_CHARACTERS]}")
    size = _LINE_CHARACTERS
    line = whole if len(whole) <= size else f"{whole[:size].rstrip()}…"
    while size > 1 and counter.count(line) > LINE_TOKENS:
        size = size * 3 // 4
        line = f"{whole[:size].rstrip()}…"
    return line


def _flat(text: str) -> str:
    """Return text that can be part of a note: one line, without square brackets."""
    return " ".join(text.split()).replace("[", "(").replace("]", ")")


def _tokens(steps: Iterable[OmittedStep], positions: set[int]) -> int:
    return sum(step.tokens for step in steps if step.position in positions)


def _newest_within(steps: Sequence[OmittedStep], limit: int) -> set[int]:
    found: set[int] = set()
    for step in reversed(steps):
        limit -= step.tokens
        if limit < 0:
            break
        found.add(step.position)
    return found


def _joined(note: str, text: str) -> str:
    return f"{note}\n{text}" if text else note


def _content(content: Any, note: str, kind: str) -> Any:
    if isinstance(content, str):
        return _joined(note, content)
    return [{"type": kind, "text": note}, *content] if is_sequence(content) and content else note


def _without_note(view: JSON) -> JSON | None:
    """Return a message of the user without the note that it begins with; None if nothing else is in it."""
    content = view.get("content")
    if isinstance(content, str):
        rest = _NOTE.sub("", content, count=1)
        return view if rest == content else {**view, "content": rest} if rest else None
    first = fields(content[0]) if is_sequence(content) and content else {}
    text = first.get("text")
    if not isinstance(text, str) or first.get("type") not in _TEXT_TYPES or not _NOTE.match(text):
        return view
    rest = _NOTE.sub("", text, count=1)
    left = [*([{**first, "text": rest}] if rest else []), *_list(view, "content")[1:]]
    return {**view, "content": left} if left else None
