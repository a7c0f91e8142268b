"""The JSON Schema accepts what the reader accepts, and the copy in the documentation is fresh."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from cupel import Policy
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
