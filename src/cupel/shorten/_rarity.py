"""Names in texts, and how much each of them tells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import sqrt

_TOKEN = re.compile(r"[\w./@~-]+")
_BLANKED = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "_./@~-\n")}
_PLAIN = re.compile(r"[^\W\d_][^\W\d_A-Z]*|\d{1,4}")  # line numbers and counts are no rarer than words
_SHORTEST_WORD, _SHORTEST_NAME = 5, 3
_TELLING = 2.0  # against 1 for an ordinary word


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
    tokens = text.translate(_BLANKED).split() if text.isascii() else _TOKEN.findall(text)
    found = dict.fromkeys(map(_name, dict.fromkeys(tokens)))
    found.pop("", None)
    return found


def tokens_in(lines: list[str]) -> list[set[str]]:
    """Return for each line what may be names in it, as they stand: the quick half of `names_in`, for many lines."""
    text = "".join(lines)
    if text.isascii():  # blanking and splitting takes a third of the time of a pattern
        blanked = text.translate(_BLANKED).split("\n")
        return [set(line.split()) for line in blanked[: len(lines)]]
    find = _TOKEN.findall
    return [set(find(line)) for line in lines]


def token_weights(tokens: Iterable[str], known: Mapping[str, int]) -> dict[str, float]:
    """Return the weight of each token: that of the name it is, or 0."""
    named = {token: _name(token) for token in tokens}
    weight = weights(named.values(), known)
    weight[""] = 0.0
    return {token: weight[name] for token, name in named.items()}


def weights(names: Iterable[str], known: Mapping[str, int]) -> dict[str, float]:
    """Return each name's weight: double for what is no ordinary word, and less the more texts it stood in."""
    seen = known.get
    return {name: _base(name) / sqrt(max(seen(name, 0), 0) + 1) for name in names}


@lru_cache(maxsize=65_536)
def _name(token: str) -> str:
    """The token without punctuation at its ends; empty if what is left is a short ordinary word, or no name."""
    name = token.rstrip(".-/~@").lstrip("-" if token.startswith(("./", "..")) else "-.~")
    if len(name) < _SHORTEST_NAME or not any(map(str.isalnum, name)):
        return ""
    return name if len(name) >= _SHORTEST_WORD or not name.isalpha() or _base(name) == _TELLING else ""


def _base(name: str) -> float:
    return 1.0 if _PLAIN.fullmatch(name) else _TELLING
