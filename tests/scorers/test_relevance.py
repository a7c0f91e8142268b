"""Relevance to a query: words, the index that follows a pool, neighbours, and binding."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cupel.policy
from cupel import (
    CompositeScorer,
    ContextItem,
    MissingExtraError,
    Pipeline,
    RecencyScorer,
    RelevanceScorer,
    ScaledScorer,
    ScorerConfigError,
)
from cupel.scorers import ENGLISH
from cupel.scorers._relevance import Index, Terms, terms_for, words_of

PLAIN = RelevanceScorer(stem=False)
NOON = datetime(2025, 5, 7, 12, tzinfo=UTC)


def scores(scorer, *contents):
    return scorer.score_all([ContextItem(content, 1) for content in contents])


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The Quick fox", ["quick", "fox"]),
        ("don’t, it’s", ["don"]),
        ("os.path.join(a)", ["os.path.join", "os", "path", "join"]),
        ("snake_case", ["snake_case", "snake", "case"]),
        ("__init__", ["__init__", "init"]),
        ("parseHTTPHeader2", ["parsehttpheader2", "parse", "http", "header", "2"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("NASA", ["nasa"]),
        ("v2.10", ["v2.10", "v", "2", "10"]),
        ("2025", ["2025"]),
        ("is_valid", ["is_valid", "valid"]),
        ("Ende. Anfang", ["ende", "anfang"]),
        ("Żółć", ["żółć"]),
        ("cafe\u0301 CAFÉ", ["café", "café"]),  # decomposed and composed
        ("ﬁle", ["file"]),  # a ligature
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),  # vowel signs are no \w
        ("東京都", ["東", "京", "都", "東京", "京都"]),
        ("ラーメン屋", ["ラ", "ー", "メ", "ン", "屋", "ラー", "ーメ", "メン", "ン屋"]),
        ("x" * 101 + "_y", ["x" * 101 + "_y"]),
    ],
)
def test_terms_of_a_text(text, terms):
    known = Terms(str, ENGLISH)
    assert [term for word in words_of(text) for term in known[word]] == terms


def test_long_words_are_not_remembered_and_the_memory_is_bounded(monkeypatch):
    known = Terms(str, frozenset())
    assert known["y" * 101] == ("y" * 101,)
    assert known["港" * 101] == ("港", "港港")  # a long text without spaces is taken apart all the same
    assert not known
    monkeypatch.setattr("cupel.scorers._relevance._MOST_WORDS", 2)
    for word in ("one", "two", "three"):
        assert known[word] == (word,)
    assert list(known) == ["three"]


def test_stop_words_are_compared_as_words_are():
    assert scores(RelevanceScorer(stem=False, stop=["DER"], query="der Hund"), "Der Tag", "hund") == [0.0, 1.0]


@pytest.mark.parametrize(
    ("language", "query", "content"),
    [(True, "parsing", "it parsed"), ("german", "Häuser", "das Haus"), ("french", "mangeait", "manger")],
)
def test_forms_of_a_word_are_one(language, query, content):
    assert scores(RelevanceScorer(stem=language, query=query), content, "other") == [1.0, 0.0]
    assert scores(RelevanceScorer(stem=False, query=query), content, "other") == [0.0, 0.0]


def test_a_date_is_found_only_with_dates():
    items = [ContextItem("a", 1, timestamp=NOON), ContextItem("b", 1, timestamp=NOON.replace(month=6))]
    assert RelevanceScorer(query="in May").score_all(items) == [1.0, 0.0]
    assert RelevanceScorer(query="in May", dates=False).score_all(items) == [0.0, 0.0]


@given(st.lists(st.sampled_from(["x", "y", "x y"]), min_size=1, max_size=12), st.sampled_from([0.2, 0.5, 0.9]))
def test_neighbours_get_a_power_of_the_share(contents, share):
    own = scores(RelevanceScorer(query="x"), *contents)
    spread = [sum(share ** abs(here - there) * value for there, value in enumerate(own)) for here, _ in enumerate(own)]
    best = max(spread) or 1.0
    found = scores(RelevanceScorer(query="x", neighbours=share), *contents)
    assert found == pytest.approx([value / best for value in spread])


def test_neighbours_are_by_time_within_a_source():
    items = [
        ContextItem("later", 1, timestamp=NOON + timedelta(hours=2)),
        ContextItem("tool", 1, timestamp=NOON, source="Tool"),
        ContextItem("comet", 1, timestamp=NOON),
        ContextItem("undated", 1),
        ContextItem("next", 1, timestamp=NOON + timedelta(hours=1)),
    ]
    assert RelevanceScorer(query="comet", neighbours=0.5).score_all(items) == [0.25, 0.0, 1.0, 0.0, 0.5]


POOL = [
    ContextItem(f"{left} {right}", 1, timestamp=NOON if left == "a" else None) for left in "abcd" for right in "xyz"
]


@given(st.lists(st.lists(st.sampled_from(POOL), max_size=14), min_size=1, max_size=5), st.sampled_from([0.0, 0.5]))
def test_a_scorer_that_has_seen_other_pools_scores_like_a_new_one(pools, share):
    used = RelevanceScorer(stem=False, stop=(), neighbours=share)
    for pool in pools:
        for query in ("a x", "y"):
            fresh = RelevanceScorer(stem=False, stop=(), neighbours=share, query=query)
            assert used.bind(query).score_all(pool) == fresh.score_all(pool)


def test_the_index_of_a_pool_is_built_once_and_grows_with_it(monkeypatch):
    added = []
    add = Index._add
    monkeypatch.setattr(Index, "_add", lambda self, item, terms: (added.append(item), add(self, item, terms)))
    for query in ("a", "b"):
        PLAIN.bind(query).score_all(POOL[:8])
    assert added == POOL[:8]
    PLAIN.bind("a").score_all(POOL)
    assert added == POOL
    PLAIN.bind("a").score_all([*POOL[:11], POOL[0]])
    assert added == [*POOL, POOL[0]]


def test_threads_share_a_scorer():
    scorer = RelevanceScorer(neighbours=0.5, stem=False)
    pools = [POOL[:9], POOL[:4], POOL, POOL[3:]] * 20
    expected = [RelevanceScorer(neighbours=0.5, stem=False, query="a y").score_all(pool) for pool in pools]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda pool: scorer.bind("a y").score_all(pool), pools)) == expected


def test_composite_and_scaled_bind_their_children():
    inner = ScaledScorer(CompositeScorer([(PLAIN, 1), (RecencyScorer(), 1)]))
    bound = inner.bind("a")
    assert bound == ScaledScorer(CompositeScorer([(RelevanceScorer(stem=False, query="a"), 1), (RecencyScorer(), 1)]))
    assert RecencyScorer().bind("a") == RecencyScorer()
    with pytest.raises(ScorerConfigError, match="RelevanceScorer needs a query: pass query="):
        inner.score_all(POOL)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"query": " \n"}, ScorerConfigError, r"query must not be empty, got ' \\n'"),
        ({"query": 3}, TypeError, "query must be a string, got int: 3"),
        ({"method": "tfidf"}, ScorerConfigError, "method must be 'bm25', got 'tfidf'"),
        ({"neighbours": 1}, ScorerConfigError, "neighbours must be below 1"),
        ({"neighbours": -0.1}, ScorerConfigError, "neighbours must be from 0 to 1, got -0.1"),
        ({"k1": float("inf")}, ScorerConfigError, "k1 must be from 0 to 1000, got inf"),
        ({"b": 2}, ScorerConfigError, "b must be from 0 to 1, got 2"),
        ({"stem": "klingon"}, ScorerConfigError, "stem must be True, False or one of .*german.*, got 'klingon'"),
        ({"stem": None}, TypeError, "stem must be True, False or the name of a language, got NoneType"),
        ({"stop": "the"}, TypeError, "stop must be an iterable of strings, got one string"),
        ({"optional": 1}, TypeError, "optional must be True or False, got int: 1"),
        ({"dates": 1}, TypeError, "dates must be True or False, got int: 1"),
    ],
)
def test_refused(options, error, says):
    with pytest.raises(error, match=says):
        RelevanceScorer(**options)


def test_without_the_stemmer_the_extra_is_named(monkeypatch):
    terms_for.cache_clear()
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    for build in (RelevanceScorer, lambda: cupel.policy.from_dict({"scorer": "relevance"})):
        with pytest.raises(MissingExtraError, match=r"pip install 'cupel-context\[relevance\]'"):
            build()
    assert scores(RelevanceScorer(stem=False, query="a1"), "a1") == [1.0]


def test_where_a_query_is_optional_the_other_scorers_decide_without_one():
    relevance = RelevanceScorer(stem=False, optional=True)
    mixed = CompositeScorer([(relevance, 20), (RecencyScorer(), 1)])
    assert relevance.score_all(POOL) == [0.0] * len(POOL)
    assert mixed.score_all(POOL) == RecencyScorer().score_all(POOL)
    assert CompositeScorer([(relevance, 20)]).score_all(POOL) == [0.0] * len(POOL)
    report = Pipeline(scorer=mixed).dry_run(POOL, 1000)
    assert [part.scorer for part in report.breakdown(POOL[0]).part.parts] == ["RecencyScorer"]
    asked = Pipeline(scorer=mixed).dry_run(POOL, 1000, query=POOL[0].content)
    assert [part.weight for part in asked.breakdown(POOL[0]).part.parts] == [20.0, 1.0]
    word = POOL[0].content
    assert relevance.bind(word).score_all(POOL) == RelevanceScorer(stem=False, query=word).score_all(POOL)
