"""Rules that pin items: by kind, tag, source, metadata, and the newest of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

import cupel.policy
from cupel import (
    ContextItem,
    PinnedExceedsBudgetError,
    PinRule,
    Pipeline,
    PipelineConfigError,
    RecencyScorer,
    RelevanceScorer,
)
from cupel.diagnostics import InclusionReason

NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)
ITEMS = [
    ContextItem("rules", 3, kind="SystemPrompt"),
    ContextItem("question", 4, metadata={"cupel:source-type": "user"}, timestamp=NOON),
    ContextItem("answer", 5, timestamp=NOON + timedelta(minutes=1)),
    ContextItem("output", 6, kind="ToolOutput", source="Tool", tags=["ci"], timestamp=NOON + timedelta(minutes=3)),
    ContextItem("older output", 7, kind="ToolOutput", source="Tool", timestamp=NOON + timedelta(minutes=2)),
]


@pytest.mark.parametrize(
    ("rule", "pinned"),
    [
        (PinRule.system_prompts(), ["rules"]),
        (PinRule.newest_user_message(), ["question"]),
        (PinRule.newest_tool_result(), ["output"]),
        (PinRule(kind="tooloutput"), ["output", "older output"]),
        (PinRule(tag="ci"), ["output"]),
        (PinRule(source="tool"), ["output", "older output"]),
        (PinRule(metadata={"cupel:source-type": "user"}), ["question"]),
        (PinRule(newest=2), ["output", "older output"]),
        (PinRule(kind="Message", source="Tool"), []),
    ],
)
def test_a_rule_pins(rule, pinned):
    report = Pipeline(scorer=RecencyScorer(), pins=[rule]).dry_run(ITEMS, 100)
    found = [entry.item for entry in report.included if entry.reason is InclusionReason.PINNED]
    assert [item.content for item in ITEMS if any(item is one for one in found)] == pinned


def test_of_undated_items_the_last_given_is_the_newest():
    items = [ContextItem(name, 5, kind="ToolOutput") for name in ("first", "second")]
    assert Pipeline(scorer=RecencyScorer(), pins=[PinRule.newest_tool_result()]).run(items, 5) == items[1:]
    dated = [items[1], ContextItem("old but dated", 5, kind="ToolOutput", timestamp=NOON)]
    assert Pipeline(scorer=RecencyScorer(), pins=[PinRule.newest_tool_result()]).run(dated[::-1], 5) == dated[1:]


def test_pins_stay_where_they_are_for_another_query_and_another_pipeline():
    pipeline = Pipeline(scorer=RelevanceScorer(), pins=[PinRule(newest=1)])
    items = [ContextItem("tea", 5), ContextItem("coffee", 5), ContextItem("water", 5)]
    prepared = pipeline.prepare(items, query="tea")
    assert prepared.with_query("coffee").run(10) == [items[2], items[1]]
    with pytest.raises(PipelineConfigError, match="same scorer, deduplication and pins"):
        prepared.with_pipeline(Pipeline(scorer=prepared.pipeline.scorer))


def test_what_rules_pin_counts_as_pinned():
    with pytest.raises(PinnedExceedsBudgetError):
        Pipeline(scorer=RecencyScorer(), pins=[PinRule(newest=5)]).run(ITEMS, 20)
    assert Pipeline(scorer=RecencyScorer(), pins=[PinRule(kind="Gone")]).run([ContextItem("x", -1)], 5) == []


def test_a_rule_is_part_of_a_document():
    policy = Pipeline(scorer=RecencyScorer(), pins=[PinRule.system_prompts(), PinRule(kind="ToolOutput", newest=1)])
    assert cupel.policy.to_dict(policy)["pins"] == [{"kind": "SystemPrompt"}, {"kind": "ToolOutput", "newest": 1}]
    assert cupel.policy.loads(cupel.policy.dumps(policy, format="toml"), format="toml") == policy
    assert hash(policy) == hash(cupel.policy.loads(cupel.policy.dumps(policy)))


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({}, PipelineConfigError, "at least one condition"),
        ({"newest": 0}, PipelineConfigError, "newest must be >= 1, got 0"),
        ({"kind": " "}, PipelineConfigError, "kind must not be blank"),
        ({"tag": 3}, TypeError, "tag must be a string"),
        ({"metadata": {"a": [1]}}, TypeError, r"metadata\['a'\] must be a string, a number or a boolean"),
        ({"metadata": "a"}, TypeError, "metadata must be a mapping"),
    ],
)
def test_refused(fields, error, says):
    with pytest.raises(error, match=says):
        PinRule(**fields)


def test_pins_must_be_rules():
    with pytest.raises(TypeError, match=r"pins\[0\] must be a PinRule, got str"):
        Pipeline(scorer=RecencyScorer(), pins=["newest"])
    with pytest.raises(TypeError, match="pins must be an iterable of PinRule"):
        Pipeline(scorer=RecencyScorer(), pins=PinRule.system_prompts())


def test_a_rule_pins_the_whole_group():
    call = ContextItem("call", 5, metadata={"cupel:group": "a"})
    result = ContextItem("result", 5, kind="ToolOutput", metadata={"cupel:group": "a"})
    relations = {"cupel:id": "plan", "cupel:group": "a"}
    plan = [ContextItem(text, len(text), metadata=relations) for text in ("plan", "the whole plan")]
    other = ContextItem("other", 5)
    pipeline = Pipeline(scorer=RecencyScorer(), pins=[PinRule.newest_tool_result()])
    pool = [call, result, *plan, other]
    assert pipeline.pinned(pool) == {0, 1, 3}  # of the plan's forms the fullest
    assert {item.content for item in pipeline.run(pool, 24)} == {"call", "result", "the whole plan"}
    short = replace(plan[0], pinned=True)
    assert pipeline.pinned([call, result, short, plan[1], other]) == {0, 1, 2}
