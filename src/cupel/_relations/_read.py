"""Reading the relations of a pool, and refusing what contradicts itself."""

from __future__ import annotations

from math import inf, isnan
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from cupel._checks import shown
from cupel._relations._marks import Marks, are_related, marks_of
from cupel._relations._relations import Form, Pins, Relations, Thing, assemble
from cupel.errors import InvalidItemError
from cupel.model import EXCLUSIVE_KEY, GROUP_KEY, ID_KEY, REQUIRES_KEY, ContextKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel.model import ContextItem

_Entry: TypeAlias = "tuple[ContextItem, Marks]"


def read_relations(
    items: Iterable[ContextItem],
    scores: Sequence[float],
    pinned: Sequence[ContextItem] = (),
    unusable: Sequence[ContextItem] = (),
) -> Relations | None:
    """Read the relations of candidates and pinned items; None when nobody says anything about any.

    `unusable` items belong to the pool but cannot be chosen; nor can candidates with a negative count.
    """
    if not (are_related(items) or are_related(pinned)):
        return None
    entries = [(item, marks_of(item)) for item in items]
    fixed = [(item, marks_of(item)) for item in pinned]
    others = [(item, marks_of(item)) for item in unusable]
    everyone = [*fixed, *entries, *others]
    _check_agreement(everyone)
    pins = _pins(fixed)
    _check_ids(everyone)
    _check_pinned_groups(everyone, len(fixed), pins)
    _check_pinned_requirements(fixed, pins)
    return assemble(_things(entries, others, scores, pins), pins)


def _check_agreement(entries: list[_Entry]) -> None:
    """Make sure that the forms of one thing differ in nothing that other things see."""
    first: dict[str, _Entry] = {}
    for item, marks in entries:
        if marks.id is None:
            continue
        other, others = first.setdefault(marks.id, (item, marks))
        if other is item:
            continue
        pairs = (
            ("kind", item.kind, other.kind),
            (REQUIRES_KEY, sorted(set(marks.requires)), sorted(set(others.requires))),
            (GROUP_KEY, marks.group, others.group),
            (EXCLUSIVE_KEY, marks.exclusive, others.exclusive),
        )
        for name, value, expected in pairs:
            if value != expected:
                msg = (
                    f"forms of {shown(marks.id)} must agree in {name}, got {_named(value)} for {shown(item.content)} "
                    f"and {_named(expected)} for {shown(other.content)}"
                )
                raise InvalidItemError(msg)


def _pins(fixed: list[_Entry]) -> Pins:
    """Note what is pinned, where no two may be."""
    things: dict[str, str] = {}
    exclusive: dict[str, str] = {}
    for item, marks in fixed:
        for key, label, taken in ((ID_KEY, marks.id, things), (EXCLUSIVE_KEY, marks.exclusive, exclusive)):
            if label in taken:
                msg = (
                    f"at most one item of {key} {shown(label)} may be pinned, got {shown(taken[label])} "
                    f"and {shown(item.content)}"
                )
                raise InvalidItemError(msg)
            if label is not None:
                taken[label] = item.content
    return Pins(things, exclusive)


def _check_ids(entries: list[_Entry]) -> None:
    ids = {marks.id for _, marks in entries}
    for item, marks in entries:
        for one in marks.requires:
            if one not in ids:
                msg = (
                    f"item {shown(item.content)}: metadata[{REQUIRES_KEY!r}] names {shown(one)}, "
                    f"but no item has this {ID_KEY}"
                )
                raise InvalidItemError(msg)


def _check_pinned_groups(entries: list[_Entry], pinned_count: int, pins: Pins) -> None:
    """Make sure that a group is pinned as a whole or not at all; a thing with a pinned form is pinned."""
    first: dict[str, tuple[bool, ContextItem]] = {}
    for place, (item, marks) in enumerate(entries):
        if marks.group is None:
            continue
        # A rule may have pinned it, so its flag says little.
        is_pinned = place < pinned_count or marks.id in pins.things
        was_pinned, other = first.setdefault(marks.group, (is_pinned, item))
        if is_pinned is not was_pinned:
            yes, no = (item, other) if is_pinned else (other, item)
            msg = (
                f"group {shown(marks.group)} must be pinned as a whole or not at all, got {shown(yes.content)} pinned "
                f"and {shown(no.content)} not"
            )
            raise InvalidItemError(msg)


def _check_pinned_requirements(fixed: list[_Entry], pins: Pins) -> None:
    """A pinned item is in under any budget, and so must be what it requires."""
    for item, marks in fixed:
        for one in marks.requires:
            if one not in pins.things:
                msg = (
                    f"item {shown(item.content)} is pinned, so what it requires must be pinned too: {shown(one)} is not"
                )
                raise InvalidItemError(msg)


def _things(entries: list[_Entry], others: list[_Entry], scores: Sequence[float], pins: Pins) -> list[Thing]:
    """Collect the forms of each thing, in the order of first positions; things that cannot be chosen come last."""
    members: list[tuple[Marks, list[int], list[Form]]] = []
    place_of: dict[str, int] = {}
    for position, (item, marks) in enumerate((*entries, *others)):
        place = len(members) if marks.id is None else place_of.setdefault(marks.id, len(members))
        if place == len(members):
            members.append((marks, [], []))
        if position < len(entries):
            _, positions, forms = members[place]
            positions.append(position)
            forms += _form(position, item, marks, scores, pins)
    place_of = {one: place for one, place in place_of.items() if one not in pins.things}
    return [
        Thing(
            marks.id,
            tuple(positions),
            tuple(sorted(forms, key=_tokens) if len(forms) > 1 else forms),
            tuple(dict.fromkeys(place_of[one] for one in marks.requires if one in place_of)) if marks.requires else (),
            marks.group,
            marks.exclusive,
        )
        for marks, positions, forms in members
    ]


def _form(position: int, item: ContextItem, marks: Marks, scores: Sequence[float], pins: Pins) -> tuple[Form, ...]:
    """Return the form an item is, or nothing if it can never be in."""
    if item.tokens < 0 or marks.id in pins.things or marks.exclusive in pins.exclusive:
        return ()
    value = scores[position] * marks.worth if marks.worth else 0.0  # whatever the score, nothing of it is left
    return (Form(position, item.tokens, -inf if isnan(value) else value),)


_tokens = attrgetter("tokens")


def _named(value: ContextKind | list[str] | str | None) -> str:
    return "none" if value is None else str(value) if isinstance(value, ContextKind) else shown(value)
