"""The plugin as people meet it: in a pytest session of their own."""

import json
import subprocess
import sys

import numpy as np  # noqa: F401  (a session forgets what it has imported, and NumPy is loaded only once in a process)
import pytest

pytest_plugins = ["pytester"]

TEST = """
    from cupel import ContextBudget, ContextItem, Pipeline, ReflexiveScorer

    def select(hint):
        items = [
            ContextItem("keep", 60, future_relevance_hint=0.9),
            ContextItem("drop", 60, kind="Document", future_relevance_hint=hint),
        ]
        return Pipeline(scorer=ReflexiveScorer()).select(items, ContextBudget(100, 100))

    def test_selection(cupel_snapshot):
        cupel_snapshot(select({hint}).report)
"""
SNAPSHOT = "__snapshots__/test_it.test_selection.json"


@pytest.fixture
def session(pytester, monkeypatch):
    """Run pytest on one test module, with flags and environment variables, in this process unless told otherwise."""
    monkeypatch.delenv("CUPEL_UPDATE_SNAPSHOTS", raising=False)

    def run(source, *flags, own_process=False, **environment):
        pytester.makepyfile(test_it=source)
        run_pytest = pytester.runpytest_subprocess if own_process else pytester.runpytest_inprocess
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            return run_pytest("-p", "no:cacheprovider", *flags)

    return run


@pytest.mark.parametrize("own_process", [True, False])
def test_the_first_run_writes_and_says_so(session, pytester, own_process):
    result = session(TEST.format(hint=0.1), own_process=own_process)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"cupel: wrote snapshot {SNAPSHOT}"])
    stored = json.loads((pytester.path / SNAPSHOT).read_text())
    assert [entry["item"]["content"] for entry in stored["included"]] == ["keep"]
    assert stored["excluded"][0]["reason"] == {"reason": "BudgetExceeded", "item_tokens": 60, "available_tokens": 40}
    assert list((pytester.path / "__snapshots__").iterdir()) == [pytester.path / SNAPSHOT]


def test_durations_are_left_out(session, pytester):
    session(TEST.format(hint=0.1))
    stored = json.loads((pytester.path / SNAPSHOT).read_text())
    assert [sorted(event) for event in stored["events"]] == [["item_count", "stage"]] * 5


def test_an_equal_report_passes_and_writes_nothing(session, pytester):
    session(TEST.format(hint=0.1))
    before = (pytester.path / SNAPSHOT).stat().st_mtime_ns
    result = session(TEST.format(hint=0.1))
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("cupel: wrote*")
    assert (pytester.path / SNAPSHOT).stat().st_mtime_ns == before


def test_a_difference_fails_with_a_diff_and_the_selection(session, pytester):
    session(TEST.format(hint=0.1))
    before = (pytester.path / SNAPSHOT).read_text()
    result = session(TEST.format(hint=0.2))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*SnapshotMismatchError: Snapshot 'test_it.test_selection' does not match.",
            "*to accept this run, run pytest with --cupel-update-snapshots (or CUPEL_UPDATE_SNAPSHOTS=1)",
            "*--- snapshot",
            "*+++ this run",
            '*-*"futureRelevanceHint": 0.1',
            '*+*"futureRelevanceHint": 0.2',
            '*-*"score": 0.1,',
            '*+*"score": 0.2,',
            "*cupel selection: the report asserted about*",
            "1 of 2 candidates selected, 60 of 120 tokens",
            "*tokens   score  kind      reason*content",
            "  1      60  0.9000  Message   Scored*'keep'",
            "out      60  0.2000  Document  BudgetExceeded(item_tokens=60, available_tokens=40)*'drop'",
        ]
    )
    assert (pytester.path / SNAPSHOT).read_text() == before


@pytest.mark.parametrize("how", ["flag", "environment"])
def test_updating_overwrites(session, pytester, how):
    session(TEST.format(hint=0.1))
    if how == "flag":
        result = session(TEST.format(hint=0.2), "--cupel-update-snapshots")
    else:
        result = session(TEST.format(hint=0.2), CUPEL_UPDATE_SNAPSHOTS="1")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"cupel: wrote snapshot {SNAPSHOT}"])
    session(TEST.format(hint=0.2)).assert_outcomes(passed=1)
    session(TEST.format(hint=0.1), CUPEL_UPDATE_SNAPSHOTS="0").assert_outcomes(failed=1)


def test_a_missing_snapshot_fails_where_one_is_required(session, pytester):
    result = session(TEST.format(hint=0.1), "--cupel-require-snapshots")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Snapshot 'test_it.test_selection' does not exist and is required."])
    assert not (pytester.path / SNAPSHOT).exists()


def test_names_of_parameters_classes_and_several_reports_do_not_meet(session, pytester):
    source = (
        TEST
        + """
    import pytest

    @pytest.mark.parametrize("hint", [0.1, 0.2], ids=["low", "a/b"])
    def test_parameters(cupel_snapshot, hint):
        cupel_snapshot(select(hint).report)

    class TestTwice:
        def test_selection(self, cupel_snapshot):
            cupel_snapshot(select(0.3).report)
            cupel_snapshot(select(0.4).report)
            cupel_snapshot(select(0.5).report, "by name")
"""
    )
    for _ in range(2):
        session(source.format(hint=0.1)).assert_outcomes(passed=4)
    found = sorted(path.name for path in (pytester.path / "__snapshots__").iterdir())
    assert len(found) == 6
    assert {
        "test_it.test_selection.json",
        "test_it.test_parameters[low].json",
        "test_it.TestTwice.test_selection.json",
        "test_it.TestTwice.test_selection-2.json",
    } < set(found)
    assert all(
        name.startswith(("test_it.test_parameters[a-b]-", "by-name-")) for name in set(found[:1]) & set(found[1:])
    )
    assert sum(name.startswith("by-name-") for name in found) == 1


def test_wrong_uses_are_named(session):
    source = (
        TEST
        + """
    import pytest

    def test_wrong_type(cupel_snapshot):
        with pytest.raises(TypeError, match="report must be a SelectionReport, got ContextResult"):
            cupel_snapshot(select(0.1))
        with pytest.raises(ValueError, match="name must not be blank"):
            cupel_snapshot(select(0.1).report, "  ")
        with pytest.raises(TypeError, match="name must be a string, got int: 3"):
            cupel_snapshot(select(0.1).report, 3)
"""
    )
    session(source.format(hint=0.1)).assert_outcomes(passed=2)


def test_a_failed_chain_shows_the_selection(session):
    source = (
        TEST
        + """
    def test_chain():
        select(0.1).report.should().include_item_with_kind("Document")
"""
    )
    result = session(source.format(hint=0.1), "-k", "chain")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(
        [
            "*SelectionReportAssertionException: IncludeItemWithKind(Document) failed: *",
            "*cupel selection: the report asserted about*",
            "out      60  0.1000  Document  BudgetExceeded(item_tokens=60, available_tokens=40)  'drop'",
        ]
    )


def test_a_failed_plain_assert_shows_the_selections_in_the_tests_variables(session):
    source = (
        TEST
        + """
    def test_plain():
        result = select(0.1)
        report = result.report
        assert len(result) == 2
"""
    )
    result = session(source.format(hint=0.1), "-k", "plain")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["*cupel selection: result*", "1 of 2 candidates selected, 60 of 120 tokens"])
    result.stdout.no_fnmatch_line("*cupel selection: report*")


def test_failures_without_a_selection_are_left_alone(session):
    result = session("import cupel\n\ndef test_other():\n    assert 1 == 2\n")
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*cupel selection*")


def test_a_session_that_does_not_use_the_plugin_does_not_import_cupel(session):
    source = """
    import sys

    def test_nothing():
        assert not [name for name in sys.modules if name == "cupel" or name.startswith("cupel.")]

    def test_failure():
        assert False
    """
    session(source, own_process=True).assert_outcomes(passed=1, failed=1)


def test_the_plugin_itself_imports_nothing_but_pytest():
    code = (
        "import sys, pytest; before = set(sys.modules); import _cupel_pytest; print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "['_cupel_pytest']"
