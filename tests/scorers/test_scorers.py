"""Each scorer's definition, edge by edge."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import inf, isnan, nan
from typing import TYPE_CHECKING, Any

import pytest

from cupel import (
    CompositeScorer,
    ContextItem,
    ContextKind,
    DecayScorer,
    Exponential,
    FixedClock,
    FrequencyScorer,
    KindScorer,
    MetadataKeyScorer,
    MetadataTrustScorer,
    PriorityScorer,
    RecencyScorer,
    ReflexiveScorer,
    ScaledScorer,
    Scorer,
    Step,
    StrategyContractError,
    SystemClock,
    TagScorer,
    Window,
)
from cupel.errors import ScorerConfigError
from cupel.scorers import DEFAULT_KIND_WEIGHTS
from cupel.scorers._decay import Curve

if TYPE_CHECKING:
    from collections.abc import Sequence

NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def at(hours: float | None) -> ContextItem:
    return ContextItem("x", 1, timestamp=None if hours is None else NOON - hours * HOUR)


def hinted(*hints: float | None) -> list[ContextItem]:
    return [ContextItem("x", 1, future_relevance_hint=hint) for hint in hints]


def tagged(*tags: str) -> ContextItem:
    return ContextItem("x", 1, tags=tags)


def both_faces(scorer: Scorer, items: Sequence[ContextItem]) -> list[float]:
    """The scores of a pass, after making sure that scoring one by one gives the same."""
    scores = scorer.score_all(items)
    assert [scorer.score(item, items) for item in items] == scores
    return scores


class Constant(Scorer):
    """Returns what it was given, whatever that is."""

    def __init__(self, *scores: Any) -> None:
        self.scores = scores

    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        return next(score for score, peer in zip(self.scores, all_items, strict=False) if peer is item)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("ages", "scores"),
    [
        ([], []),
        ([None], [0.0]),
        ([5], [1.0]),
        ([5, None], [1.0, 0.0]),
        ([3, 1, 2], [0.0, 1.0, 0.5]),
        ([1, 1, 1], [0.0, 0.0, 0.0]),
        ([2, 2, 1, None], [0.0, 0.0, 1.0, 0.0]),
        ([1, 1, 3, 2, 2], [0.75, 0.75, 0.0, 0.25, 0.25]),
    ],
)
def test_recency(ages: list[float | None], scores: list[float]) -> None:
    assert both_faces(RecencyScorer(), [at(age) for age in ages]) == scores


@pytest.mark.parametrize(
    ("priorities", "scores"),
    [([None, None], [0.0, 0.0]), ([7], [1.0]), ([1, 5, 5, None], [0.0, 0.5, 0.5, 0.0]), ([-3, 10**30], [0.0, 1.0])],
)
def test_priority(priorities: list[int | None], scores: list[float]) -> None:
    assert both_faces(PriorityScorer(), [ContextItem("x", 1, priority=p) for p in priorities]) == scores


@pytest.mark.parametrize(
    ("priorities", "scores"),
    [
        ([None] * 80, [0.0] * 80),
        ([None] * 79 + [5], [0.0] * 79 + [1.0]),
        ([5] * 80, [0.0] * 80),
        ([2, 1] * 40 + [None], [40 / 79, 0.0] * 40 + [0.0]),
        (
            [9 if position % 3 else 0 for position in range(2000)],
            [667 / 1999 if position % 3 else 0.0 for position in range(2000)],
        ),
        ([position if position % 3 else 0 for position in range(2000)], None),
    ],
)
def test_priorities_that_many_share(priorities: list[int | None], scores: list[float] | None) -> None:
    found = both_faces(PriorityScorer(), [ContextItem("x", 1, priority=p) for p in priorities])
    assert scores is None or found == scores


def test_an_item_that_is_not_among_its_peers_counts_as_the_last_of_them() -> None:
    assert RecencyScorer().score(at(0), [at(1), at(2), at(3)]) == 1.0
    assert RecencyScorer().score(at(4), [at(1), at(5), at(2)]) == 1 / 3
    assert CompositeScorer([(RecencyScorer(), 1)]).score(at(4), [at(1), at(5), at(2)]) == 1 / 3


def test_kind_defaults() -> None:
    items = [
        ContextItem("x", 1, kind=kind) for kind in ("SystemPrompt", "memory", "TOOLOUTPUT", "Document", "Message", "?")
    ]
    assert both_faces(KindScorer(), items) == [1.0, 0.8, 0.6, 0.4, 0.2, 0.0]
    assert len(DEFAULT_KIND_WEIGHTS) == 5


def test_kind_weights_replace_the_defaults() -> None:
    scorer = KindScorer({"memory": 2, ContextKind("x"): True})  # type: ignore[dict-item]
    items = [ContextItem("x", 1, kind=kind) for kind in ("Memory", "X", "Message")]
    assert both_faces(scorer, items) == [2.0, 1.0, 0.0]
    assert both_faces(KindScorer({}), items) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("tags", "score"),
    [
        ((), 0.0),
        (("none",), 0.0),
        (("a",), 0.75),
        (("a", "b"), 1.0),
        (("b", "b"), 0.5),
        (("a", "a"), 1.0),
        (("A",), 0.0),
    ],
)
def test_tag(tags: tuple[str, ...], score: float) -> None:
    assert both_faces(TagScorer({"a": 3, "b": 1}), [tagged(*tags)]) == [score]


def test_tag_without_case() -> None:
    assert TagScorer({"Urgent": 1}, case_sensitive=False).score(tagged("uRGENT"), []) == 1.0


@pytest.mark.parametrize("weights", [{}, {"a": 0}])
def test_tag_without_weight(weights: dict[str, float]) -> None:
    assert TagScorer(weights).score(tagged("a"), []) == 0.0


def test_frequency() -> None:
    items = [tagged("X", "y"), tagged("x"), tagged("Y", "z"), tagged("q"), tagged()]
    assert both_faces(FrequencyScorer(), items) == [0.5, 0.25, 0.25, 0.0, 0.0]


@pytest.mark.parametrize("items", [[], [tagged("a")], [tagged()]])
def test_frequency_without_peers(items: list[ContextItem]) -> None:
    assert both_faces(FrequencyScorer(), items) == [0.0] * len(items)


def test_frequency_of_an_item_among_nobody() -> None:
    assert FrequencyScorer().score(tagged("a"), []) == 0.0


def test_frequency_skips_the_same_object_everywhere_but_counts_equal_copies() -> None:
    twice, copy = tagged("a"), tagged("a")
    assert both_faces(FrequencyScorer(), [twice, twice, copy]) == [0.5, 0.5, 1.0]


def test_frequency_folds_ascii_only() -> None:
    assert both_faces(FrequencyScorer(), [tagged("\u212a"), tagged("k")]) == [0.0, 0.0]


def test_frequency_beyond_a_byte_of_positions() -> None:
    items = [tagged("a") if position % 2 else tagged("b") for position in range(21)]
    scores = both_faces(FrequencyScorer(), items)
    assert scores[:2] == [10 / 20, 9 / 20]


@pytest.mark.parametrize("size", [2, 7, 8, 9, 16, 17, 33])
def test_frequency_around_the_edges_of_bytes(size: int) -> None:
    items = [tagged() for _ in range(size - 2)]
    assert both_faces(FrequencyScorer(), [tagged("a"), *items, tagged("A")]) == [
        1 / (size - 1),
        *[0.0] * (size - 2),
        1 / (size - 1),
    ]


def test_reflexive() -> None:
    items = hinted(0.5, -0.3, 1.7, nan, inf, -inf, None, 0.0, 1.0)
    assert both_faces(ReflexiveScorer(), items) == [0.5, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]


def test_composite_is_a_weighted_average() -> None:
    items = [at(2), at(1)]
    scorer = CompositeScorer([(RecencyScorer(), 3), (KindScorer({"Message": 0.4}), 1)])
    assert both_faces(scorer, items) == [0.1, 0.85]
    assert scorer.normalized_weights == (0.75, 0.25)
    assert scorer.children == (RecencyScorer(), KindScorer({"Message": 0.4}))


def test_composite_adds_a_metadata_boost_it_does_not_multiply() -> None:
    boosted = ContextItem("x", 1, metadata={"k": "v"}, future_relevance_hint=0.6)
    scorer = CompositeScorer([(ReflexiveScorer(), 1), (MetadataKeyScorer("k", "v", 1.5), 1)])
    assert scorer.score(boosted, [boosted]) == 0.5 * 0.6 + 0.75


def test_composite_sums_in_the_order_of_its_entries() -> None:
    """0.1 + 0.2 + 0.3 depends on the order in the last bit; the order given decides."""
    scorers = [(KindScorer({"Message": weight}), 1) for weight in (0.1, 0.2, 0.3)]
    third = 1 / 3
    expected = 0.0 + 0.1 * third + 0.2 * third + 0.3 * third
    assert both_faces(CompositeScorer(scorers), hinted(0)) == [expected]


def test_composite_accepts_a_shared_child() -> None:
    shared = ScaledScorer(RecencyScorer())
    assert CompositeScorer([(shared, 1), (ScaledScorer(shared), 1), (shared, 1)]).entries[0][0] is shared


def test_cycles_are_refused_at_any_depth() -> None:
    inner = ScaledScorer(RecencyScorer())
    middle = CompositeScorer([(inner, 1)])
    outer = ScaledScorer(middle)
    object.__setattr__(inner, "inner", outer)
    with pytest.raises(ValueError, match="cycle detected, ScaledScorer is contained in itself"):
        CompositeScorer([(outer, 1)])
    with pytest.raises(ValueError, match="ScaledScorer: cycle detected"):
        ScaledScorer(middle)


def test_deep_nesting_is_not_a_cycle() -> None:
    scorer: Scorer = ReflexiveScorer()
    for _ in range(150):
        scorer = ScaledScorer(scorer)
    assert both_faces(scorer, hinted(0.2, 0.4)) == [0.0, 1.0]


def test_nesting_has_a_limit_that_is_not_the_interpreters() -> None:
    scorer: Scorer = ReflexiveScorer()
    for _ in range(200):
        scorer = ScaledScorer(scorer)
    assert both_faces(scorer, hinted(0.2, 0.4)) == [0.0, 1.0]
    with pytest.raises(ScorerConfigError, match="ScaledScorer: more than 200 scorers are nested in one another"):
        ScaledScorer(scorer)


@pytest.mark.parametrize(
    ("raw", "scaled"),
    [
        ([0.3], [0.5]),
        ([0.3, 0.3], [0.5, 0.5]),
        ([0.2, 0.4, 0.3], [0.0, 1.0, pytest.approx(0.5)]),
        ([2, 4], [0.0, 1.0]),
    ],
)
def test_scaled(raw: list[float], scaled: list[float]) -> None:
    assert both_faces(ScaledScorer(Constant(*raw)), hinted(*[0.0] * len(raw))) == scaled


def test_scaled_without_peers() -> None:
    assert ScaledScorer(ReflexiveScorer()).score_all([]) == []
    assert ScaledScorer(ReflexiveScorer()).score(hinted(1)[0], []) == 0.5
    assert ScaledScorer(ReflexiveScorer()).score(hinted(1)[0], hinted(0.2, 0.4)) == 0.5
    assert ScaledScorer(ReflexiveScorer()).children == (ReflexiveScorer(),)


def test_scaled_passes_nan_on_and_ignores_it_for_the_range() -> None:
    scores = ScaledScorer(Constant(nan, 2.0, 4.0)).score_all(hinted(0, 0, 0))
    assert isnan(scores[0])
    assert scores[1:] == [0.0, 1.0]
    assert ScaledScorer(Constant(nan, 2.0)).score_all(hinted(0, 0)) == [0.5, 0.5]
    assert all(map(isnan, ScaledScorer(Constant(nan, nan)).score_all(hinted(0, 0))))


def test_scaled_survives_infinities() -> None:
    """The span is infinite then, and no double says where an infinity lies in it."""
    scores = ScaledScorer(Constant(-inf, 0.0, inf)).score_all(hinted(0, 0, 0))
    assert list(map(isnan, scores)) == [True, True, True]
    assert ScaledScorer(Constant(inf, inf)).score_all(hinted(0, 0)) == [0.5, 0.5]


@pytest.mark.parametrize(
    ("trust", "score"),
    [
        ("0.85", 0.85),
        ("-0.1", 0.0),
        ("1.5", 1.0),
        ("1e3", 1.0),
        ("+.5", 0.5),
        ("5.", 1.0),
        ("5e-1", 0.5),
        ("1e400", 0.25),
        ("", 0.25),
        ("high", 0.25),
        (" 0.5", 0.25),
        ("0.5\n", 0.25),
        ("1_0", 0.25),
        ("nan", 0.25),
        ("inf", 0.25),
        ("Infinity", 0.25),
        ("0x1", 0.25),
        ("\u0660.\u0665", 0.25),
        (".", 0.25),
        ("e5", 0.25),
        (0.75, 0.75),
        (2, 1.0),
        (-1, 0.0),
        (Fraction(1, 2), 0.5),
        (nan, 0.25),
        (inf, 0.25),
        (10**400, 0.25),
        (True, 0.25),
        (None, 0.25),
        ([0.5], 0.25),
        (Decimal("0.5"), 0.25),
    ],
)
def test_trust(trust: object, score: float) -> None:
    item = ContextItem("x", 1, metadata={"cupel:trust": trust})
    assert both_faces(MetadataTrustScorer(0.25), [item]) == [score]


def test_trust_without_the_key() -> None:
    assert both_faces(MetadataTrustScorer(), [ContextItem("x", 1)]) == [0.5]


@pytest.mark.parametrize(
    ("found", "score"),
    [("v", 1.5), ("V", 1.0), ("vv", 1.0), (None, 1.0), (7, 1.0), ("", 1.0)],
)
def test_metadata_key(found: object, score: float) -> None:
    assert both_faces(MetadataKeyScorer("k", "v", 1.5), [ContextItem("x", 1, metadata={"k": found})]) == [score]


def test_metadata_key_compares_other_values_by_their_text() -> None:
    item = ContextItem("x", 1, metadata={"n": 1.0, "none": None})
    assert MetadataKeyScorer("n", "1.0", 2).score(item, []) == 2.0
    assert MetadataKeyScorer("none", "None", 2).score(item, []) == 1.0
    assert MetadataKeyScorer("absent", "x", 2).score(item, []) == 1.0


@pytest.mark.parametrize(
    ("curve", "hours", "score"),
    [
        (Exponential(24 * HOUR), 24, 0.5),
        (Exponential(24 * HOUR), 12, 2.0**-0.5),
        (Exponential(24 * HOUR), 36, 2.0**-1.5),
        (Exponential(24 * HOUR), 0, 1.0),
        (Exponential(24 * HOUR), -5, 1.0),
        (Exponential(HOUR), 24 * 365, 0.0),
        (Window(6 * HOUR), 6, 0.0),
        (Window(6 * HOUR), 5.999, 1.0),
        (Step([(HOUR, 0.9), (24 * HOUR, 0.5), (72 * HOUR, 0.1)]), 0, 0.9),
        (Step([(HOUR, 0.9), (24 * HOUR, 0.5), (72 * HOUR, 0.1)]), 1, 0.5),
        (Step([(HOUR, 0.9), (24 * HOUR, 0.5), (72 * HOUR, 0.1)]), 24, 0.1),
        (Step([(HOUR, 0.9), (24 * HOUR, 0.5), (72 * HOUR, 0.1)]), 99, 0.1),
        (Step([(24 * HOUR, 0.5), (HOUR, 0.9)]), 0, 0.5),
        (Window(HOUR), None, 0.25),
    ],
)
def test_decay(curve: Any, hours: float | None, score: float) -> None:
    scorer = DecayScorer(FixedClock(NOON), curve, null_timestamp_score=0.25)
    assert both_faces(scorer, [at(hours)]) == [score]


def test_decay_underflows_to_zero() -> None:
    scorer = DecayScorer(FixedClock(NOON), Exponential(timedelta(microseconds=1)))
    assert scorer.score(at(24 * 365 * 100), []) == 0.0


def test_decay_reads_its_clock_once_a_pass() -> None:
    class Ticking:
        def __init__(self) -> None:
            self.reads = 0

        def now(self) -> datetime:
            self.reads += 1
            return NOON + self.reads * HOUR

    clock = Ticking()
    scorer = DecayScorer(clock, Exponential(HOUR))
    assert scorer.score_all([at(0), at(None), at(0), at(1)]) == [0.5, 0.5, 0.5, 0.25]
    assert clock.reads == 1
    assert len(set(DecayScorer(SystemClock(), Exponential(HOUR)).score_all([at(0)] * 2000))) == 1


def test_a_curve_that_gives_no_number_is_named() -> None:
    class Odd(Curve):
        def at(self, age: timedelta) -> float:
            return Fraction(1, 2) if age else "old"  # type: ignore[return-value]

    scorer = DecayScorer(FixedClock(NOON), Odd())
    assert both_faces(scorer, [at(1)]) == [0.5]
    with pytest.raises(TypeError, match=r"Odd.at\(\) must be a number, got str: 'old'"):
        scorer.score_all([at(0)])


def test_tag_weights_may_add_up_to_more_than_a_double_holds() -> None:
    scorer = TagScorer({"a": 1e308, "b": 1e308, "c": 1.0})
    assert both_faces(scorer, [tagged("a", "b"), tagged("a"), tagged("c"), tagged("a", "a", "b", "b")]) == [
        1.0,
        0.5,
        pytest.approx(0.0),
        1.0,
    ]


@pytest.mark.parametrize(
    "scorer",
    [RecencyScorer(), KindScorer(), TagScorer({"a": 1}), ScaledScorer(KindScorer()), MetadataTrustScorer()],
    ids=lambda scorer: type(scorer).__name__,
)
def test_what_is_no_item_is_named(scorer: Scorer) -> None:
    with pytest.raises(TypeError, match=r"items\[1\] must be a ContextItem, got str: 'x'"):
        scorer.score_all([at(0), "x"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="items must be an iterable of ContextItem, got int: 5"):
        scorer.score_all(5)  # type: ignore[arg-type]


def test_what_is_no_item_is_named_by_score() -> None:
    with pytest.raises(TypeError, match=r"all_items\[0\] must be a ContextItem, got NoneType"):
        RecencyScorer().score(at(0), [None])  # type: ignore[list-item]
    for scorer in (RecencyScorer(), KindScorer()):
        with pytest.raises(TypeError, match="item must be a ContextItem, got str: 'x"):
            scorer.score("x" * 9999, [])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="all_items must be an iterable of ContextItem, got int: 5"):
        ScaledScorer(KindScorer()).score(at(0), 5)  # type: ignore[arg-type]


def test_system_clock_is_aware() -> None:
    assert SystemClock().now().utcoffset() == timedelta(0)


def test_a_clock_that_lies_is_named() -> None:
    class Broken:
        def __init__(self, value: object) -> None:
            self.value = value

        def now(self) -> Any:
            return self.value

    naive = datetime(2025, 1, 1)  # noqa: DTZ001
    with pytest.raises(ValueError, match=r"Broken.now\(\) must carry a time zone, got the naive 2025"):
        DecayScorer(Broken(naive), Window(HOUR)).score(at(0), [])
    with pytest.raises(TypeError, match=r"Broken.now\(\) must be an aware datetime, got int"):
        DecayScorer(Broken(5), Window(HOUR)).score(at(0), [])


@pytest.mark.parametrize("number", [1, True, Decimal("0.5"), Fraction(1, 2)])
def test_numbers_of_any_kind_become_floats(number: object) -> None:
    items = hinted(0)
    assert [type(score) for score in Constant(number).checked_scores(items)] == [float]
    assert type(CompositeScorer([(Constant(number), 1)]).score(items[0], items)) is float


@pytest.mark.parametrize("breach", ["0.5", None, 1j, [0.5]])
def test_a_score_that_is_no_number_names_the_scorer(breach: object) -> None:
    items = hinted(0)
    with pytest.raises(StrategyContractError, match="Constant broke its contract: a score must be a number, got"):
        Constant(breach).checked_scores(items)
    with pytest.raises(StrategyContractError, match="Constant broke its contract"):
        CompositeScorer([(Constant(breach), 1)]).score(items[0], items)


def test_a_score_beyond_a_double_names_the_scorer() -> None:
    with pytest.raises(StrategyContractError, match="Constant broke its contract: a score must fit a double"):
        Constant(10**400).checked_scores(hinted(0))


def test_numbers_of_several_kinds_all_become_floats() -> None:
    scores = Constant(0.5, 1, Fraction(1, 4)).checked_scores(hinted(0, 0, 0))
    assert [(score, type(score)) for score in scores] == [(0.5, float), (1.0, float), (0.25, float)]


class Wrong(ReflexiveScorer):
    """Returns so many scores, however many items there are."""

    count = 0

    def score_all(self, items: Sequence[ContextItem]) -> list[float]:
        return [0.5] * self.count


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_pass_of_the_wrong_length_names_the_scorer(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wrong, "count", count)
    says = f"Wrong broke its contract: score_all returned {count} scores for 2 items"
    with pytest.raises(StrategyContractError, match=says):
        Wrong().checked_scores(hinted(0, 0))


def test_a_pass_that_is_no_list_names_the_scorer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wrong, "score_all", lambda self, items: None)
    with pytest.raises(StrategyContractError, match="Wrong broke its contract: score_all must return a list of num"):
        Wrong().checked_scores(hinted(0, 0))


def test_a_pass_of_hundreds_is_as_long_as_its_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wrong, "count", 400)
    assert Wrong().checked_scores(hinted(*[0.0] * 400)) == [0.5] * 400


def test_a_scorer_that_scores_nothing_cannot_be_built() -> None:
    with pytest.raises(TypeError, match="abstract"):
        type("Idle", (Scorer,), {})()
    with pytest.raises(TypeError, match="abstract"):
        type("Idle", (Curve,), {})()
