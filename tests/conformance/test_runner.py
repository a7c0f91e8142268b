"""The runner reads what the format allows, names what it cannot read, and tells the first difference."""

from __future__ import annotations

import copy
import pickle
import textwrap
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import tomli

from cupel.conformance import (
    ConformanceLevel,
    SuiteReport,
    VectorError,
    VectorLevel,
    VectorResult,
    find_vectors,
    load_vector,
    run_suite,
    run_vector,
)
from cupel.conformance._vector import TomlTable

RECENCY = """
    [test]
    name = "newest first"
    stage = "scoring"
    scorer = "recency"
    [[items]]
    content = "old"
    tokens = 1
    timestamp = 2025-01-01T00:00Z
    [[items]]
    content = "new"
    tokens = 1
    timestamp = 2025-01-02T00:00Z
    [[expected]]
    content = "new"
    score_approx = 1
"""


@pytest.fixture
def write(tmp_path):
    def writer(text, name="vector.toml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return writer


def run(path):
    return run_vector(load_vector(path))


def test_toml_of_version_1_1_and_whole_scores_are_read(write):
    assert run(write(RECENCY)).passed


def test_unknown_fields_and_tables_are_ignored(write):
    assert run(write(RECENCY + "    weight_of_evidence = 3\n    [future]\n    x = 1\n")).passed


def test_a_vector_without_a_name_goes_by_its_file(write):
    assert load_vector(write(RECENCY.replace('name = "newest first"', ""), "unnamed.toml")).name == "unnamed"


def test_a_failing_vector_shows_expected_and_actual(write):
    result = run(write(RECENCY.replace("score_approx = 1", "score_approx = 0.25")))
    assert not result.passed
    assert (result.message, result.expected, result.actual) == ("score of 'new'", 0.25, 1.0)
    assert result.to_dict()["expected"] == 0.25


def test_an_error_nobody_expected_fails_the_vector(write):
    result = run(write(RECENCY.replace("tokens = 1", 'tokens = "1"')))
    assert (result.message, result.expected) == ("error", "no error")
    assert result.actual.startswith("TypeError: tokens")


def test_an_error_that_does_not_come_fails_the_vector(write):
    result = run(write(RECENCY.replace('scorer = "recency"', 'scorer = "recency"\n    expect_error = "scorer_config"')))
    assert (result.expected, result.actual) == ("scorer_config", "no error")


def test_an_error_with_other_words_fails_the_vector(write):
    path = write("""
        [test]
        stage = "slicing"
        slicer = "knapsack"
        expect_error = "slicer_config"
        expect_error_message = "too small"
        [config]
        bucket_size = 0
    """)
    result = run(path)
    assert (result.message, result.expected) == ("error message", "too small")
    assert "bucket_size" in result.actual


def test_what_a_strategy_refuses_is_told_in_its_own_words(write):
    """The way through a policy document is not seen, nor are the scorers around one within itself."""
    path = write("""
        [test]
        stage = "pipeline"
        expect_error = "scorer_config"
        expect_error_message = "entries must hold at least one (scorer, weight) pair, got none"
        [config]
        scorers = ["kind", { type = "composite" }]
    """)
    assert run(path).to_dict()["passed"], run(path).actual


def test_an_absent_option_that_is_a_list_is_empty(write):
    path = write("""
        [test]
        stage = "slicing"
        slicer = "quota"
        [budget]
        target_tokens = 1
        [[scored_items]]
        content = "a"
        tokens = 1
        [expected]
        selected_contents = ["a"]
    """)
    assert run(path).passed


def test_an_absent_option_that_has_a_default_is_not_empty(write):
    """Kinds without weights of their own have those of the scorer, not none."""
    path = write("""
        [test]
        stage = "scoring"
        scorer = "kind"
        [[items]]
        content = "a"
        tokens = 1
        kind = "SystemPrompt"
        [[expected]]
        content = "a"
        score_approx = 1.0
    """)
    assert run(path).to_dict()["passed"], run(path).actual


def test_an_absent_option_that_is_a_number_is_missing(write):
    path = write("""
        [test]
        stage = "scoring"
        scorer = "metadata_key"
        [config]
        key = "team"
        value = "core"
    """)
    with pytest.raises(VectorError, match="the key 'boost' is missing"):
        run(path)


def test_a_construction_error_must_not_come_from_the_run(write):
    path = write("""
        [test]
        stage = "pipeline"
        expect_construction_error = true
        [budget]
        max_tokens = 1
        target_tokens = 1
        [config]
        scorers = ["kind"]
        [[items]]
        content = "pin"
        tokens = 2
        pinned = true
    """)
    assert run(path).actual.startswith("PinnedExceedsBudgetError")


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        ("not toml at all [", "", "cannot be read"),
        ("", "test", "is missing"),
        ("test = 1", "test", "must be a table, not 1"),
        ("[test]", "test.stage", "is missing"),
        ('[test]\nstage = "cooking"', "test.stage", "unknown stage 'cooking', expected one of scoring"),
        ('[test]\nstage = ["scoring"]', "test.stage", "must be a string"),
        ('[test]\nstage = "scoring"', "test.scorer", "is missing"),
        ('[test]\nstage = "scoring"\nscorer = "gut"', "test.scorer", "unknown scorer 'gut', expected one of recency"),
        ('[test]\nstage = "slicing"\nslicer = "greedy"', "budget.target_tokens", "is missing"),
        ('[test]\nstage = "slicing"\nslicer = "cleaver"', "test.slicer", "unknown slicer 'cleaver'"),
        (
            '[test]\nstage = "placing"\nplacer = "shelf"',
            "test.placer",
            "unknown placer 'shelf', expected one of chrono",
        ),
        ('[test]\nstage = "pipeline"', "config", "is missing"),
        ('[test]\nstage = "pipeline"\n[config]\nslicer = "greedy"', "config.scorers", "at least one scorer"),
        ('[test]\nstage = "pipeline"\n[config]\nscorers = [{}]', "config.scorers[0].type", "is missing"),
        ('[test]\nstage = "pipeline"\n[config]\noverflow_strategy = "hope"', "config.scorers", "at least one scorer"),
        (
            '[test]\nstage = "pipeline"\n[config]\nscorers = ["kind"]\noverflow_strategy = "hope"',
            "config",
            "is not a valid policy: $.overflow: unknown value 'hope' (known: throw, truncate, proceed)",
        ),
        (
            '[test]\nstage = "pipeline"\n[config]\nscorers = ["kind", {type = "scaled"}]',
            "config",
            "is not a valid policy: $.scorer.scorers[1].scorer: the key 'inner' is missing",
        ),
        (
            '[test]\nstage = "slicing"\nslicer = "count_quota"\n[config]\nentries = [{cap_count = 1}]',
            "config",
            "is not a valid policy: $.slicer.entries[0]: the key 'kind' is missing",
        ),
        ('[test]\nstage = "scoring"\nscorer = "scaled"', "config", "$.scorer: the key 'inner' is missing"),
        (
            '[test]\nstage = "scoring"\nscorer = "scaled"\n[config]\ninner_scorer = "gut"',
            "config.inner_scorer",
            "unknown scorer 'gut'",
        ),
        (
            '[test]\nstage = "slicing"\nslicer = "quota"\n[config]\ninner = {type = "cleaver"}',
            "config.inner.type",
            "unknown slicer 'cleaver'",
        ),
        ('[test]\nstage = "scoring"\nscorer = "decay"', "config.reference_time", "is missing"),
        (
            '[test]\nstage = "slicing"\nslicer = "count_quota"\n[config]\nentries = []\nscarcity_behavior = "hope"',
            "config",
            "$.slicer.scarcity: unknown value 'hope' (known: degrade, throw)",
        ),
        ('[test]\nstage = "scoring"\nscorer = "metadata_key"', "config", "$.scorer: the key 'key' is missing"),
        ('[test]\nstage = "scoring"\nscorer = "kind"\nexpect_error = "bad"', "test.expect_error", "unknown kind 'bad'"),
        ('items = 3\n[test]\nstage = "scoring"\nscorer = "kind"', "items", "must be an array, not 3"),
        ('items = [3]\n[test]\nstage = "scoring"\nscorer = "kind"', "items[0]", "must be a table, not 3"),
        ('items = [{}]\n[test]\nstage = "scoring"\nscorer = "kind"', "items[0].content", "is missing"),
        ('items = [{same_as = 0}]\n[test]\nstage = "scoring"\nscorer = "kind"', "items[0].same_as", "position of one"),
        (
            'expected = [{content = "a", score_approx = 1}]\n[test]\nstage = "scoring"\nscorer = "kind"',
            "expected[0].content",
            "must be the content of one of the items, not 'a'",
        ),
        ('[test]\nstage = "simulation"\n[config]\nscorers = ["kind"]', "simulation.method", "is missing"),
        (
            'items = [{content = "a", tokens=1}]\nconfig.query = "q"\n[test]\nstage = "scoring"\nscorer = "embedding"',
            "config.vectors.a",
            "is missing",
        ),
    ],
)
def test_what_cannot_be_read_is_named(write, text, field, problem):
    path = write(text)
    with pytest.raises(VectorError) as raised:
        run(path)
    error = raised.value
    assert (error.path, error.field) == (str(path), field)
    assert problem in error.problem
    assert str(error) == f"{path}: {field}: {error.problem}" if field else f"{path}: {error.problem}"
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.path, copied.field, copied.problem) == (error.path, error.field, error.problem)


def test_a_file_that_is_not_text_cannot_be_read(tmp_path):
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(VectorError, match="cannot be read"):
        load_vector(path)


WEIRD = ("text", "", 5, -1, 2.5, True, [], [1], ["x"], {}, {"x": 1}, [{}], float("nan"), None)


def mutations(node, at=()):
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from mutations(value, (*at, key))


@pytest.mark.parametrize(
    "path",
    [
        "scoring/scaled-composite-inside-composite",
        "scoring/decay-step-edges",
        "slicing/count-quota-around-quota",
        "placing/u-shaped-equal-twins",
        "pipeline/truncate-names-the-pin-that-displaced",
        "pipeline/weights-of-several-scorers",
        "simulation/smallest-budget-of-a-lone-item",
    ],
)
def test_a_broken_vector_fails_or_is_unreadable_but_never_crashes(path):
    """Every value of a vector in turn is replaced by everything that does not belong there."""
    file = Path(__file__).parents[2] / "conformance" / f"{path}.toml"
    document = tomli.loads(file.read_text(encoding="utf-8"))
    vector = load_vector(file)
    for at in mutations(document):
        if at == ("test", "stage"):
            continue
        for value in WEIRD:
            broken = copy.deepcopy(document)
            node = broken
            for key in at[:-1]:
                node = node[key]
            node[at[-1]] = value
            if value is None:
                del node[at[-1]]
            with suppress(VectorError):
                run_vector(replace(vector, document=TomlTable(broken, str(file)))).to_dict()


def test_files_are_found_once_and_in_order(write, tmp_path):
    write(RECENCY, "b/two.toml")
    write(RECENCY, "a/one.toml")
    write("not a vector", "a/notes.md")
    found = find_vectors([tmp_path / "b" / "two.toml", tmp_path])
    assert [path.name for path in found] == ["two.toml", "one.toml"]


@pytest.mark.parametrize(("name", "problem"), [("missing", "no such file"), (".", "no vectors")])
def test_paths_without_vectors_are_named(tmp_path, name, problem):
    with pytest.raises(VectorError, match=problem):
        find_vectors([tmp_path / name])


def result(level, *, passed, stage="scoring"):
    return VectorResult(Path(f"{level.value}/{stage}/x.toml"), "x", stage, level, passed)


REQUIRED, OPTIONAL, OTHER = VectorLevel.REQUIRED, VectorLevel.OPTIONAL, VectorLevel.OTHER


@pytest.mark.parametrize(
    ("results", "level"),
    [
        ([], ConformanceLevel.NOT_MEASURED),
        ([(OTHER, True)], ConformanceLevel.NOT_MEASURED),
        ([(OPTIONAL, True)], ConformanceLevel.NOT_MEASURED),
        ([(REQUIRED, True)], ConformanceLevel.CONFORMANT),
        ([(REQUIRED, True), (OPTIONAL, False)], ConformanceLevel.CONFORMANT),
        ([(REQUIRED, True), (OPTIONAL, True)], ConformanceLevel.FULLY_CONFORMANT),
        ([(REQUIRED, True), (OPTIONAL, True), (OTHER, False)], ConformanceLevel.FULLY_CONFORMANT),
        ([(REQUIRED, True), (REQUIRED, False), (OPTIONAL, True)], ConformanceLevel.NOT_CONFORMANT),
    ],
)
def test_the_level_follows_from_required_and_optional_vectors(results, level):
    assert SuiteReport(tuple(result(kind, passed=passed) for kind, passed in results)).level is level


def test_an_unreadable_required_vector_costs_the_level():
    report = SuiteReport((result(REQUIRED, passed=True),), (VectorError("required/scoring/y.toml", "", "bad"),))
    assert report.level is ConformanceLevel.NOT_CONFORMANT


def test_the_nearest_directory_decides_the_level():
    assert VectorLevel.of(Path("required/optional/x.toml")) is OPTIONAL
    assert VectorLevel.of(Path("required/scoring/x.toml")) is REQUIRED
    assert VectorLevel.of(Path("scoring/required.toml")) is OTHER


def test_a_suite_runs_what_it_can_read(write, tmp_path):
    write(RECENCY, "required/scoring/good.toml")
    write(RECENCY.replace("score_approx = 1", "score_approx = 0"), "optional/scoring/wrong.toml")
    write("[test]", "optional/scoring/unreadable.toml")
    report = run_suite([tmp_path])
    assert [entry.path.name for entry in report.passed] == ["good.toml"]
    assert [entry.path.name for entry in report.failed] == ["wrong.toml"]
    assert [error.field for error in report.unreadable] == ["test.stage"]
    assert report.level is ConformanceLevel.CONFORMANT
    assert report.categories == {(REQUIRED, "scoring"): (1, 1), (OPTIONAL, "scoring"): (0, 1)}
