"""The page's data and file, without a browser."""

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cupel import (
    ChronologicalPlacer,
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    KnapsackSlice,
    Pipeline,
    QuotaEntry,
    QuotaSlice,
    ReflexiveScorer,
    SystemFirst,
    UShapedPlacer,
    presets,
)
from cupel._version import __version__
from cupel.demo import session_items, session_policy
from cupel.page import Variant, page_payload, render_page
from cupel.page._answers import digest


def payload_of(items, policy, budget=None, *, fixed_window=False):
    variants = [Variant(policy, policy.name or "mine", "--policy mine")]
    budget = budget or ContextBudget(100, 100)
    return page_payload(items, budget, variants, title="T", source="s", fixed_window=fixed_window)


def embedded(html: str):
    """Return the data of a page, which says what made it."""
    data = json.loads(re.search(r'id="payload">(.*?)</script>', html, re.DOTALL)[1])
    assert data["generator"] == f"cupel {__version__}"
    return data


def test_the_checks_are_the_librarys_answers():
    items = session_items()
    payload = payload_of(items, session_policy(), ContextBudget(4000, 4000))
    (policy,) = payload["policies"]
    assert len(policy["checks"]) >= 33
    assert 4000 in [check["budget"] for check in policy["checks"]]
    positions = {id(item): position for position, item in enumerate(items)}
    for check in policy["checks"]:
        budget = ContextBudget(check["budget"], check["budget"])
        if "error" in check:
            with pytest.raises(Exception, match=r".*") as caught:
                session_policy().run(items, budget)
            assert type(caught.value).__name__ == check["error"]
            continue
        report = session_policy().dry_run(items, budget)
        assert check["items"] == len(report.included)
        assert check["digest"] == digest(positions[id(entry.item)] for entry in report.included)
        assert check["left_out"] == digest(positions[id(entry.item)] for entry in report.excluded)


def test_order_changes_the_digest():
    assert digest([1, 2, 3]) != digest([2, 1, 3])
    assert digest([0]) != digest([])
    assert digest(range(100_000)) < 2**31


def test_the_slider_reaches_the_budget_at_which_everything_fits():
    items = [ContextItem(f"{n}", 77, future_relevance_hint=1.0) for n in range(10)]
    payload = payload_of(
        items, Pipeline(scorer=ReflexiveScorer(), slicer=KnapsackSlice(50)), ContextBudget(400, 400, output_reserve=30)
    )
    top = payload["slider"]["max"]
    assert payload["slider"]["min"] == 30
    run = Pipeline(scorer=ReflexiveScorer(), slicer=KnapsackSlice(50)).run
    assert len(run(items, ContextBudget(top, top, output_reserve=30))) == 10


def test_a_fixed_window_bounds_the_slider():
    payload = payload_of(session_items(), presets.chat(), ContextBudget(8000, 4000), fixed_window=True)
    assert payload["slider"] == {"min": 0, "max": 8000}
    assert payload["budget"]["max_follows"] is False


def test_strategies_of_ones_own_are_recorded_instead_of_replayed():
    class Mine(GreedySlice):
        def slice(self, scored, budget):
            return super().slice(scored, budget)[:1]

    class Placed(ChronologicalPlacer):
        pass

    items = session_items()
    for policy in (
        Pipeline(scorer=ReflexiveScorer(), slicer=Mine()),
        Pipeline(scorer=ReflexiveScorer(), placer=Placed()),
    ):
        (variant,) = payload_of(items, policy, ContextBudget(4000, 4000))["policies"]
        assert variant["slicer"] is None
        assert variant["checks"] == []
        assert 101 <= len(variant["answers"]) <= 102
        answer = next(answer for answer in variant["answers"] if answer["budget"] == 4000)
        expected = policy.run(items, ContextBudget(4000, 4000))
        assert [items[position] for position in answer["placed"]] == expected
    nested = Pipeline(scorer=ReflexiveScorer(), slicer=QuotaSlice([QuotaEntry("Memory", cap=10)], Mine()))
    assert payload_of(items, nested)["policies"][0]["slicer"] is None
    counted = Pipeline(scorer=ReflexiveScorer(), slicer=CountQuotaSlice([CountQuotaEntry("Memory", 0, 1)], Mine()))
    assert payload_of(items, counted)["policies"][0]["slicer"] is None


def test_values_that_javascript_cannot_hold_are_not_replayed():
    class Huge(ReflexiveScorer):
        def score(self, item, all_items):
            return 1e300

        def score_all(self, items):
            return [1e300] * len(items)

    items = [ContextItem("a", 5), ContextItem("b", 5)]
    assert payload_of(items, Pipeline(scorer=Huge(), slicer=KnapsackSlice(1)))["policies"][0]["slicer"] is None
    assert payload_of(items, Pipeline(scorer=Huge()))["policies"][0]["slicer"] == {"type": "greedy"}


def test_scores_that_json_has_no_number_for():
    class Odd(ReflexiveScorer):
        def score_all(self, items):
            return [math.nan, math.inf, -math.inf][: len(items)]

    items = [ContextItem(name, 5, future_relevance_hint=math.nan) for name in "abc"]
    payload = payload_of(items, Pipeline(scorer=Odd()))
    assert payload["policies"][0]["scores"] == ["NaN", "Infinity", "-Infinity"]
    assert payload["policies"][0]["score_rank"] == [2, 0, 1]
    assert embedded(render_page(payload)) == payload


def test_an_object_listed_twice_has_two_positions():
    twin = ContextItem("twin", 5)
    payload = payload_of([twin, twin], Pipeline(scorer=ReflexiveScorer(), deduplicate=False))
    assert payload["policies"][0]["sorted"] == [0, 1]
    assert len(payload["items"]) == 2


def test_kinds_are_numbered_by_their_folded_name():
    items = [ContextItem("a", 1, kind="Zebra"), ContextItem("b", 1, kind="memory"), ContextItem("c", 1, kind="ZEBRA")]
    payload = payload_of(items, presets.chat())
    assert payload["kinds"] == ["memory", "Zebra"]
    assert [item["kind"] for item in payload["items"]] == [1, 0, 1]


def test_an_item_travels_with_its_fields():
    item = ContextItem(
        "x" * 30_000,
        9,
        source="Tool",
        priority=3,
        tags=["a"],
        metadata={"path": "p"},
        timestamp=datetime(2026, 3, 12, tzinfo=UTC),
        future_relevance_hint=0.5,
        pinned=True,
    )
    (row,) = payload_of([item], presets.chat())["items"]
    assert len(row.pop("content")) == 20_000
    assert row == {
        "tokens": 9,
        "kind": 0,
        "spelled": "Message",
        "source": "Tool",
        "clipped": 30_000,
        "priority": 3,
        "tags": ["a"],
        "time": "2026-03-12T00:00:00Z",
        "hint": 0.5,
        "metadata": "path: p",
        "when": 0,
        "pinned": True,
    }


def test_no_items_make_a_page_too():
    payload = payload_of([], presets.chat())
    assert embedded(render_page(payload)) == payload


def test_the_data_cannot_end_its_element():
    hostile = "</script><!--<script>&amp;\u2028\ud800"
    html = render_page(payload_of([ContextItem(hostile, 1)], presets.chat()))
    data = re.search(r'id="payload">(.*?)</script>', html, re.DOTALL)[1]
    assert not set("<>&") & set(data)
    assert data.isascii()
    assert json.loads(data)["items"][0]["content"] == hostile


def test_a_title_is_text():
    html = render_page(
        page_payload(
            [], ContextBudget(1, 1), [Variant(presets.chat(), "c", "")], title="<b>&", source="s", fixed_window=False
        )
    )
    assert "<title>&lt;b&gt;&amp; · cupel</title>" in html


def test_the_page_is_the_same_each_time():
    first, second = (payload_of(session_items(), session_policy(), ContextBudget(4000, 4000)) for _ in range(2))
    assert render_page(first) == render_page(second)


def test_stages_are_left_out_where_there_is_no_selection():
    payload = payload_of([ContextItem("x", 50, pinned=True)], presets.chat(), ContextBudget(10, 10))
    assert payload["policies"][0]["stages"] == []


def test_a_policy_without_a_document_shows_itself():
    class Unregistered(ReflexiveScorer):
        pass

    assert (
        "Unregistered" in payload_of([ContextItem("x", 1)], Pipeline(scorer=Unregistered()))["policies"][0]["document"]
    )


def test_the_scripts_never_write_markup():
    """The one way text gets into the document is `textContent` and text nodes."""
    assets = Path(__file__).parents[2] / "src/cupel/page/assets"
    code = "".join(file.read_text(encoding="utf-8") for file in assets.glob("*.js"))
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "fetch(",
    ):
        assert forbidden not in code


def test_a_subclass_of_a_slicer_is_recorded():
    """A subclass may choose in another way, so that the script does not repeat it."""

    class EveryOther(GreedySlice):
        def slice(self, scored, budget):
            return super().slice(scored, budget)[::2]

    (variant,) = payload_of(session_items(), Pipeline(scorer=ReflexiveScorer(), slicer=EveryOther()))["policies"]
    assert variant["slicer"] is None


def test_system_prompts_first_is_replayed_around_a_placer_that_is():
    items = session_items()
    known = Pipeline(scorer=ReflexiveScorer(), placer=SystemFirst(UShapedPlacer()))
    (variant,) = payload_of(items, known, ContextBudget(4000, 4000))["policies"]
    assert variant["placer"] == {"type": "system_first", "kind": 0, "inner": {"type": "u_shaped"}}

    class Mine(UShapedPlacer):
        pass

    (variant,) = payload_of(items, Pipeline(scorer=ReflexiveScorer(), placer=SystemFirst(Mine())))["policies"]
    assert variant["slicer"] is None
