"""A scorer for the steps of a conversation: by how likely one of the next calls uses what a step brought in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from cupel._internal.checks import as_finite, as_integer, as_mapping, as_pair, as_text, shown, wrong_type
from cupel.errors import InvalidItemError, ScorerConfigError
from cupel.model import ContextKind
from cupel.scorers._base import PassScorer, positive
from cupel.shorten import Rarity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem

REUSE_KEY: Final = "cupel:reuse"
"""Metadata key: the age of a step, how often later calls used it, the share of it that later steps repeat, and the
tokens of what the assistant said beside its calls."""

_OFTEN = 2
"""Steps used more often than this are alike."""
_RARE = 8
"""A name in more steps than this does not identify its source."""
_TELLING = re.compile(r"[\d_./@]|.[A-Z]")
"""Characters that distinguish a name from an ordinary word."""
_SHORTEST_LINE = 8
_MOST: Final = 10**9
"""No conversation has more steps or calls."""
_NUMBER = re.compile(r"^\d+[:\-\t ]\s*")
"""Tools number lines, and the same line may come back with another number, or none."""


class Reuse(NamedTuple):
    """How a step of a conversation was used since it came."""

    age: int
    """1 for the newest step."""
    uses: int
    """Later calls that used a name which no newer step held."""
    repeated: float
    """The share of its lines that later steps repeat."""
    said: int = 0
    """Tokens of what the assistant said beside its calls."""

    def to_dict(self) -> dict[str, float]:
        """Return the value of the metadata key `cupel:reuse`."""
        return {"age": self.age, "uses": self.uses, "repeated": self.repeated, "said": self.said}


def trace_reuse(steps: Iterable[tuple[str, str]]) -> list[Reuse]:
    """Return how each step of a conversation was used by later ones.

    Args:
        steps: for each step, oldest first, the text that it brought in and the arguments of its calls.

    >>> [reuse.uses for reuse in trace_reuse([("def parse_header(): …", "cat app.py"), ("ok", "grep parse_header")])]
    [1, 0]
    """
    tracker = _Tracker()
    expected = "a (text, arguments) pair of strings"
    try:
        entries = enumerate(steps)
    except TypeError:
        raise wrong_type("steps", f"an iterable with {expected} for each step", steps) from None
    for at, step in entries:  # one after the other: the texts of a long conversation need not exist at once
        shown_text, asked = as_pair(f"steps[{at}]", step, expected)
        tracker.add(as_text(f"steps[{at}][0]", shown_text), as_text(f"steps[{at}][1]", asked))
    count = len(tracker.uses)
    return [
        Reuse(count - at, uses, repeated / characters if characters else 0.0)
        for at, (uses, repeated, characters) in enumerate(
            zip(tracker.uses, tracker.repeated, tracker.characters, strict=True)
        )
    ]


class _Tracker:
    """Follows a conversation step by step, at the cost of each step's own length."""

    def __init__(self) -> None:
        self.uses: list[int] = []
        self.characters: list[int] = []
        self.repeated: list[int] = []
        self._holders = Counter[str]()
        """The number of steps that contain each name."""
        self._newest: dict[str, int] = {}
        """The newest step that contains each name."""
        self._lines: dict[str, int] = {}
        """The newest step that contains each line."""

    def add(self, shown_text: str, asked: str) -> None:
        index = len(self.uses)
        names = Rarity()
        names.add(asked)
        # Only the newest that contains a name: wherever it was taken from, that one is enough.
        told = (name for name in names if 0 < self._holders[name] <= _RARE and _TELLING.search(name))
        for step in {self._newest[name] for name in told}:
            self.uses[step] += 1
        self.uses.append(0)
        names.add(shown_text)
        self._holders.update(dict.fromkeys(names, 1))
        self._newest.update(dict.fromkeys(names, index))
        characters = 0
        for line in _lines(shown_text):
            characters += len(line)
            if (before := self._lines.get(line)) is not None:
                self.repeated[before] += len(line)
            self._lines[line] = index
        self.characters.append(characters)
        self.repeated.append(0)


def _lines(text: str) -> Iterable[str]:
    distinct = dict.fromkeys(_NUMBER.sub("", line.strip()) for line in text.split("\n"))
    return (line for line in distinct if len(line) >= _SHORTEST_LINE)


@dataclass(frozen=True, slots=True)
class ReuseScorer(PassScorer):
    """Scores the steps of a conversation by how likely one of the next calls uses them; the best step scores 1.

    A step that calls used since it came is likely to be used again; one that was not is forgotten quickly; lines that
    later steps repeat count for nothing. Longer steps score higher, though less per token, so that `GreedySlice`, which
    divides by the tokens, weighs both.

    `cupel.fit`, `cupel.MessageSession` and `cupel.messages.to_items` write what they found out about a step into its
    metadata (`cupel:reuse`). Items without it are taken as steps in the order of their time.

    Args:
        calls: The number of next calls that count; more of them favour old steps.
        words: How much more the assistant's own words are worth than what its calls returned.

    >>> from cupel import ContextItem
    >>> old = {"cupel:reuse": {"age": 9, "uses": 0, "repeated": 0}}
    >>> used = {"cupel:reuse": {"age": 9, "uses": 2, "repeated": 0}}
    >>> [round(score, 2) for score in ReuseScorer().score_all([ContextItem("a", 50, metadata=m) for m in (old, used)])]
    [0.26, 1.0]
    """

    calls: int = 8
    words: float = 8.0

    def __post_init__(self) -> None:
        calls = as_integer("calls", self.calls, least=1, error=ScorerConfigError)
        object.__setattr__(self, "calls", calls)
        object.__setattr__(self, "words", positive(self.words, "words"))

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        known = [_reuse_of(item) for item in items]
        if None in known:
            traced = _traced(items)
            known = [traced[at] if reuse is None else reuse for at, reuse in enumerate(known)]
        values = [self._value(item, reuse) for item, reuse in zip(items, cast("list[Reuse]", known), strict=True)]
        highest = max(values, default=0.0)
        return [value / highest if highest > 0 else 0.0 for value in values]

    def _value(self, item: ContextItem, reuse: Reuse) -> float:
        chance = 1.0 - pow(1.0 - _rate(reuse), min(self.calls, _MOST))
        tokens = max(item.tokens if item.original_tokens is None else item.original_tokens, 0)
        # A long step is worth more than a short one, but less per token.
        size = sqrt(tokens) * (1.0 - reuse.repeated) * chance
        most = max(self.words, 1.0)
        if item.kind != ContextKind.TOOL_OUTPUT:
            return self.words / most * size
        # What the assistant concluded is forgotten more slowly than what its calls returned.
        return size / most + self.words / most * sqrt(min(reuse.said, tokens) * chance)


def _rate(reuse: Reuse) -> float:
    """Return how likely a call uses a step, as recorded sessions of coding agents showed.

    A step that was used at once and again stays in use for long; one that was not is hardly ever used ten steps later.
    """
    uses = min(reuse.uses, _OFTEN)
    age = reuse.age - 1
    if uses:
        return min(1.0, 0.2 * (1 + uses) / sqrt(1 + age / 4))
    return 0.4 / (1 + age / 2) / sqrt(1 + age / 2)


def _reuse_of(item: ContextItem) -> Reuse | None:
    """Return what an item's metadata says about its use; None if that is nothing."""
    found: Any = item.metadata.get(REUSE_KEY)
    if found is None:
        return None
    try:
        entries = cast("Mapping[str, Any]", as_mapping("the value", found))
        age = as_integer("age", entries.get("age"), least=1, most=_MOST, error=InvalidItemError)
        uses = as_integer("uses", entries.get("uses", 0), least=0, error=InvalidItemError)
        repeated = as_finite("repeated", entries.get("repeated", 0.0), least=0, most=1, error=InvalidItemError)
        said = as_integer("said", entries.get("said", 0), least=0, error=InvalidItemError)
    except (TypeError, InvalidItemError) as error:
        # Metadata may hold anything, so a value of another type is a wrong value, not a wrong call.
        msg = f"item {shown(item.content)}: metadata[{REUSE_KEY!r}]: {error}"
        raise InvalidItemError(msg) from None
    return Reuse(age, uses, repeated, said)


def _traced(items: Sequence[ContextItem]) -> list[Reuse]:
    """Return how items were used by later ones, in the order of their time; undated ones come first."""

    def when(at: int) -> tuple[bool, float, int]:
        time = items[at].timestamp
        return time is not None, 0.0 if time is None else time.timestamp(), at

    order = sorted(range(len(items)), key=when)
    found = dict(zip(order, trace_reuse((items[at].content, items[at].content) for at in order), strict=True))
    last = {id(item): at for at, item in enumerate(items)}
    return [found[last[id(item)]] for item in items]  # an object listed twice counts at its last place
