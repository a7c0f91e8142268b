"""The knapsack over related candidates: at most one form of each thing, and whole groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from cupel._ratios import scaled_score
from cupel._relations import lawful
from cupel.errors import TableTooLargeError
from cupel.slicers._base import Chooser, Reach, Selection, Span
from cupel.slicers._bucket_choice import BUCKETS, COARSEST, MOST_CELLS
from cupel.slicers._ladders import Ladders, total
from cupel.slicers._steps import StepChooser

if TYPE_CHECKING:
    import numpy as np

    from cupel._relations import Form, Relations
    from cupel._targets import Stretches, Work
    from cupel.model import ContextBudget

_LARGEST_SUM = 2**62
_ROW, _CELL = 12_000, 3  # nanoseconds
_MOST_AUTOMATIC = 50_000_000
"""Cells of the largest table that is filled without being asked for by its bucket size."""

Table: TypeAlias = "np.ndarray[Any, Any]"
"""A number for each capacity."""


class RelatedKnapsackChooser(Chooser):
    """Finds the forms and groups of the greatest total value.

    Requirements and exclusive sets are not in the table: what they do not allow is left out of its answer, and the
    greedy choice is taken where it is worth more. Buckets that fit the work are compared with greedy as well; where not
    even the coarsest do, greedy's choice is the answer.
    """

    def __init__(self, relations: Relations, bucket_size: int | Literal["auto"], max_cells: int | None) -> None:
        ladders = Ladders(relations)
        self._relations = relations
        self._bucket_size: int | None = None if bucket_size == "auto" else bucket_size
        self._max_cells = None if bucket_size == "auto" else max_cells
        self._forms = {form.position: form for thing in relations.things for form in thing.forms}
        self._rows = sum(form.tokens > 0 for form in self._forms.values())
        self._greedy = StepChooser(ladders, ladders.by_density())
        self._is_loose = bool(relations.exclusive) or any(unit.requires for unit in relations.units)

    def __call__(self, budget: ContextBudget) -> Selection:
        """Take the best choice; of equal ones the table's."""
        target = budget.target_tokens
        if target <= 0:
            return Selection([])
        choices = [lawful(self._relations, self._solved(target, bucket)) for bucket in self._buckets(target)]
        if self._is_loose or self._bucket_size is None:
            choices.append(self._greedy(budget).chosen)
        best = max(choices, key=lambda chosen: total(self._forms[position] for position in chosen))
        return Selection(best)

    def span(self, budget: ContextBudget) -> Span:
        """Cover the whole bucket the target lies in, unless greedy has a say."""
        target, bucket = budget.target_tokens, self._bucket_size
        if bucket is None or self._is_loose or target < bucket:
            return super().span(budget)
        return Span(target // bucket * bucket, (target // bucket + 1) * bucket)

    def reach(self) -> Reach:
        """Everything fits into the sum of the largest forms in whole buckets."""
        bucket = self._bucket_size or COARSEST
        largest = (max((form.tokens for form in thing.forms), default=0) for thing in self._relations.things)
        return Reach(sum(-(-tokens // bucket) * bucket for tokens in largest))

    def refused(self, work: Work) -> Stretches | None:
        """Every table from a certain size on is too large."""
        del work
        if self._bucket_size is None or self._max_cells is None or not self._rows:
            return None
        from cupel._targets import Stretches

        return Stretches([max(1, self._max_cells // self._rows) * self._bucket_size])

    def effort(self, target: int) -> int:
        """Each form goes over the table once, in a few steps."""
        cells = max((target // bucket for bucket in self._buckets(target)), default=0)
        return self._rows * (_ROW + _CELL * cells)

    def _buckets(self, target: int) -> list[int]:
        if self._bucket_size is not None:
            return [self._bucket_size]
        if self._cells(target, COARSEST) > _MOST_AUTOMATIC:
            return []
        fine = (bucket for bucket in BUCKETS if self._cells(target, bucket) <= MOST_CELLS)
        return list(dict.fromkeys((next(fine, COARSEST), COARSEST)))

    def _cells(self, target: int, bucket: int) -> int:
        return self._rows * (target // bucket + 1)

    def _solved(self, target: int, bucket: int) -> list[int]:
        capacity = target // bucket
        cells = self._cells(target, bucket)
        if capacity > 0 and self._max_cells is not None and cells > self._max_cells:
            raise TableTooLargeError(self._rows, capacity, cells, self._max_cells)
        things, units = self._relations.things, self._relations.units
        return solve_related(
            [[things[thing].forms for thing in unit.things] for unit in units if unit.is_open], bucket, capacity
        )


def solve_related(units: list[list[tuple[Form, ...]]], bucket: int, capacity: int) -> list[int]:
    """Return the positions of the best choice: of each unit nothing, or one form of each of its things.

    Tokens are rounded up to buckets. A unit that costs nothing is always in; among equal choices the one that leaves
    later units out, or has smaller forms, wins.

    >>> from cupel._relations import Form
    >>> solve_related([[(Form(1, 2, 0.3), Form(0, 9, 0.9))], [(Form(2, 5, 0.5),)]], 1, 8)
    [1, 2]
    """
    import numpy as np  # only where there is a table

    every = [forms for things in units for forms in things]
    capacity = min(capacity, sum(max(_weight(form, bucket) for form in forms) for forms in every))
    most = sum(max(scaled_score(form.value) for form in forms) for forms in every)
    kind: Any = np.int64 if most < _LARGEST_SUM else object  # beyond, Python's own integers
    best: Table = np.zeros(capacity + 1, kind)
    rows: list[tuple[Table, list[Table]]] = []
    for things in units:
        reached = best
        picks: list[Table] = []
        for forms in things:
            reached, pick = _with_one_of(reached, forms, bucket, most)
            picks.append(pick)
        taken: Table = reached >= best if all(forms[0].tokens == 0 for forms in things) else reached > best
        best = np.where(taken, reached, best)
        rows.append((taken, picks))
    return _traced(units, rows, bucket, capacity)


def _with_one_of(before: Table, forms: tuple[Form, ...], bucket: int, most: int) -> tuple[Table, Table]:
    """Add exactly one form of a thing; what cannot be reached is below zero."""
    import numpy as np

    after: Table = np.full_like(before, -most - 1)
    pick: Table = np.zeros(len(before), np.int32)
    for place, form in enumerate(forms):
        weight, value = _weight(form, bucket), scaled_score(form.value)
        if weight < len(before):
            source = before[: len(before) - weight]
            better: Table = (source >= 0) & (source + value > after[weight:])
            after[weight:][better] = source[better] + value
            pick[weight:][better] = place
    return after, pick


def _traced(
    units: list[list[tuple[Form, ...]]], rows: list[tuple[Table, list[Table]]], bucket: int, left: int
) -> list[int]:
    """Read the choice for so many buckets back from the last unit to the first."""
    chosen: list[int] = []
    for things, (taken, picks) in zip(reversed(units), reversed(rows), strict=True):
        if taken[left]:
            for forms, pick in zip(reversed(things), reversed(picks), strict=True):
                form = forms[int(pick[left])]
                chosen.append(form.position)
                left -= _weight(form, bucket)
    return chosen[::-1]


def _weight(form: Form, bucket: int) -> int:
    return -(-form.tokens // bucket)
