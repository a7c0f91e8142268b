"""Keeping any slicer's choice within the relations of its candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cupel._relations import lawful
from cupel.slicers._base import Chooser, Selection, Span

if TYPE_CHECKING:
    from cupel._columns import Candidates
    from cupel._relations import Relations
    from cupel.model import ContextBudget


class LawfulChooser(Chooser):
    """Leaves out of another chooser's choice what its relations do not allow.

    What the other knows about many targets at once holds for its own choice only, so nothing but its spans is passed on.
    """

    __slots__ = ("_inner", "_relations")

    def __init__(self, inner: Chooser, relations: Relations) -> None:
        self._inner = inner
        self._relations = relations

    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose, and leave out."""
        selection = self._inner(budget)
        return msgspec.structs.replace(selection, chosen=lawful(self._relations, selection.chosen))

    def span(self, budget: ContextBudget) -> Span:
        """What stays of the same choice is the same."""
        return self._inner.span(budget)


def within_relations(chooser: Chooser, candidates: Candidates) -> Chooser:
    """Hold a chooser to the relations of its candidates, if there are any."""
    relations = candidates.relations
    if relations is None or isinstance(chooser, LawfulChooser):
        return chooser
    return LawfulChooser(chooser, relations)
