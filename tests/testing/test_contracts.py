"""The kit passes every built-in and catches strategies that break their contract, each with the smallest case."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

import cupel
from cupel import (
    BestFirstSlice,
    CompositeScorer,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    DecayScorer,
    Exponential,
    FixedClock,
    FrequencyScorer,
    GreedySlice,
    KindLimit,
    KindScorer,
    KnapsackSlice,
    OptimalSlice,
    Placer,
    QuotaEntry,
    QuotaSlice,
    RecencyScorer,
    RelevanceScorer,
    ScaledScorer,
    ScarcityBehavior,
    Scorer,
    SelectionError,
    Slicer,
    Step,
    SystemFirst,
    TagScorer,
    UShapedPlacer,
    Window,
)
from cupel._internal.columns import Candidates
from cupel.policy import registered
from cupel.slicers import Chooser, Selection, Span
from cupel.testing import ContractViolation, check_placer, check_scorer, check_slicer, strategies

CLOCK = FixedClock(datetime(2026, 1, 1, 6, tzinfo=UTC))
HOUR = timedelta(hours=1)
COUNTS = [CountQuotaEntry("Message", 1, 2), CountQuotaEntry("Document", 0, 1)]
SHARES = [QuotaEntry("Message", require=20, cap=60), QuotaEntry("Document", cap=33)]

SCORERS = [
    KindScorer({"Document": 3.0}),
    TagScorer({"urgent": 2.0, "docs": 0.5}),
    TagScorer({"urgent": 2.0}, case_sensitive=False),
    DecayScorer(CLOCK, Exponential(HOUR)),
    DecayScorer(CLOCK, Window(3 * HOUR)),
    DecayScorer(CLOCK, Step([(HOUR, 0.9), (4 * HOUR, 0.3)])),
    RelevanceScorer(query="a b"),
    RelevanceScorer(neighbours=0.5, stem=False, dates=False).bind("c 2026"),
    CompositeScorer([(RecencyScorer(), 3), (ScaledScorer(FrequencyScorer()), 0.1)]),
    ScaledScorer(KindScorer()),
]
SLICERS = [
    KnapsackSlice(),
    KnapsackSlice(1),
    QuotaSlice(SHARES),
    QuotaSlice(SHARES, KnapsackSlice(7)),
    QuotaSlice(SHARES, BestFirstSlice(), leftover="share"),
    OptimalSlice(exact=False),
    OptimalSlice([KindLimit("Message", 1, 2), KindLimit("Document", max_tokens=30)], exact=False),
]
COUNTING_SLICERS = [
    CountQuotaSlice(COUNTS),
    CountQuotaSlice(COUNTS, QuotaSlice(SHARES)),
    CountQuotaSlice(COUNTS, scarcity=ScarcityBehavior.THROW),
    CountConstrainedKnapsackSlice(COUNTS, KnapsackSlice(7)),
]
PLACERS = [SystemFirst(UShapedPlacer())]


def with_the_others(family, chosen, elsewhere=()):
    """Those chosen by hand, because the plainest of their class show little; of all other classes the plainest."""
    classes = {type(one) for one in [*chosen, *elsewhere]}
    known = (one.strategy for one in registered()[family].values() if one.built_in)
    others = [pytest.param(one, id=one.__name__) for one in known if one not in classes]
    return [*(pytest.param(one, id=type(one).__name__) for one in chosen), *others]


def plainest(one, drawn):
    return find(drawn, lambda found: type(found) is one) if isinstance(one, type) else one


# --- the built-ins ---


@pytest.mark.parametrize("scorer", with_the_others("scorer", SCORERS))
def test_built_in_scorers_keep_the_contract(scorer):
    check_scorer(plainest(scorer, strategies.scorers()), max_examples=30)


@pytest.mark.parametrize("slicer", with_the_others("slicer", SLICERS, COUNTING_SLICERS))
def test_built_in_slicers_keep_the_contract(slicer):
    check_slicer(plainest(slicer, strategies.slicers()), non_finite_scores=True, max_examples=30)


@pytest.mark.parametrize("slicer", COUNTING_SLICERS, ids=repr)
def test_built_in_counting_slicers_keep_the_contract_but_for_the_target(slicer):
    check_slicer(slicer, may_exceed_target=True, non_finite_scores=True, max_examples=30)


def test_a_required_item_may_exceed_the_target():
    with pytest.raises(ContractViolation, match="the selection stays within the target"):
        check_slicer(CountQuotaSlice(COUNTS))


@pytest.mark.parametrize("placer", with_the_others("placer", PLACERS))
def test_built_in_placers_keep_the_contract(placer):
    check_placer(plainest(placer, strategies.placers()), non_finite_scores=True, max_examples=30)


@settings(max_examples=10, suppress_health_check=[HealthCheck.nested_given])
@given(strategies.scorers())
def test_any_nesting_of_scorers_keeps_the_contract(scorer):
    check_scorer(scorer, max_examples=10)


@settings(max_examples=10, suppress_health_check=[HealthCheck.nested_given, HealthCheck.filter_too_much])
@given(strategies.slicers())
def test_any_nesting_of_slicers_keeps_the_contract(slicer):
    check_slicer(slicer, may_exceed_target=True, max_examples=10)


# --- broken scorers ---


class ScorerOf(Scorer):
    """A scorer made of one function, so that a table of mistakes can be read at a glance."""

    def __init__(self, function):
        self.function = function

    def score(self, item, all_items):
        return self.function(item, all_items)


class Disagreeing(Scorer):
    def score(self, item, all_items):
        return item.tokens * 0.1

    def score_all(self, items):
        return [item.tokens / 10 for item in items]  # 3 * 0.1 is not 3 / 10


class Forgetful(Scorer):
    def score(self, item, all_items):
        return 0.5

    def score_all(self, items):
        return [0.5 for _ in items[1:]]


@dataclass
class Caching(Scorer):
    """Keeps what it computed for a list, by the list's identity: wrong as soon as the list is used again."""

    seen: dict = field(default_factory=dict)

    def score(self, item, all_items):
        return float(item.tokens)

    def score_all(self, items):
        return self.seen.setdefault(id(items), [float(item.tokens) for item in items])


def sorting(item, all_items):
    all_items.sort(key=lambda peer: peer.tokens)
    return 0.0


def annotating(item, all_items):
    item.metadata.get("notes", []).append("seen")
    return 0.0


BROKEN_SCORERS = {
    "divides by zero": (ScorerOf(lambda item, _: 1 / item.tokens), "it does not raise", "ZeroDivisionError"),
    "returns text": (ScorerOf(lambda *_: "high"), "it keeps what the pipeline demands", "got str: 'high'"),
    "returns NaN": (
        ScorerOf(lambda item, _: float("nan") if item.tokens == 3 else 0.0),
        "a score is a number",
        "items[0] scores NaN",
    ),
    "sorts its peers": (ScorerOf(sorting), "the list it was given is left unchanged", "afterwards: items"),
    "writes into metadata": (ScorerOf(annotating), "the items it was given are left unchanged", "before: "),
    "rounds differently": (Disagreeing(), "score_all gives exactly what score gives", "for items[0] score gives"),
    "forgets an item": (Forgetful(), "it keeps what the pipeline demands", "0 scores for 1 items"),
    "caches by identity": (Caching(), "", "breaks a law"),
    "rolls dice": (ScorerOf(lambda *_: random.random()), "", "breaks a law"),
}


@pytest.mark.parametrize(("scorer", "law", "told"), BROKEN_SCORERS.values(), ids=BROKEN_SCORERS)
def test_broken_scorers_are_caught(scorer, law, told):
    with pytest.raises(ContractViolation) as caught:
        check_scorer(scorer)
    assert law in caught.value.law
    assert told in str(caught.value)
    assert repr(scorer).startswith(caught.value.strategy.removesuffix("…"))


def test_options_of_check_scorer():
    check_scorer(ScorerOf(lambda *_: float("nan")), allow_nan=True)
    check_scorer(ScorerOf(lambda item, _: 7.0))
    with pytest.raises(ContractViolation, match=r"a score lies between 0 and 1[\s\S]*items\[0\] scores 7\.0"):
        check_scorer(ScorerOf(lambda item, _: 7.0), unit_interval=True)


def test_a_scorer_can_be_checked_on_items_of_its_own_kind():
    needs = ScorerOf(lambda item, _: item.metadata["rank"] / 10)
    with pytest.raises(ContractViolation, match="KeyError: 'rank'"):
        check_scorer(needs)
    ranks = st.fixed_dictionaries({"rank": st.integers(0, 9)})
    check_scorer(needs, items=strategies.items(metadata=ranks), unit_interval=True)


# --- broken slicers ---


class SlicerOf(Slicer):
    def __init__(self, function):
        self.function = function

    def slice(self, scored, budget):
        return self.function(scored, budget)


def taking_the_first_that_does_not_fit(scored, budget):
    used, chosen = 0, []
    for entry in scored:
        if used >= budget.target_tokens:
            break
        chosen.append(entry.item)
        used += entry.item.tokens
    return chosen


def forgetting_the_target(scored, budget):
    return [entry.item for entry in scored if entry.item.tokens == 0]


def copying(scored, budget):
    return [replace_content(entry.item) for entry in scored[:1]] if budget.target_tokens > 0 else []


def replace_content(item):
    import msgspec

    return msgspec.structs.replace(item)


def repeating(scored, budget):
    return [scored[0].item] * 2 if scored and 2 * scored[0].item.tokens <= budget.target_tokens > 0 else []


def popping(scored, budget):
    chosen = []
    while scored and budget.target_tokens > 0:
        item = scored.pop(0).item
        if item.tokens == 0:
            chosen.append(item)
    return chosen


def choosing_equals(scored, budget):
    """Looks chosen items up by equality and so takes the first twin twice."""
    items = [entry.item for entry in scored]
    taken, left = [], budget.target_tokens
    for item in items if left > 0 else ():
        if item.tokens <= left:
            taken.append(items[items.index(item)])
            left -= item.tokens
    return taken


@dataclass
class Remembering(Slicer):
    spent: int = 0

    def slice(self, scored, budget):
        chosen = []
        if self.spent % 2 == 0 and budget.target_tokens > 0:
            chosen = [entry.item for entry in scored if entry.item.tokens == 0]
        self.spent += 1
        return chosen


class WrongSpan(Slicer):
    """Selects zero-token items only, yet more of them for an odd target, and claims one selection for all targets."""

    def slice(self, scored, budget):
        candidates = Candidates.of(scored)
        return [candidates.items[position] for position in self.prepare(candidates)(budget).chosen]

    def prepare(self, candidates):
        class Choose(Chooser):
            def __call__(self, budget):
                free = [position for position, cost in enumerate(candidates.tokens) if cost == 0]
                return Selection(free[: 1 + budget.target_tokens % 2] if budget.target_tokens > 0 else [])

            def span(self, budget):
                return Span(budget.target_tokens, None)

        return Choose()


class WrongPreparation(Slicer):
    def slice(self, scored, budget):
        return []

    def prepare(self, candidates):
        return GreedySlice().prepare(candidates)


BROKEN_SLICERS = {
    "ignores a target of 0": (
        SlicerOf(forgetting_the_target),
        "nothing is selected for a target of 0",
        "returned = [scored[0].item]",
    ),
    "copies": (SlicerOf(copying), "it returns only items it was given", "an equal copy"),
    "repeats": (SlicerOf(repeating), "it returns each item at most once", "[scored[0].item, scored[0].item]"),
    "empties its input": (SlicerOf(popping), "the list it was given is left unchanged", "afterwards: scored = []"),
    "compares by equality": (
        SlicerOf(choosing_equals),
        "it returns each item at most once",
        "[scored[0].item, scored[0].item]",
    ),
    "fails without items": (SlicerOf(lambda scored, _: [scored[0].item][:0]), "it does not raise", "scored = []"),
    "returns nothing at all": (SlicerOf(lambda *_: None), "slice returns a list of items", "returned: None"),
    "remembers": (Remembering(), "the same", "breaks a law"),
    "claims too wide a span": (WrongSpan(), "all targets of a span give the same selection", "chosen for a target of"),
    "prepares another choice than it slices": (
        WrongPreparation(),
        "a prepared chooser chooses what slice returns",
        "slice returned = []",
    ),
}


@pytest.mark.parametrize(("slicer", "law", "told"), BROKEN_SLICERS.values(), ids=BROKEN_SLICERS)
def test_broken_slicers_are_caught(slicer, law, told):
    with pytest.raises(ContractViolation) as caught:
        check_slicer(slicer)
    assert law in caught.value.law
    assert told in str(caught.value)


def test_the_counterexample_is_small_and_can_be_pasted():
    """How far Hypothesis shrinks a case depends on the modules that are loaded; a case of two items is small enough."""
    with pytest.raises(ContractViolation) as caught:
        check_slicer(SlicerOf(taking_the_first_that_does_not_fit))
    assert caught.value.law == "the selection stays within the target"
    *pasted, found = str(caught.value).splitlines()[1:]
    names = {name: getattr(cupel, name) for name in ("ContextBudget", "ContextItem", "ScoredItem")}
    exec("\n".join(pasted), names)
    assert 1 <= len(names["scored"]) <= 2
    used = sum(item.tokens for item in names["returned"])
    assert found == f"that is {used} tokens for a target of {names['budget'].target_tokens}"
    assert used == names["budget"].target_tokens + 1


def test_a_refusal_is_not_a_breach():
    def refusing(scored, budget):
        if len(scored) > 3:
            raise cupel.TableTooLargeError(len(scored), 1, 1, 1)
        return []

    check_slicer(SlicerOf(refusing), max_examples=20)


# --- broken placers ---


class PlacerOf(Placer):
    def __init__(self, function):
        self.function = function

    def place(self, scored):
        return self.function(scored)


class WrongArrange(Placer):
    def place(self, scored):
        return [entry.item for entry in scored]

    def arrange(self, selected):
        return list(range(len(selected)))[::-1]


def stealing(scored):
    return [scored.pop().item for _ in range(len(scored))]


BROKEN_PLACERS = {
    "drops duplicates": (
        PlacerOf(lambda scored: list({entry.item.content: entry.item for entry in scored}.values())),
        "it returns exactly the items it was given",
    ),
    "keeps three": (
        PlacerOf(lambda scored: [entry.item for entry in scored[:3]]),
        "it returns exactly the items it was given",
    ),
    "repeats": (
        PlacerOf(lambda scored: [entry.item for entry in scored[:1]] * 2),
        "it returns exactly the items it was given",
    ),
    "empties its input": (PlacerOf(stealing), "the list it was given is left unchanged"),
    "shuffles": (
        PlacerOf(lambda scored: random.sample([entry.item for entry in scored], len(scored))),
        "the same",
    ),
    "fails without items": (PlacerOf(lambda scored: [scored[0].item]), "it does not raise"),
    "returns nothing at all": (PlacerOf(lambda scored: None), "place returns a list of items"),
    "arranges otherwise than it places": (WrongArrange(), "arrange gives the order that place returns"),
}


@pytest.mark.parametrize(("placer", "law"), BROKEN_PLACERS.values(), ids=BROKEN_PLACERS)
def test_broken_placers_are_caught(placer, law):
    with pytest.raises(ContractViolation) as caught:
        check_placer(placer)
    assert law in caught.value.law


# --- arguments ---


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (check_scorer, RecencyScorer, r"scorer must be a Scorer, got .*did you mean RecencyScorer\(\)\?"),
        (check_slicer, RecencyScorer(), r"slicer must be a Slicer, got RecencyScorer: RecencyScorer\(\)"),
        (check_placer, None, "placer must be a Placer, got NoneType: None"),
    ],
)
def test_a_wrong_type_is_named(check, value, message):
    with pytest.raises(TypeError, match=message):
        check(value)


# --- memory and order that go by identity ---


class RemembersLists(Scorer):
    """Keeps what it learned about a list under the list's `id`, and the lists alive."""

    def __init__(self):
        self.known = {}

    def score(self, item, all_items):
        _, most = self.known.setdefault(id(all_items), (all_items, max(peer.tokens for peer in all_items)))
        return item.tokens / (most + 1)


class ForgetsLists(RemembersLists):
    def score(self, item, all_items):
        most = self.known.setdefault(id(all_items), max(peer.tokens for peer in all_items))
        return item.tokens / (most + 1)


class ByAddress(Scorer):
    def score(self, item, all_items):
        return float(sorted(map(id, all_items)).index(id(item)))


@pytest.mark.parametrize("scorer", [RemembersLists, ForgetsLists, ByAddress])
def test_scorers_that_go_by_identity_are_found(scorer):
    with pytest.raises(ContractViolation, match=r"always (get|gives) the same"):
        check_scorer(scorer())


class SlicesByAddress(Slicer):
    def slice(self, scored, budget):
        left, chosen = budget.target_tokens, []
        for entry in sorted(scored, key=lambda entry: id(entry.item)) if left > 0 else ():
            if entry.item.tokens <= left:
                left -= entry.item.tokens
                chosen.append(entry.item)
        return chosen


class SlicesFromMemory(Slicer):
    def __init__(self):
        self.known = {}

    def slice(self, scored, budget):
        key = id(scored), budget.target_tokens
        return list(self.known.setdefault(key, (scored, GreedySlice().slice(scored, budget)))[1])


class PlacesByAddress(Placer):
    def place(self, scored):
        return sorted((entry.item for entry in scored), key=id)


def test_slicers_and_placers_that_go_by_identity_are_found():
    for slicer in (SlicesByAddress(), SlicesFromMemory()):
        with pytest.raises(ContractViolation, match="always gives the same"):
            check_slicer(slicer)
    with pytest.raises(ContractViolation, match="always gives the same"):
        check_placer(PlacesByAddress())


class Refuses(Slicer):
    """Refuses, or only as soon as there is anything to decide."""

    def __init__(self, *, everything):
        self.everything = everything

    def slice(self, scored, budget):
        if self.everything or (scored and budget.target_tokens > 0):
            raise SelectionError("not today")
        return []


@pytest.mark.parametrize("everything", [True, False])
def test_a_slicer_that_always_refuses_is_found(everything):
    with pytest.raises(ContractViolation, match="it answers some cases"):
        check_slicer(Refuses(everything=everything), max_examples=5)
