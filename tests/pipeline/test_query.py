"""A query belongs to a run: every way of selecting takes one, and one index answers many."""

from __future__ import annotations

import asyncio

import pytest

from cupel import (
    BestFirstSlice,
    CompositeScorer,
    ContextItem,
    KnapsackSlice,
    Pipeline,
    RecencyScorer,
    RelevanceScorer,
    ScorerConfigError,
)
from cupel.messages import fit
from cupel.scorers._relevance import Index

ITEMS = [ContextItem("The parser is slow.", 5), ContextItem("Lunch is at noon.", 5), ContextItem("Rain all day.", 5)]
PIPELINE = Pipeline(scorer=RelevanceScorer(), slicer=BestFirstSlice())


async def arriving():
    for item in ITEMS:
        yield item


WAYS = {
    "run": lambda pipeline, **query: pipeline.run(ITEMS, 5, **query),
    "select": lambda pipeline, **query: pipeline.select(ITEMS, 5, **query).items,
    "dry_run": lambda pipeline, **query: [entry.item for entry in pipeline.dry_run(ITEMS, 5, **query).included],
    "prepare": lambda pipeline, **query: pipeline.prepare(ITEMS, **query).run(5),
    "arun": lambda pipeline, **query: asyncio.run(pipeline.arun(ITEMS, 5, **query)).items,
    "stream": lambda _, **query: asyncio.run(Pipeline(scorer=RelevanceScorer()).stream(arriving(), 5, **query)).items,
    "bind": lambda pipeline, query=None: pipeline.bind(query).run(ITEMS, 5),
    "policy": lambda pipeline, query=None: (
        Pipeline(scorer=pipeline.scorer, slicer=pipeline.slicer).bind(query).run(ITEMS, 5)
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way_takes_a_query(way):
    assert way(PIPELINE, query="when is lunch?") == ITEMS[1:2]
    assert way(PIPELINE, query="did it rain") == ITEMS[2:]
    with pytest.raises(ScorerConfigError, match=r"RelevanceScorer needs a query: pass query=.* --query"):
        way(PIPELINE)
    with pytest.raises(ScorerConfigError, match="query must not be empty"):
        way(PIPELINE, query="")
    with pytest.raises(TypeError, match="query must be a string, got int"):
        way(PIPELINE, query=7)


def test_a_scorer_that_asks_for_none_takes_no_notice():
    pipeline = Pipeline(scorer=RecencyScorer())
    assert pipeline.bind("lunch") is pipeline
    assert pipeline.run(ITEMS, 5, query="lunch") == pipeline.run(ITEMS, 5)


def test_a_prepared_selection_answers_many_queries_with_one_index(monkeypatch):
    prepared = PIPELINE.prepare(ITEMS, query="parsers")
    assert prepared.run(5) == ITEMS[:1]
    monkeypatch.delattr(Index, "_add")
    lunch = prepared.with_query("lunch")
    assert lunch.run(5) == ITEMS[1:2]
    assert lunch.with_query("rain").dry_run(5).included[0].item is ITEMS[2]
    assert prepared.run(5) == ITEMS[:1]


def test_a_query_is_asked_again_about_what_was_a_copy_before():
    twins = [ContextItem("lunch", 5, tags=["old"]), ContextItem("lunch", 5, tags=["new"]), ContextItem("rain", 5)]
    scorer = CompositeScorer([(RelevanceScorer(), 1)])
    prepared = Pipeline(scorer=scorer).prepare(twins, query="lunch").with_query("rain")
    assert len(prepared.candidates) == 2
    assert prepared.run(5) == twins[2:]
    assert [row.reason.name for row in prepared.dry_run(10).excluded] == ["Deduplicated"]


def test_another_slicer_takes_over_what_a_query_prepared():
    prepared = PIPELINE.prepare(ITEMS, query="lunch")
    other = Pipeline(scorer=RelevanceScorer(), slicer=KnapsackSlice(1))
    assert prepared.with_pipeline(other.bind("lunch")).run(5) == ITEMS[1:2]


def test_a_history_is_fitted_to_a_query():
    facts = ("The deploy key is in the vault.", "Lunch is at noon.", "Rain all day.")
    history = [
        {"role": role, "content": content}
        for fact in facts
        for role, content in (("user", "And?"), ("assistant", f"{fact} {'So much for that. ' * 15}"))
    ]

    def answers(question, query=None):
        """The assistant's messages that stay; there is room for one of them."""
        fitted = fit([*history, {"role": "user", "content": question}], 150, PIPELINE, query=query)
        return [message for message in fitted.messages if message["role"] == "assistant"]

    assert answers("So, where was it?", "where is the deploy key?") == history[1:2]
    assert answers("So, where was it?", "when is lunch?") == history[3:4]
    assert answers("When is lunch?") == history[3:4]
