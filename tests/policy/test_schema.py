"""The JSON Schema accepts what the reader accepts, and the copy in the documentation is fresh."""

import copy
import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import cupel.policy
from cupel import ConfigurationError
from cupel.policy import json_schema
from tests.policy.random_policies import policies
from tests.policy.test_document_errors import MALFORMED

pytestmark = pytest.mark.filterwarnings("ignore::cupel.errors.CupelWarning")
PUBLISHED = Path(__file__).parents[2] / "docs" / "reference" / "policy.schema.json"
PUBLISHED_SCHEMA = json.loads(PUBLISHED.read_text(encoding="utf-8"))  # without the tags that other tests register
NOT_JSON = {"integer key", "endless duration", "a strategy for a strategy"}


def _scored(**scorer):
    return {"scorer": scorer}


def _sliced(**slicer):
    return {"scorer": "recency", "slicer": slicer}


def _deep(levels):
    scorer = "recency"
    for _ in range(levels):
        scorer = {"type": "scaled", "inner": scorer}
    return {"scorer": scorer}


_CURVE = {"type": "window", "max_age_seconds": 5}
BEYOND_A_SCHEMA = {
    "two spellings of a kind": (_scored(type="kind", weights={"A": 1, "a": 1}), "are the same kind"),
    "two spellings of a tag": (_scored(type="tag", weights={"A": 1, "a": 1}, case_sensitive=False), "is the same tag"),
    "weights without an end": (
        _scored(type="composite", scorers=[{"scorer": "recency", "weight": 1e308}] * 2),
        "add up to infinity",
    ),
    "shares of more than all": (
        _sliced(type="quota", quotas=[{"kind": "A", "require": 60}, {"kind": "B", "require": 60}]),
        "add up to more than 100",
    ),
    "a kind twice": (_sliced(type="quota", quotas=[{"kind": "A"}, {"kind": "a"}]), "has an entry already"),
    "least above most": (_sliced(type="quota", quotas=[{"kind": "A", "require": 9, "cap": 8}]), "must not exceed"),
    "knapsack in a count quota": (
        _sliced(type="count_quota", entries=[], inner="knapsack"),
        "does not work with KnapsackSlice",
    ),
    "a function nobody has imported": (_scored(type="embedding", embed="nowhere:none"), "imported already"),
    "a language nobody stems": (_scored(type="relevance", stem="klingon"), "stem must be"),
    "a day no month has": (_scored(type="decay", curve=_CURVE, now="2026-02-30T00:00:00Z"), "expected an RFC 3339"),
    "before the first year": (_scored(type="decay", curve=_CURVE, now="0001-01-01T00:00:00+01:00"), "years 1 to 9999"),
    "a number beyond doubles": (_scored(type="metadata_key", key="a", value="b", boost=10**400), "range of a float"),
    "too deep": (_deep(120), "nested too deeply"),
}
"""All that a reader refuses and a schema cannot: what one value says about another, and about the world outside."""


@pytest.fixture(scope="module")
def validator():
    Draft202012Validator.check_schema(json_schema())
    return Draft202012Validator(json_schema())


@given(policy=policies)
def test_every_written_document_is_valid(validator, policy):
    validator.validate(cupel.policy.to_dict(policy))


@pytest.mark.parametrize(
    "document",
    [
        {"scorer": "recency", "$schema": "x", "slicer": {"type": "knapsack", "max_cells": None}},
        {"scorer": {"type": "recency"}, "placer": {"type": "u_shaped"}, "deduplication": True},
    ],
)
def test_what_is_read_but_not_written_is_valid_too(validator, document):
    cupel.policy.from_dict(document)
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
        if name not in NOT_JSON and "beyond" not in name and _is_json(document)
    ],
    ids=str,
)
def test_malformed_documents_are_not_valid(validator, document):
    assert not validator.is_valid(document)


def test_the_published_copy_is_fresh():
    """Write it again with: python scripts/policy_schema.py."""
    code = "import json; from cupel.policy import json_schema; print(json.dumps(json_schema()))"
    fresh = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)  # no test's tags
    assert json.loads(fresh.stdout) == PUBLISHED_SCHEMA


JUNK = [
    *(
        None,
        True,
        0,
        1,
        -1,
        2,
        100,
        101,
        1000,
        1001,
        1.0,
        0.5,
        -0.5,
        1.5,
        7.5,
        5e-7,
        6e-7,
        1e-9,
        8.64e13,
        1e300,
        -1e300,
    ),
    *(
        "",
        " ",
        "\t",
        "x",
        "greedy",
        "recency",
        "u_shaped",
        "auto",
        "knapsack",
        "json:dumps",
        "json:",
        "german",
        "Message",
        "mEsSaGe",
    ),
    *("2026-01-31T09:30:00Z", "2026-01-31T09:30Z", "2026-01-31 09:30:00.1234567+01:00", "2026-01-31T09:30:00", "2026"),
    *([], {}, [1], ["x"], {"": 1}, {" ": 1}, {"a": []}, {"a": 0.5}, {"type": "greedy"}, {"type": 1}, [{"kind": "a"}]),
]
KEYS = [
    *(
        "name",
        "description",
        "extra",
        "slicer",
        "placer",
        "$schema",
        "overflow",
        "type",
        "weight",
        "inner",
        "cap",
        "kind",
    ),
    *("metadata", "newest", "source", "tag", "min_count", "max_tokens", "gap", "max_core", "bucket_size", "max_cells"),
    *("query", "vector_key", "now", "weights", "stem", "k1", "b", "neighbours", "stop", "default_score", "pins"),
]
DOCUMENTS = [
    _sliced(type="optimal", exact=False, gap=0.1, max_core=3, limits=[{"kind": "A", "min_count": 1, "max_count": 2}]),
    _sliced(type="optimal", exact=False, limits=[{"kind": "A", "min_tokens": 1, "max_tokens": 2}], scarcity="throw"),
    _sliced(type="quota", quotas=[{"kind": "A", "require": 1, "cap": 50}], inner="greedy", leftover="share"),
    _sliced(type="count_quota", entries=[{"kind": "A", "require_count": 0, "cap_count": 2}], inner="greedy"),
    _scored(type="embedding", embed="json:dumps", vector_key="v", query="why?"),
    _scored(
        type="relevance", neighbours=0.5, k1=1, b=0.5, stem=False, stop=["a"], dates=True, query="why?", optional=True
    ),
    _scored(type="decay", now="2026-01-31T09:30:00Z", curve=_CURVE, null_timestamp_score=0.5),
    _scored(type="decay", curve={"type": "exponential", "half_life_seconds": 5}),
    _scored(type="decay", curve={"type": "step", "windows": [{"max_age_seconds": 5, "score": 0.5}]}),
    _scored(type="composite", scorers=[{"scorer": "recency", "weight": 2}]),
    {"scorer": "recency", "pins": [{"kind": "A", "tag": "t", "source": "s", "metadata": {"a": 1}, "newest": 1}]},
    {"scorer": "recency", "pins": [{"metadata": {"a": 1}}]},
    {"$schema": "x", "name": "n", "description": "d", "deduplication": True, "overflow": "throw", "scorer": "recency"},
]
"""Documents with lists of objects in them, and those for which not every value that a schema allows will do."""


def _full(schema):
    """A strategy with its keys, each with one of the values above that its schema allows."""
    full = {"type": schema["title"]}
    for key, form in schema["properties"].items():
        allowed = Draft202012Validator({**form, "$defs": PUBLISHED_SCHEMA["$defs"]})
        values = [value for value in [*form.get("enum", ()), *JUNK] if allowed.is_valid(value)]
        if values and key != "type":
            full[key] = values[-1]
    return full


def _with_all_keys():
    """Every strategy that no document above has, so that a new one is tried as soon as it is declared."""
    shown = json.dumps(DOCUMENTS)
    for family in ("scorer", "slicer", "placer"):
        for schema in PUBLISHED_SCHEMA["$defs"][family]["anyOf"]:
            if "title" in schema and f'"type": "{schema["title"]}"' not in shown:
                yield {"scorer": "recency", family: _full(schema)}


DOCUMENTS += _with_all_keys()


def _places(document, path=()):
    yield path
    if isinstance(document, (dict, list)):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from _places(value, (*path, key))


@functools.cache
def _validator():
    return Draft202012Validator(json_schema())


@st.composite
def _spoilt(draw):
    """A good document with something in it taken away, replaced or added, perhaps twice."""
    document = copy.deepcopy(draw(policies.map(cupel.policy.to_dict) | st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(list(_places(document))))
        node = functools.reduce(lambda inside, key: inside[key], path[:-1], document)
        if path and draw(st.booleans()):
            node[path[-1]] = copy.deepcopy(draw(st.sampled_from(JUNK)))
        elif path and draw(st.booleans()):
            del node[path[-1]]
        elif isinstance(node, dict):
            node[draw(st.sampled_from(KEYS))] = copy.deepcopy(draw(st.sampled_from(JUNK)))
    return document


def _agree(document):
    """Both take a document or neither does, but for the rules that a schema cannot state."""
    valid = _validator().is_valid(document)
    try:
        cupel.policy.from_dict(document)
    except ConfigurationError as error:
        text = str(error)
        assert text.startswith("$")
        assert not valid or any(message in text for _, message in BEYOND_A_SCHEMA.values()), text
    else:
        assert valid, document


@given(document=_spoilt())
def test_schema_and_reader_agree_on_damaged_documents(document):
    _agree(document)


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_schema_and_reader_agree_on_every_value_of_every_key(document):
    _agree(document)
    for path in list(_places(document))[1:]:
        for junk in JUNK:
            spoilt = copy.deepcopy(document)
            functools.reduce(lambda inside, key: inside[key], path[:-1], spoilt)[path[-1]] = junk
            _agree(spoilt)


def test_the_documents_have_every_key_of_the_schema():
    keys = {key for document in DOCUMENTS for path in _places(document) for key in path if isinstance(key, str)}
    assert _keys_of(PUBLISHED_SCHEMA) - keys == set(), "these need a document above"


def _keys_of(schema):
    if isinstance(schema, dict):
        found = set(schema.get("properties", ())) - {"method", "slicer", "placer"}
        return found.union(*map(_keys_of, schema.values()))
    return set().union(*map(_keys_of, schema)) if isinstance(schema, list) else set()


@pytest.mark.parametrize("name", BEYOND_A_SCHEMA)
def test_what_a_schema_cannot_say_the_reader_refuses(validator, name):
    document, message = BEYOND_A_SCHEMA[name]
    assert validator.is_valid(document)
    with pytest.raises(ConfigurationError, match=message):
        cupel.policy.from_dict(document)
