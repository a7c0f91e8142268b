"""A policy is the same after any trip through a document, and does the same."""

import copy
import json
import pickle
import sys

import pytest
from hypothesis import given, settings

import cupel.policy
from cupel import CupelError, MissingExtraError, PolicyConfigError, RecencyScorer, presets
from tests.policy.random_policies import budgets, items, policies

pytestmark = pytest.mark.filterwarnings("ignore::cupel.errors.CupelWarning")
PRESETS = [getattr(presets, name)() for name in presets.__all__]


def outcome(policy, candidates, budget):
    """The selected positions in placed order, or the kind of error."""
    try:
        selected = policy.run(candidates, budget)
    except CupelError as error:
        return type(error), str(error)
    return [next(i for i, candidate in enumerate(candidates) if candidate is item) for item in selected]


@settings(max_examples=150)
@given(policy=policies, candidates=items, budget=budgets)
def test_random_policies_survive_every_document_and_select_the_same(policy, candidates, budget):
    document = cupel.policy.to_dict(policy)
    copies = [
        cupel.policy.from_dict(document),
        cupel.policy.loads(cupel.policy.dumps(policy)),
        cupel.policy.loads(cupel.policy.dumps(policy, format="toml"), format="toml"),
    ]
    before = outcome(policy, candidates, budget)
    for read in copies:
        assert read == policy
        assert json.dumps(cupel.policy.to_dict(read)) == json.dumps(document)  # the order of the keys included
        assert outcome(read, candidates, budget) == before


@pytest.mark.parametrize("name", ["p.json", "p.toml"])
@pytest.mark.parametrize("policy", PRESETS, ids=lambda policy: policy.name)
def test_presets_survive_every_file(policy, name, tmp_path):
    cupel.policy.dump(policy, tmp_path / name)
    assert cupel.policy.load(tmp_path / name) == policy
    assert (tmp_path / name).read_text(encoding="utf-8").endswith("\n")


def test_a_file_with_another_suffix_is_not_written(tmp_path):
    with pytest.raises(PolicyConfigError, match=r"a policy file ends in \.json or \.toml, not '\.yaml'"):
        cupel.policy.dump(presets.chat(), tmp_path / "p.yaml")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "use", [lambda: cupel.policy.loads("", format="yaml"), lambda: cupel.policy.dumps(presets.chat(), format="yaml")]
)
def test_another_format_is_refused(use):
    with pytest.raises(PolicyConfigError, match="format must be 'json' or 'toml', got 'yaml'"):
        use()


def test_toml_is_read_from_bytes():
    assert cupel.policy.loads(b'scorer = "recency"', format="toml").scorer == RecencyScorer()


def test_without_tomli_w_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tomli_w", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'cupel-context\[cli\]'"):
        cupel.policy.dumps(presets.chat(), format="toml")


@settings(max_examples=50)
@given(policy=policies)
def test_policies_are_values(policy):
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert copy.deepcopy(policy) == policy
    assert hash(cupel.policy.from_dict(cupel.policy.to_dict(policy))) == hash(policy)


def test_a_byte_order_mark_is_no_reason_to_fail(tmp_path):
    file = tmp_path / "p.json"
    file.write_bytes(b"\xef\xbb\xbf" + cupel.policy.dumps(presets.chat()).encode())
    assert cupel.policy.load(file) == presets.chat()


def test_equal_policies_hash_alike_and_different_ones_differ():
    assert len({hash(presets.chat()), hash(presets.chat())}) == 1
    assert len({repr(policy) for policy in PRESETS}) == len(PRESETS)
    assert presets.chat() != presets.rag()
