"""Notes that say which steps a request leaves out.

Each omitted step leaves a line: the tool's name and the beginning of its main argument. The lines of one gap form one
note, at the beginning of the next tool result that is sent, or in a message of the user where no result follows.
The notes that a session wrote are removed from a stored history before it is read; text in tool outputs that imitates
a note or a marker is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cupel.messages._plain import JSON, compact_json, fields, is_sequence
from cupel.shorten import escape_markers

if TYPE_CHECKING:
    from cupel.messages._formats import Format
    from cupel.tokens import TokenCounter

LINE_TOKENS: Final = 30
"""The most tokens that one step takes in a note."""
NOTE_KEY: Final = "cupel"
"""The key of a note in a tool result that is an object."""
NOTES_PROMPT: Final = (
    "A line like [cupel: …] says what was left out of this conversation to save room; call a tool again if you need "
    "it. No tool writes such lines: in tool outputs they are spelled [cupel : …]."
)
"""A line for the system prompt that tells a model what notes and markers mean."""
CALLED_AGAIN: Final = "[cupel: partly omitted: called again later]"
"""The first line of an output that was cut because a newer one follows."""
_LINE_CHARACTERS = 80
_PREFIX = "[cupel:"
_NOTE = re.compile(r"\[cupel: \d+ earlier steps? omitted(?:, #[0-9a-f]+)?(?: here: [^\]]*)?\]\n?")


class OmittedStep(NamedTuple):
    """An omitted step: its positions in the history, and the name and the line of each of its calls.

    A message without calls has one entry, named after its role.
    """

    positions: tuple[int, ...]
    names: tuple[str, ...]
    lines: tuple[str, ...]
    tokens: int
    """Tokens of the lines."""


def step_of(
    positions: tuple[int, ...], views: Sequence[JSON], fmt: Format, counter: TokenCounter, name: str = ""
) -> OmittedStep:
    """Describe one unit of a history, given its messages as plain data; its line begins with its id, if it has one."""
    calls = [(name, _words(arguments)) for view in views for name, arguments in fmt.calls(view)]
    role, words = fmt.said(views[0])
    entries = calls or [(f"{role}:", words)]
    marks = [f"#{name} " if name else "", *[""] * (len(entries) - 1)]
    lines = tuple(_line(f"{mark}{tool}", words, counter) for mark, (tool, words) in zip(marks, entries, strict=True))
    names = tuple(_flat(tool.rstrip(":")) for tool, _ in entries)
    return OmittedStep(positions, names, lines, sum(counter.count(line) + 1 for line in lines))


def told(counted: Mapping[str, int], steps: Iterable[OmittedStep], name: str = "") -> str:
    """Return the words of a note: names that are only counted, the most frequent first, then the lines of steps.

    The steps that are counted share an id, if notes have ids.
    """
    ordered = sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))
    words = ", ".join(tool if count == 1 else f"{tool} ×{count}" for tool, count in ordered)
    return "; ".join([*([_after_id(words, name)] if words else []), *(line for step in steps for line in step.lines)])


def _after_id(words: str, name: str) -> str:
    return f"#{name} {words}" if name else words


def note_text(steps: int, words: str = "", name: str = "") -> str:
    """Return a note in its fixed form, with the id of all its steps; brackets and line breaks are replaced."""
    said = f" here: {_after_id(_flat(words), name)}" if words else f", #{name}" if name else ""
    return f"{_PREFIX} {steps} earlier step{'' if steps == 1 else 's'} omitted{said}]"


def with_note(view: JSON, note: str, fmt: Format) -> JSON:
    """Return a copy of a tool result or a message of the user that begins with a note."""
    place = fmt.note_place(view)
    return view if place is None else place.write(view, _with_note(place.read(view), note, fmt))


def _with_note(content: Any, note: str, fmt: Format) -> Any:
    if isinstance(content, dict):
        return {NOTE_KEY: note, **fields(content)}  # pyright: ignore[reportUnknownArgumentType]  (a value of JSON)
    if not is_sequence(content) or not content:
        return _joined(note, content) if isinstance(content, str) else note
    at = _first_text(content)
    if at is None:
        return [fmt.text_block(note), *content]
    block = fields(content[at])
    return [*content[:at], {**block, "text": _joined(note, block["text"])}, *content[at + 1 :]]


def _first_text(content: Sequence[Any]) -> int | None:
    return next((at for at, block in enumerate(content) if isinstance(fields(block).get("text"), str)), None)


def can_hold_note(view: JSON, fmt: Format) -> bool:
    """Return whether a message holds tool results to which text can be added."""
    place = fmt.note_place(view)
    return place is not None and place.in_result


def cleaned(view: JSON, fmt: Format, written: Container[str] = (), *, is_output: bool = False) -> JSON | None:
    """Return a message without a note that this session wrote, imitations in its tool outputs escaped.

    The message itself comes back where there is nothing to change, and None where it holds nothing but such a note.

    Args:
        view: the message as plain data.
        fmt: its format.
        written: the signatures of the texts that the session put a note in front of.
        is_output: whether a message of the user is a tool's output.
    """
    bare = without_note(view, fmt, written)
    place = fmt.note_place(bare)
    if bare is not view and place is not None and not (place.in_result or place.read(bare)):
        return None
    view = bare
    parts = ("results", "prose") if is_output else ("results",)
    texts = fmt.texts_in(view, parts)
    clean = [escape_markers(text) for text in texts]
    return view if clean == texts else fmt.with_texts(view, clean, parts)


def without_note(view: JSON, fmt: Format, written: Container[str]) -> JSON:
    """Return a message without the notes that this session wrote; itself, if there are none."""
    place = fmt.note_place(view)
    if place is None or not written or not any(one in written for one in signatures(view, fmt)):
        return view
    content = place.read(view)
    return place.write(view, _without_note(content) if place.in_result else _without_asides(content, written))


def signatures(view: JSON, fmt: Format) -> list[str]:
    """Return hashes of what may be a session's own: a result that begins with a note, each note in the user's words."""
    place = fmt.note_place(view)
    content: Any = None if place is None else place.read(view)
    if place is not None and not place.in_result:
        texts = [fields(block).get("text") for block in content] if is_sequence(content) else [content]
        return [_hash(note.rstrip("\n")) for text in texts if isinstance(text, str) for note in _NOTE.findall(text)]
    if is_sequence(content):
        at = _first_text(content)
        content = None if at is None else fields(content[at])["text"]
    elif isinstance(fields(content).get(NOTE_KEY), str):
        content = f"{fields(content)[NOTE_KEY]}\n{compact_json(_without_note(content))}"
    return [_hash(content)] if isinstance(content, str) and _NOTE.match(content) else []


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _without_note(content: Any) -> Any:
    """Return content without the note that it begins with."""
    if isinstance(content, str):
        return _NOTE.sub("", content, count=1)
    if is_sequence(content):
        at = _first_text(content)
        block = fields(content[at or 0])
        rest = _without_note(block["text"])
        return [*content[:at], *([{**block, "text": rest}] if rest else []), *content[(at or 0) + 1 :]]
    return {key: value for key, value in fields(content).items() if key != NOTE_KEY}


def _without_asides(content: Any, written: Container[str]) -> Any:
    """Return the user's words without the notes of a session, which may have been joined to them."""
    if isinstance(content, str):
        return _NOTE.sub(lambda note: "" if _hash(note[0].rstrip("\n")) in written else note[0], content).strip("\n")
    if not is_sequence(content):
        return content
    texts = [fields(block).get("text") for block in content]
    left = [_without_asides(text, written) for text in texts]
    pairs = zip(content, texts, left, strict=True)
    return [block if rest == text else {**fields(block), "text": rest} for block, text, rest in pairs if rest != ""]


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


def _joined(note: str, text: str) -> str:
    return f"{note}\n{text}" if text else note
