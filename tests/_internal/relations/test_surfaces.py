"""Relations travel: files, commands, reports, pages, streams, batches, and the law kit."""

import asyncio
import json

import pytest

import cupel.policy
from cupel import (
    ContextBudget,
    ContextItem,
    GreedySlice,
    InvalidItemError,
    Pipeline,
    ReflexiveScorer,
    ScoredItem,
    SelectionError,
    SelectionReport,
    Slicer,
    StreamSlice,
    forms,
)
from cupel.analytics import optimality_gap
from cupel.batch import run_batch
from cupel.cli._main import main
from cupel.page import Variant, page_payload
from cupel.slicers import _base
from cupel.testing import check_slicer
from tests._internal.relations.test_selection import hinted

LOG = forms(hinted("the whole log", 100, 0.9), (hinted("a stub", 5), 0.1), id="log")
PAIR = [hinted(name, 10, 0.5, metadata={"cupel:group": "g"}) for name in ("call", "result")]
HALF = [hinted(name, tokens, 0.4, metadata={"cupel:group": "h"}) for name, tokens in (("half", 1), ("uncounted", -1))]
ITEMS = [*LOG, *PAIR, *HALF]


def contents(items):
    return sorted(item.content for item in items)


def pipeline(slicer=None):
    return Pipeline(scorer=ReflexiveScorer(), slicer=slicer or GreedySlice())


def test_a_report_with_reasons_of_relations_travels():
    report = pipeline().dry_run(ITEMS, 30)
    assert {entry.reason.name for entry in report.excluded} == {"Superseded", "GroupIncomplete", "NegativeTokens"}
    assert SelectionReport.from_json(report.to_json()) == report


def test_the_command_reads_relations_from_lines(tmp_path, capsys):
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(item.to_dict()) + "\n" for item in ITEMS))
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(cupel.policy.to_dict(Pipeline(scorer=ReflexiveScorer()))))
    assert main(["explain", str(path), "--budget", "30", "--policy", str(policy)]) == 0
    said = capsys.readouterr().out
    assert "in as “a stub”" in said
    assert "group “h” is incomplete" in said


def test_the_command_refuses_relations_that_contradict_themselves(tmp_path, capsys):
    path = tmp_path / "items.jsonl"
    path.write_text(json.dumps(ContextItem("note", 3, metadata={"cupel:group": 3}).to_dict()) + "\n")
    assert main(["explain", str(path), "--budget", "30"]) == 2
    assert "metadata['cupel:group'] must be a string, got int: 3" in capsys.readouterr().err


def test_the_page_shows_what_python_chose():
    variants = [Variant(Pipeline(scorer=ReflexiveScorer(), name="mine"), "mine", "--policy mine")]
    budget = ContextBudget(30, 30)
    page = page_payload(ITEMS, budget, variants, title="T", source="x", fixed_window=False)
    reasons = page["policies"][0]["reasons"]
    assert {"reason": "Superseded", "by": "a stub"} in reasons
    assert {"reason": "GroupIncomplete", "group": "h"} in reasons
    assert {"Superseded", "GroupIncomplete"} <= set(page["reasons"])


def streamed(items, budget, batch_size):
    async def source():
        for item in items:
            yield item

    return asyncio.run(pipeline(StreamSlice()).stream(source(), budget, batch_size=batch_size))


def test_a_stream_keeps_to_the_relations_within_a_batch():
    result = streamed(ITEMS, 25, 6)
    assert contents(result) == ["a stub", "call", "result"]
    assert result.excluded == {"Superseded": 1, "GroupIncomplete": 1, "NegativeTokens": 1}


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_stream_refuses_relations_beyond_a_batch(batch_size):
    with pytest.raises(InvalidItemError, match="is not in the same batch of the stream; relations hold within a batch"):
        streamed(ITEMS, 200, batch_size)


def test_a_stream_does_not_take_related_items_back():
    late = ContextItem("late", 90, pinned=True)
    plain = [hinted(str(number), 1) for number in range(3)]
    with pytest.raises(SelectionError, match="pinned item 'late' needs the room of"):
        streamed([*ITEMS, late, *plain], 100, 6)


def test_a_stream_slice_keeps_to_the_relations_too():
    async def source():
        for item in ITEMS:
            yield ScoredItem(item, item.future_relevance_hint)

    chosen = asyncio.run(StreamSlice(6).slice(source(), ContextBudget(25, 25)))
    assert contents(chosen) == ["a stub", "call", "result"]
    with pytest.raises(InvalidItemError, match="is not in the same batch"):
        asyncio.run(StreamSlice(3).slice(source(), ContextBudget(200, 200)))


def test_the_law_kit_finds_a_selection_against_the_relations(monkeypatch):
    class Everything(Slicer):
        def slice(self, scored, budget):
            return [entry.item for entry in scored] if budget.target_tokens > 0 else []

    check_slicer(Everything(), may_exceed_target=True)  # the pipeline enforces them
    monkeypatch.setattr(_base, "drop_violations", lambda relations, chosen: chosen)
    with pytest.raises(AssertionError, match="a selection has no"):
        check_slicer(Everything(), may_exceed_target=True)


def test_the_optimality_gap_counts_what_a_form_is_worth():
    budget = ContextBudget(5, 5)
    found = optimality_gap(pipeline().dry_run(LOG, budget), budget)
    assert found.selected_score == pytest.approx(0.09)
    assert found.upper_bound == pytest.approx(0.09)


def test_a_batch_keeps_to_relations_and_refuses_one_row_at_a_time(tmp_path):
    bad = [ContextItem("note", 3, metadata={"cupel:group": ""})]
    rows = [{"items": [item.to_dict() for item in items], "budget": 30} for items in (ITEMS, bad)]
    requests, output = tmp_path / "requests.jsonl", tmp_path / "out.jsonl"
    requests.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run_batch(requests, output, Pipeline(scorer=ReflexiveScorer()), max_errors=1)
    answers = [json.loads(line) for line in output.read_text().splitlines()]
    assert sorted(item["content"] for item in answers[0]["items"]) == ["a stub", "call", "result"]
    assert len(answers) == 1
    assert "metadata['cupel:group'] must not be empty" in (tmp_path / "out.jsonl.errors.jsonl").read_text()
