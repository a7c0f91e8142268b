"""Scorers, slicers, placers and pipelines, built from the configuration of a vector by way of a policy document.

A vector's options are the keys of a strategy's document. What the public format spells otherwise is translated here;
fields that a strategy does not know belong to others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from cupel._checks import shown
from cupel.conformance._vector import TomlTable
from cupel.errors import ConfigurationError, PolicyConfigError
from cupel.placers import Placer
from cupel.policy import Policy, registered
from cupel.scorers import Scorer
from cupel.slicers import Slicer

_PUBLIC: Final = {
    "scorers": "children",
    "now": "reference_time",
    "half_life_seconds": "half_life_secs",
    "max_age_seconds": "max_age_secs",
    "scarcity": "scarcity_behavior",
}
"""What the public format calls a key of a policy document."""
_ABSENT: Final[dict[str, Any]] = {"array": [], "object": {}}
"""What is absent is empty (ruling 11.2)."""


def build_scorer(owner: TomlTable, key: str, options: TomlTable) -> Scorer:
    """Build the scorer that a field names, with options from a table."""
    return _policy(options, {"scorer": _document("scorer", owner, key, options)}).scorer


def build_slicer(owner: TomlTable, key: str, options: TomlTable) -> Slicer:
    """Build the slicer that a field names, with options from a table."""
    return _policy(options, {"scorer": "recency", "slicer": _document("slicer", owner, key, options)}).slicer


def build_placer(owner: TomlTable, key: str, options: TomlTable) -> Placer:
    """Build the placer that a field names, with options from a table."""
    return _policy(options, {"scorer": "recency", "placer": _document("placer", owner, key, options)}).placer


def build_policy(config: TomlTable) -> Policy:
    """Build the policy of a pipeline: one scorer stands for itself, several for their weighted average."""
    overflow = config.option("overflow_strategy", "overflow", default="throw")
    document = {
        "overflow": overflow.lower() if isinstance(overflow, str) else overflow,
        "deduplication": config.option("deduplication", default=True),
    }
    entries = _weighted(config, "scorers", _without(config, ("scorers",)))
    if not entries:
        raise config.error("scorers", "must name at least one scorer")
    several = {"type": "composite", "scorers": entries}
    document["scorer"] = entries[0]["scorer"] if len(entries) == 1 else several
    for family in ("slicer", "placer"):
        if config.has(family):
            document[family] = _document(family, config, family, config)
    return _policy(config, document)


def _policy(config: TomlTable, document: Mapping[str, Any]) -> Policy:
    """Read a policy; what a strategy refuses is its own error, as if it had been built without a document."""
    try:
        return Policy.from_dict(document)
    except PolicyConfigError as error:
        raise config.error("", f"makes no policy: {error}") from error
    except ConfigurationError as error:
        raise error.__cause__ or error from None


def _document(family: str, owner: TomlTable, key: str, options: TomlTable) -> dict[str, Any]:
    """Return the document of the strategy that a field names, whether with hyphens, underscores or capitals."""
    name, known = owner.text(key), registered()[family]
    spelled = {tag.replace("_", ""): tag for tag in known}
    tag = spelled.get(name.replace("_", "").replace("-", "").lower())
    if tag is None:
        raise owner.error(key, f"unknown {family} {shown(name)}, expected one of {', '.join(known)}")
    document = {"type": tag, **dict(_members(known[tag].schema(), options, tag, family))}
    if tag == "kind" and options.option("use_default_weights", default=False):
        document.pop("weights", None)
    if tag == "decay" and "now" not in document:  # or the system's clock would decide
        raise options.error("reference_time", "is missing")
    if tag == "embedding":
        document["embed"] = _embedding(options.table("vectors"))
    return document


def _embedding(vectors: TomlTable) -> Callable[[list[str]], list[Any]]:
    return lambda texts: [vectors.need(text) for text in texts]


def _members(form: Mapping[str, Any], table: TomlTable, tag: str = "", family: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of an object that a table sets; a name may say whose it is (`tag_weights`, `inner_slicer`)."""
    properties: Mapping[str, Any] = form["properties"]
    for key, schema in properties.items():
        names = (f"{tag}_{key}", f"{key}_{family}", _PUBLIC.get(key, key), key)
        name = next((name for name in names if table.option(name) is not None), None)
        if key != "type" and name is not None:
            named = TomlTable({name: table.option(name)}, table.file, table.path)
            yield key, _value(schema, named, name, _without(table, names), tag)
        elif key in form["required"] and schema.get("type") in _ABSENT:
            yield key, _ABSENT[schema["type"]]


def _value(schema: Mapping[str, Any], owner: TomlTable, name: str, rest: TomlTable, tag: str) -> Any:
    """Return a field as a policy document has it; `rest` is where strategies within it find their options."""
    value = owner.values[name]
    if "$ref" in schema:
        family = schema["$ref"].rpartition("/")[2]
        if isinstance(value, str):
            return _document(family, owner, name, rest)
        child = owner.table(name)
        return _document(family, child, "type", _sharing(child, rest))
    entry = schema.get("items", {})
    if "scorer" in entry.get("properties", ()):
        return _weighted(owner, name, rest)
    if "properties" in entry:
        return [dict(_members(entry, row)) for row in owner.tables(name)]
    if "additionalProperties" in schema and isinstance(value, list):
        return {row.text(tag): row.need("weight") for row in owner.tables(name)}
    return value.lower() if "enum" in schema and isinstance(value, str) else value


def _weighted(owner: TomlTable, name: str, rest: TomlTable) -> list[dict[str, Any]]:
    """Return scorers with their weights: tables with a type, or bare names."""
    return [
        {"scorer": _document("scorer", row, "type", _sharing(row, rest)), "weight": row.values.get("weight", 1.0)}
        for row in owner.tables(name, short="type")
    ]


def _sharing(child: TomlTable, table: TomlTable) -> TomlTable:
    """Let a nested strategy find options it lacks in the configuration of the vector."""
    return TomlTable(child.values, child.file, child.path, table.shared or table)


def _without(table: TomlTable, names: tuple[str, ...]) -> TomlTable:
    """Return the table without the fields that name the strategies within, or they would be within themselves."""
    shared = table.shared and _without(table.shared, names)
    return TomlTable({k: v for k, v in table.values.items() if k not in names}, table.file, table.path, shared)
