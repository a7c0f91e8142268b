"""Vectors of any function, sync or async, remembered by content."""

from __future__ import annotations

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import cupel.policy
from cupel import (
    CompositeScorer,
    ContextItem,
    EmbeddingScorer,
    Pipeline,
    PolicyConfigError,
    RecencyScorer,
    ScaledScorer,
    ScorerConfigError,
    StrategyContractError,
)

ITEMS = [ContextItem("aab", 3), ContextItem("b", 3), ContextItem("c", 3)]


def letters(texts):
    return [[text.count(letter) for letter in "abc"] for text in texts]


class Counting:
    def __init__(self):
        self.asked = []

    def __call__(self, texts):
        self.asked.append(list(texts))
        return letters(texts)


def test_each_text_is_embedded_once_and_all_new_ones_together():
    embed = Counting()
    scorer = EmbeddingScorer(embed)
    scorer.bind("a").score_all(ITEMS)
    scorer.bind("a").score_all([*ITEMS, ContextItem("d", 1), ContextItem("b", 9)])
    scorer.bind("b").score_all(ITEMS)
    assert embed.asked == [["aab", "b", "c", "a"], ["d"]]


def test_an_item_that_brings_its_vector_is_not_embedded():
    embed = Counting()
    items = [ContextItem("x", 1, metadata={"v": (0, 1, 0)}), ContextItem("a", 1)]
    assert EmbeddingScorer(embed, vector_key="v", query="b").score_all(items) == [1.0, 0.0]
    assert embed.asked == [["a", "b"]]


def test_the_oldest_vectors_are_forgotten_but_never_those_of_a_pass(monkeypatch):
    monkeypatch.setattr("cupel.scorers._embedding._MOST", 2)
    embed = Counting()
    scorer = EmbeddingScorer(embed, query="a")
    assert scorer.score_all(ITEMS)[2] == 0.0
    scorer.score_all(ITEMS)
    assert len(embed.asked) == 1
    scorer.score_all([ContextItem("d", 1)])
    scorer.score_all(ITEMS[:1])
    assert embed.asked[1:] == [["d"], ["aab"]] or embed.asked[1:] == [["d"], ["aab", "a"]]


async def slow_letters(texts):
    await asyncio.sleep(0)
    return letters(texts)


@pytest.mark.parametrize("wrap", [lambda scorer: scorer, lambda scorer: ScaledScorer(CompositeScorer([(scorer, 1)]))])
def test_an_asynchronous_function_is_awaited_by_arun_or_warm(wrap):
    pipeline = Pipeline(scorer=wrap(EmbeddingScorer(slow_letters)))
    with pytest.raises(ScorerConfigError, match=r"embed is asynchronous: select with arun, or await scorer\.warm"):
        pipeline.run(ITEMS, 3, query="b")
    assert asyncio.run(pipeline.arun(ITEMS, 3, query="b")).items == ITEMS[1:2]
    assert pipeline.run(ITEMS, 3, query="b") == ITEMS[1:2]  # known by now
    bound = pipeline.bind("c")
    asyncio.run(bound.scorer.warm(ITEMS))
    assert bound.prepare(ITEMS).run(3) == ITEMS[2:]


def test_an_answer_that_can_be_awaited_but_not_closed_is_refused_like_a_coroutine():
    class Promise:
        def __await__(self):
            raise AssertionError("nobody awaits it")

    with pytest.raises(ScorerConfigError, match="embed is asynchronous"):
        EmbeddingScorer(lambda texts: Promise(), query="b").score_all(ITEMS)


@pytest.mark.parametrize(
    ("embed", "says"),
    [
        (lambda texts: [[1.0]], "embed returned 1 vectors for 4 texts"),
        (lambda texts: None, "embed must return a list of vectors, got None"),
        (lambda texts: "abcd", "embed must return a list of vectors, got 'abcd'"),
        (lambda texts: np.ones(len(texts)), "embed must return a list of vectors"),
        (lambda texts: [1.0] * len(texts), r"a vector of embed must be a list of numbers, got float: 1\.0"),
        (lambda texts: [[1, "x"]] * len(texts), r"must hold numbers, got 'x' in \[1, 'x'\]"),
        (lambda texts: [["1.5"]] * len(texts), "must hold numbers"),
        (lambda texts: np.full((len(texts), 2), np.inf), "must hold finite numbers"),
        (lambda texts: [[0.0, 0.0]] * len(texts), "the vector of the query 'q' must not be zero"),
        (lambda texts: [[float("nan")]] * len(texts), "must hold finite numbers"),
        (lambda texts: [[1.0] * len(text) for text in texts], "vectors must have one length, got 3 and 1"),
    ],
)
def test_a_broken_function_is_named(embed, says):
    with pytest.raises(StrategyContractError, match=f"EmbeddingScorer broke its contract: .*{says}"):
        EmbeddingScorer(embed, query="q").score_all(ITEMS)


def test_the_length_of_vectors_may_not_change_between_calls():
    lengths = iter((2, 3))
    scorer = EmbeddingScorer(lambda texts: [[1.0] * next(lengths)] * len(texts), query="q")
    scorer.score_all(ITEMS)
    with pytest.raises(StrategyContractError, match="vectors must have one length, got 2 and 3"):
        scorer.score_all([ContextItem("new", 1)])


def test_the_vectors_of_items_have_one_length():
    items = [ContextItem("x", 1, metadata={"v": (0, 1)}), ContextItem("a", 1)]
    with pytest.raises(StrategyContractError, match="vectors must have one length, got 2 and 3"):
        EmbeddingScorer(letters, vector_key="v", query="b").score_all(items)


def test_nothing_is_embedded_for_no_items():
    embed = Counting()
    assert EmbeddingScorer(embed, query="b").score_all([]) == []
    assert embed.asked == []


def test_an_item_without_a_direction_scores_zero():
    assert EmbeddingScorer(letters, query="a").score_all([ContextItem("xyz", 1), ContextItem("a", 1)]) == [0.0, 1.0]


@pytest.mark.parametrize("convert", [np.array, np.float32, list, tuple, iter, lambda rows: list(map(np.array, rows))])
def test_lists_and_arrays_give_the_same_scores(convert):
    scorer = EmbeddingScorer(lambda texts: convert(letters(texts)), query="ab")
    assert scorer.score_all(ITEMS) == [
        0.948683298,
        0.707106781,
        0.0,
    ]


def test_numbers_of_any_type_are_taken():
    embed = lambda texts: [[Fraction(value, 3), 10**400 * 0 + value] for value, *_ in letters(texts)]  # noqa: E731
    assert EmbeddingScorer(embed, query="a").score_all(ITEMS[:1]) == [1.0]


@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 8, 65, 384])
def test_scores_are_cosines_and_do_not_depend_on_the_other_items(dimension):
    random = np.random.default_rng(dimension)
    vectors = {f"text {at}": random.standard_normal(dimension) for at in range(200)} | {"q": np.ones(dimension)}
    items = [ContextItem(text, 1) for text in list(vectors)[:200]]
    scorer = EmbeddingScorer(lambda texts: [vectors[text] for text in texts], query="q")
    scores = scorer.score_all(items)
    naive = [vectors[i.content].sum() / np.linalg.norm(vectors[i.content]) / dimension**0.5 for i in items]
    assert scores == pytest.approx(np.clip(naive, 0, 1), abs=1e-9)
    assert scorer.score_all(items[::-1]) == scores[::-1]
    assert scorer.score_all(items[70:73]) == scores[70:73]


def test_vectors_of_two_pools_do_not_mix_in_threads(monkeypatch):
    monkeypatch.setattr("cupel.scorers._embedding._MOST", 3)
    scorer = EmbeddingScorer(letters)
    pools = [[ContextItem(f"{letter * (1 + at)}c", 1) for at in range(5)] for letter in "ab"]
    expected = [EmbeddingScorer(letters, query="ab").score_all(pool) for pool in pools]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda at: scorer.bind("ab").score_all(pools[at % 2]), range(200)))
    assert found == expected * 100


def test_further_queries_over_a_pool_ask_for_the_query_alone(monkeypatch):
    monkeypatch.setattr("cupel.scorers._embedding._MOST", 2)
    embed = Counting()
    scorer = EmbeddingScorer(embed)
    for query in ("a", "b", "bb", "c"):
        scorer.bind(query).score_all(ITEMS)
    assert embed.asked == [["aab", "b", "c", "a"], ["bb"]]


def test_large_numbers_do_not_overflow():
    assert EmbeddingScorer(lambda texts: [[1e300, 1e300]] * len(texts), query="q").score_all(ITEMS) == pytest.approx(
        [1.0] * 3
    )


def test_a_function_of_a_loaded_module_is_part_of_a_document():
    policy = Pipeline(scorer=EmbeddingScorer(letters, vector_key="v"))
    document = cupel.policy.to_dict(policy)
    assert document["scorer"] == {"type": "embedding", "embed": f"{__name__}:letters", "vector_key": "v"}
    assert cupel.policy.from_dict(document) == policy
    with pytest.raises(
        PolicyConfigError, match=r"\$\.scorer\.embed: the function .* cannot be serialised: use a function importable"
    ):
        cupel.policy.to_dict(Pipeline(scorer=EmbeddingScorer(lambda texts: [])))
    for name in ("os.path.evil:join", "letters", "json:nothing"):
        with pytest.raises(PolicyConfigError, match=r"\$\.scorer\.embed: expected 'module:function'"):
            cupel.policy.from_dict({"scorer": {"type": "embedding", "embed": name}})


def test_refused_and_copied():
    with pytest.raises(TypeError, match="embed must be callable"):
        EmbeddingScorer("ada")
    with pytest.raises(ScorerConfigError, match="vector_key must not be empty"):
        EmbeddingScorer(letters, vector_key="")
    with pytest.raises(ScorerConfigError, match="EmbeddingScorer needs a query"):
        EmbeddingScorer(letters).score_all(ITEMS)
    assert asyncio.run(RecencyScorer().warm(ITEMS)) is None
    assert pickle.loads(pickle.dumps(EmbeddingScorer(letters))) == EmbeddingScorer(letters)
