"""The JSON Schema of a serialised report."""

from __future__ import annotations

from typing import Any

from cupel._documents import ITEM
from cupel.diagnostics._forms import (
    CERTIFICATE,
    EVENT,
    EXCLUDED,
    EXCLUSION,
    INCLUDED,
    INCLUSION,
    REPORT,
    SHORTFALL,
    TOKEN_SHORTFALL,
)


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of what `SelectionReport.from_json` reads.

    Unknown fields, reasons and stages are allowed, because newer versions may write them.

    >>> report_schema()["required"]
    ['events', 'included', 'excluded', 'total_candidates', 'total_tokens_considered']
    """
    parts = (ITEM, EVENT, INCLUDED, EXCLUDED, INCLUSION, EXCLUSION, SHORTFALL, CERTIFICATE, TOKEN_SHORTFALL)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cupel selection report",
        **REPORT.schema(),
        "$defs": {part.title: part.schema() for part in parts},
    }
