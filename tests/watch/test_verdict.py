"""What governing saved: the price of sending everything, in words, and the budget at which it would have paid."""

from dataclasses import replace
from random import Random

import httpx2 as httpx
import pytest

from cupel.messages import Bill
from cupel.watch._launch import _summary
from cupel.watch._verdict import suggested_budget, summary, verdict
from tests.watch.agent import PATHS, PROVIDERS, body, history, output, reply_to, says, step
from tests.watch.caching import CachingProvider, marked
from tests.watch.upstream import answer, proxied, running

TURNS = 32


def script(provider, turns=TURNS):
    """The requests of an agent whose tool outputs and messages of the user have various lengths."""
    random = Random(7)
    text = [{"type": "text", "text": "Find the bug."}] if provider == "anthropic" else "Find the bug."
    messages, found = [{"role": "user", "content": text}], []
    for number in range(turns):
        found.append(marked(messages) if provider == "anthropic" else list(messages))
        messages += step(provider, number, output(number, random.randint(2, 60)))
        if random.random() < 0.2 and provider != "anthropic":
            messages.append({"role": "user", "content": "Go on. " + "please " * random.randint(1, 40)})
    return found


def run(provider, budget, cache, **more):
    with running(cache) as upstream, proxied(upstream.url, budget=budget) as proxy:
        for messages in script(provider):
            assert httpx.post(proxy.url + PATHS[provider], json=body(provider, messages, **more), timeout=30).is_success
        proxy.turns(TURNS)
        return proxy.watcher


TOOLS = [{"name": "read", "input_schema": {"type": "object", "description": "word " * 3000}}]
CACHES = {
    "plain": {},
    "counts more": {"rate": 1.4},
    "counts tools otherwise": {"overhead": 0.6},
    "serves nothing": {"miss": 1},
    "counts each message otherwise": {"spread": 0.3},
    "caches single tokens": {"block": 1},
}


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_looking_and_governing_agree_on_the_price_of_sending_everything(provider, cache):
    more = {"tools": TOOLS} if provider == "anthropic" else {}
    looked = run(provider, None, CachingProvider(provider, **CACHES[cache]), **more)
    governed = run(provider, 10_000 if more else 8_000, CachingProvider(provider, **CACHES[cache]), **more)
    assert governed.changed > 5
    assert looked.in_full == looked.total
    assert governed.in_full.price == pytest.approx(looked.total.price, rel=0.03)
    assert governed.in_full.sent == pytest.approx(looked.total.sent, rel=0.03)


@pytest.mark.parametrize("more", [{}, {"tools": []}])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_another_model_in_between_has_a_cache_of_its_own(provider, more):
    prices = []
    for budget in (None, 8000):
        with running(CachingProvider(provider)) as upstream, proxied(upstream.url, budget=budget) as proxy:
            sent = 0
            for number, messages in enumerate(script(provider)):
                for one in ({}, {"model": "another", **more})[: 1 + (number % 6 == 5)]:
                    httpx.post(proxy.url + PATHS[provider], json={**body(provider, messages), **one}, timeout=30)
                    sent += 1
            proxy.turns(sent)
            prices.append(proxy.watcher.in_full.price)
    assert prices[1] == pytest.approx(prices[0], rel=0.03)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_cache_that_fails_now_and_then_is_estimated(provider):
    """Which requests it fails on is chance; with a few dozen of them, that remains."""
    looked = run(provider, None, CachingProvider(provider, miss=5))
    governed = run(provider, 8000, CachingProvider(provider, miss=5))
    assert governed.in_full.price == pytest.approx(looked.total.price, rel=0.15)
    assert governed.in_full.price > 1.5 * run(provider, None, CachingProvider(provider)).total.price


def test_requests_that_were_rewritten_teach_nothing_about_the_cache():
    """It serves what was sent before, but no request that does not begin with all of the last one."""
    seen, provider = [], CachingProvider("openai")

    def reply(request):
        messages = request.json["messages"]
        appends = not seen or messages[: len(seen[-1])] == seen[-1]
        seen.append(messages)
        total, read = provider.serve(request.json)[:2]
        said = says("openai", "Done.", total)
        said["usage"]["prompt_tokens_details"] = {"cached_tokens": read if appends else 0}
        return answer(said)

    looked = run("openai", None, CachingProvider("openai"))
    governed = run("openai", 8000, reply)
    assert {turn.action for live in governed.store.live for turn in live.branch.turns} - {"append"}
    assert governed.in_full.price == pytest.approx(looked.total.price, rel=0.03)


def test_all_that_is_sent_after_a_changed_request_is_compared_too():
    """A request that is sent whole again is read from the cache less than it would have been."""
    with running(reply_to) as upstream, proxied(upstream.url, budget=3000) as proxy:
        for count in (8, 12):
            httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", count)))
        proxy.store.budget = 10**6
        httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", 13)))
        last = proxy.turns(3)[-1]
    assert last.window is None
    assert last.appended.sent == last.bill.sent


def test_words_for_more_and_less():
    full = Bill(sent=100, price=100.0)
    assert verdict(Bill(price=105.4), full) == "governing cost 5.4% more than sending everything would have"
    assert verdict(Bill(price=60.0), full) == "governing cost 40.0% less than sending everything would have"
    assert verdict(Bill(price=100.1), full) == "governing cost as much as sending everything would have"
    assert verdict(full, full) == "governing cost as much as sending everything would have"
    assert summary(2, Bill(sent=60, price=110.0), full) == (
        "2 requests changed: 40 tokens saved, a price of 10 uncached tokens lost"
    )


def paying(proxy, share=1.1):
    """Make the proxy's run one that cost a share of what sending everything would have."""
    proxy.watcher.total = replace(proxy.watcher.total, price=share * proxy.watcher.in_full.price)


def test_where_governing_cost_more_the_summary_says_so_and_names_a_budget():
    with running(CachingProvider("openai")) as upstream, proxied(upstream.url, budget=2500) as proxy:
        for messages in script("openai", 2 * TURNS):
            httpx.post(proxy.url + PATHS["openai"], json=body("openai", messages), timeout=30)
        proxy.turns(2 * TURNS)
        largest = max(turn.appended.sent for turn in proxy.branches[0].turns if turn.appended)
        paying(proxy, 0.9)
        assert len(_summary(proxy.watcher, None)) == 2
        paying(proxy)
        lines = _summary(proxy.watcher, None)
        found = suggested_budget(proxy.store.live, 2500)
    assert lines[1].startswith("governing cost 10.0% more than sending everything would have; ")
    assert found is not None
    assert 2500 < found < largest
    assert lines[1].endswith(f"a budget of about {found:,} is one at which it would not")
    assert "uncached tokens lost; 0 calls not read" in lines[2]


def test_where_no_budget_would_have_paid_none_is_named(monkeypatch):
    monkeypatch.setattr("cupel.watch._verdict._price", lambda live, budget, until: -budget)
    with running(reply_to) as upstream, proxied(upstream.url, budget=2500) as proxy:
        httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", 14)))
        proxy.turns(1)
        assert suggested_budget(proxy.store.live, 2500) is None
        paying(proxy)
        assert "; no budget was found at which it would not" in _summary(proxy.watcher, None)[1]


def test_the_search_for_a_budget_ends(monkeypatch):
    monkeypatch.setattr("cupel.watch._verdict._SECONDS", 0.0)
    with running(reply_to) as upstream, proxied(upstream.url, budget=2500) as proxy:
        httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", 14)))
        proxy.turns(1)
        assert suggested_budget(proxy.store.live, 2500) is None


def test_where_hardly_anything_fits_the_estimate_does_not_flatter():
    """The requests differ by their frames alone, which say nothing about the tokens of what is left out."""

    def run_frames(budget):
        cache = CachingProvider("openai-responses", rate=1.3)
        with running(cache) as upstream, proxied(upstream.url, budget=budget) as proxy:
            for count in range(1, 24):
                messages = history("openai-responses", count, "word " * 300)
                httpx.post(proxy.url + PATHS["openai-responses"], json=body("openai-responses", messages), timeout=30)
            return proxy.turns(23), proxy.watcher

    governed, watcher = run_frames(950)
    assert watcher.changed > 5
    bills = [turn.appended for turn in governed if turn.appended]
    assert all(min(bill.new, bill.read, bill.rewritten) >= 0 for bill in bills)
    assert watcher.in_full.price <= 1.05 * run_frames(None)[1].total.price
