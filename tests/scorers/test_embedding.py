"""Vectors of any function, sync or async, remembered by content."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from cupel import (
    CompositeScorer,
    ContextItem,
    EmbeddingScorer,
    Pipeline,
    Policy,
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
        (lambda texts: [["x"]] * len(texts), "must hold numbers"),
        (lambda texts: [[float("nan")]] * len(texts), "must hold finite numbers"),
        (lambda texts: [[1.0] * len(text) for text in texts], "vectors must have one length, got 3 and 1"),
    ],
)
def test_a_broken_function_is_named(embed, says):
    with pytest.raises(StrategyContractError, match=f"EmbeddingScorer broke its contract: .*{says}"):
        EmbeddingScorer(embed, query="q").score_all(ITEMS)


def test_large_numbers_do_not_overflow():
    assert EmbeddingScorer(lambda texts: [[1e300, 1e300]] * len(texts), query="q").score_all(ITEMS) == pytest.approx(
        [1.0] * 3
    )


def test_a_function_of_a_loaded_module_is_part_of_a_document():
    policy = Policy(EmbeddingScorer(letters, vector_key="v"))
    document = policy.to_dict()
    assert document["scorer"] == {"type": "embedding", "embed": f"{__name__}:letters", "vector_key": "v"}
    assert Policy.from_dict(document) == policy
    with pytest.raises(PolicyConfigError, match=r"\$\.scorer\.embed: the function .* cannot be written"):
        Policy(EmbeddingScorer(lambda texts: [])).to_dict()
    for name in ("os.path.evil:join", "letters", "json:nothing"):
        with pytest.raises(PolicyConfigError, match=r"\$\.scorer\.embed: expected 'module:function'"):
            Policy.from_dict({"scorer": {"type": "embedding", "embed": name}})


def test_refused_and_copied():
    with pytest.raises(TypeError, match="embed must be callable"):
        EmbeddingScorer("ada")
    with pytest.raises(ScorerConfigError, match="vector_key must not be empty"):
        EmbeddingScorer(letters, vector_key="")
    with pytest.raises(ScorerConfigError, match="EmbeddingScorer needs a query"):
        EmbeddingScorer(letters).score_all(ITEMS)
    assert asyncio.run(RecencyScorer().warm(ITEMS)) is None
    assert pickle.loads(pickle.dumps(EmbeddingScorer(letters))) == EmbeddingScorer(letters)
