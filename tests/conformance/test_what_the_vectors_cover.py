"""No strategy, reason or error without a vector, and no expectation that is not compared."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path

import pytest
import tomli

from cupel import placers, scorers, slicers
from cupel.conformance import VectorError, find_vectors, load_vector, run_vector
from cupel.conformance._runners import build_pipeline, build_strategy
from cupel.conformance._suite import ERROR_KINDS
from cupel.conformance._vector import TomlTable
from cupel.diagnostics import KNOWN_REASONS, InclusionReason
from cupel.errors import CupelError

OWN = find_vectors([Path(__file__).parents[2] / "conformance"])
DOCUMENTS = {path: tomli.loads(path.read_text(encoding="utf-8")) for path in OWN}
EXPECTING_SUCCESS = [
    path for path in OWN if not {"expect_error", "expect_construction_error"} & DOCUMENTS[path]["test"].keys()
]


def leaves(node, at=()):
    """Every value in a document that is not a table or an array, with the way to it."""
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from leaves(value, (*at, key))
    else:
        yield at, node


def values_of(field):
    return {value for document in DOCUMENTS.values() for at, value in leaves(document) if at[-1] == field}


def test_every_reason_that_the_pipeline_gives_is_expected_somewhere():
    others = ("reserved for custom", "session")  # no vector is about these
    given = {name for name, reason in KNOWN_REASONS.items() if not any(one in reason.__doc__ for one in others)}
    assert values_of("exclusion_reason") == given
    assert values_of("inclusion_reason") == {reason.value for reason in InclusionReason}


def test_every_kind_of_error_is_expected_somewhere():
    assert values_of("expect_error") == set(ERROR_KINDS)


def built_strategies():
    for path in EXPECTING_SUCCESS:
        document = TomlTable(DOCUMENTS[path], str(path))
        test, config = document.table("test"), document.table("config")
        for family in ("scorer", "slicer", "placer"):
            if test.has(family):
                yield from with_inner_ones(build_strategy(family, document))
        if config.has("scorers"):
            built = build_pipeline(config)
            yield from with_inner_ones(built.slicer)
            yield from with_inner_ones(built.placer)


def with_inner_ones(strategy):
    yield type(strategy)
    for inner in [getattr(strategy, "inner", None), *(entry[0] for entry in children(strategy))]:
        if inner is not None:
            yield from with_inner_ones(inner)


def children(strategy):
    return strategy.entries if isinstance(strategy, scorers.CompositeScorer) else []


@pytest.mark.parametrize(
    ("family", "base"), [(scorers, scorers.Scorer), (slicers, slicers.Slicer), (placers, placers.Placer)]
)
def test_every_exported_strategy_has_a_vector(family, base):
    exported = {value for name in family.__all__ if isinstance(value := getattr(family, name), type)}
    strategies = {kind for kind in exported if issubclass(kind, base) and kind is not base}
    assert strategies
    assert strategies - set(built_strategies()) == set()


def changed(value):
    if isinstance(value, str):
        return value + "?"
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return 0.125 if math.isnan(value) else value + 0.25
    return value + 1


def with_value(document, at, value):
    copied = copy.deepcopy(document)
    node = copied
    for key in at[:-1]:
        node = node[key]
    node[at[-1]] = value
    return copied


@pytest.mark.parametrize("path", EXPECTING_SUCCESS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_vector_fails_when_any_of_its_expectations_is_changed(path):
    """What a vector says is compared, down to the last field."""
    document, vector = DOCUMENTS[path], load_vector(path)
    for at, value in leaves(document):
        if at[0] not in {"expected", "expected_output"} or (vector.stage == "scoring" and at[-1] == "index"):
            continue  # the index of a scoring vector says which twin is meant
        other = TomlTable(with_value(document, at, changed(value)), str(path))
        try:
            result = run_vector(replace(vector, document=other))
        except VectorError:
            continue  # the changed content or position names no item
        assert not result.passed, f"changing {at} made no difference"


@pytest.mark.parametrize("path", sorted(set(OWN) - set(EXPECTING_SUCCESS)), ids=lambda path: path.stem)
def test_an_error_vector_fails_when_the_error_is_another_one(path):
    document, vector = DOCUMENTS[path], load_vector(path)
    right = document["test"].get("expect_error")
    for kind in set(ERROR_KINDS) - {right} if right else ["overflow"]:
        other = with_value(document, ("test", "expect_error"), kind)
        assert not run_vector(replace(vector, document=TomlTable(other, str(path)))).passed


def test_construction_errors_are_cupels_own():
    assert all(issubclass(kind, CupelError | TypeError) for kind in ERROR_KINDS.values())
