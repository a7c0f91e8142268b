"""The JSON Schema of a serialised report."""

from __future__ import annotations

from typing import Any

import msgspec

from cupel.diagnostics._reasons import KNOWN_REASONS, InclusionReason
from cupel.diagnostics._stage import PipelineStage

_NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}
_TYPES: dict[type, dict[str, str]] = {str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"}}


def report_schema() -> dict[str, Any]:
    """Give the JSON Schema (draft 2020-12) that `SelectionReport.to_json` conforms to.

    Unknown fields, reasons and stages are allowed, because newer versions may write them.

    >>> report_schema()["required"]
    ['events', 'included', 'excluded', 'total_candidates', 'total_tokens_considered']
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cupel selection report",
        "type": "object",
        "required": ["events", "included", "excluded", "total_candidates", "total_tokens_considered"],
        "properties": {
            "events": {"type": "array", "items": {"$ref": "#/$defs/event"}},
            "included": {"type": "array", "items": {"$ref": "#/$defs/included"}},
            "excluded": {"type": "array", "items": {"$ref": "#/$defs/excluded"}},
            "total_candidates": {**_INTEGER, "minimum": 0},
            "total_tokens_considered": _INTEGER,
            "count_requirement_shortfalls": {"type": "array", "items": {"$ref": "#/$defs/shortfall"}},
        },
        "$defs": {
            "item": _item(),
            "event": _object(
                {
                    "stage": {**_STRING, "examples": [stage.value for stage in PipelineStage]},
                    "duration_ms": {"type": "number", "minimum": 0},
                    "item_count": {**_INTEGER, "minimum": 0},
                },
                {"message": _STRING},
            ),
            "included": _object({"item": {"$ref": "#/$defs/item"}, "score": _NUMBER, "reason": _inclusion()}),
            "excluded": _object(
                {"item": {"$ref": "#/$defs/item"}, "score": _NUMBER, "reason": {"$ref": "#/$defs/exclusion"}}
            ),
            "exclusion": _exclusion(),
            "shortfall": _object({"kind": _STRING, "required_count": _INTEGER, "satisfied_count": _INTEGER}),
        },
    }


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


def _item() -> dict[str, Any]:
    return _object(
        {"content": {**_STRING, "minLength": 1}, "tokens": _INTEGER, "kind": _STRING},
        {
            "source": _STRING,
            "priority": _INTEGER,
            "tags": {"type": "array", "items": _STRING},
            "metadata": {"type": "object"},
            "timestamp": {**_STRING, "format": "date-time"},
            "futureRelevanceHint": _NUMBER,
            "pinned": {"type": "boolean"},
            "originalTokens": _INTEGER,
        },
    )


def _inclusion() -> dict[str, Any]:
    return _object({"reason": {**_STRING, "examples": [reason.value for reason in InclusionReason]}})


def _exclusion() -> dict[str, Any]:
    """Each known reason with its fields; a reason of another name may carry anything."""
    branches: list[dict[str, Any]] = []
    for name, reason in KNOWN_REASONS.items():
        fields = {field.name: _TYPES[field.type] for field in msgspec.structs.fields(reason)}
        branches.append(_object({"reason": {"const": name}, **fields}))
    branches.append(_object({"reason": {**_STRING, "not": {"enum": list(KNOWN_REASONS)}}}))
    return {"oneOf": branches}
