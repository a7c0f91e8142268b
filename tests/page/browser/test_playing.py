"""Budgets, weights and pins tried on a served page give what the command line under the slider gives."""

import json
import shlex

import pytest

from cupel import ContextBudget, presets
from cupel.analytics import counterfactual
from cupel.cli import main
from cupel.demo import session_items, session_policy
from cupel.page import LivePage, Variant
from cupel.watch import page_app
from tests.page.browser.conftest import figure, settle, until
from tests.page.browser.test_numbers import selected_by_command

WINDOW = "#in-rows button.row"


@pytest.fixture
def served(open_served, capsys, tmp_path, monkeypatch):
    """The demonstration's items on a served page, and how to select on the command line that it shows."""
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    capsys.readouterr()
    variants = [Variant(session_policy(), "coding-agent", "--policy cupel-demo/policy.toml")]
    variants += [Variant(policy, policy.name, f"--policy {policy.name}") for policy in (presets.chat(), presets.rag())]
    live = LivePage(
        session_items(),
        ContextBudget(4000, 4000),
        variants,
        title="Served",
        source="cupel-demo/session.jsonl",
        fixed_window=False,
    )
    page = open_served(page_app(live))
    page.evaluate("cupelPage.state.limits.in = 1000; cupelPage.state.limits.out = 1000; set({})")
    answered(page)

    def command() -> dict:
        return selected_by_command(shlex.split(page.inner_text("#command"))[2:], capsys)

    return page, command


def answered(page) -> None:
    """Wait until the page shows the answer to its last question."""
    settle(page)
    until(page, "(live.waiting === false) && live.isReady()")
    settle(page)


def move(page, budget: int) -> None:
    page.fill("#budget", str(budget))
    answered(page)
    page.locator("#budget").blur()


def contents(page) -> list[str]:
    positions = page.eval_on_selector_all(WINDOW, "(rows) => rows.map((row) => Number(row.dataset.position))")
    items = session_items()
    return [items[position].content for position in positions]


def pin(page, position: int) -> None:
    page.locator(f'button.row[data-position="{position}"]').first.click()
    answered(page)
    page.locator(f'#results button.pin-it[data-pin="{position}"]').click()
    answered(page)
    assert page.evaluate("document.activeElement.dataset.pin") == str(position)
    page.locator(f'button.row[data-position="{position}"]').first.click()
    answered(page)


@pytest.mark.parametrize("policy", [0, 1])
def test_budgets_weights_and_pins(served, policy):
    page, command = served
    page.locator(".choice input").nth(policy).check(force=True)
    answered(page)
    before = contents(page)
    seen = []
    for weights in (["0.5", "4", "0.1"], ["1", "1", "7.25"]):
        for field, weight in zip(page.locator("#play input").all(), weights, strict=False):
            field.fill(weight)
        answered(page)
        for pins in ((), (40, 3)):
            for position in pins:
                pin(page, position)
            for budget in (901, 2603, 7001):
                move(page, budget)
                expected = command()
                assert contents(page) == [item["content"] for item in expected["items"]]
                assert figure(page, "n-used") == expected["total_tokens"]
                seen.append(contents(page))
            for position in pins:
                pin(page, position)
    assert len({json.dumps(one) for one in seen}) > 6
    page.click("#undo")
    move(page, 4000)
    assert contents(page) == before


def test_an_address_with_weights_and_pins(served):
    page, command = served
    page.evaluate("location.hash = 'budget=3001&weights=1,2,3&pins=18,-1'")
    answered(page)
    shown = page.inner_text("#command")
    for flag in ("--set scorer.scorers.0.weight=1", "--set scorer.scorers.2.weight=3", "--pin 18", "--unpin 1"):
        assert flag in shown
    assert contents(page) == [item["content"] for item in command()["items"]]
    until(page, "location.hash.includes('weights=1%2C2%2C3')")
    page.evaluate("location.hash = 'weights=1,0,nonsense&pins=9999,x,-9999'")
    answered(page)
    assert "--set" not in page.inner_text("#command")
    assert "--pin" not in page.inner_text("#command")


def test_a_weight_must_be_above_zero(served):
    page, _ = served
    before = contents(page)
    field = page.locator("#play input").first
    for text in ("0", "-1", ""):
        field.fill(text)
        answered(page)
        assert contents(page) == before
    assert field.evaluate("(field) => field.checkValidity()") is False


def test_rows_say_the_smallest_budget_that_lets_an_item_in(served):
    page, _ = served
    move(page, 1501)
    page.wait_for_selector("#out-rows[data-searched]", state="attached")
    shown = page.eval_on_selector_all(
        "#out-rows .admit", "(slots) => slots.map((slot) => [Number(slot.dataset.admit), slot.textContent])"
    )
    items, prepared = session_items(), session_policy().prepare(session_items())
    found = {
        position: counterfactual(prepared, 1501, prepared.items[position]).extra_tokens
        for position, _ in shown[:: max(1, len(shown) // 12)]
    }
    assert len(items) == 120
    for position, words in shown:
        if found.get(position) is not None:
            assert words == f"Included at {1501 + found[position]:,}."


def test_next_change_with_other_weights(served):
    page, command = served
    page.locator("#play input").first.fill("9")
    answered(page)
    before = contents(page)
    page.click("#next")
    until(page, "cupelPage.state.budget > 4000")
    answered(page)
    assert contents(page) != before
    assert contents(page) == [item["content"] for item in command()["items"]]
