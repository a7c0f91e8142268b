"""How later steps use earlier ones, spelled out: every step is compared with every other one for every score."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.oracle.records import Item, fold

FIRST = datetime(1, 1, 1, tzinfo=UTC)


def _names(text: str) -> set[str]:
    """Words of five letters, other names of three; without the punctuation of a sentence around them."""
    found = set()
    for token in re.findall(r"[\w./@~-]+", text):
        name = token.rstrip(".-/~@")
        name = name.lstrip("-") if token.startswith(("./", "..")) else name.lstrip("-.~")
        plain = name.isalpha() and name[1:] == name[1:].lower()
        if any(letter.isalnum() for letter in name) and len(name) >= (5 if plain else 3):
            found.add(name)
    return found


def _identifies(name: str) -> bool:
    return any(letter.isdigit() or letter in "_./@" for letter in name) or bool(re.search("[A-Z]", name[1:]))


def _lines(text: str) -> set[str]:
    bare = (re.sub(r"^\d+[:\-\t ]\s*", "", line.strip()) for line in text.split("\n"))
    return {line for line in bare if len(line) >= 8}


def _uses(steps: Sequence[tuple[str, str]], at: int) -> int:
    """The later steps whose calls have a name that this step was the newest to hold, as one of at most eight."""
    held = [_names(text) | _names(asked) for text, asked in steps]
    uses = 0
    for later in range(at + 1, len(steps)):
        for name in _names(steps[later][1]):
            holders = [step for step in range(later) if name in held[step]]
            if _identifies(name) and 1 <= len(holders) <= 8 and holders[-1] == at:
                uses += 1
                break
    return uses


def _repeated(steps: Sequence[tuple[str, str]], at: int) -> float:
    own = _lines(steps[at][0])
    again = {line for line in own if any(line in _lines(text) for text, _ in steps[at + 1 :])}
    total = sum(len(line) for line in own)
    return sum(len(line) for line in again) / total if total else 0.0


def trace(steps: Sequence[tuple[str, str]]) -> list[tuple[int, int, float, int]]:
    """Return age, uses and the repeated share of each step; texts do not show what was said beside calls."""
    return [(len(steps) - at, _uses(steps, at), _repeated(steps, at), 0) for at in range(len(steps))]


def _found(item: Item, items: Sequence[Item]) -> tuple[int, int, float, int]:
    told = item.metadata.get("cupel:reuse")
    if told is not None:
        return told["age"], told.get("uses", 0), float(told.get("repeated", 0.0)), told.get("said", 0)
    line = sorted(range(len(items)), key=lambda at: (items[at].timestamp is not None, items[at].timestamp or FIRST, at))
    # An object that is listed twice counts at its last place.
    last = max(place for place, at in enumerate(line) if items[at] is item)
    return trace([(items[at].content, items[at].content) for at in line])[last]


def _value(spec: Mapping[str, Any], item: Item, items: Sequence[Item]) -> float:
    age, uses, repeated, said = _found(item, items)
    since = age - 1
    if uses == 0:
        rate = 0.4 / (1 + since / 2) / math.sqrt(1 + since / 2)
    else:
        rate = min(1.0, 0.2 * (1 + min(uses, 2)) / math.sqrt(1 + since / 4))
    chance = 1.0 - math.pow(1.0 - rate, min(spec.get("calls", 8), 10**9))
    words = float(spec.get("words", 8.0))
    most = max(words, 1.0)
    tokens = max(item.tokens if item.original_tokens is None else item.original_tokens, 0)
    shown = math.sqrt(tokens) * (1.0 - repeated) * chance
    if fold(item.kind) == "tooloutput":
        return shown / most + words / most * math.sqrt(min(said, tokens) * chance)
    return words / most * shown


def reuse(spec: Mapping[str, Any], item: Item, items: Sequence[Item]) -> float:
    """Return the score of one item: its value as a share of the best one's."""
    best = max(_value(spec, other, items) for other in items)
    return _value(spec, item, items) / best if best > 0.0 else 0.0
