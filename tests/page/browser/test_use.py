"""The page in use: looks, filters, keyboard, print, speed, accessibility."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from cupel import (
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    Pipeline,
    RecencyScorer,
    presets,
)
from cupel.demo import session_items, session_policy
from tests.page.browser.conftest import figure, move_budget, page_of, settle


@pytest.fixture(scope="module")
def demo_page() -> str:
    return page_of(
        session_items(), ContextBudget(4000, 4000), [session_policy(), presets.chat(), presets.document_qa()]
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 768, 390])
def test_axe_finds_no_serious_fault(open_page, demo_page, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    page = open_page(demo_page, width=width, scheme=scheme)
    page.locator("#out-rows button.row").first.click()
    page.locator("#in-rows button.row").first.click()
    move_budget(page, 5000)
    found = axe.Axe().run(page).response["violations"]
    page.click("#read")
    page.locator("#prompt .gap summary").first.click()
    settle(page)
    found += axe.Axe().run(page).response["violations"]
    serious = [
        (fault["id"], node["target"])
        for fault in found
        if fault["impact"] in {"serious", "critical"}
        for node in fault["nodes"]
    ]
    assert serious == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 768, 390, 320])
def test_nothing_sticks_out(open_page, demo_page, width, scheme):
    page = open_page(demo_page, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_theme_follows_the_system_until_somebody_chooses(open_page, demo_page):
    page = open_page(demo_page, scheme="dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.emulate_media(color_scheme="light")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_filters_and_search_narrow_both_lists(open_page, demo_page):
    page = open_page(demo_page)
    page.fill("#search", "refund")
    settle(page)
    texts = page.locator("#in-rows tr").all_inner_texts()
    assert 0 < len(texts) < figure(page, "n-in")
    page.fill("#search", "")
    page.locator("#kinds input").nth(1).uncheck(force=True)
    settle(page)
    assert "Message" not in set(page.locator("#in-rows .kind .name").all_inner_texts())
    page.select_option("#reason", "Deduplicated")
    settle(page)
    assert page.locator("#out-rows tr").count() == 3
    assert all(
        "Same text as another item, number" in text for text in page.locator("#out-rows .reason").all_inner_texts()
    )
    page.select_option("#show", "in")
    settle(page)
    assert page.is_hidden("#out-section")
    page.select_option("#show", "both")
    page.locator("#kinds input").nth(1).check(force=True)
    page.select_option("#reason", "")
    page.check("#swings-only")
    settle(page)
    assert page.locator("#in-rows tr").count() < figure(page, "n-in")


def test_everything_works_from_the_keyboard(open_page, demo_page):
    page = open_page(demo_page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#slider")
    page.keyboard.press("ArrowRight")
    settle(page)
    stops = page.evaluate("stops")
    assert int(page.input_value("#budget")) == stops[stops.index(4000) + 1]
    page.locator(".choice input").first.focus()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert page.locator(".choice input").nth(1).is_checked()
    page.locator("#in-rows button.row").nth(2).focus()
    page.keyboard.press("Enter")
    settle(page)
    assert page.locator("#in-rows .detail").count() == 1
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"


def test_a_screen_reader_hears_the_new_selection(open_page, demo_page):
    page = open_page(demo_page)
    stop = move_budget(page, 3210)
    page.get_by_text(f"Budget {stop:,}, policy coding-agent:").wait_for(state="attached", timeout=3000)
    spoken = page.inner_text("#announce")
    assert f"{figure(page, 'n-in')} items in the window" in spoken
    assert f"{figure(page, 'n-used'):,} tokens used" in spoken
    assert page.get_attribute("#slider", "aria-valuetext").startswith(f"{stop:,} tokens")


def test_a_budget_that_cannot_be_met_says_why(open_page, demo_page):
    page = open_page(demo_page)
    move_budget(page, 100)
    assert page.inner_text("#refusal").startswith("No selection at this budget. Pinned items require 274 tokens")
    assert figure(page, "n-in") == 0
    move_budget(page, 350)
    assert page.is_hidden("#refusal")


@pytest.mark.parametrize("typed", [3999, 12345, 401, 10_000_000])
def test_a_typed_budget_shows_a_selection_within_it_and_says_which(open_page, demo_page, typed):
    page = open_page(demo_page)
    page.fill("#budget", str(typed))
    settle(page)
    shown = page.evaluate("cupelPage.state.budget")
    stops = page.evaluate("stops")
    assert shown == max(stop for stop in stops if stop <= typed) < typed
    assert figure(page, "n-used") <= typed
    assert page.inner_text("#notice") == f"Shown at {shown:,} tokens, the largest budget within {typed:,}."
    assert f"--budget {shown}" in page.inner_text("#command")
    page.locator("#budget").blur()
    assert page.input_value("#budget") == str(shown)
    page.fill("#budget", str(stops[9]))
    settle(page)
    assert page.inner_text("#notice") == ""


def test_a_link_to_a_budget_in_between_says_which_it_shows(open_page, demo_page):
    page = open_page(demo_page)
    page.evaluate("location.hash = '#budget=12345'")
    settle(page)
    shown = int(page.input_value("#budget"))
    assert shown < 12345
    assert page.inner_text("#notice") == f"Shown at {shown:,} tokens, the largest budget within 12,345."


def test_a_budget_below_the_smallest_says_so(open_page):
    page = open_page(page_of(session_items(), ContextBudget(4000, 4000, output_reserve=500), [session_policy()]))
    page.fill("#budget", "20")
    settle(page)
    assert page.inner_text("#notice") == "Shown at 500 tokens, the smallest budget, above 20."


def test_a_selection_that_the_window_cannot_hold_is_a_warning(open_page):
    items = [ContextItem(f"tool {number}", 300, kind="ToolOutput") for number in range(3)]
    policy = Pipeline(scorer=RecencyScorer(), slicer=CountQuotaSlice([CountQuotaEntry("ToolOutput", 3)]))
    budget = ContextBudget(1000, 900, output_reserve=500)
    page = open_page(page_of(items, budget, [policy], fixed_window=True))
    says = "may refuse this selection: it has 900 tokens, and the window leaves 500 after the reserve of 500."
    assert page.inner_text("#excess").endswith(says)
    move_budget(page, 899)
    assert page.is_hidden("#excess")


def test_the_bar_adds_up_to_the_window(open_page):
    budget = ContextBudget(8000, 5000, output_reserve=1500)
    page = open_page(page_of(session_items(), budget, [session_policy()], fixed_window=True))
    parts = page.eval_on_selector_all(
        "#legend b", "(cells) => cells.map((cell) => Number(cell.textContent.replace(/,/g, '')))"
    )
    assert sum(parts) == 8000
    names = page.inner_text("#legend")
    for name in ("Pinned", "Free", "Above the budget", "Reserved for the answer 1,500"):
        assert name in names
    widths = page.eval_on_selector_all(
        "#bar span", "(parts) => parts.map((part) => part.getBoundingClientRect().width)"
    )
    whole = page.locator("#bar").bounding_box()["width"]
    assert sum(widths) == pytest.approx(whole, abs=2)


def test_print_shows_the_items_without_the_controls(open_page, demo_page):
    page = open_page(demo_page)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    settle(page)
    assert page.is_hidden("#slider")
    assert page.is_hidden("#search")
    assert page.is_visible("#bar")
    assert page.locator("#in-rows tr").count() == figure(page, "n-in")
    assert len(page.pdf()) > 10_000


def test_stages_count_the_items_of_the_run(open_page, demo_page):
    page = open_page(demo_page)
    rows = page.eval_on_selector_all(
        "#stages tr", "(rows) => rows.map((row) => [...row.cells].slice(0, 3).map((cell) => cell.textContent))"
    )
    assert rows == [
        ["Classify", "120", "119"],
        ["Score", "117", "117"],
        ["Deduplicate", "117", "114"],
        ["Slice", "114", "32"],
        ["Place", "34", "34"],
    ]


def many_items(count: int) -> list[ContextItem]:
    rng = random.Random(1)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        ContextItem(
            f"item {number}: " + "some text of a usual length, " * rng.randrange(3, 40),
            rng.randrange(20, 800),
            kind=rng.choice(["Message", "Document", "ToolOutput", "Memory"]),
            priority=rng.randrange(10),
            timestamp=start + timedelta(minutes=number),
            future_relevance_hint=rng.random(),
        )
        for number in range(count)
    ]


def test_five_thousand_items_draw_a_bounded_number_of_rows(open_page):
    """What keeps the slider fast: a move redraws some rows, never thousands. `scripts/page_speed.py` has the times."""
    items = many_items(5000)
    policies = [presets.chat(), presets.document_qa()]
    page = open_page(page_of(items, ContextBudget(128_000, 128_000), policies))
    for budget in (400_000, 1_000_000):
        stop = move_budget(page, budget)
        assert figure(page, "n-in") > 500
        assert page.locator("tbody tr").count() <= 40 + 40 + 15 + 5
    page.click("#in-more")
    settle(page)
    assert page.locator("#in-rows tr").count() == 40 + 5 * 40
    expected = presets.chat().run(items, ContextBudget(stop, stop))
    assert figure(page, "n-in") == len(expected)
    assert figure(page, "n-used") == sum(item.tokens for item in expected)


def test_the_prompt_is_the_text_in_order_with_the_gaps_marked(open_page, demo_page):
    page = open_page(demo_page)
    stop = move_budget(page, 1500)
    page.click("#read")
    settle(page)
    assert page.is_hidden("#in-section")
    report = session_policy().dry_run(session_items(), stop)
    assert page.locator("#prompt pre").all_text_contents() == [entry.item.content for entry in report.included]
    counts = [int(text.split()[0]) for text in page.locator("#prompt .gap summary").all_inner_texts()]
    assert sum(counts) == len(report.excluded)
    page.locator("#prompt .gap summary").first.click()
    page.locator("#prompt .gap[open] li").first.wait_for()
    assert page.locator("#prompt .gap[open] li").count() == min(counts[0], 41)
    page.keyboard.press("Escape")
    page.click("#back")
    assert page.is_visible("#in-section")
    assert page.evaluate("document.activeElement.id") == "read"


def test_a_link_leads_back_to_budget_policy_view_and_item(open_page, demo_page):
    page = open_page(demo_page)
    stop = move_budget(page, 2345)
    page.locator(".choice input").nth(1).check(force=True)
    page.locator("#out-rows button.row").nth(2).click()
    settle(page)
    page.wait_for_function("location.hash.includes('item=')")
    link = page.url
    position = page.locator(".detail").evaluate(
        "(row) => row.previousElementSibling.querySelector('button').dataset.position"
    )
    other = page.context.new_page()
    other.goto(link)
    settle(other)
    assert other.input_value("#budget") == str(stop)
    assert other.locator(".choice input").nth(1).is_checked()
    assert other.locator(f'#out-rows button[data-position="{position}"]').get_attribute("aria-expanded") == "true"
    other.evaluate("location.hash = '#budget=999999999&policy=%3Cimg%3E&show=<b>&item=-7'")
    settle(other)
    assert other.input_value("#budget") == other.get_attribute("#budget", "max")
    assert other.locator(".choice input").nth(1).is_checked()


def test_the_slider_has_a_step_for_every_stop(open_page, demo_page):
    page = open_page(demo_page)
    stops = page.evaluate("stops")
    page.focus("#slider")
    page.keyboard.press("Home")
    seen = []
    for _ in stops:
        settle(page)
        seen.append(int(page.input_value("#budget")))
        page.keyboard.press("ArrowRight")
    assert seen == stops
    page.keyboard.press("End")
    settle(page)
    assert int(page.input_value("#budget")) == stops[-1]


def test_score_bars_follow_each_scorer(open_page, demo_page):
    page = open_page(demo_page)
    page.locator("#in-rows button.row").nth(3).click()
    settle(page)
    parts = page.locator("#in-rows .parts dt").all_inner_texts()
    assert parts == ["Reflexive", "Priority", "Recency", "Score"]
    position = int(page.locator("#in-rows button.row").nth(3).get_attribute("data-position"))
    report = session_policy().dry_run(session_items(), 4000)
    said = page.locator("#in-rows .parts dd").all_inner_texts()
    found = report.breakdown(session_items()[position])
    for text, part in zip(said, found.part.parts, strict=False):
        assert f"{part.score:.3f} × " in text
        assert text.strip().endswith(f"= {part.share:.3f}")
    assert f"{found.density:.4g} a token" in said[-1]


def test_relations_are_words_and_lead_to_the_others(open_page):
    items = [
        ContextItem("the whole output of the call", 50, metadata={"cupel:id": "call-7"}),
        ContextItem("a stub", 5, metadata={"cupel:id": "call-7", "cupel:worth": 0.3, "path": "log.txt"}),
        ContextItem("what follows from it", 4, metadata={"cupel:group": "turn"}),
        ContextItem("said with it", 3, metadata={"cupel:group": "turn"}),
        ContextItem("a plan", 300),
        ContextItem("another plan", 300),
    ]
    page = open_page(page_of(items, ContextBudget(20, 20), [presets.chat()]))
    shown = page.inner_text("#in-rows")
    for words in ("Short form, 5 of 50 tokens", "In or out with 1 other"):
        assert words in shown
    page.wait_for_selector("#out-rows[data-searched]")
    assert "Included at 315." in page.inner_text("#out-rows")
    assert page.locator('#out-rows button.row[data-position="0"]').count() == 0
    assert "and 1 other form of selected items" in page.inner_text("#out-note")
    page.check("#forms")
    settle(page)
    assert page.locator('#out-rows button.row[data-position="0"]').count() == 1
    page.locator('#in-rows button.row[data-position="1"]').click()
    settle(page)
    page.get_by_text("One of 2 forms of call-7").click()
    detail = page.locator(".detail", has_text="Worth of this form")
    assert detail.locator(".related[open] .forms b").all_inner_texts() == ["50 tokens, out"]
    assert "Metadata\npath: log.txt" in page.inner_text(".detail")
    page.click("#read")
    settle(page)
    assert "shortened from 50 tokens" in page.inner_text("#prompt")
    assert "2 items left out" in page.inner_text("#prompt")
