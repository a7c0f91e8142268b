"""Weights and pins tried on the page give what the command line under the slider gives."""

import json
import shlex

import pytest

from cupel import (
    CompositeScorer,
    ContextBudget,
    ContextItem,
    KindScorer,
    Pipeline,
    RecencyScorer,
    RelevanceScorer,
    presets,
)
from cupel.cli import main
from cupel.demo import session_items
from tests.pages.conftest import figure, move_budget, page_of, settle
from tests.pages.test_numbers import selected_by_command

WINDOW = "#in-rows button.row"


@pytest.fixture
def demo(open_page, capsys, tmp_path, monkeypatch):
    """The demonstration's page beside its files, and how to select on the command line that it shows."""
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    capsys.readouterr()
    page = open_page((tmp_path / "cupel-demo/page.html").read_text(encoding="utf-8"))
    page.click("#to-selection")
    page.evaluate("cupelPage.state.limits.in = 1000; cupelPage.state.limits.out = 1000; set({})")
    settle(page)

    def command() -> dict:
        words = shlex.split(page.inner_text("#command"))
        return selected_by_command(words[2:], capsys)

    return page, command


def contents(page) -> list[str]:
    positions = page.eval_on_selector_all(WINDOW, "(rows) => rows.map((row) => Number(row.dataset.position))")
    items = session_items()
    return [items[position].content for position in positions]


def pin(page, position: int) -> None:
    row = page.locator(f'button.row[data-position="{position}"]').first
    row.click()
    settle(page)
    page.locator(f'#results button.pin-it[data-pin="{position}"]').click()
    settle(page)
    assert page.evaluate("document.activeElement.dataset.pin") == str(position)
    page.locator(f'button.row[data-position="{position}"]').first.click()
    settle(page)


@pytest.mark.parametrize("policy", [0, 2, 5])
def test_five_budgets_two_sets_of_weights_with_and_without_pins(demo, policy):
    page, command = demo
    page.locator(".choice input").nth(policy).check(force=True)
    settle(page)
    before = contents(page)
    seen = []
    for weights in (["0.5", "4", "0.1"], ["1", "1", "7.25"]):
        for field, weight in zip(page.locator("#play input").all(), weights, strict=False):
            field.fill(weight)
        settle(page)
        for pins in ((), (40, 3)):
            for position in pins:
                pin(page, position)
            for budget in (900, 1500, 2600, 4000, 7000):
                move_budget(page, budget)
                expected = command()
                assert contents(page) == [item["content"] for item in expected["items"]]
                assert figure(page, "n-used") == expected["total_tokens"]
                seen.append(contents(page))
            for position in pins:
                pin(page, position)
    assert len({json.dumps(one) for one in seen}) > 10
    page.click("#undo")
    move_budget(page, 4000)
    assert contents(page) == before


def test_an_address_with_weights_and_pins(demo):
    page, command = demo
    page.evaluate("location.hash = 'view=selection&budget=3000&weights=1,2,3&pins=18,-1'")
    settle(page)
    shown = page.inner_text("#command")
    for flag in ("--set scorer.scorers.0.weight=1", "--set scorer.scorers.2.weight=3", "--pin 18", "--unpin 1"):
        assert flag in shown
    page.evaluate("cupelPage.state.limits.in = 1000")
    move_budget(page, 3001)
    assert contents(page) == [item["content"] for item in command()["items"]]
    assert "weights=1%2C2%2C3" in page.evaluate("location.hash")
    page.evaluate("location.hash = 'view=selection&weights=1,0,nonsense&pins=9999,x,-9999'")
    settle(page)
    assert "--set" not in page.inner_text("#command")
    assert "--pin" not in page.inner_text("#command")


def test_a_weight_that_is_none_changes_nothing(demo):
    page, _ = demo
    before = contents(page)
    field = page.locator("#play input").first
    for text in ("0", "-1", ""):
        field.fill(text)
        settle(page)
        assert contents(page) == before
    assert field.evaluate("(field) => field.checkValidity()") is False


def test_what_cannot_be_tried_says_why_and_shows_no_control(open_page):
    searched = Pipeline(
        scorer=CompositeScorer([(RelevanceScorer(stem=False).bind("refund"), 1), (KindScorer(), 1)]), name="searched"
    )
    page = open_page(
        page_of(
            session_items(),
            ContextBudget(3000, 3000),
            [searched, Pipeline(scorer=RecencyScorer(), name="one"), presets.chat()],
        )
    )
    assert page.locator("#play input").count() == 2
    assert "Relevance compares each item with all others" in page.inner_text("#play")
    page.locator(WINDOW).first.click()
    settle(page)
    assert page.locator(".pin-it").count() == 0
    page.locator(".choice input").nth(1).check(force=True)
    settle(page)
    assert page.locator("#play input").count() == 0
    assert "no weights" in page.inner_text("#play")
    page.locator(".pin-it").first.click()
    settle(page)
    assert "no selection" in page.locator(".choice").nth(0).inner_text()
    page.locator(".choice input").nth(0).check(force=True)
    settle(page)
    assert "With these pins it is not known here" in page.inner_text("#refusal")
    page.click("#undo")
    settle(page)
    assert page.is_hidden("#refusal")


def test_twenty_thousand_items_answer_at_once(open_page):
    items = [ContextItem(f"item {n}", 20 + n % 90, priority=n % 7) for n in range(20_000)]
    page = open_page(page_of(items, ContextBudget(90_000, 90_000), [presets.code_review()]))
    took = page.evaluate(
        """() => {
            const start = performance.now();
            setWeight(0, 5);
            draw();
            return performance.now() - start;
        }"""
    )
    assert took < 1500
