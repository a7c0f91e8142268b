"""Measure, without labels, whether the window still held the facts that the next step used.

A *fact* is a word of five or more characters (letters, digits, `_ . / @ -`) in the arguments of the step's calls that
an earlier tool or user message contains, and neither the system prompt nor the first user message. Words are compared
as they are written: a window that says the same in other words counts as having lost the fact, and one that contains
the word by chance counts as having kept it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from cupel._internal.documents import is_list, is_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cupel.messages import Message

_FACT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./@-]{4,}")
_WORD: Final = re.compile(r"[A-Za-z0-9_./@-]+")


@dataclass(frozen=True, slots=True)
class Retention:
    """How many of the facts that a step used were in the window."""

    facts: int
    kept: int
    """Facts that the window contains."""
    names: int
    """Facts that name something: with a digit, one of `_ . / @ -`, or an inner capital."""
    in_context: bool
    """Whether all names keep their original neighbouring words, or in JSON their key."""
    reached: int
    """Facts that the window contains, or a text that the model can recall by an id in it."""

    @property
    def whole(self) -> bool:
        """Whether no fact is missing."""
        return self.kept == self.facts


def retention(
    arguments: Sequence[Any],
    history: Sequence[Message],
    window: Sequence[Message],
    recalled: Callable[[str], str] = lambda _: "",
) -> Retention | None:
    """Compare the arguments of calls with the history before them and with the window; None if they hold no facts.

    `recalled` returns what the model could fetch back, given the text of the window.
    """
    task = next((at for at, message in enumerate(history) if message.role == "user"), 0)
    facts = _facts(arguments, history, task)
    if not facts:
        return None
    held = "\n".join(message.text for message in window)
    names = [fact for fact in facts if _is_name(fact)]
    in_context = bool(names)
    if names:
        sources = [text for message in history[task + 1 :] for text in _texts(message)]
        words = "\n" + "\n".join(_words_by_line(message.text) for message in window) + "\n"
        in_context = all(name in held and _keeps_neighbours(name, sources, words) for name in names)
    missing = [fact for fact in facts if fact not in held]
    found = recalled(held) if missing else ""
    reached = len(facts) - sum(fact not in found for fact in missing)
    return Retention(len(facts), len(facts) - len(missing), len(names), in_context, reached)


def _texts(message: Message) -> list[str]:
    return message.texts if message.role == "assistant" else [text.rstrip("\n") for text in message.texts]


def _facts(arguments: Sequence[Any], history: Sequence[Message], task: int) -> list[str]:
    leaves = [leaf for _, leaf in _leaves(list(arguments)) if leaf is not None and not isinstance(leaf, bool)]
    said = sorted({fact for leaf in leaves for fact in _FACT.findall(str(leaf))})
    if not said:
        return []
    known = "\n".join(message.text for at, message in enumerate(history) if message.role == "system" or at == task)
    sources = "\n".join(
        message.text for at, message in enumerate(history) if message.role in {"tool", "user"} and at != task
    )
    return [fact for fact in said if fact not in known and fact in sources]


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the scalars inside a value, each with its key."""
    if is_object(value):
        for name, inner in value.items():
            yield from _leaves(inner, name)
    elif is_list(value):
        for inner in value:
            yield from _leaves(inner, key)
    else:
        yield key, value


def _is_name(fact: str) -> bool:
    core = fact.rstrip(".-/")
    return any(character.isdigit() or character in "_./@-" for character in core) or any(map(str.isupper, fact[1:]))


@lru_cache(maxsize=4096)
def _words_by_line(text: str) -> str:
    """Return each line as its words with a space before and after each: punctuation and spacing do not count."""
    lines = text.replace("\\n", "\n").split("\n")
    return "\n".join(f" {' '.join(_WORD.findall(line))} " for line in lines)


def _keeps_neighbours(name: str, sources: Sequence[str], window: str) -> bool:
    """Return whether the window contains a name next to the same words as one of its sources, or next to its key."""
    places: set[str] = set()
    keyed: set[tuple[str, str]] = set()
    for source in sources:
        if name in source:
            places.update(_with_neighbours(name, _words_by_line(source)))
            if source.startswith(("{", "[")):
                _add_json_places(name, source, places, keyed)
    if not (places or keyed) or any(place in window for place in places):
        return True
    return any(key in line and value in line for key, value in keyed for line in window.split("\n") if value in line)


def _with_neighbours(name: str, words_by_line: str) -> Iterator[str]:
    """Yield each occurrence of a name with the words before and after it; the ends of a line count as words."""
    for line in words_by_line.split("\n"):
        if name not in line:
            continue
        words = line.split()
        for at, word in enumerate(words):
            if name in word:
                start = " " if at else "\n "
                end = " " if at < len(words) - 1 else " \n"
                yield start + " ".join(words[max(0, at - 1) : at + 2]) + end


def _add_json_places(name: str, source: str, places: set[str], keyed: set[tuple[str, str]]) -> None:
    """Add the key of each value that contains the name, and the values on both sides of it."""
    try:
        leaves = _leaves(json.loads(source))
        flat = [(key, " ".join(_WORD.findall(str(leaf)))) for key, leaf in leaves]
    except (ValueError, RecursionError):
        return
    for at, (key, value) in enumerate(flat):
        if name in value:
            keyed.add((key, value))
            if 0 < at < len(flat) - 1:
                places.add(f" {flat[at - 1][1]} {value} {flat[at + 1][1]} ")
