"""What-if questions are nobody's business: the application's overflow callback does not hear about them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel.model import ContextItem
    from cupel.pipeline import Pipeline, PreparedSelection


def quiet(pipeline: Pipeline) -> Pipeline:
    """The same pipeline without its callback."""
    return pipeline if pipeline.on_overflow is None else replace(pipeline, on_overflow=None)


def prepare_quietly(pipeline: Pipeline, items: Iterable[ContextItem]) -> PreparedSelection:
    """Score, deduplicate and sort once, for any number of questions."""
    return quiet(pipeline).prepare(items)
