"""Every number on the page is the one the library gives for that budget and policy.

What the page computes is compared with the oracle under node, in `tests/page`; here it is what the page shows.
"""

import json

import pytest

from cupel import ContextBudget, GreedySlice, Pipeline, presets
from cupel.analytics import counterfactual
from cupel.cli import main
from cupel.demo import session_items, session_policy
from cupel.page import excluded_words
from tests.page.pools import SCORER, random_items
from tests.pages.conftest import figure, move_budget, page_of, settle


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
            if budget > int(page.get_attribute("#budget", "max")):
                continue
            move_budget(page, budget)
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
            assert figure(page, "n-free") == budget - expected["total_tokens"]
            assert figure(page, "n-out") == 120 - len(expected["items"])
            count = len(expected["items"])
            shown = page.inner_text(".choice:has(input:checked) .counts")
            assert shown == f"{count:,} item{'s' if count != 1 else ''} · {expected['total_tokens']:,}"


def test_the_window_lists_the_items_in_placed_order(open_page):
    items = session_items()
    page = open_page(page_of(items, ContextBudget(3000, 3000), [presets.rag()]))
    page.evaluate("cupelPage.state.limits.in = 1000")
    move_budget(page, 2500)
    shown = page.eval_on_selector_all(
        "#in-rows button.row", "(rows) => rows.map((row) => Number(row.dataset.position))"
    )
    report = presets.rag().dry_run(items, ContextBudget(2500, 2500))
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


def test_what_would_let_an_item_in_is_the_smallest_larger_budget(open_page):
    items = session_items()
    policies = [presets.chat(), presets.document_qa(), session_policy()]
    page = open_page(page_of(items, ContextBudget(1500, 1500), policies))
    for number, policy in enumerate(policies):
        page.locator(".choice input").nth(number).check(force=True)
        settle(page)
        row = page.locator("#out-rows button.row").nth(3)
        position = int(row.get_attribute("data-position"))
        row.click()
        settle(page)
        words = page.locator("#out-rows .remedy").inner_text()
        row = page.locator(f'#out-rows button.row[data-position="{position}"]')
        row.click()
        settle(page)
        prepared = policy.prepare(items)
        found = next(
            budget
            for budget in range(1501, 20_000)
            if any(item is items[position] for item in prepared.included(ContextBudget(budget, budget)))
        )
        assert f"a budget of {found:,}, {found - 1500:,} more" in words, policy.name


def test_each_row_says_at_which_budget_its_item_gets_in(open_page):
    items = session_items()
    policies = [presets.chat(), presets.document_qa(), session_policy()]
    page = open_page(page_of(items, ContextBudget(1500, 1500), policies))
    for number, policy in enumerate(policies):
        page.locator(".choice input").nth(number).check(force=True)
        settle(page)
        page.wait_for_selector("#out-rows[data-searched]", state="attached")
        shown = page.eval_on_selector_all(
            "#out-rows .admit",
            "(slots) => slots.map((slot) => [Number(slot.dataset.position), slot.dataset.reason, slot.textContent])",
        )
        prepared = policy.prepare(items)
        base = ContextBudget(1500, 1500)
        top = int(page.get_attribute("#budget", "max"))
        assert len(shown) == 40
        for position, reason, words in shown:
            extra = counterfactual(prepared, base, items[position]).extra_tokens
            never = "" if reason in {"Deduplicated", "NegativeTokens"} else f"No budget up to {top:,} lets it in."
            reachable = extra is not None and 1500 + extra <= top
            assert words == (f"Gets in at {1500 + extra:,}." if reachable else never), (policy.name, position)


def test_next_and_previous_change_stop_at_the_nearest_different_selection(open_page):
    items = random_items(3)
    policy = Pipeline(scorer=SCORER, name="greedy")
    page = open_page(page_of(items, ContextBudget(500, 500), [policy]))
    prepared = policy.prepare(items)
    run = lambda budget: [id(item) for item in prepared.run(ContextBudget(budget, budget))]  # noqa: E731
    page.click("#next")
    settle(page)
    following = next(budget for budget in range(501, 5000) if run(budget) != run(500))
    assert int(page.input_value("#budget")) == following
    move_budget(page, 500)
    page.click("#previous")
    settle(page)
    before = next(budget for budget in range(499, 0, -1) if run(budget) != run(500))
    assert int(page.input_value("#budget")) == before


def test_what_swings_is_what_the_policies_disagree_about(open_page):
    items = session_items()
    policies = [presets.chat(), presets.rag(), presets.document_qa()]
    page = open_page(page_of(items, ContextBudget(3000, 3000), policies))
    page.evaluate("cupelPage.state.limits.swing = 1000")
    move_budget(page, 2750)
    shown = page.eval_on_selector_all(
        "#swing-rows tr",
        """(rows) => rows.map((row) => [
            Number(row.querySelector("button").dataset.position),
            [...row.querySelectorAll(".policy")].map((cell) => cell.textContent.includes("in"))
        ])""",
    )
    chosen = [{id(item) for item in policy.run(items, ContextBudget(2750, 2750))} for policy in policies]
    expected = []
    for position, item in enumerate(items):
        verdicts = [id(item) in ids for ids in chosen]
        if len(set(verdicts)) > 1:
            expected.append([position, verdicts])
    assert shown == expected


def test_a_slicer_only_python_has_is_shown_at_the_budgets_it_was_run_at(open_page):
    class EveryOther(GreedySlice):
        def fit(self, candidates):
            everything = super().fit(candidates)

            class Chooser(type(everything)):
                def __call__(self, budget):
                    selection = super().__call__(budget)
                    return type(selection)(selection.chosen[::2])

            return Chooser(candidates.scores, candidates.tokens)

    items = random_items(5)
    policy = Pipeline(scorer=SCORER, slicer=EveryOther(), name="every other")
    page = open_page(page_of(items, ContextBudget(400, 400), [policy, presets.chat()]))
    move_budget(page, 777)
    budget = int(page.input_value("#budget"))
    expected = policy.run(items, ContextBudget(budget, budget))
    assert figure(page, "n-in") == len(expected)
    assert figure(page, "n-used") == sum(item.tokens for item in expected)
    assert "only runs in Python" in page.inner_text("#trust")


def test_a_replay_that_disagrees_with_the_library_says_so(open_page):
    html = page_of(random_items(1), ContextBudget(400, 400), [Pipeline(scorer=SCORER, name="tampered")])
    broken = html.replace('"density":[', '"density":[0,0,0,', 1)
    page = open_page(broken)
    assert "disagrees with the library" in page.inner_text("#trust")
