"""Relations read naively from metadata: what a selection must not do, the greedy definition, and the best there is.

Entries are `(item, score)`; an item is anything with `content`, `tokens`, `kind`, `pinned` and `metadata`.
"""

from __future__ import annotations

import math
import sys
from itertools import product


def mark(item, key, default=None):
    return item.metadata.get(f"cupel:{key}", default)


def breaches(candidates, selected) -> list[str]:
    """Say every way in which a selection, pinned items included, is against the relations of its candidates."""
    found = []
    inside = {id(item) for item in selected}
    ids = [mark(item, "id") for item in selected if mark(item, "id") is not None]
    found += [f"two forms of {one}" for one in set(ids) if ids.count(one) > 1]
    for item in selected:
        group = mark(item, "group")
        for other in candidates:
            if group is None or mark(other, "group") != group or id(other) in inside:
                continue
            if mark(other, "id") is None or mark(other, "id") not in ids:
                found.append(f"{item.content} is in without {other.content} of its group")
    return found


def subsets(candidates):
    """Every subset of the positions that keeps the relations, by trying all of them."""
    for flags in product((False, True), repeat=len(candidates)):
        chosen = [position for position, flag in enumerate(flags) if flag]
        items = [candidates[position] for position in chosen]
        if all(item.tokens >= 0 for item in items) and not breaches(candidates, items):
            yield chosen


def value(entries, position) -> float:
    item, score = entries[position]
    worth = mark(item, "worth", 1.0)
    return score * worth if worth else 0.0


def best_value(entries, target, worth) -> int:
    """The greatest sum of `worth(position)` over such subsets within the target."""
    items = [item for item, _ in entries]
    fitting = (chosen for chosen in subsets(items) if sum(items[p].tokens for p in chosen) <= target)
    return max(sum(map(worth, chosen)) for chosen in fitting)


def greedy(entries, target) -> set[int]:
    """Steps in order of density; a group in its smallest forms first, then one exchange of a form after the other."""
    pool = _Pool(entries)
    steps = []
    for group in pool.groups:
        steps += pool.steps(group)
    steps.sort(key=lambda step: (-step[0], step[1], step[2]))
    level: dict[int, int] = {}
    remaining = target
    for _, _, _, group, exchange in steps if target > 0 else ():
        if exchange is None:
            cost = sum(pool.forms[e][0][0] for e in group)
            if cost <= remaining:
                remaining -= cost
                level.update(dict.fromkeys(group, 0))
        else:
            which, to = exchange
            cost = pool.forms[which][to][0] - pool.forms[which][to - 1][0]
            if level.get(which) == to - 1 and cost <= remaining:
                remaining -= cost
                level[which] = to
    return {pool.forms[entity][step][2] for entity, step in level.items()}


class _Pool:
    def __init__(self, entries):
        self.items = [item for item, _ in entries]
        names: dict = {}
        for position, item in enumerate(self.items):
            names.setdefault(mark(item, "id") or position, []).append(position)
        self.members = list(names.values())
        self.forms = [_useful([(self.items[p].tokens, value(entries, p), p) for p in ps]) for ps in self.members]
        everyone = range(len(self.members))
        self.group_of = [tuple(e for e in everyone if self._is_mate(e, other)) for other in everyone]
        self.groups = [group for group in sorted(set(self.group_of)) if all(self.forms[e] for e in group)]

    def _is_mate(self, entity, other):
        labels = [mark(self.items[self.members[e][0]], "group") for e in (entity, other)]
        return entity == other or (labels[0] is not None and labels[0] == labels[1])

    def steps(self, group):
        """The steps of a group: key, first position, number, group, and the entity with its new form."""
        exchanges = sorted(
            (
                (-(high[1] - low[1]) / (high[0] - low[0]), e, to)
                for e in group
                for to, (low, high) in enumerate(zip(self.forms[e], self.forms[e][1:], strict=False), 1)
            ),
        )
        smallest = [self.forms[e][0] for e in group]
        points = [(0, 0.0), (sum(form[0] for form in smallest), sum(form[1] for form in smallest))]
        for _, e, to in exchanges:
            low, high = self.forms[e][to - 1], self.forms[e][to]
            points.append((points[-1][0] + high[0] - low[0], points[-1][1] + high[1] - low[1]))
        first = min(p for e in group for p in self.members[e])
        entities = [None, *((e, to) for _, e, to in exchanges)]
        return [(_key(points, number + 1), first, number, group, entity) for number, entity in enumerate(entities)]


def _density(start, end):
    return (end[1] - start[1]) / (end[0] - start[0]) if end[0] > start[0] else sys.float_info.max


def _key(points, number):
    """The slope at a step of the least concave line above all points: the worst start against the best end."""
    return min(
        max(_density(points[start], points[end]) for end in range(number, len(points))) for start in range(number)
    )


def _useful(forms):
    """Forms that no other and no line between two others beats, from the smallest up."""
    usable = [form for form in forms if form[0] >= 0]
    kept = []
    for form in sorted(usable, key=lambda form: (form[0], -form[1], form[2])):
        smaller = [other for other in usable if other[0] < form[0] or (other[0] == form[0] and other is not form)]
        if any(
            other[1] >= form[1] and (other[0] < form[0] or other[1] > form[1] or other[2] < form[2])
            for other in smaller
        ):
            continue
        kept.append(form)
    return [
        form
        for form in kept
        if not any(
            low[0] < form[0] < high[0]
            and (form[1] - low[1]) / (form[0] - low[0]) < (high[1] - form[1]) / (high[0] - form[0])
            for low in kept
            for high in kept
        )
    ]


def are_related(items) -> bool:
    keys = ("id", "worth", "group")
    return any(mark(item, key) is not None for item in items for key in keys)


def choose(kind: str, entries, pinned, negative, target) -> list[int]:
    """The positions that greedy, or else the best subset there is, takes beside the pinned items.

    A group with a negative member can never be in.
    """
    if target <= 0:
        return []
    items = [item for item, _ in entries]
    settled = {mark(pin, "id") for pin in pinned} - {None}
    closed = closed_groups(negative)
    free = [
        place
        for place, item in enumerate(items)
        if mark(item, "id") not in settled and mark(item, "group") not in closed
    ]
    if kind == "greedy":
        return sorted(free[place] for place in greedy([entries[place] for place in free], target))
    allowed = []
    for flags in product((False, True), repeat=len(free)):
        chosen = [place for place, flag in zip(free, flags, strict=True) if flag]
        selected = [*pinned, *(items[place] for place in chosen)]
        fits = sum(items[place].tokens for place in chosen) <= target
        if fits and not breaches([*items, *pinned], selected):
            allowed.append(chosen)
    return max(allowed, key=lambda chosen: sum(math.floor(10_000 * value(entries, place)) for place in chosen))


def closed_groups(negative) -> set[str]:
    return {mark(item, "group") for item in negative} - {None}


def reason(item, selected, negative):
    """What keeps an item out beside the budget: its name and fields, or nothing."""
    for other in selected:
        if mark(item, "id") is not None and mark(other, "id") == mark(item, "id"):
            return "Superseded", {"by": other.content}
    group = mark(item, "group")
    return ("GroupIncomplete", {"group": group}) if group in closed_groups(negative) else None


def needs(item, candidates, selected) -> int:
    """The tokens of an item with the smallest forms of the rest of its group."""
    pool = _Pool([(candidate, 0.0) for candidate in candidates])
    own = next(e for e, places in enumerate(pool.members) if any(candidates[p] is item for p in places))
    inside = {mark(other, "id") or id(other) for other in selected}
    others = (
        min(candidates[p].tokens for p in pool.members[e])
        for e in pool.group_of[own]
        if e != own and not {mark(candidates[p], "id") or id(candidates[p]) for p in pool.members[e]} & inside
    )
    return item.tokens + sum(others)
