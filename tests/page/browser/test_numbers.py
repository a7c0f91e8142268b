"""Every number on the page is the one the library gives for that budget and policy.

The data of the page is compared with the library under node, in `tests/page`; here it is what the page shows.
"""

import json
from pathlib import Path

import pytest

from cupel import ContextBudget, Pipeline, presets
from cupel.cli import main
from cupel.demo import session_items, session_policy
from cupel.page import excluded_words
from tests.page.browser.conftest import figure, move_budget, page_of, settle
from tests.page.pools import SCORER, random_items


def selected_by_command(arguments: list[str], capsys) -> dict:
    """What `cupel select` prints as JSON, or its complaint."""
    code = main(["select", *arguments, "--format", "json", "--quiet"])
    captured = capsys.readouterr()
    return json.loads(captured.out) if code == 0 else {"error": captured.err}


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (768, "dark"), (390, "light")])
def test_the_figures_equal_cupel_select(open_page, capsys, tmp_path, monkeypatch, width, scheme):
    """The demonstration's page, slider and switch moved, against the command line it shows."""
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--budget", "4000"]) == 0
    capsys.readouterr()
    page = open_page((tmp_path / "cupel-demo/page.html").read_text(encoding="utf-8"), width=width, scheme=scheme)
    page.click("#to-selection")
    for number in range(page.locator(".choice").count()):
        page.locator(".choice input").nth(number).check(force=True)
        for budget in (0, 274, 1111, 4000, 6283, 16001):
            stop = move_budget(page, budget)
            command = page.inner_text("#command").split()
            assert command[:2] == ["cupel", "select"]
            expected = selected_by_command(command[2:], capsys)
            if "error" in expected:
                refusal = page.inner_text("#refusal").removeprefix("No selection at this budget. ").rstrip(".")
                assert refusal.replace(",", "") in expected["error"].replace(",", "")
                assert figure(page, "n-in") == 0
                continue
            assert page.is_hidden("#refusal")
            assert figure(page, "n-in") == len(expected["items"])
            assert figure(page, "n-used") == expected["total_tokens"]
            assert figure(page, "n-free") == stop - expected["total_tokens"]
            assert figure(page, "n-out") == 120 - len(expected["items"])
            count = len(expected["items"])
            shown = page.inner_text(".choice:has(input:checked) .counts")
            assert shown == f"{count:,} item{'s' if count != 1 else ''} · {expected['total_tokens']:,}"


def test_the_command_that_serves_the_page_keeps_the_whole_budget(open_page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("items.jsonl").write_text('{"content": "a", "tokens": 3}\n', encoding="utf-8")
    options = ["items.jsonl", "--budget", "400", "--max", "900", "--reserve", "90", "--margin", "5", "--policy", "rag"]
    assert main(["inspect", *options, "-o", "page.html", "--title", "T"]) == 0
    page = open_page(Path("page.html").read_text(encoding="utf-8"))
    assert page.inner_text("#play code").split() == ["cupel", "inspect", *options, "--serve"]
    assert page.inner_text("#command").split() == ["cupel", "select", *options]


def test_the_window_lists_the_items_in_placed_order(open_page):
    items = session_items()
    page = open_page(page_of(items, ContextBudget(3000, 3000), [presets.rag()]))
    page.evaluate("cupelPage.state.limits.in = 1000")
    stop = move_budget(page, 2500)
    shown = page.eval_on_selector_all(
        "#in-rows button.row", "(rows) => rows.map((row) => Number(row.dataset.position))"
    )
    report = presets.rag().dry_run(items, ContextBudget(stop, stop))
    assert [items[position] for position in shown] == [entry.item for entry in report.included]
    scores = page.eval_on_selector_all("#in-rows tr", "(rows) => rows.map((row) => row.cells[3].textContent)")
    assert scores == [f"{entry.score:.3f}" for entry in report.included]


def test_the_left_out_say_why_with_the_librarys_numbers(open_page):
    items = session_items()
    page = open_page(page_of(items, ContextBudget(2000, 2000), [session_policy()]))
    rows = page.eval_on_selector_all(
        "#out-rows tr", "(rows) => rows.map((row) => row.querySelector('.reason').textContent)"
    )
    report = session_policy().dry_run(items, ContextBudget(2000, 2000))
    assert len(rows) == min(40, len(report.excluded))
    for shown, entry in zip(rows, report.excluded, strict=False):
        words = excluded_words(entry.reason)
        assert shown.startswith(words[0].upper() + words[1:])


def test_each_row_says_at_which_stop_its_item_is_in(open_page):
    items = session_items()
    policies = [presets.chat(), presets.document_qa(), session_policy()]
    page = open_page(page_of(items, ContextBudget(1500, 1500), policies))
    stops = page.evaluate("stops")
    for number, policy in enumerate(policies):
        page.locator(".choice input").nth(number).check(force=True)
        settle(page)
        page.wait_for_selector("#out-rows[data-searched]", state="attached")
        shown = page.eval_on_selector_all(
            "#out-rows .admit",
            "(slots) => slots.map((slot) => [Number(slot.dataset.admit), slot.dataset.reason, slot.textContent])",
        )
        prepared = policy.prepare(items)
        inside = {stop: set(map(id, prepared.run(stop))) for stop in stops if stop > 1500}
        assert len(shown) == 40
        for position, reason, words in shown:
            never = "" if reason in {"Deduplicated", "NegativeTokens"} else f"No stop up to {stops[-1]:,} lets it in."
            found = next((stop for stop, ids in inside.items() if id(items[position]) in ids), None)
            assert words == (never if found is None else f"Included at {found:,}."), (policy.name, position)
        row = page.locator("#out-rows button.row").nth(3)
        position = int(row.get_attribute("data-position"))
        row.click()
        page.get_by_text("A budget of").wait_for()
        found = next(stop for stop, ids in inside.items() if id(items[position]) in ids)
        assert f"A budget of {found:,} lets it in, {found - 1500:,} more" in page.inner_text("#out-rows .remedy")
        page.locator(f'#out-rows button.row[data-position="{position}"]').click()
        settle(page)


def test_next_and_previous_change_stop_at_the_nearest_different_selection(open_page):
    items = random_items(3)
    policy = Pipeline(scorer=SCORER, name="greedy")
    page = open_page(page_of(items, ContextBudget(500, 500), [policy]))
    stops, prepared = page.evaluate("stops"), policy.prepare(items)
    run = lambda budget: [id(item) for item in prepared.run(ContextBudget(budget, budget))]  # noqa: E731
    for button, others in (
        ("#next", [s for s in stops if s > 500]),
        ("#previous", [s for s in stops[::-1] if s < 500]),
    ):
        move_budget(page, 500)
        page.click(button)
        settle(page)
        assert int(page.input_value("#budget")) == next(stop for stop in others if run(stop) != run(500))
    move_budget(page, stops[-1])
    page.click("#next")
    settle(page)
    assert page.inner_text("#notice") == f"Nothing changes up to {stops[-1]:,}."


def test_what_swings_is_what_the_policies_disagree_about(open_page):
    items = session_items()
    policies = [presets.chat(), presets.rag(), presets.document_qa()]
    page = open_page(page_of(items, ContextBudget(3000, 3000), policies))
    page.evaluate("cupelPage.state.limits.swing = 1000")
    stop = move_budget(page, 2750)
    shown = page.eval_on_selector_all(
        "#swing-rows tr",
        """(rows) => rows.map((row) => [
            Number(row.querySelector("button").dataset.position),
            [...row.querySelectorAll(".policy")].map((cell) => cell.textContent.includes("in"))
        ])""",
    )
    chosen = [{id(item) for item in policy.run(items, ContextBudget(stop, stop))} for policy in policies]
    expected = []
    for position, item in enumerate(items):
        verdicts = [id(item) in ids for ids in chosen]
        if len(set(verdicts)) > 1:
            expected.append([position, verdicts])
    assert shown == expected
