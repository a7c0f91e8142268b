"""Read one request and select for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import isnan
from typing import Any, Final, NamedTuple

import msgspec

from cupel._internal.checks import shown, wrong_type
from cupel._internal.documents import ITEM, ChatRequest, budget_of
from cupel.batch._source import arrow, explained
from cupel.diagnostics import SelectionReport
from cupel.errors import CupelError
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import Pipeline


def read_items(text: msgspec.Raw) -> list[ContextItem]:
    """Build a request's items from JSON; the error names the item."""
    items = ITEM.read_list(text)
    if items is not None:
        return items
    forms = decoded(text)
    if forms is None:
        raise TypeError("items is missing")
    if not isinstance(forms, list):
        raise wrong_type("items", "a list", forms)
    return list(map(read_item, forms, range(len(forms))))  # pyright: ignore[reportUnknownArgumentType]


def read_item(form: object, position: int) -> ContextItem:
    """Build one item from its JSON form; the error names the item."""
    try:
        return ITEM.read(form)
    except (CupelError, TypeError, ValueError) as error:
        raise ValueError(f"items[{position}]: {explained(error)}") from None


def decoded(text: bytes | msgspec.Raw) -> Any:
    """Decode JSON; anything else is a `ValueError`."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None


def read_budget(form: object, shared: ContextBudget | None) -> ContextBudget:
    """Build the budget of a request: an object, a number of tokens, or None where all requests share one."""
    if isinstance(form, float):  # what pandas makes of integers where some are missing
        form = None if isnan(form) else int(form) if form.is_integer() else form
    if form is None:
        if shared is None:
            raise ValueError("budget is missing, and the requests share none")
        return shared
    if isinstance(form, float):
        raise TypeError(f"budget must be a whole number of tokens, got {shown(form)}")
    try:
        return _window(form) if type(form) is int else budget_of(form)
    except (CupelError, TypeError, ValueError) as error:
        raise ValueError(f"budget: {explained(error)}") from None


@lru_cache(maxsize=64)
def _window(tokens: int) -> ContextBudget:
    """Build each budget once: most requests of a file have the same."""
    return budget_of(tokens)


LARGEST: Final = 2**63 - 1
"""The largest number in a column."""


class Chosen(NamedTuple):
    """A selection as positions in the request's items, in placed order, or the error."""

    selected: list[int]
    total_tokens: int = 0
    total_candidates: int = 0
    report: str | None = None
    error: str | None = None


def select_items(
    pipeline: Pipeline, items: list[ContextItem], budget: ContextBudget, query: str | None, *, report: bool
) -> Chosen:
    """Select from items."""
    text = None
    if report:
        result = pipeline.select(items, budget, query=query)
        chosen, text = result.items, written_report(result.report)
    else:
        chosen = pipeline.run(items, budget, query=query)
    places = dict(zip(map(id, items), range(len(items)), strict=True))
    total = sum([item.tokens for item in chosen])
    return Chosen([places[id(item)] for item in chosen], total, len(items), text)


def select_messages(
    pipeline: Pipeline, request: ChatRequest, budget: ContextBudget, query: str | None, *, report: bool
) -> Chosen:
    """Fit messages, in any format that `fit` reads."""
    from cupel.messages import fit  # only for requests with messages

    messages, system, tools = request
    fitted = fit(
        messages,
        budget,
        pipeline,
        system=system,
        tools=tools,
        query=query,
        forms=False,  # the answer gives positions of whole messages
        notes=False,
    )
    dropped = {position for unit in fitted.dropped for position in unit.positions}
    kept = [position for position in range(len(messages)) if position not in dropped]
    text = written_report(fitted.report) if report else None
    return Chosen(kept, fitted.total_tokens, len(messages), text)


def guarded(select: Callable[[], Chosen]) -> Chosen:
    """Read one request and select for it; any error, and any panic of a native extension, is that request's alone."""
    try:
        return select()
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001  (a strategy of the user's may raise anything, or panic)
        return Chosen([], error=explained(error))


def choice_columns(choices: Sequence[Chosen], *, report: bool) -> dict[str, Any]:
    """Return the selections as columns of a table, null where one failed."""
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
    """Write a report without its events, whose durations differ from run to run."""
    return replace(report, events=()).to_json()
