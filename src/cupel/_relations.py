"""Relations between items, read from their metadata."""

from __future__ import annotations

from math import inf, isnan
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec

from cupel._checks import as_finite, as_text, shown, wrong_type
from cupel.errors import InvalidItemError
from cupel.model import EXCLUSIVE_KEY, GROUP_KEY, ID_KEY, REQUIRES_KEY, WORTH_KEY, ContextKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from cupel.model import ContextItem


_KEYS: Final = frozenset({ID_KEY, WORTH_KEY, REQUIRES_KEY, GROUP_KEY, EXCLUSIVE_KEY})


class Marks(msgspec.Struct, frozen=True, gc=False):
    """The relations of one item."""

    id: str | None = None
    """The thing it is a form of."""
    worth: float = 1.0
    """The share of the thing's score that it keeps."""
    requires: tuple[str, ...] = ()
    """The things that must be in, in any form."""
    group: str | None = None
    exclusive: str | None = None


_PLAIN: Final = Marks()


def are_related(items: Iterable[ContextItem]) -> bool:
    """Tell whether any item says anything about relations; every run asks, and nearly always none does."""
    filled = [item.metadata for item in items if item.metadata]
    return bool(filled) and not all(map(_KEYS.isdisjoint, filled))


def marks_of(item: ContextItem) -> Marks:
    """Read and check one item's relations.

    >>> from cupel.model import ContextItem
    >>> marks_of(ContextItem("a stub", 2, metadata={"cupel:id": "call-17", "cupel:worth": 0.1})).worth
    0.1
    """
    metadata = item.metadata
    if _KEYS.isdisjoint(metadata):
        return _PLAIN
    try:
        marks = Marks(
            _label(metadata, ID_KEY),
            _worth(metadata),
            _ids(metadata),
            _label(metadata, GROUP_KEY),
            _label(metadata, EXCLUSIVE_KEY),
        )
    except (TypeError, InvalidItemError) as bad:
        # Metadata may hold anything, so a value of another type is a wrong value, not a wrong call.
        msg = f"item {shown(item.content)}: {bad}"
        raise InvalidItemError(msg) from None
    if WORTH_KEY in metadata and marks.id is None:
        msg = f"item {shown(item.content)}: metadata[{WORTH_KEY!r}] needs a {ID_KEY!r} that names the thing, got none"
        raise InvalidItemError(msg)
    return marks


def _label(metadata: Any, key: str) -> str | None:
    label = metadata.get(key)
    if type(label) is str and label:
        return label
    if key not in metadata:
        return None
    label = as_text(f"metadata[{key!r}]", label)
    if not label:
        msg = f"metadata[{key!r}] must not be empty, got ''"
        raise InvalidItemError(msg)
    return label


def _worth(metadata: Any) -> float:
    worth = metadata.get(WORTH_KEY, 1.0)
    if type(worth) is float and 0 <= worth <= 1:
        return worth
    return as_finite(f"metadata[{WORTH_KEY!r}]", worth, least=0, most=1, error=InvalidItemError)


def _ids(metadata: Any) -> tuple[str, ...]:
    ids = metadata.get(REQUIRES_KEY, ())
    if ids == ():
        return ()
    name = f"metadata[{REQUIRES_KEY!r}]"
    if not isinstance(ids, (list, tuple)):  # a set has no order of its own, and the first one missing is reported
        raise wrong_type(name, "a list of ids", ids)
    return tuple(as_text(f"{name}[{place}]", one) for place, one in enumerate(cast("list[object]", ids)))


def check_batch(items: Iterable[ContextItem], seen: set[tuple[str, str]]) -> None:
    """Make sure that nothing in a batch of a stream is related to an earlier one, and remember what is in it.

    >>> from cupel.model import ContextItem
    >>> seen = set()
    >>> check_batch([ContextItem("a stub", 2, metadata={"cupel:id": "call-17"})], seen)
    >>> sorted(seen)
    [('cupel:id', 'call-17')]
    """
    related = [(item, marks_of(item)) for item in items if not _KEYS.isdisjoint(item.metadata)]
    ids = {marks.id for _, marks in related}
    new: set[tuple[str, str]] = set()
    for item, marks in related:
        named = ((ID_KEY, marks.id), (GROUP_KEY, marks.group), (EXCLUSIVE_KEY, marks.exclusive))
        labels = {(key, label) for key, label in named if label is not None}
        apart = sorted(labels & seen) + [(ID_KEY, one) for one in marks.requires if one not in ids]
        if apart:
            key, label = apart[0]
            msg = (
                f"item {shown(item.content)}: {key} {shown(label)} is not in the same batch of the stream; relations "
                "hold within a batch, so raise batch_size, or read the sources whole with arun"
            )
            raise InvalidItemError(msg)
        new |= labels
    seen |= new


def components(edges: list[list[int]]) -> list[list[int]]:
    """Return the strongly connected components, each sorted, those that edges lead to first.

    Tarjan's algorithm without its recursion, which a long chain of requirements would take too deep.

    >>> components([[1], [0], [1]])
    [[0, 1], [2]]
    """
    found: list[list[int]] = []
    number = [0] * len(edges)  # from 1 in the order of discovery; 0 is not yet discovered
    low = [0] * len(edges)
    open_nodes: list[int] = []
    is_open = [False] * len(edges)
    count = 0
    for root in range(len(edges)):
        path: list[tuple[int, int]] = [] if number[root] else [(root, 0)]
        while path:
            node, place = path.pop()
            if place == 0:
                count += 1
                number[node] = low[node] = count
                open_nodes.append(node)
                is_open[node] = True
            elif is_open[child := edges[node][place - 1]]:
                low[node] = min(low[node], low[child])
            if place < len(edges[node]):
                path.append((node, place + 1))
                if not number[child := edges[node][place]]:
                    path.append((child, 0))
            elif low[node] == number[node]:
                members: list[int] = []
                while is_open[node]:
                    members.append(open_nodes.pop())
                    is_open[members[-1]] = False
                found.append(sorted(members))
    return found


class Form(msgspec.Struct, frozen=True, gc=False):
    """One form of a thing."""

    position: int
    """Its place among the candidates."""
    tokens: int
    value: float
    """Its score times its worth; minus infinity for what is no number, so that it comes last."""


class Thing(msgspec.Struct, frozen=True, gc=False):
    """What at most one of several candidates stands for; a candidate without an id is a thing of its own."""

    id: str | None
    positions: tuple[int, ...]
    """All its candidates; empty for a thing whose items cannot be chosen, such as those with a negative count."""
    forms: tuple[Form, ...]
    """What may be chosen, from the fewest tokens up; empty for a thing that can never be in."""
    requires: tuple[int, ...] = ()
    """Things, as places in `Relations.things`, of which each must be in as well; those that are pinned are left out."""
    group: str | None = None
    exclusive: str | None = None

    def part(self, places: Mapping[int, int], things: Mapping[int, int]) -> Thing:
        """Return what is left of it where positions and things have other numbers, or none."""
        return Thing(
            self.id,
            tuple(places[position] for position in self.positions if position in places),
            tuple(
                Form(places[form.position], form.tokens, form.value) for form in self.forms if form.position in places
            ),
            tuple(things[thing] for thing in self.requires if thing in things),
            self.group,
            self.exclusive,
        )


class Unit(msgspec.Struct, frozen=True, gc=False):
    """Things that are all in or all out: a group, or those that require one another in a circle, or a single thing."""

    things: tuple[int, ...]
    requires: tuple[int, ...]
    """Other units that must be in as well; each stands earlier in `Relations.units`."""
    is_open: bool
    """Whether it can be in at all."""


class Pins(msgspec.Struct, frozen=True):
    """What the pinned items settle; contents by label."""

    things: Mapping[str, str] = {}
    exclusive: Mapping[str, str] = {}


class Relations(msgspec.Struct, frozen=True):
    """The relations of a pool of candidates, each position in exactly one thing and each thing in exactly one unit."""

    things: tuple[Thing, ...]
    """In the order of their first positions."""
    units: tuple[Unit, ...]
    """What a unit requires comes before it."""
    exclusive: Mapping[str, tuple[int, ...]]
    """Labels with things of which at most one may be in."""
    pins: Pins
    thing_of: Mapping[int, int]
    """The thing of each position."""
    unit_of: Sequence[int]
    """The unit of each thing."""

    def part(self, positions: Sequence[int]) -> Relations:
        """Return the relations among some of the candidates, which are numbered anew.

        What the others require or exclude is left to whoever sees them all.
        """
        places = {position: place for place, position in enumerate(positions)}
        kept = sorted({self.thing_of[position] for position in positions})
        renamed = {thing: place for place, thing in enumerate(kept)}
        return assemble((self.things[thing].part(places, renamed) for thing in kept), self.pins)


def assemble(things: Iterable[Thing], pins: Pins) -> Relations:
    """Find the units, and close what can never be in."""
    things = list(things)
    units: list[Unit] = []
    unit_of = [0] * len(things)
    claims: list[dict[str, int]] = []
    for members in components(_edges(things)):
        for thing in members:
            unit_of[thing] = len(units)
        needed = sorted({unit_of[other] for thing in members for other in things[thing].requires} - {len(units)})
        claimed = _claims(things, members, [claims[unit] for unit in needed])
        is_open = (
            claimed is not None
            and all(things[thing].forms for thing in members)
            and all(units[unit].is_open for unit in needed)
        )
        claims.append(claimed or {})
        units.append(Unit(tuple(members), tuple(needed), is_open))
    for unit in units:
        if not unit.is_open:
            for thing in unit.things:
                things[thing] = msgspec.structs.replace(things[thing], forms=())
    thing_of = {position: place for place, thing in enumerate(things) for position in thing.positions}
    return Relations(tuple(things), tuple(units), _exclusive(things), pins, thing_of, unit_of)


def _edges(things: list[Thing]) -> list[list[int]]:
    """Return what each thing requires; the members of a group require one another, in a ring."""
    edges = [list(thing.requires) for thing in things]
    groups: dict[str, list[int]] = {}
    for place, thing in enumerate(things):
        if thing.group is not None:
            groups.setdefault(thing.group, []).append(place)
    for members in groups.values():
        for place, following in zip(members, (*members[1:], members[0]), strict=True):
            edges[place].append(following)
    return edges


def _claims(things: list[Thing], members: list[int], needed: list[dict[str, int]]) -> dict[str, int] | None:
    """Return the exclusive labels that a unit takes with all it requires; None if it takes one twice."""
    claims = {} if not needed else needed[0]
    own = [(label, thing) for thing in members if (label := things[thing].exclusive) is not None]
    if not own and len(needed) < 2:  # noqa: PLR2004 - nothing to compare
        return claims
    claims = dict(claims)
    for label, thing in (*own, *(claim for others in needed[1:] for claim in others.items())):
        if claims.setdefault(label, thing) != thing:
            return None
    return claims


def _exclusive(things: list[Thing]) -> dict[str, tuple[int, ...]]:
    sets: dict[str, tuple[int, ...]] = {}
    for place, thing in enumerate(things):
        if thing.exclusive is not None:
            sets[thing.exclusive] = (*sets.get(thing.exclusive, ()), place)
    return sets


def closure(relations: Relations, unit: int) -> list[int]:
    """Return a unit with all that it requires, directly or not; what is required comes first."""
    found = {unit}
    open_ends = list(relations.units[unit].requires)
    while open_ends:
        other = open_ends.pop()
        if other not in found:
            found.add(other)
            open_ends += relations.units[other].requires
    return sorted(found)


def lawful(relations: Relations, chosen: Sequence[int]) -> list[int]:
    """Return what may stay of a choice, in its order.

    Of several forms of a thing the one of most value stays, of several things of an exclusive set likewise; then go
    halves of groups and whatever requires what is not there, until nothing more has to go.
    """
    kept: dict[int, Form] = {}
    places = set(chosen)
    for thing in {relations.thing_of[position] for position in chosen}:
        forms = [form for form in relations.things[thing].forms if form.position in places]
        if forms:
            kept[thing] = max(forms, key=lambda form: (form.value, -form.position))
    while lost := _incomplete(relations, kept) or _outdone(relations, kept):
        for thing in lost:
            del kept[thing]
    staying = {form.position for form in kept.values()}
    return [position for position in chosen if position in staying]


def _incomplete(relations: Relations, kept: Collection[int]) -> list[int]:
    """Return the things whose unit is not whole, or requires one that is not."""
    whole = [False] * len(relations.units)
    for place, unit in enumerate(relations.units):
        whole[place] = all(thing in kept for thing in unit.things) and all(whole[other] for other in unit.requires)
    return [thing for thing in kept if not whole[relations.unit_of[thing]]]


def _outdone(relations: Relations, kept: dict[int, Form]) -> list[int]:
    """Return the things of which a rival of more value, or an earlier one of the same, is there as well."""
    lost: list[int] = []
    for rivals in relations.exclusive.values():
        there = [thing for thing in rivals if thing in kept]
        if len(there) > 1:
            there.remove(max(there, key=lambda thing: (kept[thing].value, -thing)))
            lost += there
    return lost


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
