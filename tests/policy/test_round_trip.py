"""A policy is the same after any trip through a document, and does the same."""

import copy
import json
import pickle

import pytest
from hypothesis import given, settings

import cupel.policy
from cupel import CupelError, presets
from tests.policy.random_policies import budgets, items, policies

PRESETS = [getattr(presets, name)() for name in presets.__all__]


def outcome(policy, candidates, budget):
    """The selected positions in placed order, or the kind of error."""
    try:
        selected = policy.run(candidates, budget)
    except CupelError as error:
        return type(error), str(error)
    return [next(i for i, candidate in enumerate(candidates) if candidate is item) for item in selected]


@settings(max_examples=300)
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


@pytest.mark.parametrize("policy", PRESETS, ids=lambda policy: policy.name)
def test_presets_survive_every_document(policy, tmp_path):
    for name, text in (
        ("p.json", cupel.policy.dumps(policy, indent=2)),
        ("p.toml", cupel.policy.dumps(policy, format="toml")),
    ):
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        assert cupel.policy.load(file) == policy


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
