"""What documents mean, and how minimally they are written."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import cupel.policy
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
    Pipeline,
    PolicyConfigError,
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
        (Pipeline(scorer=RECENCY), {"scorer": "recency"}),
        (Pipeline(scorer=RECENCY, slicer=KnapsackSlice()), {"scorer": "recency", "slicer": "knapsack"}),
        (Pipeline(scorer=RECENCY, placer=UShapedPlacer()), {"scorer": "recency", "placer": "u_shaped"}),
        (Pipeline(scorer=RECENCY, deduplicate=False), {"scorer": "recency", "deduplication": False}),
        (Pipeline(scorer=RECENCY, overflow=OverflowStrategy.PROCEED), {"scorer": "recency", "overflow": "proceed"}),
        (Pipeline(scorer=RECENCY, name="", description="d"), {"name": "", "description": "d", "scorer": "recency"}),
        (Pipeline(scorer=KindScorer()), {"scorer": "kind"}),
        (Pipeline(scorer=KindScorer({})), {"scorer": {"type": "kind", "weights": {}}}),
        (Pipeline(scorer=KindScorer({"memory": 1})), {"scorer": {"type": "kind", "weights": {"memory": 1.0}}}),
        (
            Pipeline(scorer=TagScorer({"b": 1, "a": 2}, case_sensitive=False)),
            {"scorer": {"type": "tag", "weights": {"b": 1.0, "a": 2.0}, "case_sensitive": False}},
        ),
        (
            Pipeline(scorer=CompositeScorer([(RECENCY, 3), (KindScorer(), 1)])),
            {
                "scorer": {
                    "type": "composite",
                    "scorers": [{"scorer": "recency", "weight": 3.0}, {"scorer": "kind", "weight": 1.0}],
                }
            },
        ),
        (
            Pipeline(scorer=DecayScorer(SystemClock(), Exponential(timedelta(microseconds=1500001)))),
            {"scorer": {"type": "decay", "curve": {"type": "exponential", "half_life_seconds": 1.500001}}},
        ),
        (
            Pipeline(
                scorer=DecayScorer(
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
            Pipeline(scorer=RECENCY, slicer=KnapsackSlice(50, max_cells=None)),
            {"scorer": "recency", "slicer": {"type": "knapsack", "bucket_size": 50, "max_cells": "unlimited"}},
        ),
        (
            Pipeline(scorer=RECENCY, slicer=QuotaSlice([QuotaEntry("Document", cap=40)], KnapsackSlice())),
            {
                "scorer": "recency",
                "slicer": {"type": "quota", "quotas": [{"kind": "Document", "cap": 40.0}], "inner": "knapsack"},
            },
        ),
        (
            Pipeline(
                scorer=RECENCY,
                slicer=CountQuotaSlice([CountQuotaEntry("ToolOutput", 1, 4)], scarcity=ScarcityBehavior.THROW),
            ),
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
            Pipeline(scorer=RECENCY, slicer=CountConstrainedKnapsackSlice([], KnapsackSlice(10, max_cells=7))),
            {
                "scorer": "recency",
                "slicer": {"type": "count_constrained_knapsack", "entries": [], "bucket_size": 10, "max_cells": 7},
            },
        ),
    ],
)
def test_documents_are_minimal_and_mean_what_they_say(policy, document):
    assert cupel.policy.to_dict(policy) == document
    assert list(cupel.policy.to_dict(policy)) == list(document)  # the same order of keys
    assert cupel.policy.from_dict(document) == policy


def test_a_stream_slicer_selects_like_the_greedy_one_when_run_at_once():
    """Ruling 14.2; awaiting its own `slice` is what streams."""
    items = [ContextItem(str(n), 10 + n, future_relevance_hint=n * 7 % 10 / 10) for n in range(20)]
    budget = ContextBudget(100, 100)
    stream = cupel.policy.from_dict({"scorer": "reflexive", "slicer": {"type": "stream", "batch_size": 2}})
    assert cupel.policy.to_dict(stream)["slicer"] == {"type": "stream", "batch_size": 2}
    assert stream.run(items, budget) == Pipeline(scorer=ReflexiveScorer()).run(items, budget)


def test_defaults_may_be_written_out():
    written_out = {
        "$schema": "policy.schema.json",
        "scorer": {"type": "recency"},
        "slicer": {"type": "knapsack", "bucket_size": 100, "max_cells": 50_000_000},
        "placer": {"type": "chronological"},
        "deduplication": True,
        "overflow": "throw",
    }
    assert cupel.policy.from_dict(written_out) == Pipeline(scorer=RECENCY, slicer=KnapsackSlice())


def test_null_lifts_the_guard_of_the_table_in_json():
    policy = cupel.policy.loads('{"scorer": "recency", "slicer": {"type": "knapsack", "max_cells": null}}')
    assert policy.slicer == KnapsackSlice(max_cells=None)


def test_integers_are_accepted_as_floats():
    policy = cupel.policy.from_dict({"scorer": {"type": "metadata_trust", "default_score": 1}})
    assert type(policy.scorer.default_score) is float


def test_toml_dates_are_understood_as_well_as_strings():
    text = '[scorer]\ntype = "decay"\ncurve = { type = "window", max_age_seconds = 5 }\nnow = '
    native = cupel.policy.loads(text + "2026-01-02T03:04:05+01:00", format="toml")
    quoted = cupel.policy.loads(text + '"2026-01-02T02:04:05Z"', format="toml")
    assert native == quoted


def test_toml_is_laid_out_for_reading():
    policy = cupel.policy.from_dict(
        {
            "name": 'a "quoted" name',
            "scorer": {"type": "composite", "scorers": [{"scorer": "recency", "weight": 3}]},
            "slicer": {"type": "count_quota", "entries": [{"kind": "two words", "require_count": 1, "cap_count": 2}]},
            "overflow": "truncate",
        }
    )
    assert cupel.policy.dumps(policy, format="toml") == (
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
        '    { kind = "two words", require_count = 1, cap_count = 2 },\n'
        "]\n"
    )


def test_a_readable_repr_leaves_defaults_out():
    assert repr(Pipeline(scorer=RECENCY)) == "Pipeline(scorer=RecencyScorer())"
    assert repr(Pipeline(scorer=RECENCY, deduplicate=False, name="n")) == (
        "Pipeline(scorer=RecencyScorer(), deduplicate=False, name='n')"
    )


def test_a_function_has_no_document():
    pipeline = Pipeline(scorer=RECENCY, overflow=OverflowStrategy.PROCEED, on_overflow=print)
    with pytest.raises(PolicyConfigError, match=r"on_overflow .* cannot be serialised: .*on_overflow=None"):
        cupel.policy.to_dict(pipeline)
    assert cupel.policy.to_dict(replace(pipeline, on_overflow=None)) == {"scorer": "recency", "overflow": "proceed"}


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
    with pytest.raises(TypeError, match=f"^{field} must be "):
        Pipeline(**{"scorer": RECENCY, field: value})
