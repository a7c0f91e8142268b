"""A recorded conversation on the page: the replay's figures, every turn in reach, hostile messages shown as text."""

import json
import re

import pytest

from cupel import ContextBudget, presets
from cupel.demo import conversation
from cupel.evaluation import (
    EverythingStrategy,
    FitStrategy,
    LoggedStrategy,
    Recording,
    SessionStrategy,
    read_recordings,
    replay,
)
from cupel.messages import to_items
from cupel.page import Variant, page_payload, render_page
from tests.evaluation.logs import ClaudeLog
from tests.page.browser.conftest import move_budget, settle
from tests.page.browser.test_hostile import ATTACK, HOSTILE

STRATEGIES = {
    "everything": EverythingStrategy(),
    "fit every turn": FitStrategy(),
    "session": SessionStrategy(),
}


@pytest.fixture(scope="module")
def replayed():
    return replay(Recording(conversation()), STRATEGIES, 6000)


@pytest.fixture(scope="module")
def turns_page(replayed) -> str:
    return render_page({"title": "A conversation", "turns": replayed.page_payload()})


@pytest.fixture(scope="module")
def both_page(replayed) -> str:
    items = to_items(conversation())
    variants = [Variant(presets.chat(), "chat", "--policy chat"), Variant(presets.rag(), "rag", "--policy rag")]
    payload = page_payload(
        items, ContextBudget(6000, 6000), variants, title="T", source="chat.json", fixed_window=False
    )
    return render_page({**payload, "turns": replayed.page_payload()})


def test_the_figures_are_those_of_the_replay(open_page, turns_page, replayed):
    page = open_page(turns_page)
    for card, (name, turns) in zip(page.locator(".strategy").all(), replayed.strategies.items(), strict=True):
        said = card.inner_text()
        assert name in said
        assert f"costs {round(sum(turn.price for turn in turns)):,}" in said
        assert f"{sum(turn.sent for turn in turns):,} tokens" in said
        over = sum(turn.over for turn in turns)
        assert (f"{over} requests over the budget" in said) == bool(over)
    turn = replayed.strategies["session"][-1]
    shown = page.inner_text("#turn-readouts")
    assert f"{turn.sent:,}" in shown
    assert f"{turn.new:,}" in shown


def test_the_address_names_the_turn(open_page, turns_page, replayed):
    page = open_page(turns_page)
    page.evaluate("location.hash = 'strategy=fit+every+turn&turn=40'")
    settle(page)
    assert page.inner_text("#turn-title") == "Turn 40 of 69"
    turn = replayed.strategies["fit every turn"][39]
    assert f"{turn.sent:,}" in page.inner_text("#turn-readouts")
    assert page.locator(".strategy.current b").inner_text() == "fit every turn"
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#turn-title") == "Turn 41 of 69"
    assert "turn=41" in page.evaluate("location.hash")
    for link in ("turn=nonsense&strategy=none", "turn=9999", "#"):
        page.evaluate(f"location.hash = '{link}'")
        settle(page)
    assert page.inner_text("#turn-title") == "Turn 69 of 69"


def test_by_keyboard_alone(open_page, turns_page):
    page = open_page(turns_page)
    page.focus("#turn")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#turn-title") == "Turn 68 of 69"
    page.keyboard.press("Home")
    assert page.inner_text("#turn-title") == "Turn 1 of 69"
    page.focus(".strategy.current input")
    page.keyboard.press("ArrowUp")
    assert page.locator(".strategy.current b").inner_text() == "fit every turn"
    assert page.evaluate("document.activeElement.name") == "strategy"
    page.focus("#request-copy")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#turn-title") == "Turn 2 of 69"


def test_a_bar_chooses_its_turn(open_page, turns_page):
    page = open_page(turns_page)
    box = page.locator(".strategy svg").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 23.5 / 69, box["y"] + box["height"] - 3)
    assert page.inner_text("#turn-title") == "Turn 24 of 69"
    assert page.locator(".strategy.current b").inner_text() == "everything"


def test_what_left_says_why_and_unfolds(open_page, turns_page, replayed):
    page = open_page(turns_page)
    number, turn = next(
        (number, turn)
        for number, turn in enumerate(replayed.strategies["session"], start=1)
        if any("evicted" in note.words for note in turn.request.notes)
    )
    page.evaluate(f"location.hash = 'turn={number}'")
    settle(page)
    left = page.locator(".change", has=page.locator("h3.leave"))
    note = next(note for note in turn.request.notes if "evicted" in note.words)
    assert note.words.removeprefix("evicted") in left.inner_text()
    left.locator("summary").first.click()
    assert conversation()[note.positions[0]]["role"] in left.inner_text()
    assert left.locator("pre").first.is_visible()


def test_the_request_is_text_with_its_gaps(open_page, turns_page, replayed):
    page = open_page(turns_page)
    while page.locator("#request-more").is_visible():
        page.click("#request-more")
    turn = replayed.strategies["session"][-1]
    assert page.locator("#request .block").count() == len(turn.request.messages)
    page.locator("#request .gap summary").first.click()
    page.locator("#request .gap li").first.wait_for()  # filled once it is open
    assert "The cache ends here" in page.inner_text("#request")


def test_two_views_of_one_conversation(open_page, both_page):
    page = open_page(both_page)
    assert page.is_visible("#turns-view")
    assert page.is_hidden("#selection-view")
    page.click("#to-selection")
    settle(page)
    assert page.is_visible("#in-rows")
    stop = move_budget(page, 3000)
    assert "view=selection" in page.evaluate("location.hash")
    page.reload()
    settle(page)
    assert page.is_visible("#in-rows")
    assert page.input_value("#budget") == str(stop)
    page.click("#to-turns")
    assert page.inner_text("#turn-title") == "Turn 69 of 69"


def hostile_recording() -> Recording:
    history = [{"role": "user", "content": "Go."}]
    for number, text in enumerate(HOSTILE):
        call = {
            "id": f"{number}",
            "type": "function",
            "function": {"name": "look", "arguments": json.dumps({"a": text[:99]})},
        }
        history.append({"role": "assistant", "content": text[:500], "tool_calls": [call]})
        history.append({"role": "tool", "tool_call_id": f"{number}", "content": text})
    return Recording(history, name="<img src=x onerror='window.pwned = true'>")


def test_hostile_messages_are_text(open_page):
    recordings = [hostile_recording(), Recording(conversation()[:20], name="plain")]
    strategies = {f"<script>{ATTACK}</script>": EverythingStrategy(), "session": SessionStrategy()}
    page = open_page(render_page({"title": "T", "turns": replay(recordings, strategies, 2000).page_payload()}))
    for summary in page.locator("summary").all():
        summary.dispatch_event("click")
    settle(page)
    assert page.evaluate("typeof window.pwned") == "undefined"
    assert page.locator("main img, main iframe, main base, main a, main script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    page.select_option("#talk", "1")
    assert page.inner_text("#turn-title").startswith("Turn ")
    assert "talk=plain" in page.evaluate("location.hash")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 800, 390])
def test_looks(open_page, both_page, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    page = open_page(both_page, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#changes summary").first.click()
    page.locator("#request .gap summary").first.click()
    settle(page)
    found = axe.Axe().run(page).response["violations"]
    serious = [
        (fault["id"], node["target"])
        for fault in found
        if fault["impact"] in {"serious", "critical"}
        for node in fault["nodes"]
    ]
    assert serious == []


def test_paper_has_one_theme(open_page, both_page):
    """What is printed does not depend on the theme that is chosen on the screen."""
    colours = []
    for scheme in ("light", "dark"):
        page = open_page(both_page, scheme=scheme)
        page.emulate_media(media="print")
        names = sorted(set(re.findall(r"--[a-z][a-z0-9-]*(?=:)", both_page)))
        script = "(names) => names.map((name) => getComputedStyle(document.documentElement).getPropertyValue(name))"
        colours.append(dict(zip(names, page.evaluate(script, names), strict=True)))
    assert colours[0] == colours[1]
    assert colours[0]["--paper"].strip() == "#fff"


def test_three_hundred_turns_are_quick(open_page):
    history = [{"role": "user", "content": "Count."}]
    for number in range(300):
        call = {
            "id": f"{number}",
            "type": "function",
            "function": {"name": "count", "arguments": f'{{"to": {number}}}'},
        }
        history.append({"role": "assistant", "content": None, "tool_calls": [call]})
        history.append({"role": "tool", "tool_call_id": f"{number}", "content": f"counted to {number} " * 40})
    told = replay(
        Recording(history), {"everything": EverythingStrategy(), "session": SessionStrategy()}, 8000, every=1000
    )
    html = render_page({"title": "T", "turns": told.page_payload()})
    assert len(html) < 1_500_000
    page = open_page(html)
    took = page.evaluate(
        """() => {
            const start = performance.now();
            setTurn({ turn: 150 });
            document.body.offsetHeight;
            return performance.now() - start;
        }"""
    )
    assert took < 400


def test_the_causes_of_cache_misses_lead_to_the_turn_with_most_of_each(open_page, tmp_path):
    log = ClaudeLog()
    log.prompt("<img src=x onerror=alert(1)> Find the bug.", 4)
    log.wait(1000)
    log.prompt("Go on.", 4)
    recordings = read_recordings(log.save(tmp_path / "log.jsonl"))
    told = replay(recordings, {"as it was": LoggedStrategy(), "session": SessionStrategy()}, 9000)
    page = open_page(render_page({"title": "T", "turns": told.page_payload()}))
    (row,) = page.locator("#misses li").all()
    lost = recordings[0].calls[5].bill.rewritten
    assert (
        row.inner_text() == f"idle beyond the time to live: {lost:,} tokens written again in 1 request, most in turn 6"
    )
    row.get_by_role("button").click()
    assert page.inner_text("#turn-title") == "Turn 6 of 10"
    assert page.locator(".strategy.current b").inner_text() == "as it was"
    assert f"{lost:,} tokens are written again: idle beyond the time to live" in page.inner_text("#turn-reason")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
