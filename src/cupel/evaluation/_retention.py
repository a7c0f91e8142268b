"""What the next step used, and whether the window still had it: measured without labels.

A fact is a word of five or more characters (letters, digits, `_ . / @ -`) in what the step's calls are given, which
stands in an earlier tool or user message, and neither in the system prompt nor in the first user message. Words are
compared as they are written: a window that says the same in other words counts as having lost it, and a word that
stands there by chance as having kept it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from cupel._documents import is_list, is_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cupel.evaluation._spoken import Spoken

_FACT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./@-]{4,}")
_WORD: Final = re.compile(r"[A-Za-z0-9_./@-]+")


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of what a step used was in the window."""

    facts: int
    kept: int
    """Facts that the window holds."""
    names: int
    """Facts that name something: with a digit, one of `_ . / @ -`, or a capital inside."""
    in_context: bool
    """Whether all names stand there as where they came from: between the same words, in JSON with their key."""

    @property
    def whole(self) -> bool:
        """Whether no fact is missing."""
        return self.kept == self.facts


def retention(arguments: Sequence[Any], history: Sequence[Spoken], window: Sequence[Spoken]) -> Retention | None:
    """Compare what calls are given with what stood in the history and what stands in the window; None without facts."""
    task = _task(history)
    facts = _facts(arguments, history, task)
    if not facts:
        return None
    held = "\n".join(message.text for message in window)
    names = [fact for fact in facts if _is_name(fact)]
    in_context = bool(names)
    if names:
        sources = [_trimmed(message) for message in history[task + 1 :]]
        words = "\n" + "\n".join(_worded(message.text) for message in window) + "\n"
        in_context = all(name in held and _stands(name, sources, words) for name in names)
    return Retention(len(facts), sum(fact in held for fact in facts), len(names), in_context)


def _task(history: Sequence[Spoken]) -> int:
    return next((at for at, message in enumerate(history) if message.role == "user"), 0)


def _trimmed(message: Spoken) -> str:
    return message.text if message.role == "assistant" else message.text.rstrip("\n")


def _facts(arguments: Sequence[Any], history: Sequence[Spoken], task: int) -> list[str]:
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
    """Yield the values in a value that hold no others, each with the key that it stands under."""
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
def _worded(text: str) -> str:
    """Return the words of each line, with a space before and behind each: punctuation and spacing do not count."""
    lines = text.replace("\\n", "\n").split("\n")
    return "\n".join(f" {' '.join(_WORD.findall(line))} " for line in lines)


def _stands(name: str, sources: Sequence[str], window: str) -> bool:
    """Tell whether a name stands in the window as it stood in one of its sources."""
    places: set[str] = set()
    keyed: set[tuple[str, str]] = set()
    for source in sources:
        if name in source:
            places.update(_beside(name, _worded(source)))
            if source.startswith(("{", "[")):
                _in_json(name, source, places, keyed)
    if not (places or keyed) or any(place in window for place in places):
        return True
    return any(key in line and value in line for key, value in keyed for line in window.split("\n") if value in line)


def _beside(name: str, worded: str) -> Iterator[str]:
    """Yield a name with the words before and behind it, wherever it stands; the ends of a line count as words."""
    for line in worded.split("\n"):
        if name not in line:
            continue
        words = line.split()
        for at, word in enumerate(words):
            if name in word:
                start = " " if at else "\n "
                end = " " if at < len(words) - 1 else " \n"
                yield start + " ".join(words[max(0, at - 1) : at + 2]) + end


def _in_json(name: str, source: str, places: set[str], keyed: set[tuple[str, str]]) -> None:
    """Add the key of each value that has the name, and the values on both sides of it."""
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
