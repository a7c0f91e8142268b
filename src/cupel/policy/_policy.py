"""Pipelines as documents: JSON, TOML and a JSON Schema."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from cupel._checks import as_instance, as_integer, as_text, shown, wrong_type
from cupel._documents import RefusedError, at_index, at_key, check_depth, decode_json, decode_toml, plain
from cupel._files import whole
from cupel.errors import ConfigurationError, PolicyConfigError
from cupel.model import OverflowStrategy
from cupel.pipeline import PinRule, Pipeline
from cupel.policy._builtins import PLACERS, SCORERS, SLICERS
from cupel.policy._forms import (
    BOOLEAN,
    SCALAR,
    Choice,
    Integer,
    Json,
    Key,
    ListOf,
    MapOf,
    Schema,
    Text,
    malformed,
    placed,
    read_object,
    record,
)
from cupel.policy._registry import FAMILIES, load_plugins

Format: TypeAlias = Literal["json", "toml"]

_SUFFIXES: Final[dict[str, Format]] = {".json": "json", ".toml": "toml"}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_MUST_ESCAPE = re.compile(r'[\\"\x00-\x1f\x7f]')


def format_json(document: dict[str, Json], indent: int | None) -> str:
    """The document as JSON; numbers that JSON cannot express are refused."""
    import json

    if indent is not None:
        indent = as_integer("indent", indent, least=0, expected="an integer or None")
    try:
        return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise malformed("$", f"cannot be written as JSON: {error}") from error


def format_toml(document: dict[str, Json]) -> str:
    """The document as TOML: plain values first, then one table for each object, everything deeper inline."""
    lines = _assignments({key: value for key, value in document.items() if not isinstance(value, dict)}, "$")
    for key, value in document.items():
        if isinstance(value, dict):
            lines += ["", f"[{_key(key)}]", *_assignments(value, at_key("$", key))]
    return "\n".join(lines).lstrip("\n") + "\n"


def _assignments(table: Mapping[str, Json], path: str) -> list[str]:
    return [f"{_key(key)} = {_block(value, at_key(path, key))}" for key, value in table.items()]


def _block(value: Json, path: str) -> str:
    """A value on the right of `=`: a list of tables gets a line for each, the rest stays inline."""
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        rows = (f"    {_inline(entry, at_index(path, i))},\n" for i, entry in enumerate(value))
        return f"[\n{''.join(rows)}]"
    return _inline(value, path)


def _inline(value: Json, path: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return _integer(value, path)
        case float():
            return _float(value)
        case str():
            return _string(value)
        case list():
            return f"[{', '.join(_inline(entry, at_index(path, i)) for i, entry in enumerate(value))}]"
        case dict():
            members = (f"{_key(key)} = {_inline(entry, at_key(path, key))}" for key, entry in value.items())
            return f"{{ {', '.join(members)} }}" if value else "{}"
        case None:
            raise malformed(path, "TOML has no null; leave the key out or use JSON")


def _integer(value: int, path: str) -> str:
    try:
        return str(plain(value))
    except RefusedError as error:
        raise malformed(path, str(error)) from None


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(value)  # inf and -inf are TOML as they stand; an exponent needs no point


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    return '"' + _MUST_ESCAPE.sub(lambda found: _escape(found[0]), text) + '"'


def _escape(character: str) -> str:
    return _ESCAPES.get(character) or f"\\u{ord(character):04x}"


def load(path: str | os.PathLike[str]) -> Pipeline:
    """Read a pipeline from a `.json` or `.toml` file; errors name the file and the path within it."""
    file, written = _file(path)
    try:
        return loads(file.read_text(encoding="utf-8-sig"), format=written)
    except ConfigurationError as error:
        problem = placed(error, str(file))
        if problem is error:
            raise
        raise problem from error
    except UnicodeDecodeError as error:
        raise PolicyConfigError(f"{file}: not UTF-8 text: {error}") from error


def loads(text: str | bytes, *, format: Format = "json") -> Pipeline:  # noqa: A002 - as in the command
    """Read a pipeline from the text of a policy document.

    >>> from cupel import policy
    >>> policy.loads('{"scorer": "recency", "placer": "u_shaped"}')
    Pipeline(scorer=RecencyScorer(), placer=UShapedPlacer())
    """
    if _is_json(format):
        return from_dict(decode_json(text, error=PolicyConfigError))
    return from_dict(decode_toml(text, error=PolicyConfigError))


def from_dict(document: Mapping[str, Any]) -> Pipeline:
    """Read a pipeline from a policy document; a PolicyConfigError names the path and the likely intended word.

    >>> from cupel import policy
    >>> policy.from_dict({"scorer": "recency", "slicer": {"type": "quota", "quotas": [], "iner": "greedy"}})
    Traceback (most recent call last):
    cupel.errors.PolicyConfigError: $.slicer.iner: unknown key 'iner'; did you mean 'inner'? (known: quotas, ...)
    """
    try:
        check_depth(document)
    except RefusedError as error:
        raise malformed("$", str(error)) from None
    members = read_object(document, "$")
    if "$schema" in members:  # for editors only
        Text().read(members.pop("$schema"), '$["$schema"]')
    return DOCUMENT.read(members, "$")


def dump(pipeline: Pipeline, path: str | os.PathLike[str]) -> None:
    """Write a pipeline's policy document to a `.json` or `.toml` file."""
    file, written = _file(path)
    text = dumps(pipeline, format=written, indent=2 if written == "json" else None)
    with whole(file) as draft:
        draft.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")


def dumps(pipeline: Pipeline, *, format: Format = "json", indent: int | None = None) -> str:  # noqa: A002
    """Return a pipeline's policy document as text; `indent` is for JSON.

    >>> from cupel import KnapsackSlice, Pipeline, RecencyScorer, policy
    >>> dense = Pipeline(scorer=RecencyScorer(), slicer=KnapsackSlice(50), name="dense")
    >>> policy.dumps(dense)
    '{"name": "dense", "scorer": "recency", "slicer": {"type": "knapsack", "bucket_size": 50}}'
    >>> policy.loads(policy.dumps(dense)) == dense
    True
    >>> print(policy.dumps(dense, format="toml"), end="")
    name = "dense"
    scorer = "recency"
    <BLANKLINE>
    [slicer]
    type = "knapsack"
    bucket_size = 50
    """
    document = to_dict(pipeline)
    return format_json(document, indent) if _is_json(format) else format_toml(document)


def to_dict(pipeline: Pipeline) -> dict[str, Json]:
    """Return a pipeline's policy document: defaults are left out, a strategy without settings is its bare tag.

    A function cannot be written: a pipeline with `on_overflow` raises a PolicyConfigError.
    """
    if as_instance("pipeline", pipeline, Pipeline).on_overflow is not None:
        problem = f"on_overflow {shown(pipeline.on_overflow)} cannot be serialised"
        raise PolicyConfigError(f"{problem}: write dataclasses.replace(pipeline, on_overflow=None)")
    return DOCUMENT.write(pipeline, "$")


def _file(path: str | os.PathLike[str]) -> tuple[Path, Format]:
    """Return a policy file and the format that its suffix names."""
    if not isinstance(path, (str, os.PathLike)):
        raise wrong_type("path", "a string or a Path", path)
    file = Path(path)
    written = _SUFFIXES.get(file.suffix.lower())
    if written is None:
        name = shown(str(file))
        raise PolicyConfigError(f"{name}: a policy file ends in .json or .toml, not {shown(file.suffix)}")
    return file, written


def _is_json(written: str) -> bool:
    if as_text("format", written) not in _SUFFIXES.values():
        raise PolicyConfigError(f"format must be 'json' or 'toml', got {shown(written)}")
    return written == "json"


PIN_RULE: Final = record(
    PinRule,
    Key("kind", Text(can_be_blank=False)),
    Key("tag", Text()),
    Key("source", Text(can_be_blank=False)),
    Key("metadata", MapOf(SCALAR), note="Keys and the values they must have."),
    Key("newest", Integer(least=1), note="Only so many of the items that meet the other conditions."),
    rules={
        "anyOf": [
            *({"required": [key]} for key in ("kind", "tag", "source", "newest")),
            {"required": ["metadata"], "properties": {"metadata": {"minProperties": 1}}},
        ]
    },
)
DOCUMENT: Final = record(
    Pipeline,
    Key("name", Text(), note="What the policy is called."),
    Key("description", Text(), note="What the policy is for."),
    Key("scorer", SCORERS, note="How relevant each item is."),
    Key("slicer", SLICERS, note="What fits the budget; greedy if left out."),
    Key("placer", PLACERS, note="The final order; chronological if left out."),
    Key("pins", ListOf(PIN_RULE, tuple), note="Rules that pin items, beside those given as pinned."),
    Key("deduplication", BOOLEAN, argument="deduplicate"),
    Key("overflow", Choice(OverflowStrategy)),
)


_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> Schema:
    """A JSON Schema (draft 2020-12) of the policy document, with every strategy registered at this moment.

    >>> from cupel.policy import json_schema
    >>> sorted(json_schema()["$defs"])
    ['curve', 'placer', 'scorer', 'slicer']
    """
    load_plugins()
    document = DOCUMENT.schema()
    return {
        "$schema": _DIALECT,
        "title": "cupel policy",
        **document,
        "properties": {"$schema": {"type": "string"}, **document["properties"]},
        "$defs": {registry.family: registry.definition() for registry in FAMILIES},
    }
