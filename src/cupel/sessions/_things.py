"""Items as candidates: forms of one thing are alternatives, and a group is sent whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from cupel._checks import shown
from cupel._planning import MOST_TOKENS, Candidate, FormOption
from cupel._relations import Marks, marks_of
from cupel.errors import InvalidItemError
from cupel.model import EXCLUSIVE_KEY, GROUP_KEY, ID_KEY, REQUIRES_KEY, ContextItem

Key = Callable[[ContextItem], str]


@dataclass(slots=True)
class SentForm:
    """Items that are sent together, by position, and what they are worth."""

    positions: list[int]
    worth: float

    def name(self, items: Sequence[ContextItem]) -> str:
        """Return a short hash of what it says."""
        digest = blake2b(digest_size=6)
        for at in self.positions:
            digest.update(items[at].content.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


@dataclass(slots=True)
class SentThing:
    """What one of several forms stands for; a group has one form, and any other item is a thing of its own."""

    key: str
    new: bool
    forms: list[SentForm]

    @property
    def positions(self) -> list[int]:
        """Where its items stand among all."""
        return [at for form in self.forms for at in form.positions]

    def candidate(self, items: Sequence[ContextItem], *, pinned: bool) -> Candidate:
        """Return the thing as a candidate; the form with most tokens is the whole."""
        value = max(form.worth for form in self.forms)
        options = [
            FormOption(
                form.name(items), sum(items[at].tokens for at in form.positions), form.worth / value if value else 1
            )
            for form in self.forms
        ]
        options.sort(key=lambda option: (option.tokens, option.form))
        free = all(items[at].timestamp is None for at in self.positions)
        return Candidate(self.key, value, tuple(options), held=pinned or self.new, new=self.new, free=free)


def identity(item: ContextItem) -> str:
    """Return what an item is known by unless the caller says otherwise: a hash of its content and kind."""
    text = f"{item.kind}\n{item.content}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=12).hexdigest()


def things_of(items: Sequence[ContextItem], scores: Sequence[float], new: range, key: Key) -> list[SentThing]:
    """Return the things that items stand for; the items at the positions `new` came since the last selection."""
    found: dict[str, SentThing] = {}
    seen: dict[str, int] = {}
    for position, item in enumerate(items):
        marks = marks_of(item)
        _check(item, marks)
        name = key(item)
        if marks.id is not None or marks.group is not None:
            name = f"group:{marks.group}" if marks.id is None else f"id:{marks.id}"
        else:
            seen[name] = number = seen.get(name, 0) + 1
            name = f"{name}#{number}" if number > 1 else name
        worth = max(scores[position] * marks.worth, 0.0)
        thing = found.setdefault(name, SentThing(name, position in new, []))
        if thing.new is not (position in new):
            what = f"forms of {shown(marks.id)}" if marks.group is None else f"members of group {shown(marks.group)}"
            msg = f"all {what} must be among the items, or all among the new ones"
            raise InvalidItemError(msg)
        if marks.group is not None and thing.forms:
            thing.forms[0].positions.append(position)
            thing.forms[0].worth += worth
        else:
            thing.forms.append(SentForm([position], worth))
    return list(found.values())


def _check(item: ContextItem, marks: Marks) -> None:
    if item.tokens > MOST_TOKENS:
        msg = f"item {shown(item.content)}: a session counts at most 2**53 tokens, got {shown(item.tokens)}"
        raise InvalidItemError(msg)
    unknown = {EXCLUSIVE_KEY: marks.exclusive, REQUIRES_KEY: marks.requires, GROUP_KEY: marks.id and marks.group}
    for key, value in unknown.items():
        if value:
            beside = f" beside metadata[{ID_KEY!r}]" if key == GROUP_KEY else ""
            msg = f"item {shown(item.content)}: a session knows forms and groups, but not metadata[{key!r}]{beside}"
            raise InvalidItemError(msg)
