"""Selecting for one request, whatever form it came in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from cupel.batch._requests import explained
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import Pipeline

LARGEST: Final = 2**63 - 1
"""The largest number that a column holds."""


class Request(NamedTuple):
    """One selection to make."""

    items: list[ContextItem]
    budget: ContextBudget
    query: str | None = None


class Choice(NamedTuple):
    """What was selected: positions in the request's items, in placed order; or the error."""

    selected: list[int]
    total_tokens: int = 0
    total_candidates: int = 0
    report: str | None = None
    error: str | None = None


def choose(pipeline: Pipeline, read: Callable[[], Request], *, report: bool) -> Choice:
    """Read one request and select for it; whatever goes wrong is that request's error and nobody else's."""
    try:
        items, budget, query = read()
        text = None
        if report:
            result = pipeline.select(items, budget, query=query)
            chosen = result.items
            # Events carry durations, which would make the same request give two different reports.
            text = replace(result.report, events=()).to_json()
        else:
            chosen = pipeline.run(items, budget, query=query)
        total = sum([item.tokens for item in chosen])
        if total > LARGEST:
            msg = f"total_tokens is beyond 64 bits: {total}"
            raise OverflowError(msg)  # noqa: TRY301
    except Exception as error:  # noqa: BLE001  (a strategy of the user's may raise anything)
        return Choice([], error=explained(error))
    places = dict(zip(map(id, items), range(len(items)), strict=True))
    return Choice([places[id(item)] for item in chosen], total, len(items), text)
