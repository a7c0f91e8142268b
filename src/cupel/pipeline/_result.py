"""A selection with its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cupel.diagnostics import SelectionReport
    from cupel.model import ContextBudget, ContextItem


@dataclass(frozen=True, slots=True)
class ContextResult:
    """What `Pipeline.select` returns: the items in placed order, and why each candidate is in or out.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer
    >>> result = Pipeline(scorer=RecencyScorer()).select([ContextItem("hi", 1)], ContextBudget(10, 10))
    >>> len(result), result.total_tokens
    (1, 1)
    """

    items: list[ContextItem]
    report: SelectionReport
    budget: ContextBudget

    @property
    def total_tokens(self) -> int:
        """The tokens of the selected items."""
        return sum(item.tokens for item in self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[ContextItem]:
        return iter(self.items)
