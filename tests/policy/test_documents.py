"""What documents mean, and how minimally they are written."""

from datetime import UTC, datetime, timedelta

import pytest

from cupel import (
    CompositeScorer,
    ContextBudget,
    ContextItem,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    DecayScorer,
    Exponential,
    FixedClock,
    KindScorer,
    KnapsackSlice,
    OverflowStrategy,
    Policy,
    QuotaEntry,
    QuotaSlice,
    RecencyScorer,
    ReflexiveScorer,
    ScarcityBehavior,
    Step,
    SystemClock,
    TagScorer,
    UShapedPlacer,
)

RECENCY = RecencyScorer()


@pytest.mark.parametrize(
    ("policy", "document"),
    [
        (Policy(RECENCY), {"scorer": "recency"}),
        (Policy(RECENCY, KnapsackSlice()), {"scorer": "recency", "slicer": "knapsack"}),
        (Policy(RECENCY, placer=UShapedPlacer()), {"scorer": "recency", "placer": "u_shaped"}),
        (Policy(RECENCY, deduplicate=False), {"scorer": "recency", "deduplication": False}),
        (Policy(RECENCY, overflow=OverflowStrategy.PROCEED), {"scorer": "recency", "overflow": "proceed"}),
        (Policy(RECENCY, name="", description="d"), {"name": "", "description": "d", "scorer": "recency"}),
        (Policy(KindScorer()), {"scorer": "kind"}),
        (Policy(KindScorer({})), {"scorer": {"type": "kind", "weights": {}}}),
        (Policy(KindScorer({"memory": 1})), {"scorer": {"type": "kind", "weights": {"memory": 1.0}}}),
        (
            Policy(TagScorer({"b": 1, "a": 2}, case_sensitive=False)),
            {"scorer": {"type": "tag", "weights": {"b": 1.0, "a": 2.0}, "case_sensitive": False}},
        ),
        (
            Policy(CompositeScorer([(RECENCY, 3), (KindScorer(), 1)])),
            {
                "scorer": {
                    "type": "composite",
                    "scorers": [{"scorer": "recency", "weight": 3.0}, {"scorer": "kind", "weight": 1.0}],
                }
            },
        ),
        (
            Policy(DecayScorer(SystemClock(), Exponential(timedelta(microseconds=1500001)))),
            {"scorer": {"type": "decay", "curve": {"type": "exponential", "half_life_seconds": 1.500001}}},
        ),
        (
            Policy(
                DecayScorer(
                    FixedClock(datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)),
                    Step([(timedelta(hours=1), 0.9)]),
                    null_timestamp_score=0.0,
                )
            ),
            {
                "scorer": {
                    "type": "decay",
                    "now": "2026-01-02T03:04:05.000600Z",
                    "curve": {"type": "step", "windows": [{"max_age_seconds": 3600.0, "score": 0.9}]},
                    "null_timestamp_score": 0.0,
                }
            },
        ),
        (
            Policy(RECENCY, KnapsackSlice(50, max_cells=None)),
            {"scorer": "recency", "slicer": {"type": "knapsack", "bucket_size": 50, "max_cells": "unlimited"}},
        ),
        (
            Policy(RECENCY, QuotaSlice([QuotaEntry("Document", cap=40)], KnapsackSlice())),
            {
                "scorer": "recency",
                "slicer": {"type": "quota", "quotas": [{"kind": "Document", "cap": 40.0}], "inner": "knapsack"},
            },
        ),
        (
            Policy(RECENCY, CountQuotaSlice([CountQuotaEntry("ToolOutput", 1, 4)], scarcity=ScarcityBehavior.THROW)),
            {
                "scorer": "recency",
                "slicer": {
                    "type": "count_quota",
                    "entries": [{"kind": "ToolOutput", "require_count": 1, "cap_count": 4}],
                    "scarcity": "throw",
                },
            },
        ),
        (
            Policy(RECENCY, CountConstrainedKnapsackSlice([], KnapsackSlice(10, max_cells=7))),
            {
                "scorer": "recency",
                "slicer": {"type": "count_constrained_knapsack", "entries": [], "bucket_size": 10, "max_cells": 7},
            },
        ),
    ],
)
def test_documents_are_minimal_and_mean_what_they_say(policy, document):
    assert policy.to_dict() == document
    assert list(policy.to_dict()) == list(document)  # the same order of keys
    assert Policy.from_dict(document) == policy


def test_a_stream_slicer_selects_like_the_greedy_one_when_run_at_once():
    """Ruling 14.2; awaiting its own `slice` is what streams."""
    items = [ContextItem(str(n), 10 + n, future_relevance_hint=n * 7 % 10 / 10) for n in range(20)]
    budget = ContextBudget(100, 100)
    stream = Policy.from_dict({"scorer": "reflexive", "slicer": {"type": "stream", "batch_size": 2}})
    assert stream.to_dict()["slicer"] == {"type": "stream", "batch_size": 2}
    assert stream.pipeline().run(items, budget) == Policy(ReflexiveScorer()).pipeline().run(items, budget)


def test_defaults_may_be_written_out():
    written_out = {
        "$schema": "policy.schema.json",
        "scorer": {"type": "recency"},
        "slicer": {"type": "knapsack", "bucket_size": 100, "max_cells": 50_000_000},
        "placer": {"type": "chronological"},
        "deduplication": True,
        "overflow": "throw",
    }
    assert Policy.from_dict(written_out) == Policy(RECENCY, KnapsackSlice())


def test_null_lifts_the_guard_of_the_table_in_json():
    policy = Policy.from_json('{"scorer": "recency", "slicer": {"type": "knapsack", "max_cells": null}}')
    assert policy.slicer == KnapsackSlice(max_cells=None)


def test_integers_stand_for_floats():
    policy = Policy.from_dict({"scorer": {"type": "metadata_trust", "default_score": 1}})
    assert type(policy.scorer.default_score) is float


def test_toml_dates_are_understood_as_well_as_strings():
    text = '[scorer]\ntype = "decay"\ncurve = { type = "window", max_age_seconds = 5 }\nnow = '
    native = Policy.from_toml(text + "2026-01-02T03:04:05+01:00")
    quoted = Policy.from_toml(text + '"2026-01-02T02:04:05Z"')
    assert native == quoted


def test_toml_is_laid_out_for_reading():
    policy = Policy.from_dict(
        {
            "name": 'a "quoted" name',
            "scorer": {"type": "composite", "scorers": [{"scorer": "recency", "weight": 3}]},
            "slicer": {"type": "count_quota", "entries": [{"kind": "two words", "require_count": 0, "cap_count": 2}]},
            "overflow": "truncate",
        }
    )
    assert policy.to_toml() == (
        'name = "a \\"quoted\\" name"\n'
        'overflow = "truncate"\n'
        "\n"
        "[scorer]\n"
        'type = "composite"\n'
        "scorers = [\n"
        '    { scorer = "recency", weight = 3.0 },\n'
        "]\n"
        "\n"
        "[slicer]\n"
        'type = "count_quota"\n'
        "entries = [\n"
        '    { kind = "two words", require_count = 0, cap_count = 2 },\n'
        "]\n"
    )


def test_a_readable_repr_leaves_defaults_out():
    assert repr(Policy(RECENCY)) == "Policy(scorer=RecencyScorer())"
    assert repr(Policy(RECENCY, deduplicate=False, name="n")) == (
        "Policy(scorer=RecencyScorer(), deduplicate=False, name='n')"
    )


def test_a_policy_makes_its_pipeline():
    seen = []
    policy = Policy(
        KindScorer(), KnapsackSlice(7), UShapedPlacer(), deduplicate=False, overflow=OverflowStrategy.PROCEED
    )
    pipeline = policy.pipeline(on_overflow=seen.append)
    assert (pipeline.scorer, pipeline.slicer, pipeline.placer) == (policy.scorer, policy.slicer, policy.placer)
    assert (pipeline.deduplicate, pipeline.overflow) == (False, OverflowStrategy.PROCEED)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("scorer", "recency"),
        ("slicer", None),
        ("placer", "u_shaped"),
        ("deduplicate", 1),
        ("overflow", "throw"),
        ("name", 3),
        ("description", b""),
    ],
)
def test_parts_of_the_wrong_type_are_refused(field, value):
    with pytest.raises(TypeError, match=rf"Policy\.{field} "):
        Policy(**{"scorer": RECENCY, field: value})
