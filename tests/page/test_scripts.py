"""The page's scripts under node: every answer is the oracle's, every search the one a walk over all budgets finds."""

import copy
import random

import pytest
from hypothesis import given

import cupel.policy
from cupel import ContextBudget, ContextItem, KindScorer, OverflowStrategy, Pipeline, UShapedPlacer, presets
from cupel._text import percent, visible
from cupel.analytics import counterfactual
from cupel.demo import session_items, session_policy
from cupel.diagnostics import KNOWN_REASONS, vocabulary
from cupel.page import Variant, excluded_words, page_payload
from cupel.page._answers import digest, excluded_rows
from cupel.page._payload import Positions
from tests import oracle
from tests.oracle.generators import budget_pairs, item_pairs, law
from tests.oracle.policies import policies
from tests.page.pools import SCORER, SLICERS, answer_of_library, random_items

REFUSED = {
    "PinnedExceedsBudgetError": "pinned_exceeds_budget",
    "BudgetOverflowError": "overflow",
    "TableTooLargeError": "table_too_large",
    "ScarcityError": "scarcity",
}


def payload_of(items, budget, chosen, *, fixed_window=False):
    variants = [Variant(policy, policy.name or "mine", "") for policy in chosen]
    return page_payload(items, budget, variants, title="T", source="s", fixed_window=fixed_window)


def settings(budget: ContextBudget) -> dict:
    return {
        "target": budget.target_tokens,
        "max": budget.max_tokens,
        "reserve": budget.output_reserve,
        "slots": sum(budget.reserved_slots.values()),
        "margin": budget.estimation_safety_margin_percent,
    }


def fields_of(row, items):
    """A row of the page with the fields that the report has: texts and counts instead of positions."""
    fields = {key: value for key, value in row.items() if key not in {"position", "reason", "by"}}
    match row["reason"]:
        case "Deduplicated":
            fields["deduplicated_against"] = items[row["by"]].content
        case "PinnedOverride":
            fields["displaced_by"] = items[row["by"]].content
        case "CountCapExceeded":
            fields["kind"] = items[row["position"]].kind.value
    return row["position"], row["reason"], fields


def expected_of(policy, doubles, budget):
    try:
        outcome = oracle.run(policy, doubles, budget)
    except oracle.OracleError as error:
        return {"refused": error.kind}
    return {
        "placed": outcome.output,
        "tokens": sum(doubles[position].tokens for position in outcome.output),
        "excluded": [(position, reason, fields) for position, _, reason, fields in outcome.excluded],
    }


@law(150)
@given(policy=policies(), pairs=item_pairs(), budgets=budget_pairs())
def test_answers_are_the_pseudocodes(scripts, policy, pairs, budgets):
    """Whole answers for random policies, pools and budgets: order, tokens, reasons with their numbers, refusals."""
    (items, doubles), (budget, double) = pairs, budgets
    doubles = [copy.copy(item) for item in doubles]  # one object listed twice is two items on the page
    payload = payload_of(items, budget, [cupel.policy.from_dict(policy)], fixed_window=True)
    (answer,) = scripts.ask("answers", payload=payload, policy=0, budgets=[settings(budget)])
    if "refused" in answer:
        assert {"refused": REFUSED[answer["refused"]]} == expected_of(policy, doubles, double)
    else:
        answer["excluded"] = [fields_of(row, items) for row in answer["excluded"]]
        assert answer == expected_of(policy, doubles, double)
    assert scripts.ask("verified", payload=payload) == [True]


def answers(scripts, payload, number, budgets):
    """The scripts' answers, as `answer_of_library` gives them."""
    told = scripts.ask("answers", payload=payload, policy=number, budgets=[settings(budget) for budget in budgets])
    return [
        answer["refused"]
        if "refused" in answer
        else answer | {"excluded": [[row["position"], row["reason"]] for row in answer["excluded"]]}
        for answer in told
    ]


@pytest.mark.parametrize("overflow", list(OverflowStrategy), ids=lambda strategy: strategy.value)
@pytest.mark.parametrize("seed", range(3))
def test_longer_lists_at_many_budgets(scripts, seed, overflow):
    items = random_items(seed)
    chosen = [
        Pipeline(scorer=SCORER, slicer=slicer, name=name, overflow=overflow, deduplicate=seed != 2)
        for name, slicer in SLICERS.items()
    ]
    shape = {"output_reserve": 30, "reserved_slots": {"Memory": 11}, "estimation_safety_margin_percent": 7}
    payload = payload_of(items, ContextBudget(400, 400, **shape), chosen)
    assert scripts.ask("verified", payload=payload) == [True] * len(chosen)
    targets = sorted({30, 31, *random.Random(seed).sample(range(30, 1600), 25)})
    budgets = [ContextBudget(target, target, **shape) for target in targets]
    for number, policy in enumerate(chosen):
        expected = [answer_of_library(policy, items, budget) for budget in budgets]
        assert answers(scripts, payload, number, budgets) == expected, policy.name


def test_ties_everywhere(scripts):
    """All scores equal: only the tie rules decide, and both sides have the same."""
    items = random_items(11)
    chosen = [
        Pipeline(scorer=KindScorer({}), slicer=slicer, placer=UShapedPlacer(), name=name)
        for name, slicer in SLICERS.items()
    ]
    payload = payload_of(items, ContextBudget(300, 300), chosen)
    budgets = [ContextBudget(target, target) for target in range(0, 1500, 47)]
    for number, policy in enumerate(chosen):
        expected = [answer_of_library(policy, items, budget) for budget in budgets]
        assert answers(scripts, payload, number, budgets) == expected, policy.name


@pytest.mark.parametrize("name", ["greedy", "knapsack", "quota", "count quota"])
@pytest.mark.parametrize(("fixed", "margin"), [(False, 0), (True, 7)])
def test_the_nearest_changes_are_those_of_a_walk(scripts, name, fixed, margin):
    items = random_items(3, 24)
    policy = Pipeline(scorer=SCORER, slicer=SLICERS[name], name=name)
    shape = {"output_reserve": 20, "estimation_safety_margin_percent": margin}
    base = ContextBudget(700, 300, **shape) if fixed else ContextBudget(300, 300, **shape)
    payload = payload_of(items, base, [policy], fixed_window=fixed)
    low, high = payload["slider"]["min"], payload["slider"]["max"]

    def placed(target):
        answer = answer_of_library(policy, items, ContextBudget(700 if fixed else target, target, **shape))
        return [] if isinstance(answer, str) else answer["placed"]

    walked = {target: placed(target) for target in range(low, high + 1)}
    for start in random.Random(4).sample(range(low, high + 1), 12):
        for step, others in ((1, range(start + 1, high + 1)), (-1, range(start - 1, low - 1, -1))):
            expected = next((target for target in others if walked[target] != walked[start]), None)
            found = scripts.ask("nearest", payload=payload, policy=0, **{"from": start}, step=step)
            assert found["sure"]
            assert found["budget"] == expected, (start, step)


def test_a_search_that_gives_up_says_where(scripts):
    """No answer is not the answer that there is none."""
    items = [ContextItem("small", 10), *(ContextItem(f"{number}", 3_000) for number in range(3))]
    payload = payload_of(items, ContextBudget(10, 10), [Pipeline(scorer=SCORER, slicer=SLICERS["quota"])])
    question = {"payload": payload, "policy": 0, "from": 10, "step": 1, "position": 1}
    found = scripts.ask("nearest", **question, work=1)
    assert found == {"budget": None, "sure": False, "reached": 210}
    assert scripts.ask("nearest", **question)["sure"]


def test_admissions_are_the_counterfactuals(scripts):
    items, base = session_items(), ContextBudget(1500, 1500)
    chosen = [presets.chat(), presets.document_qa(), session_policy()]
    payload = payload_of(items, base, chosen)
    for number, policy in enumerate(chosen):
        prepared = policy.prepare(items)
        inside = {id(item) for item in prepared.run(base)}
        positions = [position for position, item in enumerate(items) if id(item) not in inside]
        told = scripts.ask("admissions", payload=payload, policy=number, **{"from": 1500}, positions=positions)
        extras = {position: counterfactual(prepared, base, items[position]).extra_tokens for position in positions}
        within = {
            position: 1500 + extra
            for position, extra in extras.items()
            if extra is not None and 1500 + extra <= payload["slider"]["max"]
        }
        assert told["complete"]
        assert dict(map(tuple, told["found"])) == within, policy.name


def test_recorded_answers_are_found_by_budget(scripts):
    class Mine(type(SLICERS["greedy"])):
        def slice(self, scored, budget):
            return super().slice(scored, budget)[:1]

    items = random_items(5)
    payload = payload_of(items, ContextBudget(400, 400), [Pipeline(scorer=SCORER, slicer=Mine())])
    recorded = [answer["budget"] for answer in payload["policies"][0]["answers"]]
    at = recorded.index(400)
    told = answers(scripts, payload, 0, [ContextBudget(400, 400)])
    assert told[0]["placed"] == payload["policies"][0]["answers"][at]["placed"]
    beside = {"payload": payload, "policy": 0, "from": 400, "position": -1}
    assert scripts.ask("nearest", **beside, step=1)["reached"] == payload["slider"]["max"]
    assert scripts.ask("nearest", **beside, step=-1, work=1)["budget"] is None


def test_a_tampered_replay_is_noticed(scripts):
    payload = payload_of(random_items(1), ContextBudget(400, 400), [Pipeline(scorer=SCORER)])
    payload["policies"][0]["density"].reverse()
    assert scripts.ask("verified", payload=payload) == [False]


def test_reasons_are_said_in_the_librarys_words(scripts):
    items = [*random_items(2), ContextItem("a rule that is pinned, and long " * 9, 300, pinned=True)]
    chosen = Pipeline(scorer=SCORER, slicer=SLICERS["count quota"], overflow=OverflowStrategy.TRUNCATE)
    said = set()
    for target in (300, 340, 500, 900):
        report = chosen.dry_run(items, ContextBudget(1000, target))
        payload = payload_of(items, ContextBudget(1000, target), [chosen], fixed_window=True)
        rows = excluded_rows(report, Positions(items))
        told = scripts.ask("words", rows=rows, items=payload["items"], reasons=payload["reasons"])
        assert told == [[entry.reason.title, entry.reason.say()] for entry in report.excluded]
        said.update(entry.reason.name for entry in report.excluded)
    assert said == {"BudgetExceeded", "PinnedOverride", "Deduplicated", "NegativeTokens", "CountCapExceeded"}
    assert set(payload["reasons"]) == set(KNOWN_REASONS)


def test_a_reason_nobody_knows_goes_by_its_name(scripts):
    assert scripts.ask("words", rows=[{"reason": "TooOld", "position": 0}], items=[], reasons=vocabulary()) == [
        ["TooOld", "TooOld"]
    ]


def test_small_functions_that_exist_twice(scripts):
    texts = ["pay\u202etxt.exe\x1b[2J", "tab\t line\n émoji 👩‍🔧 हिन्दी", "\x00\x7f\x9b\ufeff\u2028\u2066\u00ad"]
    assert scripts.ask("unseen", texts=texts) == [visible(text) for text in texts]
    for part, whole in ((3999, 4000), (4000, 4000), (0, 7), (1, 3)):
        assert scripts.ask("percent", part=part, whole=whole) == percent(part, whole)
    for positions in ([1, 2, 3], [2, 1, 3], [], list(range(100_000, 0, -7))):
        assert scripts.ask("digest", positions=positions) == digest(positions)


def test_terminal_and_page_say_the_same(scripts):
    """What `cupel explain` prints is what the page shows, but for the capital and the full stop."""
    report = session_policy().dry_run(session_items(), ContextBudget(2000, 2000))
    entry = report.excluded[0]
    row = {"position": 0, **entry.reason.to_dict()}
    ((_, words),) = scripts.ask("words", rows=[row], items=[{"tokens": entry.item.tokens}], reasons=vocabulary())
    assert words == excluded_words(entry.reason)
