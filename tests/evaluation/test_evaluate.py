"""What a policy keeps, case by case and in sum."""

import pytest

from cupel import ContextItem, Pipeline, PriorityScorer, RecencyScorer, ReflexiveScorer, RelevanceScorer
from cupel.evaluation import Case, EvaluationError, compare, evaluate, tune
from cupel.slicers import BestFirstSlice

from .pools import hinted_case


def items(*hints, **fields):
    return [ContextItem(f"item {at}", 10, future_relevance_hint=hint, **fields) for at, hint in enumerate(hints)]


def test_shares_wholes_and_tokens_are_means_over_cases():
    pool = items(0.9, 0.8, 0.1)
    found = evaluate(Pipeline(scorer=ReflexiveScorer(), name="hints"), [Case(pool, 20, [0, 2]), Case(pool, 10, [0])])
    assert found.name == "hints"
    assert [outcome.share for outcome in found.outcomes] == [0.5, 1.0]
    assert (found.kept.value, found.whole.value, found.tokens.value) == (0.75, 0.5, 15.0)


def test_kinds_and_tags_count_needed_items():
    pool = [
        ContextItem("a", 10, kind="Document", tags=["law"], future_relevance_hint=0.9),
        ContextItem("b", 10, kind="Message", tags=["law", "new"], future_relevance_hint=0.1),
        ContextItem("c", 10, kind="ToolOutput", tags=["unneeded"], future_relevance_hint=0.5),
    ]
    found = evaluate(Pipeline(scorer=ReflexiveScorer()), [Case(pool, 20, [0, 1])])
    assert {kind: part.value for kind, part in found.by_kind.items()} == {"Document": 1.0, "Message": 0.0}
    assert {tag: part.value for tag, part in found.by_tag.items()} == {"law": 0.5, "new": 0.0}


def test_a_duplicate_in_its_place_counts_only_where_duplicates_are_merged():
    pool = [ContextItem("same", 10, future_relevance_hint=0.2), ContextItem("same", 10, future_relevance_hint=0.9)]
    merged, apart = (Pipeline(scorer=ReflexiveScorer(), deduplicate=flag) for flag in (True, False))
    assert evaluate(merged, [Case(pool, 10, [0])]).kept.value == 1.0
    assert evaluate(apart, [Case(pool, 10, [0])]).kept.value == 0.0


def test_a_case_without_a_selection_keeps_nothing_and_is_shown():
    pool = [ContextItem("huge", 500, pinned=True), *items(0.9)]
    found = evaluate(Pipeline(scorer=ReflexiveScorer()), [Case(pool, 100, [1], name="too small"), Case(pool, 600, [1])])
    assert found.kept.value == 0.5
    assert [outcome.case.name for outcome in found.failures] == ["too small"]
    assert "500 tokens" in found.to_dict()["failures"][0]["failure"]


def test_each_case_is_asked_with_its_own_query():
    pool = [ContextItem("The gate is B12.", 10), ContextItem("The seat is 14C.", 10)]
    cases = [Case(pool, 10, [0], "which gate?"), Case(pool, 10, [1], "which seat?"), Case(pool, 10, [1], "a seat")]
    found = evaluate(Pipeline(scorer=RelevanceScorer(stem=False), slicer=BestFirstSlice()), cases)
    assert found.whole.value == 1.0


def test_a_missing_query_names_the_case():
    with pytest.raises(EvaluationError, match="case first: RelevanceScorer needs a query"):
        evaluate(Pipeline(scorer=RelevanceScorer(stem=False)), [Case(items(0.1), 10, [0], name="first")])


def test_no_cases_are_nothing_to_measure():
    with pytest.raises(EvaluationError, match="cases is empty"):
        evaluate(Pipeline(scorer=RecencyScorer()), [])


@pytest.mark.parametrize("policy", [RecencyScorer(), "chat", None])
def test_other_types_are_type_errors(policy):
    with pytest.raises(TypeError, match="policy must be"):
        evaluate(policy, [Case(items(0.1), 10, [0])])


def test_pairs_tell_apart_what_the_intervals_beside_each_other_do_not():
    cases = [hinted_case(number, truth=0.3 + number % 7 / 10) for number in range(60)]
    hints = evaluate(Pipeline(scorer=ReflexiveScorer(), name="hints"), cases)
    priorities = evaluate(Pipeline(scorer=PriorityScorer(), name="priorities"), cases)
    found = compare(priorities, hints)
    assert found.kept.low > 0
    assert found.kept.value == pytest.approx(hints.kept.value - priorities.kept.value)
    assert found.better + found.worse + found.equal == 60
    assert "hints keeps more than priorities" in found.verdict
    assert "cannot be told apart" in compare(hints, hints).verdict
    assert "keeps less" in compare(hints, priorities).verdict


def test_evaluations_of_other_cases_cannot_be_compared():
    policy = Pipeline(scorer=ReflexiveScorer())
    with pytest.raises(EvaluationError, match="different cases"):
        compare(evaluate(policy, [hinted_case(1, truth=1)]), evaluate(policy, [hinted_case(1, truth=1)]))


def test_progress_is_told_case_by_case():
    told = []
    cases = [hinted_case(number, truth=1) for number in range(3)]
    evaluate(Pipeline(scorer=ReflexiveScorer()), cases, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(("options", "error"), [({"seed": -1}, EvaluationError), ({"on_progress": 5}, TypeError)])
def test_options_are_named(options, error):
    (name,) = options
    items = [ContextItem("a", 1)]
    policy, cases = Pipeline(scorer=RecencyScorer()), [Case(items, 3, [0], group=str(n % 5)) for n in range(30)]
    for measure in (evaluate, tune):
        with pytest.raises(error, match=name):
            measure(policy, cases, **options)
    if "seed" in options:
        with pytest.raises(error, match=name):
            compare(evaluate(policy, cases), evaluate(policy, cases), **options)
