"""The page of a report, from the run that it comes from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from cupel._checks import as_text, as_tuple
from cupel.errors import SelectionError
from cupel.page._page import write_page
from cupel.page._payload import page_payload
from cupel.page._variant import Variant
from cupel.policy import Policy

if TYPE_CHECKING:
    from cupel.diagnostics import SelectionReport
    from cupel.pipeline import Pipeline


def save_page(
    report: SelectionReport,
    path: str | os.PathLike[str],
    *,
    policies: Iterable[Policy] = (),
    title: str = "A selection",
    on_progress: Callable[[int, int], object] | None = None,
) -> None:
    """Write the interactive page of a report that knows its run; `policies` are others to switch to.

    The candidates are scored anew. `on_progress` is told after each policy how many of how many are done.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from cupel import ContextItem, Pipeline, RecencyScorer
    >>> report = Pipeline(scorer=RecencyScorer()).dry_run([ContextItem("hello", 2)], 10)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_page(report, Path(folder, "page.html"))
    ...     Path(folder, "page.html").read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    as_text("title", title)
    others = as_tuple("policies", policies, Policy)
    if report.origin is None:
        msg = "save_page needs a report made by dry_run, select or a traced run; this one was read or copied"
        raise SelectionError(msg)
    prepared, budget = report.origin.prepared, report.origin.budget
    variants = [
        Variant(policy, policy.name or f"policy {number}", "")
        for number, policy in enumerate([_policy_of(prepared.pipeline), *others], start=1)
    ]
    payload = page_payload(
        prepared.items,
        budget,
        variants,
        title=title,
        source=None,
        fixed_window=budget.max_tokens != budget.target_tokens,
        on_progress=on_progress,
    )
    write_page(payload, path)


def _policy_of(pipeline: Pipeline) -> Policy:
    return Policy(
        pipeline.scorer,
        pipeline.slicer,
        pipeline.placer,
        deduplicate=pipeline.deduplicate,
        overflow=pipeline.overflow,
        name="this run",
        pins=pipeline.pins,
    )
