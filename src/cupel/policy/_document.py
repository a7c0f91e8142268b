"""Pipelines as documents: JSON, TOML and a JSON Schema."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from cupel._checks import as_instance, as_integer, as_text, shown, wrong_type
from cupel._documents import (
    FLAG,
    NAME,
    SCALAR,
    TEXT,
    Choice,
    Field,
    Integer,
    ListOf,
    MapOf,
    RefusedError,
    Schema,
    as_object,
    check_depth,
    decode_json,
    decode_toml,
    encode_toml,
    placed,
    record,
    step,
)
from cupel._files import whole
from cupel.errors import ConfigurationError, PolicyConfigError
from cupel.model import OverflowStrategy
from cupel.pipeline import PinRule, Pipeline
from cupel.policy._registry import FAMILIES, load_plugins
from cupel.policy._strategies import PLACERS, SCORERS, SLICERS

T = TypeVar("T")
Format: TypeAlias = Literal["json", "toml"]

_SUFFIXES: Final[dict[str, Format]] = {".json": "json", ".toml": "toml"}


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
    return _raising(_decode, document)


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
    try:
        return _as_json(document, indent) if _is_json(format) else encode_toml(document)
    except RefusedError as error:
        raise error.raised_as(PolicyConfigError) from None


def to_dict(pipeline: Pipeline) -> dict[str, Any]:
    """Return a pipeline's policy document: defaults are left out, a strategy without settings is its bare tag.

    A function cannot be written: a pipeline with `on_overflow` raises a PolicyConfigError.
    """
    if as_instance("pipeline", pipeline, Pipeline).on_overflow is not None:
        problem = f"on_overflow {shown(pipeline.on_overflow)} cannot be serialised"
        raise PolicyConfigError(f"{problem}: write dataclasses.replace(pipeline, on_overflow=None)")
    return _raising(DOCUMENT.encode, pipeline)


def _decode(document: Mapping[str, Any]) -> Pipeline:
    check_depth(document)
    members = as_object(document)
    step(TEXT.decode, members.pop("$schema", ""), "$schema")  # for editors only
    return DOCUMENT.decode(members)


def _raising(convert: Callable[[Any], T], value: Any) -> T:
    """Decode or encode; an error names the path and is a PolicyConfigError or that of the strategy that refused."""
    try:
        return convert(value)
    except RefusedError as error:
        problem = error.raised_as(PolicyConfigError)
        if problem is error.cause:
            raise problem from problem.__cause__
        raise problem from error.cause or error.__cause__


def _as_json(document: dict[str, Any], indent: int | None) -> str:
    import json

    if indent is not None:
        indent = as_integer("indent", indent, least=0, expected="an integer or None")
    try:
        return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise RefusedError(f"cannot be written as JSON: {error}") from None


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
    Field("kind", NAME),
    Field("tag", TEXT),
    Field("source", NAME),
    Field("metadata", MapOf(SCALAR), note="Keys and the values they must have."),
    Field("newest", Integer(least=1), note="Pin only this many of the matching items, the newest first."),
    rules={
        "anyOf": [
            *({"required": [key]} for key in ("kind", "tag", "source", "newest")),
            {"required": ["metadata"], "properties": {"metadata": {"minProperties": 1}}},
        ]
    },
)
DOCUMENT: Final = record(
    Pipeline,
    Field("name", TEXT, note="What the policy is called."),
    Field("description", TEXT, note="What the policy is for."),
    Field("scorer", SCORERS, note="How relevant each item is."),
    Field("slicer", SLICERS, note="What fits the budget; greedy if left out."),
    Field("placer", PLACERS, note="The final order; chronological if left out."),
    Field("pins", ListOf(PIN_RULE, tuple), note="Rules that pin items, beside those given as pinned."),
    Field("deduplicate", FLAG, key="deduplication"),
    Field("overflow", Choice(OverflowStrategy)),
)


_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of the policy document, with every strategy registered so far.

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
