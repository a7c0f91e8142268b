"""Selecting for one request, whatever form it came in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

from cupel.batch._arrow import arrow
from cupel.batch._errors import explained
from cupel.diagnostics import SelectionReport
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import Pipeline

LARGEST: Final = 2**63 - 1
"""The largest number that a column holds."""


class Chosen(NamedTuple):
    """What was selected: positions in the request's items, in placed order; or the error."""

    selected: list[int]
    total_tokens: int = 0
    total_candidates: int = 0
    report: str | None = None
    error: str | None = None


class Selectable(Protocol):
    """One selection to make."""

    def select(self, pipeline: Pipeline, *, report: bool) -> Chosen:
        """Make it; raises whatever goes wrong."""
        ...


class ItemsRequest(NamedTuple):
    """A selection of items."""

    items: list[ContextItem]
    budget: ContextBudget
    query: str | None = None

    def select(self, pipeline: Pipeline, *, report: bool) -> Chosen:
        """Select from the items."""
        items, budget, query = self
        text = None
        if report:
            result = pipeline.select(items, budget, query=query)
            chosen, text = result.items, written_report(result.report)
        else:
            chosen = pipeline.run(items, budget, query=query)
        places = dict(zip(map(id, items), range(len(items)), strict=True))
        total = sum([item.tokens for item in chosen])
        return Chosen([places[id(item)] for item in chosen], total, len(items), text)


@dataclass(frozen=True, slots=True)
class MessagesRequest:
    """A selection of messages, in any format that `fit` reads."""

    messages: Any
    budget: ContextBudget
    query: str | None = None
    system: Any = None
    tools: Any = None

    def select(self, pipeline: Pipeline, *, report: bool) -> Chosen:
        """Fit the messages; what is selected are their positions."""
        from cupel.messages import fit  # for those who have messages

        fitted = fit(self.messages, self.budget, pipeline, system=self.system, tools=self.tools, query=self.query)
        dropped = {position for unit in fitted.dropped for position in unit.positions}
        kept = [position for position in range(len(self.messages)) if position not in dropped]
        text = written_report(fitted.report) if report else None
        return Chosen(kept, fitted.total_tokens, len(self.messages), text)


def choose(pipeline: Pipeline, read: Callable[[], Selectable], *, report: bool) -> Chosen:
    """Read one request and select for it; whatever goes wrong is that request's error and nobody else's."""
    try:
        choice = read().select(pipeline, report=report)
    except Exception as error:  # noqa: BLE001  (a strategy of the user's may raise anything)
        return Chosen([], error=explained(error))
    if choice.total_tokens > LARGEST:
        return Chosen([], error=f"OverflowError: total_tokens is beyond 64 bits: {choice.total_tokens}")
    return choice


def choice_columns(choices: Sequence[Chosen], *, report: bool) -> dict[str, Any]:
    """Return what was selected as columns of a table, null for what failed."""
    pa = arrow()
    made = [None if choice.error is not None else choice for choice in choices]
    columns = {
        "selected": pa.array([one and one.selected for one in made], pa.list_(pa.int32())),
        "total_tokens": pa.array([one and one.total_tokens for one in made], pa.int64()),
        "total_candidates": pa.array([one and one.total_candidates for one in made], pa.int64()),
    }
    if report:
        columns["report"] = pa.array([choice.report for choice in choices], pa.string())
    return columns


def written_report(report: SelectionReport) -> str:
    """Write a report without its events: their durations would make the same request give two different reports."""
    return replace(report, events=()).to_json()
