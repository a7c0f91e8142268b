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
        found += [f"{item.content} lacks {one}" for one in mark(item, "requires", ()) if one not in ids]
        group = mark(item, "group")
        for other in candidates:
            if group is None or mark(other, "group") != group or id(other) in inside:
                continue
            if mark(other, "id") is None or mark(other, "id") not in ids:
                found.append(f"{item.content} is in without {other.content} of its group")
    for label in {mark(item, "exclusive") for item in selected} - {None}:
        rivals = [item.content for item in selected if mark(item, "exclusive") == label]
        if len(rivals) > 1:
            found.append(f"rivals {rivals}")
    return found


def subsets(candidates):
    """Every lawful subset of the positions, by trying all of them."""
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
    """The greatest sum of `worth(position)` over lawful subsets within the target."""
    items = [item for item, _ in entries]
    fitting = (chosen for chosen in subsets(items) if sum(items[p].tokens for p in chosen) <= target)
    return max(sum(map(worth, chosen)) for chosen in fitting)


def greedy(entries, target) -> set[int]:
    """Steps in order of density; a unit in its smallest forms first, then one exchange of a form after the other."""
    pool = _Pool(entries)
    steps = []
    for unit in pool.units:
        steps += pool.steps(unit)
    steps.sort(key=lambda step: (-step[0], step[1], step[2]))
    level: dict[int, int] = {}
    remaining = target
    for _, _, _, unit, thing in steps if target > 0 else ():
        if thing is None:
            new = [t for t in pool.closure(unit) if t not in level]
            cost = sum(pool.forms[t][0][0] for t in new)
            labels = [pool.exclusive[t] for t in new if pool.exclusive[t]]
            taken = {pool.exclusive[t] for t in level}
            if cost <= remaining and not taken.intersection(labels):
                remaining -= cost
                level.update(dict.fromkeys(new, 0))
        else:
            which, to = thing
            cost = pool.forms[which][to][0] - pool.forms[which][to - 1][0]
            if level.get(which) == to - 1 and cost <= remaining:
                remaining -= cost
                level[which] = to
    return {pool.forms[thing][step][2] for thing, step in level.items()}


class _Pool:
    def __init__(self, entries):
        self.items = [item for item, _ in entries]
        names: dict = {}
        for position, item in enumerate(self.items):
            names.setdefault(mark(item, "id") or position, []).append(position)
        self.names = list(names)
        self.members = list(names.values())
        first = [self.items[positions[0]] for positions in self.members]
        self.exclusive = [mark(item, "exclusive") for item in first]
        everything = range(len(self.members))
        needs = [
            {t for t in everything if self.names[t] in mark(first[s], "requires", ())}
            | {t for t in everything if mark(first[s], "group") and mark(first[t], "group") == mark(first[s], "group")}
            | {s}
            for s in everything
        ]
        for _ in everything:
            needs = [set().union(*(needs[t] for t in need)) for need in needs]
        self.needs = needs
        self.forms = [_useful([(self.items[p].tokens, value(entries, p), p) for p in ps]) for ps in self.members]
        self.units = sorted({tuple(t for t in everything if s in needs[t] and t in needs[s]) for s in everything})
        self.units = [unit for unit in self.units if self._can_be_in(unit)]

    def _can_be_in(self, unit):
        needed = self.closure(unit)
        labels = [self.exclusive[t] for t in needed if self.exclusive[t]]
        return all(self.forms[t] for t in needed) and len(labels) == len(set(labels))

    def closure(self, unit):
        return sorted(self.needs[unit[0]])

    def steps(self, unit):
        """The steps of a unit: key, first position, number, unit, and the thing with its new form."""
        exchanges = sorted(
            (
                (-(high[1] - low[1]) / (high[0] - low[0]), t, to)
                for t in unit
                for to, (low, high) in enumerate(zip(self.forms[t], self.forms[t][1:], strict=False), 1)
            ),
        )
        smallest = [self.forms[t][0] for t in unit]
        points = [(0, 0.0), (sum(form[0] for form in smallest), sum(form[1] for form in smallest))]
        for _, t, to in exchanges:
            low, high = self.forms[t][to - 1], self.forms[t][to]
            points.append((points[-1][0] + high[0] - low[0], points[-1][1] + high[1] - low[1]))
        bound = math.inf
        if set(self.closure(unit)) != set(unit):
            forms = [self.forms[t][0] for t in self.closure(unit)]
            bound = _density((0, 0.0), (sum(form[0] for form in forms), sum(form[1] for form in forms)))
        first = min(p for t in unit for p in self.members[t])
        things = [None, *((t, to) for _, t, to in exchanges)]
        keys = [min(_key(points, number), bound) for number in range(1, len(points))]
        return [(keys[number], first, number, unit, thing) for number, thing in enumerate(things)]


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
    keys = ("id", "worth", "requires", "group", "exclusive")
    return any(mark(item, key) is not None for item in items for key in keys)


def choose(kind: str, entries, pinned, target) -> list[int]:
    """The positions that greedy, or else the best subset there is, takes beside the pinned items."""
    if target <= 0:
        return []
    items = [item for item, _ in entries]
    settled = {(key, mark(pin, key)) for pin in pinned for key in ("id", "exclusive") if mark(pin, key) is not None}
    free = [
        place
        for place, item in enumerate(items)
        if not settled & {("id", mark(item, "id")), ("exclusive", mark(item, "exclusive"))}
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


def reason(item, selected):
    """What keeps an item out beside the budget: its name and fields, or nothing."""
    for other in selected:
        if mark(item, "id") is not None and mark(other, "id") == mark(item, "id"):
            return "Superseded", {"by": other.content}
    for other in selected:
        if mark(item, "exclusive") is not None and mark(other, "exclusive") == mark(item, "exclusive"):
            return "Conflict", {"with": other.content}
    inside = [mark(other, "id") for other in selected]
    missing = [one for one in mark(item, "requires", ()) if one not in inside]
    return ("RequirementMissing", {"id": missing[0]}) if missing else None


def needs(item, candidates, selected) -> int:
    """The tokens of an item with the smallest forms of whatever must come along."""
    pool = _Pool([(candidate, 0.0) for candidate in candidates])
    own = next(t for t, places in enumerate(pool.members) if any(candidates[p] is item for p in places))
    inside = {mark(other, "id") or id(other) for other in selected}
    others = (
        min(candidates[p].tokens for p in pool.members[t])
        for t in pool.needs[own]
        if t != own and not {mark(candidates[p], "id") or id(candidates[p]) for p in pool.members[t]} & inside
    )
    return item.tokens + sum(others)
