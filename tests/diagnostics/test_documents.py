"""Reports as JSON: exact round trips, tolerance for the future, refusal of what is broken."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from math import inf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import (
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    CupelError,
    OverflowStrategy,
    Pipeline,
    ReflexiveScorer,
    ReportFormatError,
    Scorer,
    SelectionReport,
)
from cupel.diagnostics import UnknownInclusionReason, UnknownReason, UnknownStage, report_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "reference" / "report.schema.json"


class ByHint(Scorer):
    """Passes hints on unclamped, so that reports hold every kind of score."""

    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        return 0.0 if item.future_relevance_hint is None else item.future_relevance_hint


def sample() -> SelectionReport:
    items = [
        ContextItem("pin", 5, pinned=True, kind="SystemPrompt"),
        ContextItem(
            "rich",
            10,
            kind="dOc",
            source="Rag",
            priority=-3,
            tags=["a", "b"],
            metadata={"n": 10**30, "list": [1, {"x": None}]},
            timestamp=datetime(2024, 1, 1, 12, 30, 15, 123456, tzinfo=timezone(timedelta(hours=2))),
            future_relevance_hint=0.75,
            original_tokens=99,
        ),
        ContextItem("inf", 10, future_relevance_hint=inf),
        ContextItem("nan", 10, future_relevance_hint=nan),
        ContextItem("-inf", 10, future_relevance_hint=-inf),
        ContextItem("dup", 1, future_relevance_hint=0.2),
        ContextItem("dup", 1, future_relevance_hint=0.1),
        ContextItem("neg", -1),
        ContextItem("line\u2028 \U0001f600 \x00 </script>", 500),
    ]
    slicer = CountQuotaSlice([CountQuotaEntry("Tool", 1, 1), CountQuotaEntry("Message", 0, 1)])
    pipeline = Pipeline(scorer=ByHint(), slicer=slicer, overflow=OverflowStrategy.PROCEED)
    return pipeline.dry_run(items, ContextBudget(40, 40))


def changed(change: Callable[[Any], object]) -> str:
    document = json.loads(sample().to_json())
    change(document)
    return json.dumps(document)


def test_round_trip_is_exact() -> None:
    text = sample().to_json()
    again = SelectionReport.from_json(text)
    assert again.to_json() == text
    assert again.to_dict() == json.loads(text)
    assert SelectionReport.from_json(text.encode()).to_json() == text
    assert SelectionReport.from_json(sample().to_json(indent=2)).included == sample().included


def test_keys_and_omissions() -> None:
    document = sample().to_dict()
    rich = next(entry["item"] for entry in document["included"] if entry["item"]["content"] == "rich")
    assert rich == {
        "content": "rich",
        "tokens": 10,
        "kind": "dOc",
        "source": "Rag",
        "priority": -3,
        "tags": ["a", "b"],
        "metadata": {"n": 10**30, "list": [1, {"x": None}]},
        "timestamp": "2024-01-01T10:30:15.123456Z",
        "futureRelevanceHint": 0.75,
        "originalTokens": 99,
    }
    assert document["included"][1] == {
        "item": {"content": "pin", "tokens": 5, "kind": "SystemPrompt", "pinned": True},
        "score": 1.0,
        "reason": {"reason": "Pinned"},
    }
    assert document["count_requirement_shortfalls"] == [{"kind": "Tool", "required_count": 1, "satisfied_count": 0}]
    assert "message" not in document["events"][0]
    empty = Pipeline(scorer=ByHint()).dry_run([], ContextBudget(1, 1)).to_dict()
    assert "count_requirement_shortfalls" not in empty


def test_non_finite_numbers_are_strings() -> None:
    text = sample().to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert {entry["score"] for entry in json.loads(text)["excluded"]} >= {"NaN", "-Infinity"}


def test_both_spellings_of_item_keys_are_read() -> None:
    def to_snake(document: Any) -> None:
        for entry in document["included"] + document["excluded"]:
            item = entry["item"]
            for camel, snake in (
                ("futureRelevanceHint", "future_relevance_hint"),
                ("originalTokens", "original_tokens"),
            ):
                if camel in item:
                    item[snake] = item.pop(camel)

    assert SelectionReport.from_json(changed(to_snake)).included == sample().included


def test_reasons_and_stages_from_the_future_are_kept() -> None:
    def modernise(document: Any) -> None:
        document["events"][0]["stage"] = "Rerank"
        document["included"][0]["reason"] = {"reason": "Foretold"}
        document["excluded"][0]["reason"] = {"reason": "Boring", "yawn": [1]}

    text = changed(modernise)
    report = SelectionReport.from_json(text)
    assert json.loads(report.to_json()) == json.loads(text)
    assert copy.copy(report).to_json() == report.to_json()
    assert report.events[0].stage == UnknownStage("Rerank")
    assert report.included[0].reason == UnknownInclusionReason("Foretold")
    boring = report.excluded[0].reason
    assert isinstance(boring, UnknownReason)
    assert (boring.name, boring.fields) == ("Boring", {"yawn": [1]})


@pytest.mark.parametrize(
    "read", [SelectionReport.from_dict, lambda document: SelectionReport.from_json(json.dumps(document))]
)
def test_fields_from_the_future_are_ignored(read: Callable[[Any], SelectionReport]) -> None:
    document = sample().to_dict()
    document["schema"] = {"version": 9}
    document["events"][0]["gpu"] = True
    document["included"][0]["reason"]["by"] = "oracle"
    document["included"][0]["item"]["embedding"] = [1, 2]
    document["excluded"][1]["reason"]["hint"] = "try again"
    report = read(document)
    assert (report.included, repr(report.excluded)) == (sample().included, repr(sample().excluded))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.pop("events"), r"\$: events is missing"),
        (lambda d: d["events"][0].pop("stage"), r"\$.events\[0\]: stage is missing"),
        (
            lambda d: d["events"][0].update(item_count=-1),
            r"\$.events\[0\]: item_count must be an integer >= 0, got int",
        ),
        (lambda d: d["events"][0].update(duration_ms=-0.5), r"\$.events\[0\]: duration_ms must be a number >= 0, got"),
        (lambda d: d["events"][0].update(stage=5), r"\$.events\[0\]: stage must be a string, got int: 5"),
        (
            lambda d: d["included"][0]["item"].update(tokens="5"),
            r"\$.included\[0\].item: tokens must be an integer, got str: '5'",
        ),
        (lambda d: d["included"][0]["item"].update(tokens=True), "tokens must be an integer, got bool"),
        (
            lambda d: d["included"][0]["item"].update(content=""),
            r"\$.included\[0\].item: content must not be empty",
        ),
        (lambda d: d["excluded"][0]["item"].update(kind=" "), r"\$.excluded\[0\].item: kind must not be blank"),
        (lambda d: d["excluded"][0]["item"].update(timestamp="2024-01-01T00:00:00"), "must carry a time zone"),
        (lambda d: d["excluded"][0]["item"].update(timestamp="soon"), "must be an RFC 3339 date-time.*got str: 'soon'"),
        (lambda d: d["excluded"][0]["item"].update(timestamp="\ud800"), "must be an RFC 3339 date-time"),
        (
            lambda d: d["excluded"][0]["item"].update(futureRelevanceHint="x"),
            "'NaN', 'Infinity' or '-Infinity', got str: 'x'",
        ),
        (
            lambda d: d["excluded"][0]["item"].update(originalTokens=1, original_tokens=1),
            "original_tokens is given twice, in both spellings",
        ),
        (lambda d: d["excluded"][0].update(item="\ud800"), r"\$.excluded\[0\].item: an item must be an object"),
        (lambda d: d["excluded"][0].update(score="high"), r"\$.excluded\[0\]: score must be a number.*got str: 'high'"),
        (lambda d: d["excluded"][0].update(score="\ud800"), r"\$.excluded\[0\]: score must be a number"),
        (lambda d: d["excluded"][0].update(reason="x"), r"\$.excluded\[0\].reason: a reason must be an object"),
        (lambda d: d["excluded"][0].update(reason={}), r"\$.excluded\[0\].reason: reason is missing"),
        (lambda d: d["included"][0].update(reason={"reason": 5}), r"\$.included\[0\].reason: reason must be a string"),
        (
            lambda d: d["excluded"][-1].update(reason={"reason": "BudgetExceeded", "item_tokens": 1}),
            r"\$.excluded\[\d+\].reason: available_tokens is missing",
        ),
        (
            lambda d: d["excluded"][0].update(reason={"reason": "NegativeTokens", "tokens": "x"}),
            r"\$.excluded\[0\].reason: tokens must be an integer, got str: 'x'",
        ),
        (lambda d: d.update(total_candidates=3), r"\$: total_candidates must be 9, the sum .* got 3"),
        (lambda d: d.update(total_tokens_considered=0), r"\$: total_tokens_considered must be \d+, .* got 0"),
        (lambda d: d["included"].pop(), "total_candidates must be 8"),
        (lambda d: d.update(included=5), r"\$: included must be a list, got int: 5"),
        (lambda d: d.update(events=[5]), r"\$.events\[0\]: an event must be an object, got int: 5"),
        (lambda d: d.update(excluded=[5]), r"\$.excluded\[0\]: an excluded item must be an object"),
        (
            lambda d: d.update(count_requirement_shortfalls=[{"kind": "a", "required_count": 1}]),
            r"\$.count_requirement_shortfalls\[0\]: satisfied_count is missing",
        ),
    ],
)
def test_tampering_is_refused_with_the_path(change: Callable[[Any], object], says: str) -> None:
    with pytest.raises(ReportFormatError, match=says):
        SelectionReport.from_json(changed(change))


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "not valid JSON"), ("{", "not valid JSON"), ("[]", "a report must be an object"), ("NaN", "NaN is not")],
)
def test_what_is_no_report(text: str, says: str) -> None:
    with pytest.raises(ReportFormatError, match=says):
        SelectionReport.from_json(text)


def test_lone_surrogates_survive() -> None:
    report = Pipeline(scorer=ByHint()).dry_run([ContextItem("a\ud800b", 1)], ContextBudget(5, 5))
    for indent in (None, 2):
        assert SelectionReport.from_json(report.to_json(indent=indent)) == report


@pytest.mark.parametrize("content", ["x", "half a \ud800 pair"])
def test_metadata_that_json_cannot_hold_is_a_type_error(content: str) -> None:
    item = ContextItem(content, 1, metadata={"k": object()})
    report = Pipeline(scorer=ByHint()).dry_run([item], ContextBudget(5, 5))
    with pytest.raises(TypeError, match=r"metadata must hold values that JSON can write, got object: <object"):
        report.to_json()


def test_values_that_json_lacks_are_written_alike_whatever_their_neighbours() -> None:
    written = []
    for content in ("x", "half a \ud800 pair"):
        item = ContextItem(content, 1, metadata={"n": [nan, -inf], "s": {"b", "a", "c"}, "m": {3, "a", 1.5}})
        report = Pipeline(scorer=ByHint()).dry_run([item], ContextBudget(5, 5))
        written.append(json.loads(report.to_json(), parse_constant=pytest.fail)["included"][0]["item"]["metadata"])
    expected = {"n": ["NaN", "-Infinity"], "s": ["a", "b", "c"], "m": [1.5, 3, "a"]}
    assert written == [expected, expected]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [101, 500, 100_000])
def test_depth_is_limited_alike_in_and_out(depth: int) -> None:
    item = ContextItem("x", 1, metadata={"deep": nested(depth)})
    with pytest.raises(CupelError, match="metadata: nested too deeply: at most 100 levels"):
        Pipeline(scorer=ByHint()).dry_run([item], ContextBudget(5, 5)).to_json()
    deep = "[" * depth + "]" * depth
    for text in (
        deep,
        changed(lambda d: d["included"][0]["item"].update(metadata={"deep": "@"})).replace('"@"', deep),
    ):
        with pytest.raises(ReportFormatError, match=r"nested too deeply|a report must be an object"):
            SelectionReport.from_json(text)


def test_within_the_limit_depth_survives() -> None:
    item = ContextItem("x", 1, metadata={"deep": nested(90)})
    report = Pipeline(scorer=ByHint()).dry_run([item], ContextBudget(5, 5))
    assert SelectionReport.from_json(report.to_json()) == report


def test_integers_beyond_the_interpreters_limit_are_refused() -> None:
    with pytest.raises(ReportFormatError, match=r"\$: not valid JSON: Exceeds the limit"):
        SelectionReport.from_json(sample().to_json().replace('"tokens":', f'"tokens":{"1" * 5000},"x":', 1))


def test_a_key_that_occurs_twice_is_refused() -> None:
    text = sample().to_json().replace('"tokens":', '"tokens":1,"tokens":', 1)
    with pytest.raises(ReportFormatError, match=r"the key 'tokens' occurs twice in one object"):
        SelectionReport.from_json(text)


def test_the_quick_way_of_reading_is_as_strict_as_the_thorough_one() -> None:
    """A text that is to the letter what would be written takes the quick way, any other the thorough one."""
    text = sample().to_json()
    assert '"n":1000000000000000000000000000000,' in text
    thorough = json.dumps(json.loads(text), indent=1)
    assert repr(SelectionReport.from_json(text)) == repr(SelectionReport.from_json(thorough))
    assert SelectionReport.from_json(text).to_json() == SelectionReport.from_json(thorough).to_json() == text
    with pytest.raises(ReportFormatError, match="the key 'n' occurs twice in one object"):
        SelectionReport.from_json(text.replace('"n":', '"n":0,"n":', 1))


def test_whole_floats_are_integers_as_in_the_schema() -> None:
    text = changed(lambda d: d.update(total_candidates=9.0))
    assert SelectionReport.from_json(text).total_candidates == 9


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "else"


@pytest.mark.parametrize("content", ["x", "half a \ud800 pair"])
@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Text("a"), '"a"'),
        (np.float64(0.5), "0.5"),
        (np.float32(0.25), "0.25"),
        (np.int64(-3), "-3"),
        (Fraction(1, 4), "0.25"),
        ([np.str_("a"), np.uint8(7)], '["a",7]'),
    ],
)
def test_other_libraries_numbers_and_strings_are_written_as_plain_ones(content: str, value: object, plain: str) -> None:
    item = ContextItem(content, 1, metadata={"k": value})
    report = Pipeline(scorer=ByHint()).dry_run([item], ContextBudget(5, 5))
    assert f'"metadata":{{"k":{plain}}}' in report.to_json()


def test_the_schema_accepts_what_is_written_and_refuses_what_is_not() -> None:
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(json.loads(sample().to_json()))
    for change in (
        lambda d: d.pop("events"),
        lambda d: d["excluded"][-1]["reason"].pop("reason"),
        lambda d: d["included"][0]["item"].update(tokens="5"),
        lambda d: d["excluded"][0].update(reason={"reason": "NegativeTokens"}),
    ):
        assert not validator.is_valid(json.loads(changed(change)))


def test_the_schema_in_the_docs_is_current() -> None:
    """Regenerate with: python scripts/write_report_schema.py."""
    assert json.loads(SCHEMA_FILE.read_text(encoding="utf-8")) == report_schema()


ITEMS = st.builds(
    ContextItem,
    st.text(min_size=1, max_size=5),
    st.integers(-3, 60),
    kind=st.sampled_from(["Message", "Tool", "tool"]),
    priority=st.none() | st.integers(),
    tags=st.lists(st.text(max_size=3), max_size=2),
    timestamp=st.none() | st.datetimes(timezones=st.just(UTC)),
    future_relevance_hint=st.none() | st.floats(),
    pinned=st.booleans(),
    metadata=st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3) | st.none(), max_size=2),
)


@given(st.lists(ITEMS, max_size=12), st.integers(800, 900))
def test_any_report_survives(items: list[ContextItem], target: int) -> None:
    slicer = CountQuotaSlice([CountQuotaEntry("Tool", 1, 2)])
    pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=slicer, overflow=OverflowStrategy.PROCEED)
    text = pipeline.dry_run(items, ContextBudget(target, target // 20 if not items else target)).to_json()
    assert SelectionReport.from_json(text).to_json() == text
