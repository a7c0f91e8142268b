"""Items as candidates: forms of one thing taken together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from cupel._checks import shown
from cupel._planning import MOST_TOKENS, Candidate, Option
from cupel._relations import marks_of
from cupel.errors import InvalidItemError
from cupel.model import EXCLUSIVE_KEY, GROUP_KEY, REQUIRES_KEY, ContextItem

Key = Callable[[ContextItem], str]


@dataclass(slots=True)
class Thing:
    """What at most one of several items stands for; an item without a `cupel:id` is a thing of its own."""

    key: str
    new: bool
    positions: list[int]
    """Where its items stand among all."""
    values: list[float]
    """What each of them is worth."""

    def candidate(self, items: Sequence[ContextItem], *, pinned: bool) -> Candidate:
        """Return the thing as a candidate; the form with most tokens is the whole."""
        value = max(self.values)
        options = [
            Option(form_of(items[at]), items[at].tokens, worth / value if value else 1.0)
            for at, worth in zip(self.positions, self.values, strict=True)
        ]
        options.sort(key=lambda option: (option.tokens, option.form))
        free = all(items[at].timestamp is None for at in self.positions)
        return Candidate(self.key, value, tuple(options), held=pinned or self.new, new=self.new, free=free)


def form_of(item: ContextItem) -> str:
    """Return the name of a form: a short hash of what it says."""
    return blake2b(item.content.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def identity(item: ContextItem) -> str:
    """Return what an item is known by unless the caller says otherwise: a hash of its content and kind."""
    text = f"{item.kind}\n{item.content}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=12).hexdigest()


def things_of(items: Sequence[ContextItem], scores: Sequence[float], new: range, key: Key) -> list[Thing]:
    """Return the things that items stand for; the items at the positions `new` came since the last selection."""
    found: dict[str, Thing] = {}
    seen: dict[str, int] = {}
    for position, item in enumerate(items):
        marks = marks_of(item)
        _check(item, marks.group, marks.exclusive, marks.requires)
        name = key(item)
        if marks.id is not None:
            name = f"id:{marks.id}"
        else:
            seen[name] = number = seen.get(name, 0) + 1
            name = f"{name}#{number}" if number > 1 else name
        score = scores[position] * marks.worth
        thing = found.setdefault(name, Thing(name, position in new, [], []))
        if thing.new is not (position in new):
            msg = f"all forms of {shown(marks.id)} must be among the items, or all among the new ones"
            raise InvalidItemError(msg)
        thing.positions.append(position)
        thing.values.append(score if score > 0 else 0.0)
    return list(found.values())


def _check(item: ContextItem, group: str | None, exclusive: str | None, requires: Sequence[str]) -> None:
    if item.tokens > MOST_TOKENS:
        msg = f"item {shown(item.content)}: a session counts at most 2**53 tokens, got {shown(item.tokens)}"
        raise InvalidItemError(msg)
    for key, value in ((GROUP_KEY, group), (EXCLUSIVE_KEY, exclusive), (REQUIRES_KEY, requires)):
        if value:
            msg = f"item {shown(item.content)}: a session knows forms of one thing, but not metadata[{key!r}]"
            raise InvalidItemError(msg)
