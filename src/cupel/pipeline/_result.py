"""A selection with its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from cupel.diagnostics import SelectionReport
    from cupel.model import ContextBudget, ContextItem
    from cupel.policy import Policy


@dataclass(frozen=True, slots=True, repr=False)
class ContextResult:
    """What `Pipeline.select` returns: the items in placed order, and why each candidate is in or out.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer
    >>> result = Pipeline(scorer=RecencyScorer()).select([ContextItem("hi", 1)], ContextBudget(10, 10))
    >>> result
    <ContextResult: 1 item, 1 of 10 target tokens>
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

    def save_page(
        self, path: str | os.PathLike[str], *, policies: Iterable[Policy] = (), title: str = "A selection"
    ) -> None:
        """Write the interactive page: the window, what was left out, a slider, and other policies to switch to."""
        self.report.save_page(path, policies=policies, title=title)

    def _repr_html_(self) -> str:
        from cupel.page import notebook_html  # a higher layer, for notebooks only

        return notebook_html(self.report, self.budget)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[ContextItem]:
        return iter(self.items)

    def __repr__(self) -> str:
        return short_repr(self, self.items, self.budget)


def short_repr(result: object, items: Sequence[ContextItem], budget: ContextBudget) -> str:
    """Return what a result holds in numbers."""
    tokens = sum(item.tokens for item in items)
    count = f"{len(items)} item{'' if len(items) == 1 else 's'}"
    return f"<{type(result).__name__}: {count}, {tokens} of {budget.target_tokens} target tokens>"
