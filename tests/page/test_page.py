"""The page's data and file, without a browser."""

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path

from cupel import (
    ContextBudget,
    ContextItem,
    Pipeline,
    ReflexiveScorer,
    presets,
)
from cupel._version import __version__
from cupel.demo import session_items, session_policy
from cupel.page import Variant, page_payload, render_page


def payload_of(items, policy, budget=None, *, fixed_window=False):
    variants = [Variant(policy, policy.name or "mine", "--policy mine")]
    budget = budget or ContextBudget(100, 100)
    return page_payload(items, budget, variants, title="T", source="s", fixed_window=fixed_window)


def embedded(html: str):
    """Return the data of a page, which says what made it."""
    data = json.loads(re.search(r'id="payload">(.*?)</script>', html, re.DOTALL)[1])
    assert data["generator"] == f"cupel {__version__}"
    return data


def test_scores_that_json_has_no_number_for():
    class Odd(ReflexiveScorer):
        def score_all(self, items):
            return [math.nan, math.inf, -math.inf][: len(items)]

    items = [ContextItem(name, 5, future_relevance_hint=math.nan) for name in "abc"]
    payload = payload_of(items, Pipeline(scorer=Odd()))
    assert payload["policies"][0]["scores"] == ["NaN", "Infinity", "-Infinity"]
    assert embedded(render_page(payload)) == payload


def test_an_object_listed_twice_has_two_positions():
    twin = ContextItem("twin", 5)
    payload = payload_of([twin, twin], Pipeline(scorer=ReflexiveScorer(), deduplicate=False))
    assert payload["policies"][0]["answers"][10]["placed"] == [0, 1, 1, 0]
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
    """The only way text gets into the document is `textContent` and text nodes."""
    assets = Path(__file__).parents[2] / "src/cupel/page/assets"
    code = {file.name: file.read_text(encoding="utf-8") for file in assets.glob("*.js")}
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert [name for name, text in code.items() if forbidden in text] == []
    for asking in ("fetch(", "EventSource("):  # of the server that the page came from
        assert {name for name, text in code.items() if asking in text} <= {"live.js", "watch.js"}
