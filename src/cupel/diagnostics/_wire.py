"""Reports as JSON, and back.

Diagnostics use snake_case keys, items the data model's camelCase ones; both spellings of item keys are read. What is
absent is left out, never null. JSON has no NaN or infinity, so these are the strings "NaN", "Infinity", "-Infinity".
Fields and names that a newer producer added are kept and written back.
"""

from __future__ import annotations

from datetime import datetime
from math import isfinite, isinf
from numbers import Integral, Real
from typing import Any, cast

import msgspec

from cupel.diagnostics._events import CountRequirementShortfall, TraceEvent
from cupel.diagnostics._reasons import (
    KNOWN_REASONS,
    ExclusionReason,
    InclusionReason,
    UnknownInclusionReason,
    UnknownReason,
)
from cupel.diagnostics._report import ExcludedItem, IncludedItem, SelectionReport
from cupel.diagnostics._stage import PipelineStage, UnknownStage
from cupel.errors import CupelError, ReportFormatError
from cupel.model import EMPTY, ContextItem, FrozenDict

_NON_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_STAGES = {stage.value: stage for stage in PipelineStage}
_INCLUSIONS = {reason.value: reason for reason in InclusionReason}


class _ItemForm(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    content: str
    tokens: int
    kind: str = "Message"
    source: str = "Chat"
    priority: int | None = None
    tags: list[str] = []
    metadata: dict[str, Any] = {}
    timestamp: datetime | None = None
    future_relevance_hint: float | str | None = None
    pinned: bool = False
    original_tokens: int | None = None


class _EntryForm(msgspec.Struct, forbid_unknown_fields=True):
    item: _ItemForm
    score: float | str
    reason: dict[str, Any]


class _EventForm(msgspec.Struct, forbid_unknown_fields=True):
    stage: str
    duration_ms: float
    item_count: int
    message: str | None = None


class _ReportForm(msgspec.Struct, forbid_unknown_fields=True):
    events: list[_EventForm]
    included: list[_EntryForm]
    excluded: list[_EntryForm]
    total_candidates: int
    total_tokens_considered: int
    count_requirement_shortfalls: list[CountRequirementShortfall] = []


_ITEM_KEYS = dict(zip(_ItemForm.__struct_fields__, _ItemForm.__struct_encode_fields__, strict=True))
_RENAMED = {name: key for name, key in _ITEM_KEYS.items() if name != key}
_ITEM_FIELDS = frozenset(_ITEM_KEYS.values())
_ENTRY_FIELDS = frozenset(_EntryForm.__struct_fields__)
_EVENT_FIELDS = frozenset(_EventForm.__struct_fields__)
_REPORT_FIELDS = frozenset(_ReportForm.__struct_fields__)
_REASON_FIELD = frozenset({"reason"})
_REASON_FIELDS = {name: _REASON_FIELD.union(reason.__struct_fields__) for name, reason in KNOWN_REASONS.items()}


# --- writing ------------------------------------------------------------------------------------------------------


def item_to_dict(item: ContextItem) -> dict[str, Any]:
    """Give an item's wire form: content, tokens and kind always, the rest where it differs from the default."""
    form: dict[str, Any] = {"content": item.content, "tokens": item.tokens, "kind": item.kind.value}
    if item.source.value != "Chat":
        form["source"] = item.source.value
    if item.priority is not None:
        form["priority"] = item.priority
    if item.tags:
        form["tags"] = list(item.tags)
    if item.metadata:
        form["metadata"] = dict(item.metadata)
    if item.timestamp is not None:
        form["timestamp"] = item.timestamp.isoformat().replace("+00:00", "Z")
    if item.future_relevance_hint is not None:
        form["futureRelevanceHint"] = _number(item.future_relevance_hint)
    if item.pinned:
        form["pinned"] = True
    if item.original_tokens is not None:
        form["originalTokens"] = item.original_tokens
    return form


def report_to_dict(report: SelectionReport) -> dict[str, Any]:
    """Give a report's wire form as plain values."""
    form: dict[str, Any] = {
        "events": [_event_form(event) for event in report.events],
        "included": [
            {"item": item_to_dict(entry.item), "score": _number(entry.score), "reason": {"reason": entry.reason.value}}
            for entry in report.included
        ],
        "excluded": [
            {"item": item_to_dict(entry.item), "score": _number(entry.score), "reason": entry.reason.to_dict()}
            for entry in report.excluded
        ],
        "total_candidates": report.total_candidates,
        "total_tokens_considered": report.total_tokens_considered,
    }
    if report.count_requirement_shortfalls:
        form["count_requirement_shortfalls"] = msgspec.to_builtins(list(report.count_requirement_shortfalls))
    for path, fields in report.extra.items():
        target: Any = form
        for step in path:
            target = target[step]
        target.update(fields)
    return form


def encode_json(value: Any, *, indent: int | None) -> str:
    """Write plain values as JSON; a value in some item's metadata that JSON cannot hold is a TypeError."""
    try:
        encoded = msgspec.json.encode(value, enc_hook=_plain)
    except UnicodeEncodeError:
        import json  # needed for nothing else

        # Half of a surrogate pair has no UTF-8 form, but JSON can escape it.
        return json.dumps(value, indent=indent, separators=None if indent else (",", ":"), default=_plain)
    return (encoded if indent is None else msgspec.json.format(encoded, indent=indent)).decode()


def _plain(value: object) -> str | int | float:
    """Give the plain value behind a subclass, or behind another library's number."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    msg = f"metadata must hold values that JSON can write, got {type(value).__name__}: {value!r}"
    raise TypeError(msg)


def _event_form(event: TraceEvent) -> dict[str, Any]:
    form: dict[str, Any] = {
        "stage": event.stage.value,
        "duration_ms": event.duration_ms,
        "item_count": event.item_count,
    }
    if event.message is not None:
        form["message"] = event.message
    return form


def _number(value: float) -> float | str:
    if isfinite(value):
        return value
    return ("Infinity" if value > 0 else "-Infinity") if isinf(value) else "NaN"


# --- reading ------------------------------------------------------------------------------------------------------

_Extra = dict[tuple[str | int, ...], dict[str, Any]]


def report_from_json(text: str | bytes) -> SelectionReport:
    """Read a report; the error names the path of what is malformed or does not add up."""
    try:
        form = msgspec.json.decode(text, type=_ReportForm)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        # Not exactly what this version writes: older spellings, newer fields, or a mistake that must be named.
        return report_from_dict(_decoded(text))
    return _report(form, {})


def report_from_dict(raw: Any) -> SelectionReport:
    """Read a report from plain values."""
    extra: _Extra = {}
    if isinstance(raw, dict):
        raw = _set_aside(cast("dict[str, Any]", raw), extra)
    try:
        form = msgspec.convert(raw, _ReportForm)
    except msgspec.ValidationError as error:
        raise ReportFormatError(str(error)) from None
    return _report(form, extra)


def _report(form: _ReportForm, extra: _Extra) -> SelectionReport:
    report = SelectionReport(
        tuple(
            TraceEvent(
                _STAGES.get(event.stage) or UnknownStage(event.stage),
                event.duration_ms,
                event.item_count,
                event.message,
            )
            for event in form.events
        ),
        tuple(
            IncludedItem(*_entry(entry, "included", position), _inclusion(entry.reason, position, extra))
            for position, entry in enumerate(form.included)
        ),
        tuple(
            ExcludedItem(*_entry(entry, "excluded", position), _exclusion(entry.reason, position, extra))
            for position, entry in enumerate(form.excluded)
        ),
        form.total_candidates,
        form.total_tokens_considered,
        tuple(form.count_requirement_shortfalls),
        extra=FrozenDict(extra) if extra else EMPTY,
    )
    _check_totals(report)
    return report


def _decoded(text: str | bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        import json

        try:
            return json.loads(text)  # takes the lone surrogates that the fast reader refuses
        except ValueError:
            msg = f"$: not valid JSON: {error}"
            raise ReportFormatError(msg) from None


def _set_aside(raw: dict[str, Any], extra: _Extra) -> dict[str, Any]:
    """Bring item keys to one spelling and move every field this version does not know into `extra`."""
    report = _known(raw, _REPORT_FIELDS, (), extra) or {}
    if isinstance(report.get("events"), list):
        report["events"] = [
            _known(event, _EVENT_FIELDS, ("events", position), extra) or event
            for position, event in enumerate(report["events"])
        ]
    for side in ("included", "excluded"):
        if isinstance(report.get(side), list):
            report[side] = [_known_entry(entry, side, position, extra) for position, entry in enumerate(report[side])]
    return report


def _known_entry(entry: Any, side: str, position: int, extra: _Extra) -> Any:
    known = _known(entry, _ENTRY_FIELDS, (side, position), extra)
    if known is None or not isinstance(known.get("item"), dict):
        return entry
    item = {_RENAMED.get(key, key): value for key, value in cast("dict[str, Any]", known["item"]).items()}
    known["item"] = _known(item, _ITEM_FIELDS, (side, position, "item"), extra)
    return known


def _known(form: object, fields: frozenset[str], path: tuple[str | int, ...], extra: _Extra) -> dict[str, Any] | None:
    """Give the fields this version knows, or None when the form is no object, which the reader will name."""
    if not isinstance(form, dict):
        return None
    given = cast("dict[str, Any]", form)
    unknown = {key: value for key, value in given.items() if key not in fields}
    if unknown:
        extra[path] = unknown
    return {key: value for key, value in given.items() if key in fields}


def _entry(entry: _EntryForm, side: str, position: int) -> tuple[ContextItem, float]:
    where = f"$.{side}[{position}]"
    score = entry.score
    return _item(entry.item, f"{where}.item"), _float(score, f"{where}.score") if isinstance(score, str) else score


def _item(form: _ItemForm, where: str) -> ContextItem:
    hint = form.future_relevance_hint
    try:
        return ContextItem(
            form.content,
            form.tokens,
            kind=form.kind,
            source=form.source,
            priority=form.priority,
            tags=form.tags,
            metadata=form.metadata,
            timestamp=form.timestamp,
            future_relevance_hint=_float(hint, "futureRelevanceHint") if isinstance(hint, str) else hint,
            pinned=form.pinned,
            original_tokens=form.original_tokens,
        )
    except CupelError as error:
        msg = f"{error} - at `{where}`"
        raise ReportFormatError(msg) from None


def _float(text: str, where: str) -> float:
    if text not in _NON_FINITE:
        msg = f"Expected a number, 'NaN', 'Infinity' or '-Infinity', got {text!r} - at `{where}`"
        raise ReportFormatError(msg)
    return _NON_FINITE[text]


def _reason_name(reason: dict[str, Any], where: str) -> str:
    name = reason.get("reason")
    if not isinstance(name, str):
        msg = f"Expected `str`, got `{type(name).__name__}` - at `{where}.reason`"
        raise ReportFormatError(msg)
    return name


def _inclusion(reason: dict[str, Any], position: int, extra: _Extra) -> InclusionReason | UnknownInclusionReason:
    name = _reason_name(reason, f"$.included[{position}].reason")
    _known(reason, _REASON_FIELD, ("included", position, "reason"), extra)
    return _INCLUSIONS.get(name) or UnknownInclusionReason(name)


def _exclusion(reason: dict[str, Any], position: int, extra: _Extra) -> ExclusionReason:
    where = f"$.excluded[{position}].reason"
    name = _reason_name(reason, where)
    known = KNOWN_REASONS.get(name)
    if known is None:
        return UnknownReason(name, FrozenDict({key: value for key, value in reason.items() if key != "reason"}))
    _known(reason, _REASON_FIELDS[name], ("excluded", position, "reason"), extra)
    try:
        return msgspec.convert(reason, known)
    except msgspec.ValidationError as error:
        raise ReportFormatError(str(error).replace("`$", f"`{where}")) from None


def _check_totals(report: SelectionReport) -> None:
    tokens = sum(entry.item.tokens for entry in report)
    for name, stated, found in (
        ("total_candidates", report.total_candidates, len(report)),
        ("total_tokens_considered", report.total_tokens_considered, tokens),
    ):
        if stated != found:
            msg = f"Expected {found}, the sum over included and excluded, got {stated} - at `$.{name}`"
            raise ReportFormatError(msg)
