"""Items are data: whatever they contain, nothing runs, nothing loads, nothing breaks the layout."""

import base64
import hashlib
import re

import pytest

from cupel import ContextBudget, ContextItem, presets
from tests.page.browser.conftest import figure, page_of, settle

ATTACK = "window.pwned = true"
HOSTILE = [
    f"</script><script>{ATTACK}</script>",
    f"<img src=x onerror='{ATTACK}'>",
    f"<svg onload='{ATTACK}'><a href='javascript:{ATTACK}'>click</a></svg>",
    "<!--<script>",
    "]]>\u2028\u2029<iframe srcdoc='<script>parent.pwned=true</script>'>",
    "\u202egnp.exe\u202c \u2066isolate\u2069 \u200f\u061c",
    "NUL \x00 ESC \x1b[31m BEL \x07 DEL \x7f C1 \x9b",
    "lone surrogate \ud800 here",
    "x" * 1_000_000,
    "<base href='https://example.invalid/'><meta http-equiv='refresh' content='0;url=https://example.invalid/'>",
    "${alert(1)} {{7*7}} `${window.pwned=1}` $title $payload",
    "W\u0334\u0301\u0302" * 2000,
    "\t\n   \n",
]


def hostile_items() -> list[ContextItem]:
    items = [ContextItem(text, 10, tags=[text[:200]], metadata={"path": text[:200]}) for text in HOSTILE]
    items.append(
        ContextItem("its kind is hostile", 10, kind=f"<img src=x onerror='{ATTACK}'>\u202e", source="</script>")
    )
    return items


@pytest.fixture(scope="module")
def hostile_page() -> str:
    title = f"</title><script>{ATTACK}</script>"
    return page_of(hostile_items(), ContextBudget(80, 80), [presets.chat(), presets.rag()], title=title)


def test_nothing_runs(open_page, hostile_page):
    page = open_page(hostile_page)
    page.evaluate("cupelPage.state.limits.in = 1000")
    for button in page.locator("button.row").all():  # every item opened, its content and facts drawn
        button.dispatch_event("click")
    settle(page)
    assert page.evaluate("typeof window.pwned") == "undefined"
    assert page.locator("main img, main iframe, main base, main a, main script").count() == 0
    assert page.locator("script").count() == 2
    assert page.title() == f"</title><script>{ATTACK}</script> · cupel"


def test_the_figures_are_right_all_the_same(open_page, hostile_page):
    page = open_page(hostile_page)
    assert figure(page, "n-in") == 8
    assert figure(page, "n-used") == 80


@pytest.mark.parametrize("width", [1440, 768, 390])
def test_the_layout_holds(open_page, hostile_page, width):
    page = open_page(hostile_page, width=width)
    page.evaluate("document.querySelectorAll('#in-rows button.row').forEach((row) => row.click())")
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#in-rows tr:not(.detail)").first.bounding_box()["height"] < 90


def test_unseen_characters_are_written_out(open_page, hostile_page):
    page = open_page(hostile_page)
    page.fill("#search", "gnp.exe")
    settle(page)
    text = page.inner_text("main")
    assert "U+202E" in text
    assert "\u202e" not in text
    assert "\x1b" not in text


def test_a_megabyte_is_clipped_and_says_so(open_page, hostile_page):
    page = open_page(hostile_page)
    page.fill("#search", "xxxxxxxx")
    settle(page)
    page.locator("button.row").first.click()
    settle(page)
    assert "the first 20,000 of 1,000,000 characters" in page.inner_text(".detail")
    assert len(hostile_page) < 400_000


def test_the_policy_allows_exactly_the_script_and_style_of_the_file(hostile_page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', hostile_page)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", hostile_page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_the_policy_stops_a_script_that_gets_in(browser, tmp_path, hostile_page):
    """Were markup ever to slip through, the browser itself would refuse it."""
    slipped = hostile_page.replace("</header>", f"</header><script>{ATTACK}</script><img src=x onerror='{ATTACK}'>", 1)
    file = tmp_path / "slipped.html"
    file.write_text(slipped, encoding="utf-8")
    page = browser.new_page()
    refused = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(file.as_uri())
    page.wait_for_timeout(100)
    assert page.evaluate("typeof window.pwned") == "undefined"
    assert any("Content Security Policy" in text for text in refused)
    page.close()
