"""The watcher's page in the browser while a conversation runs."""

from dataclasses import replace

import httpx2 as httpx
import pytest

from tests.page.browser.conftest import settle, until
from tests.page.browser.test_hostile import ATTACK, HOSTILE
from tests.watch.agent import PATHS, body, history, reply_to
from tests.watch.upstream import answer, proxied, running

BUDGET = 3000


@pytest.fixture
def watch(browser):
    """Open the page of a proxy; anything it logs or throws fails the test."""
    contexts, complaints = [], []

    def opener(proxy, *, width: int = 1280, scheme: str = "light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"thrown: {error}"))
        page.goto(f"{proxy.url}/_cupel/?token={proxy.token}")
        until(page, "document.getElementById('watch-note').textContent !== ''")
        return page

    yield opener
    for context in contexts:
        context.close()
    assert [one for one in complaints if "net::ERR_" not in one] == []  # the proxy ends before the page


def send(proxy, count: int, **more) -> None:
    httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", count), **more))


def test_turns_appear_while_they_happen(watch):
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        page = watch(proxy)
        assert "none yet" in page.inner_text("#watch-note")
        for count in range(10):
            send(proxy, count)
            until(page, f"document.getElementById('turn-title').textContent === 'Turn {count + 1} of {count + 1}'")
        proxy.turns(10)
        (branch,) = proxy.branches
        until(page, f"document.getElementById('turn-readouts').textContent.includes('{branch.turns[-1].bill.sent:,}')")
        row = page.inner_text("#watch-rows")
        assert "Find the bug in the parser." in row
        assert f"{branch.total.sent:,}" in row
        assert page.locator(".strategy b").all_inner_texts() == ["sending everything", "as sent"]
        assert "the provider's own counts" in page.inner_text("#turn-reason")
        assert "shortened" in page.inner_text("#request")
        page.click("#turn-previous")
        send(proxy, 10)
        until(page, "document.getElementById('turn-title').textContent === 'Turn 9 of 11'")


def test_a_fork_is_a_branch_of_its_conversation(watch):
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        page = watch(proxy)
        send(proxy, 4)
        proxy.turns(1)
        other = [*history("openai", 2), {"role": "user", "content": "Try something else."}]
        httpx.post(proxy.url + PATHS["openai"], json=body("openai", other))
        proxy.turns(2)
        until(page, "document.getElementById('subtitle').textContent.includes('1 conversation in 2 branches, 2 turns')")


def test_a_slow_answer_is_on_its_way(watch):
    with running(lambda request: [1.5, *reply_to(request)]) as upstream, proxied(upstream.url) as proxy:
        page = watch(proxy)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", 1)), timeout=0.8)
        until(page, "document.getElementById('turn-title').textContent === 'Turn 1 of 1'")


def test_one_of_several_conversations_is_shown(watch):
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        for opening in ("First task.", "Second task."):
            httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", 2, opening)))
        proxy.turns(2)
        page = watch(proxy)
        until(page, "document.querySelectorAll('#watch-rows tr').length === 2")
        page.get_by_text("First task.").first.click()
        until(page, "document.querySelector('#watch-rows .current')?.textContent.includes('First task.')")
        until(page, "document.getElementById('request').textContent.includes('First task.')")
        link = page.url
        other = page.context.new_page()
        other.goto(link)
        until(other, "document.querySelector('#watch-rows .current')?.textContent.includes('First task.')")


def test_a_turn_opens_as_a_page_of_its_own(watch):
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        send(proxy, 8)
        page = watch(proxy)
        until(page, "document.querySelector('#turn-window a') !== null")
        page.click("#turn-window a")
        page.wait_for_selector("#in-rows tr")
        assert page.input_value("#budget") == str(BUDGET)
        page.fill("#budget", "1777")
        until(page, "cupelPage.state.budget === 1777 && live.isReady()")
        settle(page)
        assert int(page.inner_text("#n-used").replace(",", "")) <= 1777


def test_hostile_messages_are_text(watch):
    def reply(_request):
        return answer({"choices": [{"message": {"role": "assistant", "content": HOSTILE[0]}}], "usage": {}})

    messages = [{"role": "user", "content": text} for text in HOSTILE if "\ud800" not in text]
    with running(reply) as upstream, proxied(upstream.url) as proxy:
        sent = {"model": f"<img src=x onerror='{ATTACK}'>", "messages": messages}
        httpx.post(proxy.url + PATHS["openai"], json=sent)
        proxy.turns(1)
        page = watch(proxy)
        until(page, "document.querySelectorAll('#request .block').length > 5")
        for summary in page.locator("summary").all():
            summary.dispatch_event("click")
        settle(page)
        assert page.evaluate("typeof window.pwned") == "undefined"
        assert page.locator("main img, main iframe, main base, main script").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        assert "onerror" in page.inner_text("#watch-rows")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_looks(watch, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        for count in range(6):
            send(proxy, count)
        page = watch(proxy, width=width, scheme=scheme)
        until(page, "document.querySelectorAll('#request .block').length > 2")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        faults = axe.Axe().run(page).response["violations"]
        serious = [fault for fault in faults if fault["impact"] in {"serious", "critical"}]
        assert [(fault["id"], node["target"]) for fault in serious for node in fault["nodes"]] == []


def test_the_token_leaves_the_address(watch):
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        page = watch(proxy)
        assert "token" not in page.url
        page.reload()
        until(page, "document.getElementById('watch-note').textContent.includes('none yet')")


def test_a_phone_shows_price_and_cache_without_scrolling_sideways(watch):
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        messages = history("openai", 12, "A long opening that has to be broken into several lines of the table.")
        httpx.post(
            proxy.url + PATHS["openai"], json=body("openai", messages, model="a-model-with-a-long-name-2026-11-18")
        )
        proxy.turns(1)
        page = watch(proxy, width=390)
        until(page, "document.querySelectorAll('#watch-rows tr').length === 1")
        right = "[...document.querySelectorAll('.watched th, .watched td')].filter((one) => one.offsetParent)"
        edges = page.evaluate(f"{right}.map((one) => [one.textContent, one.getBoundingClientRect().right])")
        assert {"Cached", "Price", "Sending everything"} <= {text for text, _ in edges}
        assert max(edge for _, edge in edges) <= 390


def test_long_conversations_come_page_by_page(watch, monkeypatch):
    monkeypatch.setattr("cupel.watch._page._TURNS", 4)
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        for count in range(10):
            send(proxy, count)
        proxy.turns(10)
        title = "document.getElementById('turn-title').textContent"
        page = watch(proxy)
        until(page, f"{title} === 'Turn 10 of 10'")
        assert page.is_hidden("#turns-later")
        page.click("#turns-earlier")
        until(page, f"{title} === 'Turn 8 of 10'")
        page.click("#turn-previous")
        until(page, f"{title} === 'Turn 7 of 10'")
        assert page.get_attribute("#turn-window a", "href").endswith("/6/")
        send(proxy, 10)
        until(page, f"{title} === 'Turn 7 of 11'")
        page.reload()
        until(page, f"{title} === 'Turn 7 of 11'")
        page.click("#turns-later")
        until(page, f"{title} === 'Turn 9 of 11'")


def test_where_governing_cost_more_the_page_says_so(watch):
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        for count in range(8, 14):
            send(proxy, count)
        proxy.turns(6)
        turn = proxy.branches[0].turns[-1]
        turn.appended = replace(turn.appended, price=0.0)
        for one in proxy.branches[0].turns[:-1]:
            one.appended = turn.appended
        page = watch(proxy)
        until(page, "document.getElementById('strategies-note').textContent.includes('% more than sending everything')")
        assert "cost more than sending everything" in page.inner_text("#watch-rows")
