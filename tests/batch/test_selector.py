import pickle
import re

import pyarrow as pa
import pytest

from cupel import (
    ContextBudget,
    Pipeline,
    RecencyScorer,
    ReflexiveScorer,
    RelevanceScorer,
    Scorer,
    SelectionReport,
    presets,
)
from cupel.batch import BatchError, BatchSelector
from tests.batch.requests import ITEM, POLICY, SCHEMA, plain_loop, some_requests

BUDGET = ContextBudget(100, 100)
REFLEXIVE = Pipeline(scorer=ReflexiveScorer())


def table(requests, schema=SCHEMA):
    return pa.Table.from_pylist(requests, schema=schema)


def answers(requests, selector=None, schema=SCHEMA):
    return (selector or BatchSelector(POLICY))(table(requests, schema)).to_pylist()


def one(items, *, field=None, budget=BUDGET, policy=REFLEXIVE):
    """Select for one request whose items are given, with the Arrow type of a field given or inferred."""
    types = {"content": pa.string(), "tokens": pa.int64(), **(field or {})}
    column = pa.array([items], pa.list_(pa.struct(types.items())))
    return BatchSelector(policy, budget)(pa.table({"items": column})).to_pylist()[0]


def test_every_row_agrees_with_the_plain_loop():
    requests = some_requests(300)
    found = answers(requests)
    expected = plain_loop(requests)
    assert [row["selected"] for row in found] == expected
    assert [row["id"] for row in found] == [request["id"] for request in requests]
    for row, request in zip(found, requests, strict=True):
        if row["error"] is None:
            assert row["items"] == [request["items"][place] for place in row["selected"]]
            assert row["total_tokens"] == sum(item["tokens"] for item in row["items"])
            assert row["total_candidates"] == len(request["items"])
        else:
            assert row["items"] is row["total_tokens"] is row["total_candidates"] is None
    assert 0 < sum(row["error"] is not None for row in found) < 60


def test_the_answer_keeps_other_columns_and_the_type_of_the_items():
    schema = SCHEMA.append(pa.field("shop", pa.int16()))
    answer = BatchSelector(POLICY)(table([{**request, "shop": 7} for request in some_requests(3)], schema))
    assert answer.column_names == ["id", "shop", "items", "selected", "total_tokens", "total_candidates", "error"]
    assert answer.schema.field("items").type == pa.list_(ITEM)
    assert answer.schema.field("shop").type == pa.int16()


def test_slices_chunks_and_batches_are_all_the_same_rows():
    requests = some_requests(40)
    selector = BatchSelector(POLICY)
    whole = selector(table(requests))
    sliced = pa.concat_tables([table(requests[:7]), table(requests).slice(7, 20), table(requests).slice(27)])
    assert selector(sliced).equals(whole)
    batch = table(requests).combine_chunks().to_batches()[0]
    assert selector(batch.slice(10, 5)).equals(whole.slice(10, 5))


@pytest.mark.parametrize("convert", [pa.large_list, lambda item: pa.list_(item, 2)], ids=["large", "fixed"])
def test_every_kind_of_list_will_do(convert):
    items = [{"content": "a", "tokens": 60}, {"content": "b", "tokens": 60}]
    column = pa.array([items], convert(pa.struct([("content", pa.string()), ("tokens", pa.int64())])))
    assert BatchSelector(POLICY, BUDGET)(pa.table({"items": column})).column("selected").to_pylist() == [[0]]


def test_the_answer_to_a_slice_does_not_bring_the_whole_table_along():
    texts = [f"{number} " + "x" * 1000 for number in range(2000)]
    whole = pa.table({"items": [[{"content": "a", "tokens": 1}]] * 2000, "budget": [9] * 2000, "text": texts})
    answer = BatchSelector(POLICY)(whole.slice(500, 5))
    assert answer.column("text").to_pylist() == texts[500:505]
    assert len(pickle.dumps(answer)) < 20_000


def test_an_empty_table_gives_an_empty_table_with_the_same_columns():
    selector = BatchSelector(POLICY, report=True)
    empty = selector(SCHEMA.empty_table())
    assert empty.num_rows == 0
    assert empty.schema == selector(table(some_requests(2))).schema


def test_a_request_without_items_gives_an_empty_selection():
    row = one([])
    assert (row["selected"], row["items"], row["total_tokens"], row["error"]) == ([], [], 0, None)


def test_it_pickles():
    requests = table(some_requests(20))
    selector = BatchSelector(presets.rag(), ContextBudget(50, 40, reserved_slots={"Memory": 3}), report=True)
    again = pickle.loads(pickle.dumps(selector))
    assert again == selector
    assert again(requests).equals(selector(requests))


def test_a_report_is_whole_except_for_the_times():
    row = BatchSelector(POLICY, report=True)(table(some_requests(1))).to_pylist()[0]
    report = SelectionReport.from_json(row["report"])
    assert [entry.item.content for entry in report.included] == [item["content"] for item in row["items"]]
    assert report.total_candidates == row["total_candidates"]
    assert report.events == ()


FIELDS = [
    ({"kind": pa.dictionary(pa.int8(), pa.string())}, {"kind": "Memory"}),
    ({"kind": pa.string()}, {"kind": None}),
    ({"source": pa.string()}, {"source": "Rag"}),
    ({"tags": pa.list_(pa.string())}, {"tags": None}),
    ({"metadata": pa.map_(pa.string(), pa.string())}, {"metadata": [("k", "v")]}),
    ({"metadata": pa.struct([("k", pa.string()), ("absent", pa.string())])}, {"metadata": {"k": "v", "absent": None}}),
    ({"metadata": pa.string()}, {"metadata": '{"k": "v"}'}),
    ({"metadata": pa.string()}, {"metadata": None}),
    ({"timestamp": pa.timestamp("ns", "Europe/Berlin")}, {"timestamp": 1_767_225_600_123_456_789}),
    ({"timestamp": pa.timestamp("s", "UTC")}, {"timestamp": None}),
    ({"timestamp": pa.string()}, {"timestamp": "2026-01-01T01:00:00.123456+01:00"}),
    ({"futureRelevanceHint": pa.float64()}, {"futureRelevanceHint": 0.5}),
    ({"original_tokens": pa.int32()}, {"original_tokens": 9}),
    ({"pinned": pa.bool_()}, {"pinned": None}),
]


class Seen(Scorer):
    """Keeps the items it was asked about."""

    seen: list = []  # noqa: RUF012

    def score(self, item, all_items):
        self.seen.append(item)
        return 1.0


@pytest.mark.parametrize(("field", "value"), FIELDS, ids=str)
def test_every_field_arrives(field, value):
    Seen.seen.clear()
    types = pa.struct({"content": pa.string(), "tokens": pa.int64(), **field}.items())
    requests = pa.table({"items": pa.array([[{"content": "a", "tokens": 1, **value}]], pa.list_(types))})
    assert BatchSelector(Pipeline(scorer=Seen()), BUDGET)(requests).column("error").to_pylist() == [None]
    (item,) = Seen.seen
    defaults = {"kind": "Message", "source": "Chat"}
    assert str(item.kind) == (value.get("kind") or defaults["kind"])
    assert str(item.source) == (value.get("source") or defaults["source"])
    assert item.metadata == ({"k": "v"} if value.get("metadata") else {})
    assert item.tags == ()
    assert item.future_relevance_hint == value.get("futureRelevanceHint")
    assert item.original_tokens == value.get("original_tokens")
    assert item.pinned is False
    if value.get("timestamp"):
        assert item.timestamp.isoformat() == "2026-01-01T00:00:00.123456+00:00"


@pytest.mark.parametrize(
    ("item", "field", "message"),
    [
        ({"content": "", "tokens": 1}, {}, "items[1]: content must not be empty, got ''"),
        ({"content": None, "tokens": 1}, {}, "items[1]: content must be a string, got NoneType: None"),
        ({"content": "x", "tokens": None}, {}, "items[1]: tokens must be an integer, got NoneType: None"),
        (None, {}, "items[1]: content must be a string, got NoneType: None"),
        (
            {"content": "x", "tokens": 1, "kind": " "},
            {"kind": pa.string()},
            "items[1]: kind must not be blank, got ' '",
        ),
        (
            {"content": "x", "tokens": 1, "timestamp": "soon"},
            {"timestamp": pa.string()},
            "items[1]: timestamp must be an aware datetime, got str: 'soon'",
        ),
        (
            {"content": "x", "tokens": 1, "timestamp": "2026-01-01T00:00:00"},
            {"timestamp": pa.string()},
            "items[1]: timestamp must carry a time zone, got the naive 2026-01-01T00:00:00",
        ),
        (
            {"content": "x", "tokens": 1, "metadata": "{"},
            {"metadata": pa.string()},
            "items[1]: metadata must be a mapping, got str: '{'",
        ),
        (
            {"content": "x", "tokens": 1.5},
            {"tokens": pa.float64()},
            "items[0]: tokens must be an integer, got float: 1.0",
        ),
    ],
)
def test_a_bad_item_is_its_rows_error_and_nobody_elses(item, field, message):
    types = pa.struct({"content": pa.string(), "tokens": pa.int64(), **field}.items())
    good = {"content": "good", "tokens": 1}
    column = pa.array([[good], [good, item], [good]], pa.list_(types))
    rows = BatchSelector(POLICY, BUDGET)(pa.table({"items": column})).to_pylist()
    assert rows[1]["error"] == message
    if types.field("tokens").type == pa.int64():
        assert [row["selected"] for row in rows] == [[0], None, [0]]


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"max_tokens": 5, "target_tokens": 6}, "budget: target_tokens must not exceed max_tokens=5, got 6"),
        ({"max_tokens": 5, "target_tokens": None}, "budget: target_tokens is missing"),
        ({"max_tokens": -1, "target_tokens": 0}, "budget: max_tokens must be >= 0, got -1"),
        (None, "budget is missing, and the requests share none"),
    ],
)
def test_a_bad_budget_is_its_rows_error(budget, message):
    requests = some_requests(3)
    requests[1]["budget"] = budget
    rows = answers(requests)
    assert [row["error"] for row in rows] == [None, message, None]


def test_a_missing_list_of_items_is_its_rows_error():
    requests = some_requests(3)
    requests[1]["items"] = None
    assert [row["error"] for row in answers(requests)] == [None, "items is missing", None]


def test_the_selections_own_errors_are_the_rows():
    row = one([{"content": "p", "tokens": 101, "pinned": True}], field={"pinned": pa.bool_()})
    assert row["error"] == "Pinned items require 101 tokens, but only 100 are available"


def test_whatever_a_strategy_raises_is_the_rows():
    class Broken(Scorer):
        def score(self, item, all_items):
            return 1 / (item.tokens - 1)

    row = one([{"content": "p", "tokens": 1}], policy=Pipeline(scorer=Broken()))
    assert row["error"] == "ZeroDivisionError: division by zero"


def test_a_budget_of_its_own_beats_the_shared_one():
    items = pa.array([[{"content": "a", "tokens": 60}]] * 3)
    requests = pa.table({"items": items, "budget": pa.array([50, None, 70], pa.int64())})
    assert BatchSelector(POLICY, BUDGET)(requests).column("selected").to_pylist() == [[], [0], [0]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": pa.array(["a"])}, "the table has no column 'items'; its columns are id"),
        ({"items": pa.array(["a"])}, "column 'items' must be a list of structs, got string"),
        ({"items": pa.array([["a"]])}, "column 'items' must be a list of structs, got list<item: string>"),
        ({"items": pa.array([[{"content": "a"}]])}, "column 'items' has no field 'tokens'"),
        (
            {"items": pa.array([[{"content": "a", "tokens": 1, "url": "x"}]])},
            "column 'items' has an unknown field 'url'; an item has content, tokens, kind",
        ),
        (
            {
                "items": pa.array([[{"content": "a", "tokens": 1, "timestamp": 0}]]).cast(
                    pa.list_(
                        pa.struct(
                            {"content": pa.string(), "tokens": pa.int64(), "timestamp": pa.timestamp("us")}.items()
                        )
                    )
                )
            },
            "timestamp must carry a time zone, got timestamp[us]",
        ),
        (
            {"items": pa.array([[{"content": "a", "tokens": 1, "original_tokens": 1, "originalTokens": 1}]])},
            "column 'items' has a field twice, in both spellings",
        ),
        (
            {"items": pa.array([[{"content": "a", "tokens": 1}]]), "report": pa.array(["x"])},
            "the requests have a column 'report', which the answer has too: rename it",
        ),
        (
            {"items": pa.array([[{"content": "a", "tokens": 1}]])},
            "the requests have no column 'budget', and no budget is given for all of them",
        ),
    ],
)
def test_a_table_that_cannot_be_requests_is_refused_whole(columns, message):
    with pytest.raises(BatchError, match=re.escape(message)):
        BatchSelector(POLICY)(pa.table(columns))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((RecencyScorer(),), "policy must be a Pipeline, got RecencyScorer"),
        ((POLICY, 100), "budget must be a ContextBudget or None, got int: 100"),
        ((POLICY, None, 1), "report must be True or False, got int: 1"),
    ],
)
def test_the_constructor_checks_types(arguments, message):
    with pytest.raises(TypeError, match=message):
        BatchSelector(*arguments)


def test_only_arrow_tables_are_taken():
    with pytest.raises(TypeError, match=r"requests must be a pyarrow.Table or RecordBatch, got list"):
        BatchSelector(POLICY)([])


def test_each_row_is_selected_for_its_own_query():
    policy = Pipeline(scorer=RelevanceScorer(stem=False))
    pool = [{"content": "The parser is slow.", "tokens": 5}, {"content": "Lunch is at noon.", "tokens": 5}]
    requests = pa.table({"items": [pool] * 3, "query": ["why so slow?", "when is lunch?", None]})
    answer = BatchSelector(policy, ContextBudget(5, 5))(requests)
    assert answer.column("selected").to_pylist() == [[0], [1], None]
    assert "needs a query" in answer.column("error").to_pylist()[2]
    assert answer.column("query").to_pylist() == ["why so slow?", "when is lunch?", None]
