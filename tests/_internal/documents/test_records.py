"""Items, budgets and the parts of a report travel as JSON; readers, writers and schemas agree."""

from __future__ import annotations

import json
from math import inf, nan

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import (
    ContextBudget,
    ContextItem,
    CupelError,
    InvalidBudgetError,
    InvalidItemError,
    OverflowStrategy,
    Pipeline,
    ReflexiveScorer,
    ReportFormatError,
    SelectionReport,
)
from cupel._internal.documents import BUDGET, ITEM, RefusedError
from cupel.diagnostics import (
    BudgetExceeded,
    ExcludedItem,
    IncludedItem,
    InclusionReason,
    OverflowEvent,
    PipelineStage,
    ScoredTooLow,
    TraceEvent,
    UnknownStage,
    report_schema,
)
from cupel.testing import strategies as cs

ITEM_VALUE = ContextItem("x", 3, kind="Memory", metadata={"cupel:trust": 0.5})
PARTS = {
    "item": (ITEM_VALUE, {"content": "x", "tokens": 3, "kind": "Memory", "metadata": {"cupel:trust": 0.5}}),
    "budget": (
        ContextBudget(9, 8, output_reserve=1, reserved_slots={"Memory": 2}, estimation_safety_margin_percent=5),
        {
            "maxTokens": 9,
            "targetTokens": 8,
            "outputReserve": 1,
            "reservedSlots": {"Memory": 2},
            "estimationSafetyMarginPercent": 5.0,
        },
    ),
    "plain budget": (ContextBudget(9, 8), {"maxTokens": 9, "targetTokens": 8}),
    "event": (
        TraceEvent(PipelineStage.SCORE, 1.5, 3, "done"),
        {"stage": "Score", "duration_ms": 1.5, "item_count": 3, "message": "done"},
    ),
    "new event": (TraceEvent(UnknownStage("Rerank"), 0.0, 1), {"stage": "Rerank", "duration_ms": 0.0, "item_count": 1}),
    "included": (
        IncludedItem(ITEM_VALUE, nan, InclusionReason.PINNED),
        {"item": ITEM_VALUE.to_dict(), "score": "NaN", "reason": {"reason": "Pinned"}},
    ),
    "excluded": (
        ExcludedItem(ITEM_VALUE, -inf, BudgetExceeded(3, 1)),
        {
            "item": ITEM_VALUE.to_dict(),
            "score": "-Infinity",
            "reason": {"reason": "BudgetExceeded", "item_tokens": 3, "available_tokens": 1},
        },
    ),
    "scored too low": (
        ExcludedItem(ITEM_VALUE, 0.5, ScoredTooLow(0.5, inf)),
        {
            "item": ITEM_VALUE.to_dict(),
            "score": 0.5,
            "reason": {"reason": "ScoredTooLow", "score": 0.5, "threshold": "Infinity"},
        },
    ),
    "overflow": (
        OverflowEvent(384, (ITEM_VALUE,), ContextBudget(4096, 3072)),
        {
            "tokens_over_budget": 384,
            "overflowing_items": [ITEM_VALUE.to_dict()],
            "budget": {"maxTokens": 4096, "targetTokens": 3072},
        },
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_each_part_has_its_document(name) -> None:
    value, form = PARTS[name]
    assert value.to_dict() == form
    assert json.loads(value.to_json(indent=2)) == form
    read = type(value).from_json(value.to_json())
    assert repr(read) == repr(value) == repr(type(value).from_dict(form))


@pytest.mark.parametrize("name", ["item", "budget"])
def test_both_spellings_are_read(name) -> None:
    value, form = PARTS[name]
    snake = {"".join(f"_{c.lower()}" if c.isupper() else c for c in key): entry for key, entry in form.items()}
    assert type(value).from_dict(snake) == value


def test_an_overflow_reaches_the_callback_and_travels() -> None:
    seen = []
    items = [ContextItem("pin", 30, pinned=True), ContextItem("fits", 0)]
    pipeline = Pipeline(scorer=ReflexiveScorer(), overflow=OverflowStrategy.PROCEED, on_overflow=seen.append)
    pipeline.run(items, ContextBudget(40, 20))
    assert OverflowEvent.from_json(seen[0].to_json()) == seen[0]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: ContextBudget.from_dict({"maxTokens": 5}), InvalidBudgetError, r"^\$: target_tokens is missing"),
        (
            lambda: ContextBudget.from_dict({"maxTokens": 5, "target": 3}),
            InvalidBudgetError,
            "unknown key 'target'; did",
        ),
        (lambda: ContextBudget.from_json('{"maxTokens": 5, "targetTokens": 6}'), InvalidBudgetError, "must not exceed"),
        (lambda: ContextBudget.from_json("[]"), InvalidBudgetError, "a budget must be an object, got list"),
        (lambda: ContextBudget.from_json("{"), InvalidBudgetError, r"\$: not valid JSON"),
        (lambda: ContextBudget.from_json(5), TypeError, "text must be a string or bytes, got int: 5"),
        (lambda: ContextItem.from_json('{"content": "x"}'), InvalidItemError, r"\$: tokens is missing"),
        (lambda: TraceEvent.from_dict({"stage": "Score"}), ReportFormatError, r"\$: duration_ms is missing"),
        (
            lambda: TraceEvent(PipelineStage.SCORE, -1.0, 3).to_json(),
            ReportFormatError,
            "duration_ms must be a number >=",
        ),
        (
            lambda: OverflowEvent.from_dict({**PARTS["overflow"][1], "overflowing_items": [{"content": ""}]}),
            ReportFormatError,
            r"\$.overflowing_items\[0\]: tokens is missing",
        ),
        (
            lambda: IncludedItem.from_dict({**PARTS["included"][1], "item": {"content": "", "tokens": 1}}),
            ReportFormatError,
            r"\$.item: content must not be empty",
        ),
    ],
)
def test_what_cannot_be_read_is_named(call, error, says) -> None:
    with pytest.raises(error, match=says):
        call()


def test_a_copy_with_changes_is_checked() -> None:
    assert ITEM_VALUE.replace(tokens=9, pinned=True) == ContextItem(
        "x", 9, kind="Memory", metadata={"cupel:trust": 0.5}, pinned=True
    )
    assert ContextBudget(9, 8).replace(target_tokens=3) == ContextBudget(9, 3)
    with pytest.raises(TypeError, match="tokens must be an integer, got str: 'many'"):
        ITEM_VALUE.replace(tokens="many")
    with pytest.raises(InvalidBudgetError, match="target_tokens must not exceed"):
        ContextBudget(9, 8).replace(target_tokens=10)
    with pytest.raises(TypeError, match="token"):
        ITEM_VALUE.replace(token=1)


def test_a_counter_may_count() -> None:
    class Words:
        def count(self, text, /):
            return len(text.split())

    assert ContextItem.counted("three short words", Words(), kind="Memory").tokens == 3
    for content, counter, says in (
        ("x", len, "counter must be a TokenCounter"),
        (5, Words(), "content must be a string"),
    ):
        with pytest.raises(TypeError, match=says):
            ContextItem.counted(content, counter)


def test_reserved_slots_may_exceed_the_window() -> None:
    budget = ContextBudget(10, 10, reserved_slots={"Memory": 20})
    items = [ContextItem("pinned", 3, pinned=True), ContextItem("out", 1)]
    chosen = Pipeline(scorer=ReflexiveScorer()).run(items, budget)
    assert [item.content for item in chosen] == ["pinned"]
    assert (budget.unreserved_capacity, budget.has_capacity) == (-10, False)


# --- fuzzed both ways -----------------------------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.0, 1.0, 1.5, -2.0, "NaN", "", " ", "x"])
ANY = st.recursive(SCALARS, lambda each: st.lists(each, max_size=2) | st.dictionaries(st.just("k"), each), max_leaves=3)
INSTANTS = st.sampled_from(
    ["2024-02-29T12:00:00Z", "2024-02-29t12:00Z", "2024-01-01T00:00:00.123456789+01:00", "2024-01-01", "20240101T0000Z"]
)
BASES = {"item": {"content": "x", "tokens": 1}, "budget": {"maxTokens": 9, "targetTokens": 5}}


def objects(form) -> st.SearchStrategy:
    """Objects that are almost right: a sound one, a few of whose fields may hold anything."""
    values = ANY | INSTANTS | st.just(["a"]) | st.just({"Memory": 1})
    changes = st.dictionaries(st.sampled_from([*form.spellings, "new"]), values, max_size=2)
    return changes.map(lambda changed: {**BASES[form.title], **changed})


@pytest.mark.parametrize("form", [ITEM, BUDGET], ids=["item", "budget"])
def test_the_reader_takes_what_the_schema_takes(form) -> None:
    validator = jsonschema.Draft202012Validator(form.definition())
    taken = {True: 0, False: 0}

    @given(objects(form))
    def agree(candidate) -> None:
        read, problem = None, ""
        try:
            read = form.decode(candidate)
        except RefusedError as error:
            problem = str(error)
        if "must not exceed" not in problem:  # a schema cannot compare two numbers of a budget
            assert validator.is_valid(candidate) is not bool(problem), problem
        if read is not None:
            validator.validate(json.loads(json.dumps(form.write(read))))
            assert repr(form.read(form.write(read))) == repr(read)
        taken[read is not None] += 1

    agree()
    assert min(taken.values()) > 0


class Annotated(ContextItem, frozen=True, kw_only=True):
    """An item of somebody's own, with a field that no document has."""

    note: str = ""


def test_an_item_of_a_subclass_is_written_as_an_item() -> None:
    item = Annotated("x", 3, priority=2, note="mine")
    assert item.to_dict() == {"content": "x", "tokens": 3, "kind": "Message", "priority": 2}
    assert ContextItem.from_json(item.to_json()) == ContextItem("x", 3, priority=2)


REPORT = report_schema()


def reports() -> st.SearchStrategy:
    def run(items) -> SelectionReport:
        budget = ContextBudget(10**9, 50)
        return Pipeline(scorer=ReflexiveScorer(), overflow=OverflowStrategy.PROCEED).dry_run(items, budget)

    return st.lists(cs.items(), max_size=4).map(run)


def places(value, path=()):
    yield path
    if isinstance(value, (dict, list)):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(entry, (*path, key))


def changed(form, path, value):
    if not path:
        return value
    copied = form.copy()
    copied[path[0]] = changed(form[path[0]], path[1:], value)
    return copied


@given(reports(), st.data())
def test_a_changed_report_is_read_if_the_schema_takes_it_and_it_adds_up(report, data) -> None:
    validator = jsonschema.Draft202012Validator(REPORT)
    form = json.loads(report.to_json())
    validator.validate(form)
    assert SelectionReport.from_json(report.to_json()) == report or "nan" in repr(report.included + report.excluded)
    path = data.draw(st.sampled_from(list(places(form))))
    value = data.draw(ANY)
    tampered = changed(form, path, value)
    read, problem = None, ""
    try:
        read = SelectionReport.from_json(json.dumps(tampered))
    except CupelError as error:
        problem = str(error)
    if "the sum over" not in problem:  # a schema cannot add
        assert validator.is_valid(tampered) is not bool(problem), problem
    if read is not None:
        validator.validate(json.loads(read.to_json()))
