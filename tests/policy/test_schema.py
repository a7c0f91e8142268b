"""The JSON Schema accepts what the reader accepts, and the copy in the documentation is fresh."""

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cupel import ConfigurationError, Policy
from cupel.policy import json_schema
from tests.policy.random_policies import policies
from tests.policy.test_document_errors import MALFORMED

PUBLISHED = Path(__file__).parents[2] / "docs" / "reference" / "policy.schema.json"
BEYOND_A_SCHEMA = {"integer key", "float for integer", "number beyond floats", "endless duration"}


@pytest.fixture(scope="module")
def validator():
    Draft202012Validator.check_schema(json_schema())
    return Draft202012Validator(json_schema())


@given(policy=policies)
def test_every_written_document_is_valid(validator, policy):
    validator.validate(policy.to_dict())


@pytest.mark.parametrize(
    "document",
    [
        {"scorer": "recency", "$schema": "x", "slicer": {"type": "knapsack", "max_cells": None}},
        {"scorer": {"type": "recency"}, "placer": {"type": "u_shaped"}, "deduplication": True},
    ],
)
def test_what_is_read_but_not_written_is_valid_too(validator, document):
    Policy.from_dict(document)
    validator.validate(document)


def _is_json(document):
    try:
        json.dumps(document)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize(
    "document",
    [
        document
        for name, (document, _) in MALFORMED.items()
        if name not in BEYOND_A_SCHEMA and "instant" not in name and _is_json(document)
    ],
    ids=str,
)
def test_malformed_documents_are_not_valid(validator, document):
    assert not validator.is_valid(document)


def test_the_published_copy_is_fresh():
    """Write it again with: python scripts/policy_schema.py."""
    code = "import json; from cupel.policy import json_schema; print(json.dumps(json_schema()))"
    fresh = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)  # no test's tags
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == json.loads(fresh.stdout)


JUNK = [None, True, 0, 1, -1, 101, 0.5, 1e300, "", "x", "greedy", "auto", [], {}, [1], {"type": "greedy"}, {"type": 1}]
KEYS = ["name", "description", "extra", "slicer", "placer", "$schema", "overflow", "type", "weight", "inner", "cap"]


def _places(document, path=()):
    yield path
    if isinstance(document, (dict, list)):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from _places(value, (*path, key))


_schema = functools.cache(json_schema)


@st.composite
def _spoilt(draw):
    """A written document with something in it taken away, replaced or added."""
    document = draw(policies).to_dict()
    path = draw(st.sampled_from(list(_places(document))))
    node = functools.reduce(lambda inside, key: inside[key], path[:-1], document)
    if path and draw(st.booleans()):
        node[path[-1]] = draw(st.sampled_from(JUNK))
    elif path and draw(st.booleans()):
        del node[path[-1]]
    elif isinstance(node, dict):
        node[draw(st.sampled_from(KEYS))] = draw(st.sampled_from(JUNK))
    return document


@given(document=_spoilt())
def test_schema_and_reader_agree_on_the_form_of_spoilt_documents(document):
    """What is read is valid; what is valid but not read is refused for a value's range alone, with its path."""
    validator = Draft202012Validator(_schema())  # as an argument it would be shown, all 100 kB of it
    try:
        Policy.from_dict(document)
    except ConfigurationError as error:
        text = str(error)
        assert text.startswith("$")
        if validator.is_valid(document):
            assert not re.search("unknown|missing|misses", text), text
    else:
        assert validator.is_valid(document)
