"""Reports as JSON, and back.

What is absent is left out, never null. Fields and names that a newer producer added are kept and written back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cupel._checks import shown
from cupel._documents import Aside, encode_json
from cupel._frozen import FrozenDict
from cupel.diagnostics._forms import REPORT
from cupel.errors import ReportFormatError

if TYPE_CHECKING:
    from cupel.diagnostics._report import SelectionReport


def report_to_dict(report: SelectionReport) -> dict[str, Any]:
    """Return a report's wire form as plain values."""
    form = REPORT.write(report)
    for path, fields in report.extra.items():
        target: Any = form
        for step in path:
            target = target[step]
        target.update(fields)
    return form


def report_to_json(report: SelectionReport, indent: int | None) -> str:
    """Return a report's wire form as text."""
    return encode_json(report_to_dict(report) if report.extra else REPORT.pack(report), indent=indent)


def report_from_json(text: str | bytes) -> SelectionReport:
    """Read a report; the error names the path of what is malformed or does not add up."""
    aside: Aside = {}
    return _checked(REPORT.read_json(text, aside=aside), aside)


def report_from_dict(form: object) -> SelectionReport:
    """Read a report from plain values."""
    aside: Aside = {}
    return _checked(REPORT.read(form, (), aside=aside), aside)


def _checked(report: SelectionReport, aside: Aside) -> SelectionReport:
    tokens = sum(entry.item.tokens for entry in report)
    for name, stated, found in (
        ("total_candidates", report.total_candidates, len(report)),
        ("total_tokens_considered", report.total_tokens_considered, tokens),
    ):
        if stated != found:
            msg = f"$: {name} must be {shown(found)}, the sum over included and excluded, got {shown(stated)}"
            raise ReportFormatError(msg)
    return replace(report, extra=FrozenDict(aside)) if aside else report
