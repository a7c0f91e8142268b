"""Malformed documents are refused with the place, the problem and a likely correction."""

import pickle

import pytest

import cupel.policy
from cupel import CupelError, PolicyConfigError, ScorerConfigError, SlicerConfigError


def slicer(document):
    return {"scorer": "recency", "slicer": document}


def scorer(document):
    return {"scorer": document}


DECAY = {"type": "decay", "curve": {"type": "window", "max_age_seconds": 1}}
DEEP = {
    "type": "quota",
    "quotas": [],
    "inner": {"type": "count_quota", "entries": [], "inner": {"type": "quota", "quotas": [], "iner": "greedy"}},
}

MALFORMED = {
    "not an object": ([], "$: expected an object, got a list"),
    "no scorer": ({}, "$: the key 'scorer' is missing"),
    "unknown key": ({"scorer": "recency", "slicr": "greedy"}, "$.slicr: unknown key 'slicr'; did you mean 'slicer'?"),
    "key of the constructor": ({"scorer": "recency", "deduplicate": True}, "did you mean 'deduplication'?"),
    "key like nothing": ({"scorer": "recency", "zzz": 1}, "$.zzz: unknown key 'zzz' (known: name, description,"),
    "odd key": ({"scorer": "recency", "a b": 1}, '$["a b"]: unknown key'),
    "integer key": ({1: 2}, "$: keys must be strings, got 1"),
    "deep typo": (slicer(DEEP), "$.slicer.inner.inner.iner: unknown key 'iner'; did you mean 'inner'?"),
    "unknown tag": (scorer("recencey"), "$.scorer: unknown scorer type 'recencey'; did you mean 'recency'?"),
    "other tag": (scorer({"type": "x"}), "$.scorer.type: unknown scorer type 'x' (known: recency, priority,"),
    "camel case": ({"scorer": "recency", "placer": "uShaped"}, "$.placer: unknown placer type 'uShaped'; did you mean"),
    "no type": (slicer({"bucket_size": 3}), "$.slicer: the key 'type' is missing; a slicer is one of greedy,"),
    "type not a string": (slicer({"type": 3}), "$.slicer.type: expected a slicer tag, got the number 3"),
    "a list for a strategy": (scorer(["recency"]), "$.scorer: expected a scorer: a tag or an object with a 'type'"),
    "null for a strategy": (slicer(None), "$.slicer: expected a slicer: a tag or an object with a 'type', got null"),
    "a strategy for a strategy": (
        scorer(object()),
        "$.scorer: expected a scorer: a tag or an object with a 'type', got <object",
    ),
    "string for integer": (
        slicer({"type": "quota", "quotas": [], "inner": {"type": "knapsack", "bucket_size": "7"}}),
        "$.slicer.inner.bucket_size: unknown word '7' (known: auto)",
    ),
    "float for integer": (
        slicer({"type": "knapsack", "bucket_size": 7.5}),
        "$.slicer.bucket_size: expected an integer",
    ),
    "boolean for integer": (slicer({"type": "knapsack", "bucket_size": True}), "expected an integer, got true"),
    "null elsewhere": (slicer({"type": "knapsack", "bucket_size": None}), "expected an integer, got null"),
    "boolean for number": (scorer({"type": "metadata_trust", "default_score": False}), "expected a number, got false"),
    "string for boolean": ({"scorer": "recency", "deduplication": "yes"}, "$.deduplication: expected true or false"),
    "number for string": ({"scorer": "recency", "name": 3}, "$.name: expected a string, got the number 3"),
    "unknown choice": ({"scorer": "recency", "overflow": "thow"}, "$.overflow: unknown value 'thow'; did you mean"),
    "choice not a string": (
        {"scorer": "recency", "overflow": 1},
        "$.overflow: expected one of throw, truncate, proceed",
    ),
    "object for list": (slicer({"type": "quota", "quotas": {}}), "$.slicer.quotas: expected a list, got an object"),
    "list for object": (scorer({"type": "kind", "weights": []}), "$.scorer.weights: expected an object, got a list"),
    "missing in a list": (
        slicer({"type": "count_quota", "entries": [{"require_count": 1}]}),
        "$.slicer.entries[0]: the key 'kind' is missing",
    ),
    "deep in a composite": (
        scorer({"type": "composite", "scorers": [{"scorer": "kind", "weight": 1}, {"scorer": "kind", "weight": "1"}]}),
        "$.scorer.scorers[1].weight: expected a number, got the string '1'",
    ),
    "weight of an odd kind": (
        scorer({"type": "kind", "weights": {'say "hi"': "x"}}),
        '$.scorer.weights["say \\"hi\\""]: expected a number',
    ),
    "number beyond floats": (
        scorer({"type": "metadata_trust", "default_score": 10**400}),
        "beyond the range of a float",
    ),
    "curve": (scorer(DECAY | {"curve": "exponentail"}), "$.scorer.curve: unknown curve type 'exponentail'; did you"),
    "curve without a field": (
        scorer(DECAY | {"curve": "window"}),
        "$.scorer.curve: the key 'max_age_seconds' is missing",
    ),
    "endless duration": (
        scorer(DECAY | {"curve": {"type": "window", "max_age_seconds": float("inf")}}),
        "$.scorer.curve.max_age_seconds: inf seconds is not a duration",
    ),
    "instant without offset": (scorer(DECAY | {"now": "2026-01-02T03:04:05"}), "has no offset; add one, such as 'Z'"),
    "impossible instant": (scorer(DECAY | {"now": "2026-13-02T03:04:05Z"}), "$.scorer.now: expected an RFC 3339"),
    "instant as number": (scorer(DECAY | {"now": 5}), "$.scorer.now: expected an RFC 3339 date-time such as"),
}


@pytest.mark.parametrize(("document", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_documents(document, message):
    with pytest.raises(PolicyConfigError) as caught:
        cupel.policy.from_dict(document)
    assert message in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("document", "error", "path"),
    [
        (
            scorer({"type": "scaled", "inner": {"type": "composite", "scorers": []}}),
            ScorerConfigError,
            "$.scorer.inner: ",
        ),
        (scorer({"type": "metadata_trust", "default_score": float("nan")}), ScorerConfigError, "$.scorer: "),
        (scorer({"type": "kind", "weights": {"A": 1, "a": 2}}), ScorerConfigError, "$.scorer: "),
        (scorer({"type": "kind", "weights": {" ": 1}}), ScorerConfigError, "$.scorer: "),
        (
            scorer(DECAY | {"curve": {"type": "window", "max_age_seconds": 0}}),
            ScorerConfigError,
            "$.scorer.curve: ",
        ),
        (
            slicer({"type": "quota", "quotas": [], "inner": {"type": "knapsack", "bucket_size": 0}}),
            SlicerConfigError,
            "$.slicer.inner: ",
        ),
        (
            slicer({"type": "count_constrained_knapsack", "entries": [], "bucket_size": 0}),
            SlicerConfigError,
            "$.slicer: ",
        ),
        (
            slicer({"type": "quota", "quotas": [{"kind": "A", "require": 50, "cap": 49}]}),
            SlicerConfigError,
            "$.slicer.quotas[0]: ",
        ),
        (slicer({"type": "quota", "quotas": [{"kind": " "}]}), SlicerConfigError, "$.slicer.quotas[0]: "),
        (slicer({"type": "count_quota", "entries": [], "inner": "knapsack"}), SlicerConfigError, "$.slicer: "),
    ],
)
def test_values_that_a_strategy_rejects_raise_its_own_error_with_the_path(document, error, path):
    with pytest.raises(error) as caught:
        cupel.policy.from_dict(document)
    assert type(caught.value) is error
    assert str(caught.value).startswith(path)
    assert isinstance(caught.value.__cause__, error)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "$: not valid JSON"),
        ("{", "$: not valid JSON"),
        ("null", "$: expected an object, got null"),
        (b"\xff\xfe\xff", "$: not valid JSON"),
        ('{"scorer": {"type": "metadata_trust", "default_score": NaN}}', "NaN is not a JSON number"),
        ('{"scorer": "recency", "scorer": "kind"}', "$: not valid JSON: the key 'scorer' occurs twice in one object"),
        (
            '{"scorer": {"type": "kind", "weights": {"a": 1, "a": 2}}}',
            "the key 'a' occurs twice in one object",
        ),
        ('{"scorer": {"type": "kind", "type": "tag"}}', "the key 'type' occurs twice"),
        ('{"scorer": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_broken_json(text, message):
    with pytest.raises(PolicyConfigError) as caught:
        cupel.policy.loads(text)
    assert message in str(caught.value)


def test_endless_nesting_is_refused_and_deep_nesting_is_not():
    document = "recency"
    for _ in range(90):
        document = {"type": "scaled", "inner": document}
    assert cupel.policy.to_dict(cupel.policy.from_dict(scorer(document))) == scorer(document)
    for _ in range(10_000):
        document = {"type": "scaled", "inner": document}
    with pytest.raises(PolicyConfigError, match="nested too deeply"):
        cupel.policy.from_dict(scorer(document))


def test_broken_toml():
    with pytest.raises(PolicyConfigError, match=r"\$: not valid TOML: .*line 1"):
        cupel.policy.loads("scorer = recency", format="toml")


def test_files_are_named_in_errors(tmp_path):
    broken, strange, rejected, binary = (tmp_path / name for name in ("a.json", "b.yaml", "c.toml", "d.json"))
    broken.write_text('{"scorer": "recencey"}')
    strange.write_text("")
    rejected.write_text('scorer = { type = "metadata_trust", default_score = 2 }')
    binary.write_bytes(b"\xff")
    for file, error, message in (
        (broken, PolicyConfigError, "a.json: $.scorer: unknown scorer type"),
        (strange, PolicyConfigError, "a policy file ends in .json or .toml, not '.yaml'"),
        (rejected, ScorerConfigError, "c.toml: $.scorer: "),
        (binary, PolicyConfigError, "d.json: not UTF-8 text"),
    ):
        with pytest.raises(CupelError) as caught:
            cupel.policy.load(file)
        assert type(caught.value) is error
        assert message in str(caught.value)
    with pytest.raises(FileNotFoundError):
        cupel.policy.load(tmp_path / "missing.json")
