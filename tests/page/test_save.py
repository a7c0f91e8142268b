"""The page and the notebook's view straight from a result."""

import copy
import json
import re
from html.parser import HTMLParser

import pytest

from cupel import (
    ContextBudget,
    ContextItem,
    OverflowStrategy,
    PinRule,
    Pipeline,
    RecencyScorer,
    presets,
)
from cupel.demo import conversation, session_items, session_policy
from cupel.errors import SelectionError
from cupel.messages import MessageSession, fit
from cupel.page import Variant, notebook_html, page_payload
from cupel.tokens import CharacterEstimate

HOSTILE = "</td><script>alert(1)</script>\u202e\x1b[2J"


def data_of(file):
    return json.loads(re.search(r'id="payload">(.*?)</script>', file.read_text(encoding="utf-8"), re.DOTALL)[1])


def test_a_result_saves_the_page_of_its_run(tmp_path):
    items, budget = session_items(), ContextBudget(4000, 4000)
    result = session_policy().select(items, budget)
    result.save_page(tmp_path / "page.html", policies=[presets.rag()], title="Mine")
    data = data_of(tmp_path / "page.html")
    assert (data["title"], data["source"]) == ("Mine", None)
    assert [policy["name"] for policy in data["policies"]] == ["this run", "rag"]
    assert len(data["policies"][0]["answers"]) == len(data["slider"]["stops"])
    assert data["budget"]["target"] == 4000


def test_the_window_stays_where_it_differs_from_the_target(tmp_path):
    pipeline = Pipeline(scorer=RecencyScorer(), overflow=OverflowStrategy.TRUNCATE)
    pipeline.dry_run(session_items(), ContextBudget(8000, 3000)).save_page(str(tmp_path / "page.html"))
    data = data_of(tmp_path / "page.html")
    assert data["budget"]["max_follows"] is False


def test_what_a_rule_pins_is_pinned_on_the_page(tmp_path):
    items = [
        ContextItem("old", 5, kind="ToolOutput"),
        ContextItem("hello", 5),
        ContextItem("new", 5, kind="ToolOutput"),
    ]
    pipeline = Pipeline(scorer=RecencyScorer(), pins=[PinRule.newest_tool_result()])
    pipeline.dry_run(items, 5).save_page(tmp_path / "page.html")
    assert data_of(tmp_path / "page.html")["policies"][0]["pinned"] == [2]


def test_a_report_without_its_run_is_shown_as_it_is(tmp_path):
    items = [ContextItem("a", 3, pinned=True), ContextItem("b", 4), ContextItem("c", 9)]
    report = Pipeline(scorer=RecencyScorer()).dry_run(items, 8)
    copy.copy(report).save_page(tmp_path / "page.html")
    page = data_of(tmp_path / "page.html")
    (policy,) = page["policies"]
    (answer,) = policy["answers"]
    assert [item["content"] for item in page["items"]] == ["a", "b", "c"]
    assert (answer["placed"], answer["out"]) == ([0, 0, 1, 0], [2, 0])
    assert (policy["pinned"], page["slider"]) == ([0], {"stops": [7]})


def test_the_page_of_a_sessions_turn_has_the_run_that_cut_its_request(tmp_path):
    session = MessageSession(8000, provider="openai", counter=CharacterEstimate(), forms=False)
    turn = session.fit(conversation()[:120])
    turn.report.save_page(tmp_path / "page.html", title="A turn")
    page = data_of(tmp_path / "page.html")
    (policy,), stops = page["policies"], page["slider"]["stops"]
    assert (page["title"], page["budget"]["max"]) == ("A turn", 8000)
    assert stops == sorted(stops)
    assert (stops[0], stops[-1]) == (0, 8000)
    assert page["budget"]["target"] in stops
    assert len(policy["answers"]) == len(stops) > 50
    texts = {item["content"] for item in page["items"]}
    assert {entry.item.content for entry in turn.report.included} - texts == set(turn.notes)


def test_other_policies_need_a_run(tmp_path):
    report = Pipeline(scorer=RecencyScorer()).dry_run([ContextItem("a", 1)], 10)
    with pytest.raises(SelectionError, match="policies need a report of dry_run"):
        copy.copy(report).save_page(tmp_path / "page.html", policies=[Pipeline(scorer=RecencyScorer())])


def test_the_page_of_a_run_is_the_same_every_time(tmp_path):
    for name in ("one", "other"):
        session_policy().dry_run(session_items(), 4000).save_page(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_arguments_of_save_page_are_checked(tmp_path):
    report = Pipeline(scorer=RecencyScorer()).dry_run([ContextItem("a", 1)], 10)
    with pytest.raises(TypeError, match=r"policies\[0\]"):
        report.save_page(tmp_path / "page.html", policies=["chat"])
    with pytest.raises(TypeError, match="title"):
        report.save_page(tmp_path / "page.html", title=3)
    assert list(tmp_path.iterdir()) == []


class Elements(HTMLParser):
    """The tags of a piece of HTML, each closed in the right place."""

    def __init__(self):
        super().__init__()
        self.opened, self.seen, self.text = [], set(), ""

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.opened.append(tag)

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag

    def handle_data(self, data):
        self.text += data


def elements(html: str) -> Elements:
    parser = Elements()
    parser.feed(html)
    assert parser.opened == []
    return parser


def test_the_notebooks_view_shows_items_as_text():
    items = [
        ContextItem(HOSTILE, 5, kind=HOSTILE),
        ContextItem(HOSTILE, 500, kind="Plain", metadata={"x": HOSTILE}),
        ContextItem(" \n", 1),
    ]
    found = elements(Pipeline(scorer=RecencyScorer(), deduplicate=False).select(items, 10)._repr_html_())
    assert found.seen <= {"div", "p", "strong", "span", "table", "thead", "tbody", "tr", "th", "td"}
    assert "<script>alert(1)</script><U+202E><U+001B>[2J" in found.text
    assert "\u202e" not in found.text
    assert "2 of 3 items in, 6 tokens of 10 (60.0 %)" in found.text
    assert "(only white space)" in found.text


def test_the_notebooks_view_is_compact_and_adds_up():
    report = session_policy().dry_run(session_items(), 4000)
    html = report._repr_html_()
    text = elements(html).text
    assert f"… and {len(report.included) - 8} more" in text
    assert f"… and {len(report.excluded) - 8} more" in text
    assert len(html) < 10_000


def test_a_report_that_was_read_and_an_empty_one_have_a_view_too():
    report = Pipeline(scorer=RecencyScorer()).dry_run([ContextItem("a", 3)], 10)
    assert "1 of 1 item in, 3 tokens" in elements(copy.copy(report)._repr_html_()).text
    assert "0 of 0 items in" in elements(Pipeline(scorer=RecencyScorer()).dry_run([], 0)._repr_html_()).text
    assert "Nothing left out" in notebook_html(report, None)


def test_relations_travel_with_the_item():
    related = {"cupel:id": "call-1", "cupel:group": "turn-3", "cupel:worth": 0.5}
    items = [ContextItem("long", 9, metadata=related), ContextItem("other", 1, metadata={"cupel:id": "call-0"})]
    variants = [Variant(presets.chat(), "chat", "")]
    payload = page_payload(items, ContextBudget(10, 10), variants, title="T", source=None, fixed_window=False)
    row = payload["items"][0]
    assert (row["entity"], row["group"], row["worth"]) == ("call-1", "turn-3", 0.5)
    assert "metadata" not in row
    assert "group" not in payload["items"][1]


def test_requests_and_turns_show_themselves_in_a_notebook():
    history = conversation()
    assert "left out" in elements(fit(history, 3000)._repr_html_()).text.lower()
    session = MessageSession(2000)
    for end in (60, 90, len(history)):
        turn = session.fit(history[:end])
    shown = elements(turn._repr_html_()).text
    assert f"{turn.bill.sent:,} tokens sent for {turn.bill.price:,.0f}, estimated" in shown
    assert turn.reason in shown
    assert len(turn.changes) > 8
    assert str(turn.changes[0]) in shown
    assert f"and {len(turn.changes) - 8} more" in shown
