"""What the questions take: checked arguments, and pools that are prepared once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from msgspec.structs import replace as with_fields

from cupel._checks import as_tuple, shown, wrong_type
from cupel.errors import InvalidItemError
from cupel.model import ContextItem
from cupel.pipeline import Pipeline, PreparedSelection


def quiet(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline without its callback: what-if questions are nobody's business."""
    return pipeline if pipeline.on_overflow is None else replace(pipeline, on_overflow=None)


def prepared_of(
    pipeline: Pipeline | PreparedSelection, items: Iterable[ContextItem] | None, query: str | None = None
) -> PreparedSelection:
    """Score, deduplicate and sort once, for any number of questions, unless that has been done for this query."""
    if isinstance(pipeline, PreparedSelection):
        if items is not None:
            raise TypeError("items must be None beside a PreparedSelection, which has its items already")
        prepared = with_fields(pipeline, pipeline=quiet(pipeline.pipeline))
        return prepared if query is None else prepared.with_query(query)
    if not isinstance(pipeline, Pipeline):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong_type("pipeline", "a Pipeline or a PreparedSelection", pipeline)
    return quiet(pipeline).prepare(as_items(items), query=query)


def as_items(items: Iterable[ContextItem] | None) -> tuple[ContextItem, ...]:
    """Return items as a tuple; None, which stands beside a `PreparedSelection`, is none here."""
    return as_tuple("items", cast("Iterable[ContextItem]", items), ContextItem)


def check_members(name: str, prepared: PreparedSelection, items: Iterable[ContextItem]) -> None:
    """Refuse an item that was not prepared: no budget selects it, which would be a misleading answer."""
    for item in prepared.strangers(items):
        msg = f"{name} must be among the items that were prepared, got {shown(item)}"
        raise InvalidItemError(msg)
