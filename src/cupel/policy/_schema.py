"""The policy document as a JSON Schema, so that editors can complete and check it."""

from __future__ import annotations

from cupel.policy._forms import Schema
from cupel.policy._plugins import load_plugins
from cupel.policy._policy import DOCUMENT
from cupel.policy._registry import FAMILIES

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
