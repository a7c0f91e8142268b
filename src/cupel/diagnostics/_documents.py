"""Reports as JSON documents, their reader and their JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, Union, cast

import msgspec

from cupel._checks import shown, wrong_type
from cupel._documents import (
    BUDGET,
    COUNT,
    DURATION,
    INTEGER,
    ITEM,
    NUMBER,
    TEXT,
    Aside,
    Field,
    Nested,
    Path,
    RefusedError,
    Value,
    WireForm,
    check_depth,
    encode_json,
    plain,
    shown_path,
)
from cupel._frozen import FrozenDict
from cupel.diagnostics._reasons import (
    KNOWN_REASONS,
    ExclusionReason,
    InclusionReason,
    UnknownInclusionReason,
    UnknownReason,
)
from cupel.diagnostics._report import (
    Certificate,
    CountRequirementShortfall,
    ExcludedItem,
    IncludedItem,
    OverflowEvent,
    PipelineStage,
    SelectionReport,
    TokenRequirementShortfall,
    TraceEvent,
    UnknownStage,
)
from cupel.errors import ReportFormatError

_STAGES: Final = {stage.value: stage for stage in PipelineStage}
_INCLUSIONS: Final = {reason.value: reason for reason in InclusionReason}
_VALUES: Final[dict[Any, Value]] = {str: TEXT, int: INTEGER, float: NUMBER}


def _field(name: str, value: Value | Nested, *, required: bool = True, default: Any = None) -> Field:
    return Field(name, value, default, required=required, key=name)


# These are records of what happened: unlike items they check nothing, so that a run need not pay for it.
_record: Final = partial(WireForm[Any], error=ReportFormatError, checked=False)


def _stage(value: Any) -> PipelineStage | UnknownStage:
    if type(value) is not str:
        raise ValueError(value)
    return _STAGES.get(value) or UnknownStage(value)


_STAGE: Final = Value(
    "a string",
    {"type": "string", "examples": [stage.value for stage in PipelineStage]},
    _stage,
    write=lambda stage: stage.value,
)


class Inclusion:
    """An inclusion reason: an object that holds nothing but its name."""

    title = "inclusion"
    packed = msgspec.defstruct("inclusion", [("reason", Any)], forbid_unknown_fields=True)

    def read(
        self, form: object, at: Path | None, *, error: type[Exception], aside: Aside | None
    ) -> InclusionReason | UnknownInclusionReason:
        """Read a known reason, or keep the name of another."""
        named, rest = _reason(form, at, error)
        if rest and aside is not None:
            aside[at or ()] = _shallow(rest, at, error)
        return _INCLUSIONS.get(named) or UnknownInclusionReason(named)

    def pack(self, value: InclusionReason | UnknownInclusionReason, /) -> Any:
        """Return the struct around the name."""
        return self.packed(value.value)

    def unpack(self, packed: Any, /) -> InclusionReason:
        """Return a known reason."""
        return _INCLUSIONS[packed.reason]

    def schema(self) -> dict[str, Any]:
        """Describe an object with a name of any kind."""
        name = {"type": "string", "examples": list(_INCLUSIONS)}
        return {"type": "object", "required": ["reason"], "properties": {"reason": name}}


class Exclusion:
    """An exclusion reason: its name, and beside it the fields that the reason has."""

    title = "exclusion"

    def read(self, form: object, at: Path | None, *, error: type[Exception], aside: Aside | None) -> ExclusionReason:
        """Read a known reason, or keep another as it is."""
        name, rest = _reason(form, at, error)
        known = _REASONS.get(name)
        if known is None:
            return UnknownReason(name, FrozenDict(_shallow(rest, at, error)))
        return cast("ExclusionReason", known.read(rest, at, error=error, aside={} if aside is None else aside))

    packed: Any = Union[tuple(KNOWN_REASONS.values())]  # noqa: UP007 - msgspec tells them apart by their names

    def pack(self, value: ExclusionReason, /) -> Any:
        """Return the fields beside the name."""
        known = _REASONS.get(value.name)
        return plain(value.to_dict()) if known is None or type(value) is not known.build else known.pack(value)

    def unpack(self, packed: ExclusionReason, /) -> ExclusionReason:
        """Return the reason, which msgspec has read."""
        return packed

    def schema(self) -> dict[str, Any]:
        """Describe each known reason with its fields; a reason of another name may carry anything."""
        branches: list[dict[str, Any]] = []
        for name, form in _REASONS.items():
            fields = form.schema()
            required = ["reason", *fields.get("required", ())]
            properties = {"reason": {"const": name}, **fields["properties"]}
            branches.append({"type": "object", "required": required, "properties": properties})
        other = {"type": "string", "not": {"enum": list(_REASONS)}}
        branches.append({"type": "object", "required": ["reason"], "properties": {"reason": other}})
        return {"oneOf": branches}


def _reason(form: object, at: Path | None, error: type[Exception]) -> tuple[str, dict[str, Any]]:
    """Return a reason's name, and what stands beside it."""
    if not isinstance(form, Mapping):
        raise error(f"{shown_path(at or ())}: {wrong_type('a reason', 'an object', form)}")
    rest = dict(cast("Mapping[str, Any]", form))
    if "reason" not in rest:
        raise error(f"{shown_path(at or ())}: reason is missing")
    name = rest.pop("reason")
    if type(name) is not str:
        raise error(f"{shown_path(at or ())}: {wrong_type('reason', 'a string', name)}")
    return name, rest


def _shallow(fields: dict[str, Any], at: Path | None, error: type[Exception]) -> dict[str, Any]:
    try:
        check_depth(fields)
    except RefusedError as bad:
        raise error(f"{shown_path(at or ())}: {bad}, got {shown(fields)}") from None
    return fields


def _reason_form(reason: type[ExclusionReason]) -> WireForm[Any]:
    fields = tuple(
        Field(field.name, _VALUES[field.type], None, required=True, key=field.encode_name)
        for field in msgspec.structs.fields(reason)
    )
    return _record(f"a {reason.__name__}", reason, fields, struct=reason)


_REASONS: Final = {name: _reason_form(reason) for name, reason in KNOWN_REASONS.items()}
INCLUSION: Final = Inclusion()
EXCLUSION: Final = Exclusion()

EVENT: Final = _record(
    "an event",
    TraceEvent,
    (
        _field("stage", _STAGE),
        _field("duration_ms", DURATION),
        _field("item_count", COUNT),
        _field("message", TEXT, required=False),
    ),
)
INCLUDED: Final = _record(
    "an included item",
    IncludedItem,
    (_field("item", Nested(ITEM)), _field("score", NUMBER), _field("reason", Nested(INCLUSION))),
)
EXCLUDED: Final = _record(
    "an excluded item",
    ExcludedItem,
    (_field("item", Nested(ITEM)), _field("score", NUMBER), _field("reason", Nested(EXCLUSION))),
)
SHORTFALL: Final = _record(
    "a shortfall",
    CountRequirementShortfall,
    (_field("kind", TEXT), _field("required_count", COUNT), _field("satisfied_count", COUNT)),
)
OVERFLOW: Final = _record(
    "an overflow",
    OverflowEvent,
    (
        _field("tokens_over_budget", INTEGER),
        _field("overflowing_items", Nested(ITEM, many=True)),
        _field("budget", Nested(BUDGET)),
    ),
)
TOKEN_SHORTFALL: Final = _record(
    "a shortfall of tokens",
    TokenRequirementShortfall,
    (_field("kind", TEXT), _field("required_tokens", COUNT), _field("satisfied_tokens", COUNT)),
)
CERTIFICATE: Final = _record(
    "a certificate",
    Certificate,
    (
        _field("value", COUNT),
        _field("bound", COUNT),
        _field("proof", TEXT),
        _field("token_shortfalls", Nested(TOKEN_SHORTFALL, many=True), required=False, default=()),
    ),
)
REPORT: Final = _record(
    "a report",
    SelectionReport,
    (
        _field("events", Nested(EVENT, many=True)),
        _field("included", Nested(INCLUDED, many=True)),
        _field("excluded", Nested(EXCLUDED, many=True)),
        _field("total_candidates", COUNT),
        _field("total_tokens_considered", INTEGER),
        _field("count_requirement_shortfalls", Nested(SHORTFALL, many=True), required=False, default=()),
        _field("certificate", Nested(CERTIFICATE), required=False),
    ),
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
