"""The stops of the slider: where they are, and that the page reads the library's own selection at every one."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cupel.policy
from cupel import (
    BestFirstSlice,
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    KindScorer,
    KnapsackSlice,
    OverflowStrategy,
    Pipeline,
    QuotaEntry,
    QuotaSlice,
    ReflexiveScorer,
    UShapedPlacer,
    presets,
)
from cupel.demo import session_items, session_policy
from cupel.diagnostics import Deduplicated
from cupel.errors import SelectionError
from cupel.page import Variant, page_payload
from cupel.page._stops import difference
from tests.oracle.generators import budget_pairs, item_pairs, law
from tests.oracle.policies import policies
from tests.page.pools import SCORER, SLICERS, random_items

pytestmark = pytest.mark.filterwarnings("ignore::cupel.errors.BudgetWarning")


def payload_of(items, budget, chosen, *, fixed_window=False):
    variants = [Variant(policy, policy.name or "mine", "--policy mine") for policy in chosen]
    return page_payload(items, budget, variants, title="T", source="s", fixed_window=fixed_window)


def expected_of(policy, items, budget):
    """The library's answer, in positions; of a reason's texts no more than the page shows."""
    positions = {id(item): position for position, item in enumerate(items)}
    try:
        report = policy.dry_run(items, budget)
    except SelectionError as error:
        return {"refused": {"name": type(error).__name__, "message": str(error)}}
    placed = [positions[id(entry.item)] for entry in report.included]
    excluded = [(positions[id(entry.item)], _plain(entry.reason)) for entry in report.excluded]
    return {"placed": placed, "tokens": sum(items[at].tokens for at in placed), "excluded": excluded}


def _plain(reason):
    fields = {"reason": reason.name} if isinstance(reason, Deduplicated) else reason.to_dict()
    return {name: value[:96] if isinstance(value, str) else value for name, value in fields.items()}


def shown(answer, items):
    """An answer as the page reads it, with the fields that the library's has; a copy names the item that stays."""
    if "refused" in answer:
        return answer
    excluded = []
    for row in answer["excluded"]:
        position, reason = row["position"], row["reason"]
        if reason == "Deduplicated":
            assert items[row["by"]].content == items[position].content
            assert row["by"] != position
            fields = {"reason": reason}
        else:
            names = getattr(cupel.diagnostics, reason).__struct_fields__
            fields = {"reason": reason, **{name: row[name] for name in names}}
        excluded.append((position, fields))
    return answer | {"excluded": excluded}


def assert_exact(scripts, payload, items, chosen):
    settings = payload["budget"]
    for policy, written in zip(chosen, payload["policies"], strict=True):
        told = scripts.ask("answers", policy=written, items=payload["items"])
        assert len(told) == len(payload["slider"]["stops"])
        for stop, answer in zip(payload["slider"]["stops"], told, strict=True):
            budget = ContextBudget(
                stop if settings["max_follows"] else settings["max"],
                stop,
                output_reserve=settings["reserve"],
                estimation_safety_margin_percent=settings["margin"],
            )
            assert shown(answer, items) == expected_of(policy, items, budget), (policy.name, stop)


@law(60)
@given(policy=policies(), pairs=item_pairs(), budgets=budget_pairs(), fixed=st.booleans())
def test_every_stop_is_the_librarys_answer(scripts, policy, pairs, budgets, fixed):
    """Random policies, pools and budgets: order, tokens, reasons with their numbers, refusals."""
    (items, _), (budget, _) = pairs, budgets
    items = list({id(item): item for item in items}.values())  # one object listed twice is two items on the page
    if budget.reserved_slots:
        budget = ContextBudget(budget.max_tokens, budget.target_tokens)
    if not fixed:
        budget = ContextBudget(budget.target_tokens, budget.target_tokens)
    chosen = [cupel.policy.from_dict(policy)]
    assert_exact(scripts, payload_of(items, budget, chosen, fixed_window=fixed), items, chosen)


@pytest.mark.parametrize("overflow", list(OverflowStrategy), ids=lambda strategy: strategy.value)
@pytest.mark.parametrize("seed", range(2))
def test_longer_lists_with_every_slicer(scripts, seed, overflow):
    items = random_items(seed)
    chosen = [
        Pipeline(scorer=SCORER, slicer=slicer, name=name, overflow=overflow, deduplicate=seed != 1)
        for name, slicer in SLICERS.items()
    ]
    budget = ContextBudget(400, 400, output_reserve=30, estimation_safety_margin_percent=7)
    assert_exact(scripts, payload_of(items, budget, chosen), items, chosen)


def test_ties_and_placers_that_reorder(scripts):
    items = random_items(11)
    chosen = [
        Pipeline(scorer=KindScorer({}), slicer=slicer, placer=UShapedPlacer(), name=name)
        for name, slicer in SLICERS.items()
    ]
    assert_exact(scripts, payload_of(items, ContextBudget(300, 300), chosen), items, chosen)


def test_caps_that_name_a_number_for_each_item(scripts):
    items = random_items(4)
    shared = QuotaSlice([QuotaEntry("Message", cap=20), QuotaEntry("Document", require=10, cap=30)], leftover="share")
    chosen = [Pipeline(scorer=SCORER, slicer=shared)]
    payload = payload_of(items, ContextBudget(400, 400), chosen)
    assert any(reason["reason"] == "QuotaCapExceeded" for reason in payload["policies"][0]["reasons"])
    assert_exact(scripts, payload, items, chosen)


def test_relations_and_strategies_of_ones_own(scripts):
    class Mine(GreedySlice):
        def slice(self, scored, budget):
            return super().slice(scored, budget)[:1]

    items = [
        ContextItem("the whole output of the call", 50, metadata={"cupel:id": "call-7"}),
        ContextItem("a stub", 5, metadata={"cupel:id": "call-7", "cupel:worth": 0.3}),
        ContextItem("said", 4, metadata={"cupel:group": "turn"}),
        ContextItem("said with it", 3, metadata={"cupel:group": "turn"}),
        ContextItem("a plan", 300),
    ]
    chosen = [Pipeline(scorer=SCORER, slicer=slicer) for slicer in (BestFirstSlice(), Mine())]
    assert_exact(scripts, payload_of(items, ContextBudget(60, 60), chosen), items, chosen)


def test_the_demonstration(scripts):
    items, chosen = session_items(), [session_policy(), presets.rag(), presets.document_qa()]
    payload = payload_of(items, ContextBudget(4000, 4000), chosen)
    assert 80 <= len(payload["slider"]["stops"]) <= 102
    assert_exact(scripts, payload, items, chosen)


def test_a_list_is_parts_of_another(scripts):
    rng = random.Random(3)
    for _ in range(200):
        before, after = (rng.sample(range(30), rng.randrange(30)) for _ in range(2))
        assert scripts.ask("parted", before=before, pairs=difference(before, after)) == after
    forward = list(range(1000))
    assert difference(forward, forward[:400] + forward[401:]) == [0, 400, 401, 599]
    assert difference(forward, forward[::-1]) == [999, -1000]


def test_stops_are_differences():
    """Without them, the answers alone would take two million characters."""
    items = [ContextItem(f"{n}", 20 + n % 90, future_relevance_hint=(n * 37 % 101) / 101) for n in range(2000)]
    for policy in (presets.chat(), Pipeline(scorer=ReflexiveScorer(), placer=UShapedPlacer())):
        (written,) = payload_of(items, ContextBudget(30_000, 30_000), [policy])["policies"]
        assert len(str(written["answers"])) < 250_000
        assert len(written["reasons"]) < 5


def test_a_large_pool_has_fewer_stops():
    items = [ContextItem(f"item {number}", 800) for number in range(5000)]
    assert len(payload_of(items, ContextBudget(100, 100), [presets.chat()])["slider"]["stops"]) == 41


@pytest.mark.parametrize(("tokens", "count"), [(2, 10), (20, 10), (77, 300), (800, 5000)])
def test_stops_cover_small_and_large_pools(tokens, count):
    items = [ContextItem(f"item {number}", tokens, priority=number) for number in range(count)]
    stops = payload_of(items, ContextBudget(100, 100), [presets.chat()])["slider"]["stops"]
    assert all(later > earlier for earlier, later in pairwise(stops))
    assert stops[0] == 0
    assert stops[-1] >= tokens * count
    assert 100 in stops
    assert 21 <= len(stops) <= 102
    assert stops[len(stops) // 10] <= 2000


def test_the_last_stop_has_room_for_everything():
    items = [ContextItem(f"{n}", 77, future_relevance_hint=1.0) for n in range(10)]
    policy = Pipeline(scorer=ReflexiveScorer(), slicer=KnapsackSlice(50))
    stops = payload_of(items, ContextBudget(400, 400, output_reserve=30), [policy])["slider"]["stops"]
    assert stops[0] == 30
    assert len(policy.run(items, ContextBudget(stops[-1], stops[-1], output_reserve=30))) == 10


@pytest.mark.parametrize("slicer", [KnapsackSlice(50), QuotaSlice([QuotaEntry("Message", cap=100)], KnapsackSlice(50))])
def test_the_last_stop_has_room_for_everything_counted_with_a_margin_and_in_buckets(slicer):
    items = [ContextItem(f"{n}", 77, future_relevance_hint=1.0) for n in range(10)]
    policy = Pipeline(scorer=ReflexiveScorer(), slicer=slicer)
    budget = ContextBudget(400, 400, estimation_safety_margin_percent=20)
    last = payload_of(items, budget, [policy])["slider"]["stops"][-1]
    assert len(policy.run(items, ContextBudget(last, last, estimation_safety_margin_percent=20))) == 10
    assert last < 1500, "and little more"


def test_a_fixed_window_bounds_the_slider():
    payload = payload_of(session_items(), ContextBudget(8000, 4000), [presets.chat()], fixed_window=True)
    stops = payload["slider"]["stops"]
    assert (stops[0], stops[-1]) == (0, 8000)
    assert 4000 in stops
    assert payload["budget"]["max_follows"] is False


@pytest.mark.filterwarnings("error::cupel.errors.BudgetWarning")
def test_the_data_of_a_page_is_computed_without_a_warning_for_each_stop():
    slicer = CountQuotaSlice([CountQuotaEntry("Message", 3)])
    chosen = [Pipeline(scorer=SCORER, slicer=slicer, overflow=OverflowStrategy.PROCEED)]
    items = [ContextItem(str(number), 40) for number in range(3)]
    assert payload_of(items, ContextBudget(50, 50), chosen)["policies"][0]["answers"]
