"""Names in texts, and how much each of them tells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from math import sqrt

_TOKEN = re.compile(r"[\w./@~-]+")
_BETWEEN = re.compile(r"[^\w./@~\n-]+")
_BLANKED = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "_./@~-\n")}
_SHORTEST_WORD, _SHORTEST_NAME = 5, 3
_LONGEST_COUNT = 4
"""Digits of a number that is no rarer than a word: line numbers and counts."""
_WORD, _TELLING = 1 << 20, 1 << 21
"""Weights are whole numbers, so that a sum does not depend on its order."""


class Rarity(Counter[str]):
    """Counts in how many texts each name stood: what the name-based shorteners take as `known`.

    Add every unit of a conversation once, as it arrives; a unit costs its own length, never the conversation's. It is a
    `Counter`, so a plain mapping of names to numbers does as well, and `dict(rarity)` is its whole state.

    >>> rarity = Rarity()
    >>> rarity.add("def parse_header(line): ...")
    >>> rarity.add("parse_header is called by read_request")
    >>> rarity["parse_header"], rarity["read_request"], rarity["unseen"]
    (2, 1, 0)
    """

    def add(self, text: str) -> None:
        """Count the names of one more text."""
        self.update(iter(names_in(text)))


def names_in(text: str) -> dict[str, None]:
    """Return the distinct names of a text, in order of appearance."""
    found = dict.fromkeys(map(_name, dict.fromkeys(blanked(text).split())))
    found.pop("", None)
    return found


def blanked(text: str) -> str:
    """Return a text with spaces for what is in no name; line ends stay."""
    if text.isascii():
        return text.translate(_BLANKED)
    lines = text.split("\n")  # most are plain even then, and quicker so
    return "\n".join([line.translate(_BLANKED) if line.isascii() else _BETWEEN.sub(" ", line) for line in lines])


def token_weights(tokens: Iterable[str], known: Mapping[str, int]) -> dict[str, int]:
    """Return the weight of each token: that of the name it is, or 0."""
    named = {token: _name(token) for token in tokens}
    weight = weights(named.values(), known)
    return {token: weight[name] for token, name in named.items()}


def weights(names: Iterable[str], known: Mapping[str, int]) -> dict[str, int]:
    """Return each name's weight: double for what is no ordinary word, and less the more texts it stood in."""
    seen = known.get
    return {name: int(_base(name) / sqrt(max(seen(name, 0), 0) + 1)) for name in names}


def _name(token: str) -> str:
    """The token without punctuation at its ends; empty if what is left is a short ordinary word, or no name."""
    if token.isalnum():
        name = token
    else:
        name = token.rstrip(".-/~@").lstrip("-" if token.startswith(("./", "..")) else "-.~")
        if not (name[-1:].isalnum() or any(map(str.isalnum, name))):
            return ""
    if len(name) >= _SHORTEST_WORD:
        return name
    return "" if len(name) < _SHORTEST_NAME or (name.isalpha() and _base(name) == _WORD) else name


def _base(name: str) -> int:
    """An ordinary word has no capital behind its first letter; a short number counts like one."""
    if name.isalpha():
        return _WORD if name[1:] == name[1:].lower() else _TELLING
    if name.isdecimal() and len(name) <= _LONGEST_COUNT:
        return _WORD
    return _TELLING if name else 0
