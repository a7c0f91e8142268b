"""Reports as JSON documents, their reader and their JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Union, cast

import msgspec

from cupel._internal.checks import shown, wrong_type
from cupel._internal.documents import (
    ANY_NUMBER,
    BUDGET,
    ITEM,
    MILLISECONDS,
    REQUIRED,
    TEXT,
    Codec,
    Field,
    Integer,
    ListOf,
    PackedRecord,
    RefusedError,
    Schema,
    check_depth,
    plain,
)
from cupel._internal.frozen import FrozenDict
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
_INTEGER: Final = Integer()
_COUNT: Final = Integer(least=0, enforced=True)
_CODECS: Final[dict[Any, Codec[Any]]] = {str: TEXT, int: _INTEGER, float: ANY_NUMBER}


def _record(noun: str, described: type[msgspec.Struct], /, **codecs: Codec[Any]) -> PackedRecord[Any]:
    """Return the record of a struct, with its defaults.

    Structs of a run, unlike items, check nothing, so that a run does not pay for it.
    """
    defaults = dict(zip(reversed(described.__struct_fields__), reversed(described.__struct_defaults__), strict=False))
    fields = (Field(name, codec, defaults.get(name, REQUIRED)) for name, codec in codecs.items())
    return PackedRecord(noun, described, tuple(fields), ReportFormatError, checked=False)


class _Stage(Codec[Any]):
    """The name of a stage; one of a newer producer is kept as it is."""

    def decode(self, value: Any, /) -> PipelineStage | UnknownStage:
        name = TEXT.decode(value)
        return _STAGES.get(name) or UnknownStage(name)

    def encode(self, value: PipelineStage | UnknownStage, /) -> str:
        return value.value

    def schema(self) -> Schema:
        return {"type": "string", "examples": [stage.value for stage in PipelineStage]}


class _Reason(Codec[Any]):
    """An object that names a reason."""

    title: str

    def schema(self) -> Schema:
        return {"$ref": f"#/$defs/{self.title}"}

    def split(self, value: Any) -> tuple[str, dict[str, Any]]:
        """Return the name of a reason and its other fields."""
        if not isinstance(value, Mapping):
            raise RefusedError(str(wrong_type("a reason", "an object", value)))
        rest = dict(cast("Mapping[str, Any]", value))
        if "reason" not in rest:
            raise RefusedError("reason is missing")
        name = rest.pop("reason")
        if type(name) is not str:
            raise RefusedError(str(wrong_type("reason", "a string", name)))
        return name, rest


class Inclusion(_Reason):
    """An inclusion reason: an object that holds nothing but its name."""

    title = "inclusion"
    packed = msgspec.defstruct("inclusion", [("reason", Any)])

    def decode(self, value: Any, /) -> InclusionReason | UnknownInclusionReason:
        name, _ = self.split(value)
        return _INCLUSIONS.get(name) or UnknownInclusionReason(name)

    def encode(self, value: InclusionReason | UnknownInclusionReason, /) -> Any:
        return self.packed(value.value)

    def decode_column(self, values: Sequence[Any], /) -> Sequence[InclusionReason]:
        return [_INCLUSIONS[packed.reason] for packed in values]

    def definition(self) -> Schema:
        """Describe an object with any name."""
        name = {"type": "string", "examples": list(_INCLUSIONS)}
        return {"type": "object", "required": ["reason"], "properties": {"reason": name}}


class Exclusion(_Reason):
    """An exclusion reason: its name and its fields; a reason with another name keeps all of them."""

    title = "exclusion"
    packed: Any = Union[tuple(KNOWN_REASONS.values())]  # noqa: UP007 - msgspec tells them apart by their names

    def decode(self, value: Any, /) -> ExclusionReason:
        name, rest = self.split(value)
        if name in _REASONS:
            return cast("ExclusionReason", _REASONS[name].decode(rest))
        try:
            check_depth(rest)
        except RefusedError as bad:
            raise RefusedError(f"{bad}, got {shown(rest)}") from None
        return UnknownReason(name, FrozenDict(rest))

    def encode(self, value: ExclusionReason, /) -> Any:
        known = _REASONS.get(value.name)
        return plain(value.to_dict()) if known is None or type(value) is not known.build else known.encode(value)

    def decode_column(self, values: Sequence[ExclusionReason], /) -> Sequence[ExclusionReason]:
        return values  # as msgspec has read them

    def definition(self) -> Schema:
        """Describe each known reason with its fields; a reason with another name may have any."""
        branches: list[dict[str, Any]] = []
        for name, codec in _REASONS.items():
            own = codec.definition()
            required = ["reason", *own.get("required", ())]
            properties = {"reason": {"const": name}, **own["properties"]}
            branches.append({"type": "object", "required": required, "properties": properties})
        other = {"type": "string", "not": {"enum": list(_REASONS)}}
        branches.append({"type": "object", "required": ["reason"], "properties": {"reason": other}})
        return {"oneOf": branches}


def _reason_record(reason: type[ExclusionReason]) -> PackedRecord[Any]:
    codecs = {field.name: _CODECS[field.type] for field in msgspec.structs.fields(reason)}
    return replace(_record(f"a {reason.__name__}", reason, **codecs), struct=reason)


_REASONS: Final = {name: _reason_record(reason) for name, reason in KNOWN_REASONS.items()}
INCLUSION: Final = Inclusion()
EXCLUSION: Final = Exclusion()

EVENT: Final = _record(
    "an event", TraceEvent, stage=_Stage(), duration_ms=MILLISECONDS, item_count=_COUNT, message=TEXT
)
INCLUDED: Final = _record("an included item", IncludedItem, item=ITEM, score=ANY_NUMBER, reason=INCLUSION)
EXCLUDED: Final = _record("an excluded item", ExcludedItem, item=ITEM, score=ANY_NUMBER, reason=EXCLUSION)
OVERFLOW: Final = _record(
    "an overflow",
    OverflowEvent,
    tokens_over_budget=_INTEGER,
    overflowing_items=ListOf(ITEM, tuple),
    budget=BUDGET,
)
SHORTFALL: Final = _record(
    "a shortfall", CountRequirementShortfall, kind=TEXT, required_count=_COUNT, satisfied_count=_COUNT
)
TOKEN_SHORTFALL: Final = _record(
    "a shortfall of tokens",
    TokenRequirementShortfall,
    kind=TEXT,
    required_tokens=_COUNT,
    satisfied_tokens=_COUNT,
)
CERTIFICATE: Final = _record(
    "a certificate",
    Certificate,
    value=_COUNT,
    bound=_COUNT,
    proof=TEXT,
    token_shortfalls=ListOf(TOKEN_SHORTFALL, tuple),
)


def _report(**fields: Any) -> SelectionReport:
    """Build a report whose totals add up."""
    report = SelectionReport(**fields)
    tokens = sum(entry.item.tokens for entry in report)
    for name, stated, found in (
        ("total_candidates", report.total_candidates, len(report)),
        ("total_tokens_considered", report.total_tokens_considered, tokens),
    ):
        if stated != found:
            msg = f"{name} must be {shown(found)}, the sum over included and excluded, got {shown(stated)}"
            raise ReportFormatError(msg)
    return report


REPORT: Final = PackedRecord(
    "a report",
    _report,
    (
        Field("events", ListOf(EVENT, tuple)),
        Field("included", ListOf(INCLUDED, tuple)),
        Field("excluded", ListOf(EXCLUDED, tuple)),
        Field("total_candidates", _COUNT),
        Field("total_tokens_considered", _INTEGER),
        Field("count_requirement_shortfalls", ListOf(SHORTFALL, tuple), ()),
        Field("certificate", CERTIFICATE, None),
    ),
    ReportFormatError,
    checked=False,
)


PARTS: Final = (ITEM, EVENT, INCLUDED, EXCLUDED, INCLUSION, EXCLUSION, SHORTFALL, CERTIFICATE, TOKEN_SHORTFALL)
"""What the schema of a report defines beside it."""
