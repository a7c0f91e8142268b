"""Relations between items, read from their metadata: forms of one entity, and groups."""

from __future__ import annotations

from math import inf, isnan
from operator import attrgetter
from sys import float_info
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from cupel._internal.checks import as_finite, as_text, shown
from cupel.errors import InvalidItemError
from cupel.model import GROUP_KEY, ID_KEY, WORTH_KEY, ContextKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from cupel.model import ContextItem


_KEYS: Final = frozenset({ID_KEY, WORTH_KEY, GROUP_KEY})


class Relation(msgspec.Struct, frozen=True, gc=False):
    """The relations of one item."""

    id: str | None = None
    """The entity it is a form of."""
    worth: float = 1.0
    """The share of the entity's score that this form keeps."""
    group: str | None = None


_UNRELATED: Final = Relation()


def are_related(items: Iterable[ContextItem]) -> bool:
    """Return whether any item has a relation; every run asks, and nearly always none does."""
    filled = [item.metadata for item in items if item.metadata]
    return bool(filled) and not all(map(_KEYS.isdisjoint, filled))


def relation_of(item: ContextItem) -> Relation:
    """Read and check one item's relations.

    >>> from cupel.model import ContextItem
    >>> relation_of(ContextItem("a stub", 2, metadata={"cupel:id": "call-17", "cupel:worth": 0.1})).worth
    0.1
    """
    metadata = item.metadata
    if _KEYS.isdisjoint(metadata):
        return _UNRELATED
    try:
        relation = Relation(_label(metadata, ID_KEY), _worth(metadata), _label(metadata, GROUP_KEY))
    except (TypeError, InvalidItemError) as bad:
        # Metadata may hold anything, so a value of another type is a wrong value, not a wrong call.
        raise InvalidItemError(f"item {shown(item.content)}: {bad}") from None
    if WORTH_KEY in metadata and relation.id is None:
        msg = f"item {shown(item.content)}: metadata[{WORTH_KEY!r}] needs a {ID_KEY!r} that names the entity, got none"
        raise InvalidItemError(msg)
    return relation


def _label(metadata: Any, key: str) -> str | None:
    label = metadata.get(key)
    if type(label) is str and label:
        return label
    if key not in metadata:
        return None
    if label is None:
        raise InvalidItemError(f"metadata[{key!r}] must be a string, got None; an item without one lacks the key")
    label = as_text(f"metadata[{key!r}]", label)
    if not label:
        raise InvalidItemError(f"metadata[{key!r}] must not be empty, got ''")
    return label


def _worth(metadata: Any) -> float:
    worth = metadata.get(WORTH_KEY, 1.0)
    if type(worth) is float and 0 <= worth <= 1:
        return worth
    return as_finite(f"metadata[{WORTH_KEY!r}]", worth, least=0, most=1, error=InvalidItemError)


def check_batch(items: Iterable[ContextItem], seen: set[tuple[str, str]]) -> None:
    """Raise if an item of a stream's batch is related to one of an earlier batch; add the labels of this batch.

    >>> from cupel.model import ContextItem
    >>> seen = set()
    >>> check_batch([ContextItem("a stub", 2, metadata={"cupel:id": "call-17"})], seen)
    >>> sorted(seen)
    [('cupel:id', 'call-17')]
    """
    new: set[tuple[str, str]] = set()
    for item in items:
        if _KEYS.isdisjoint(item.metadata):
            continue
        relation = relation_of(item)
        named = ((ID_KEY, relation.id), (GROUP_KEY, relation.group))
        labels = {(key, label) for key, label in named if label is not None}
        for key, label in sorted(labels & seen):
            raise InvalidItemError(
                f"item {shown(item.content)}: {key} {shown(label)} is not in the same batch of the stream; relations "
                "hold within a batch, so raise batch_size, or read the sources whole with arun"
            )
        new |= labels
    seen |= new


class Form(msgspec.Struct, frozen=True, gc=False):
    """One form of an entity."""

    position: int
    """Its place among the candidates."""
    tokens: int
    value: float
    """Its score times its worth; minus infinity for a NaN, so that it comes last."""


class Entity(msgspec.Struct, frozen=True, gc=False):
    """An entity that at most one of its candidates represents; a candidate without an id is a separate entity."""

    id: str | None
    positions: tuple[int, ...]
    """All its candidates; empty if none of its items can be chosen, such as those with a negative count."""
    forms: tuple[Form, ...]
    """The candidates that may be chosen, from the fewest tokens up; empty if the entity can never be in."""
    group: str | None = None

    def part(self, places: Mapping[int, int]) -> Entity:
        """Return the entity with only these positions, under their new numbers."""
        return Entity(
            self.id,
            tuple(places[position] for position in self.positions if position in places),
            tuple(
                Form(places[form.position], form.tokens, form.value) for form in self.forms if form.position in places
            ),
            self.group,
        )


class Group(msgspec.Struct, frozen=True, gc=False):
    """Entities that are all in or all out; an entity without a group is a group of one."""

    entities: tuple[int, ...]
    is_open: bool
    """Whether it can be in at all."""


class Relations(msgspec.Struct, frozen=True):
    """The relations of a pool: each position is in exactly one entity, and each entity in exactly one group."""

    entities: tuple[Entity, ...]
    """In the order of their first positions."""
    groups: tuple[Group, ...]
    """In the order of their first entities."""
    pinned: Mapping[str, str]
    """The content of the pinned item of each entity that has one."""
    entity_of: Mapping[int, int]
    """The entity of each position."""
    group_of: Sequence[int]
    """The group of each entity."""

    def part(self, positions: Sequence[int]) -> Relations:
        """Return the relations among some of the candidates, numbered by their place in `positions`."""
        places = {position: place for place, position in enumerate(positions)}
        kept = sorted({self.entity_of[position] for position in positions})
        return assemble([self.entities[entity].part(places) for entity in kept], self.pinned)


def assemble(entities: list[Entity], pinned: Mapping[str, str]) -> Relations:
    """Collect the groups, and leave no form to entities whose group can never be in."""
    members: dict[str | int, list[int]] = {}
    for place, entity in enumerate(entities):
        members.setdefault(place if entity.group is None else entity.group, []).append(place)
    groups: list[Group] = []
    group_of = [0] * len(entities)
    for places in members.values():
        is_open = all(entities[place].forms for place in places)
        for place in places:
            group_of[place] = len(groups)
            if not is_open and entities[place].forms:
                entities[place] = msgspec.structs.replace(entities[place], forms=())
        groups.append(Group(tuple(places), is_open))
    entity_of = {position: place for place, entity in enumerate(entities) for position in entity.positions}
    return Relations(tuple(entities), tuple(groups), pinned, entity_of, group_of)


def drop_violations(relations: Relations, chosen: Sequence[int]) -> list[int]:
    """Return the positions of a choice that may stay, in its order.

    Of several forms of an entity the one of most value stays. Then drop incomplete groups.
    """
    kept: dict[int, Form] = {}
    places = set(chosen)
    for entity in {relations.entity_of[position] for position in chosen}:
        forms = [form for form in relations.entities[entity].forms if form.position in places]
        if forms:
            kept[entity] = max(forms, key=lambda form: (form.value, -form.position))
    staying = {form.position for entity, form in kept.items() if _is_whole(relations, entity, kept)}
    return [position for position in chosen if position in staying]


def _is_whole(relations: Relations, entity: int, kept: Collection[int]) -> bool:
    return all(other in kept for other in relations.groups[relations.group_of[entity]].entities)


def density(value: float, tokens: int) -> float:
    """Return the value of each token; without tokens nothing is denser."""
    return value / tokens if tokens else float_info.max


def hull(tokens: Sequence[int], values: Sequence[float]) -> list[int]:
    """Return the corners of the least concave line over points, which are given by ascending tokens.

    >>> hull([0, 10, 20], [0.0, 0.2, 0.9])
    [0, 2]
    """

    def slope(start: int, end: int) -> float:
        return density(values[end] - values[start], tokens[end] - tokens[start])

    corners: list[int] = []
    for end in range(len(tokens)):
        while len(corners) > 1 and slope(corners[-2], corners[-1]) < slope(corners[-1], end):
            corners.pop()
        corners.append(end)
    return corners


def rising_forms(forms: Iterable[Form]) -> list[Form]:
    """Return the forms that are worth more than every smaller one, from the smallest up.

    >>> [form.tokens for form in rising_forms([Form(0, 10, 0.2), Form(1, 60, 0.9), Form(2, 99, 0.8)])]
    [10, 60]
    """
    rising: list[Form] = []
    for form in sorted(forms, key=lambda form: (form.tokens, -form.value, form.position)):
        if not rising or form.value > rising[-1].value:
            rising.append(form)
    return rising


def useful_forms(forms: Iterable[Form]) -> list[Form]:
    """Return the forms worth taking, from the smallest up: more value for more tokens, and on the hull of all of them.

    >>> [form.tokens for form in useful_forms([Form(0, 10, 0.2), Form(1, 50, 0.3), Form(2, 60, 0.9), Form(3, 99, 0.8)])]
    [10, 60]
    """
    rising = rising_forms(forms)
    return [rising[corner] for corner in hull([form.tokens for form in rising], [form.value for form in rising])]


_ItemRelation: TypeAlias = "tuple[ContextItem, Relation]"


def read_relations(
    items: Iterable[ContextItem],
    scores: Sequence[float],
    pinned: Sequence[ContextItem] = (),
    unusable: Sequence[ContextItem] = (),
) -> Relations | None:
    """Read the relations of candidates and pinned items; return None if no item has any.

    `unusable` items belong to the pool but cannot be chosen; nor can candidates with a negative count.
    """
    if not (are_related(items) or are_related(pinned)):
        return None
    entries = [(item, relation_of(item)) for item in items]
    fixed = [(item, relation_of(item)) for item in pinned]
    others = [(item, relation_of(item)) for item in unusable]
    everyone = [*fixed, *entries, *others]
    _check_agreement(everyone)
    contents = _pinned_contents(fixed)
    _check_pinned_groups(everyone, len(fixed), contents)
    return assemble(_entities(entries, others, scores, contents), contents)


def _check_agreement(entries: list[_ItemRelation]) -> None:
    """Raise if the forms of one entity differ in their kind or group."""
    first: dict[str, _ItemRelation] = {}
    for item, relation in entries:
        if relation.id is None:
            continue
        other, others = first.setdefault(relation.id, (item, relation))
        pairs = (("kind", item.kind, other.kind), (GROUP_KEY, relation.group, others.group))
        for name, value, expected in pairs:
            if value != expected:
                raise InvalidItemError(
                    f"forms of {shown(relation.id)} must agree in {name}, got {_named(value)} for "
                    f"{shown(item.content)} and {_named(expected)} for {shown(other.content)}"
                )


def _pinned_contents(fixed: list[_ItemRelation]) -> dict[str, str]:
    """Return the pinned content of each entity; raise if two forms of one are pinned."""
    contents: dict[str, str] = {}
    for item, relation in fixed:
        if relation.id in contents:
            raise InvalidItemError(
                f"at most one item of {ID_KEY} {shown(relation.id)} may be pinned, "
                f"got {shown(contents[relation.id])} and {shown(item.content)}"
            )
        if relation.id is not None:
            contents[relation.id] = item.content
    return contents


def _check_pinned_groups(entries: list[_ItemRelation], pinned_count: int, pinned: Mapping[str, str]) -> None:
    """Raise if a group is pinned in part; an entity with a pinned form is pinned."""
    first: dict[str, tuple[bool, ContextItem]] = {}
    for place, (item, relation) in enumerate(entries):
        if relation.group is None:
            continue
        # A rule may have pinned it, so its flag is not enough.
        is_pinned = place < pinned_count or relation.id in pinned
        was_pinned, other = first.setdefault(relation.group, (is_pinned, item))
        if is_pinned is not was_pinned:
            yes, no = (item, other) if is_pinned else (other, item)
            raise InvalidItemError(
                f"group {shown(relation.group)} must be pinned as a whole or not at all, "
                f"got {shown(yes.content)} pinned and {shown(no.content)} not"
            )


def _entities(
    entries: list[_ItemRelation], others: list[_ItemRelation], scores: Sequence[float], pinned: Mapping[str, str]
) -> list[Entity]:
    """Collect the forms of each entity, in the order of first positions; those that cannot be chosen come last."""
    members: list[tuple[Relation, list[int], list[Form]]] = []
    place_of: dict[str, int] = {}
    for position, (item, relation) in enumerate((*entries, *others)):
        place = len(members) if relation.id is None else place_of.setdefault(relation.id, len(members))
        if place == len(members):
            members.append((relation, [], []))
        if position < len(entries):
            _, positions, forms = members[place]
            positions.append(position)
            if item.tokens >= 0 and relation.id not in pinned:
                value = scores[position] * relation.worth if relation.worth else 0.0  # also of an infinite score
                forms.append(Form(position, item.tokens, -inf if isnan(value) else value))
    return [
        Entity(
            relation.id,
            tuple(positions),
            tuple(sorted(forms, key=_tokens) if len(forms) > 1 else forms),
            relation.group,
        )
        for relation, positions, forms in members
    ]


_tokens = attrgetter("tokens")


def _named(value: ContextKind | str | None) -> str:
    return "none" if value is None else str(value) if isinstance(value, ContextKind) else shown(value)
