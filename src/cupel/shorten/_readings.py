"""Shorter readings of a JSON document: the same facts without escapes, and without members that say nothing new."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from cupel.shorten._json import (
    DEEPEST,
    REDUNDANT,
    SURROGATE,
    Child,
    NotJSONError,
    children_of,
    is_array,
    is_object,
    read,
    strings_in,
)
from cupel.shorten._pieces import Marker

_LITERAL = re.compile(r'"(?:[^"\\]++|\\.)*+"(\s*:)?', re.DOTALL)
_COLOUR = re.compile(r"(?<!\\)((?:\\\\)*)\\u001[bB]\[[\d;]*m")
_LONG_ROW = 200
"""Members are removed from rows of this many characters, and from what is nested in them; shorter ones stay whole."""
_LONG_TEXT, _TEXT = 200, 12
"""A text of this many characters in a document, or in a long row, is not repeated beside the one that holds it."""
_FEWEST = 3
"""A member that is the same this many times, and never another, is repeated."""
_ENOUGH = 0.8
"""A document is only changed if this share of it or less remains."""
_EMPTY: tuple[object, ...] = (None, "", [], {})


def lifted(text: str) -> str:
    """Return JSON in which strings that hold JSON are that JSON, and strings have no colours; any other text as is."""
    if '\\"' not in text and "\\u001b[" not in text.lower():
        return text
    try:
        read(text)
    except NotJSONError:
        return text
    return _COLOUR.sub(r"\1", _LITERAL.sub(_lifted_string, text))


def _lifted_string(match: re.Match[str]) -> str:
    literal = match[0]
    if match[1] or '\\"' not in literal:  # a key, or a plain string
        return literal
    inner: str = json.loads(literal, strict=False)
    try:
        value = json.loads(inner)
    except (ValueError, RecursionError):
        return literal
    is_sound = (is_array(value) or is_object(value)) and not SURROGATE.search(inner)
    return lifted(inner).strip() if is_sound else literal


def lean(text: str) -> str:
    """Return JSON without members of long rows that are empty or the same in all, after the first; other text as is.

    A text beside an object or array that holds it is left out too. A marker in front says how many members are omitted.
    """
    try:
        value, start, end = read(text)
        document = _Lean(text, value)
        shorter = document.written(Child(start, start, end, value), "", in_row=False, depth=0)
    except (NotJSONError, RecursionError):
        return text
    shorter = f"{Marker.amount(document.omitted, REDUNDANT)}\n{shorter}"
    return shorter if len(shorter) <= _ENOUGH * len(text) else text


class _Lean:
    """The members of a document that are the same wherever they occur, and the document without them."""

    def __init__(self, text: str, value: Any) -> None:
        self._text, self.omitted = text, 0
        found: dict[tuple[str, str], list[Any]] = {}
        for parent, key, one in _members(value):
            seen = found.setdefault((parent, key), [one, 0])
            seen[1] += 1 if seen[0] == one else float("-inf")
        self._repeated = {key for key, (_, count) in found.items() if count >= _FEWEST}
        self._told: set[tuple[str, str]] = set()

    def written(self, child: Child, parent: str, *, in_row: bool, depth: int) -> str:
        """Return the text of a value without redundant members; `parent` is the key that it is under."""
        text, value = self._text, child.value
        if not (is_array(value) or is_object(value)) or not value or depth > DEEPEST:
            return text[child.start : child.end]
        keyed = is_object(value)
        redundant = self._redundant(value, parent, in_row=in_row) if is_object(value) else set[str]()
        inner = value.values() if is_object(value) else value
        if not redundant and not any(is_array(one) or is_object(one) for one in inner):
            return text[child.start : child.end]
        children = list(children_of(text, child, keyed=keyed))
        if keyed and len(value) != len(children):  # a key is there twice
            return text[child.start : child.end]
        keys = list(value) if keyed else [parent] * len(children)
        parts = [text[child.start : child.at + 1]]
        last = child.at + 1
        for key, one in zip(keys, children, strict=True):
            if key in redundant:
                self.omitted += 1
            else:
                is_row = not keyed and one.end - one.start >= _LONG_ROW
                kept = self.written(one, key, in_row=in_row or is_row, depth=depth + 1)
                parts += (text[last : one.start] if len(parts) > 1 else text[child.at + 1 : children[0].start], kept)
            last = one.end
        return "".join((*parts, text[last : child.end]))

    def _redundant(self, value: dict[str, Any], parent: str, *, in_row: bool) -> set[str]:
        """Return the keys of members that say nothing new."""
        found: set[str] = set()
        texts: set[str] = set()
        last = next(reversed(value))
        for key, one in value.items():
            is_container = is_array(one) or is_object(one)
            own = list(strings_in(one)) if texts or (is_container and key != last) else []
            longest = max(own, key=len, default="") if texts else ""
            is_told = longest in texts and len(longest) >= (_TEXT if in_row and " " in longest else _LONG_TEXT)
            if is_told or (in_row and (one in _EMPTY or (parent, key) in self._told)):
                found.add(key)
            elif in_row and (parent, key) in self._repeated:
                self._told.add((parent, key))
            texts.update(own if is_container else ())
        return found


def _members(value: Any, parent: str = "", depth: int = 0) -> Iterator[tuple[str, str, Any]]:
    """Yield the members of all objects, each with the key that the object is under."""
    if is_object(value) and depth <= DEEPEST:
        for key, one in value.items():
            yield parent, key, one
            yield from _members(one, key, depth + 1)
    elif is_array(value) and depth <= DEEPEST:
        for one in value:
            yield from _members(one, parent, depth + 1)
