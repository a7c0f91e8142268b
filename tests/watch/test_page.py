"""The watcher's page: its data are the requests and the bills of the store, and only this machine gets them."""

import json
import re
import signal
import subprocess
import sys
from time import monotonic

import httpx2 as httpx
import pytest

from cupel.watch._page import branch_rows, turns_payload
from tests.watch.agent import PATHS, PROVIDERS, body, history, reply_to, step
from tests.watch.upstream import answer, proxied, running

BUDGET = 3000
PAGE = "/_cupel/"


def expanded(runs):
    return [first + at for first, count in zip(runs[::2], runs[1::2], strict=True) for at in range(count)]


def converse(proxy, provider="openai", steps=10):
    for count in range(steps):
        httpx.post(proxy.url + PATHS[provider], json=body(provider, history(provider, count)))
    proxy.turns(steps)


@pytest.fixture(params=[None, BUDGET], ids=["looking", "governing"], scope="module")
def watched(request):
    with running(reply_to) as upstream, proxied(upstream.url, budget=request.param) as proxy:
        converse(proxy)
        yield proxy


@pytest.fixture(params=PROVIDERS)
def governed(request):
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        converse(proxy, request.param)
        yield proxy


def story_of(proxy):
    (row,) = httpx.get(f"{proxy.url}{PAGE}conversations", cookies=proxy.cookies).json()
    found = httpx.get(f"{proxy.url}{PAGE}turns", cookies=proxy.cookies, params={"session": row["session"]})
    return row, found.json()


def test_the_list_has_the_totals_of_the_branch(watched):
    (branch,) = watched.branches
    row, _ = story_of(watched)
    assert (row["turns"], row["sent"], row["read"]) == (10, branch.total.sent, branch.total.read)
    assert row["estimated"] is False
    assert (row["price"], row["appended"]) == (branch.total.price, branch.appended.price)
    assert row["title"] == "Find the bug in the parser."
    assert row["waiting"] is False


def test_each_turn_has_the_providers_own_counts(watched):
    (branch,) = watched.branches
    _, story = story_of(watched)
    (talk,) = story["conversations"]
    assert story["strategies"] == (["as sent"] if watched.store.budget is None else ["sending everything", "as sent"])
    for turn, shown in zip(branch.turns, talk["strategies"][-1], strict=True):
        assert turn.bill.settled
        assert (shown["sent"], shown["read"], shown["new"]) == (turn.bill.sent, turn.bill.read, turn.bill.new)
        assert shown["price"] == turn.bill.price
        assert "the provider's own counts" in shown["told"][0]
    for turn, shown in zip(branch.turns, talk["strategies"][0], strict=True):
        assert shown["sent"] == (turn.appended or turn.bill).sent
        assert shown["request"] == [0, turn.count]


def test_requests_are_the_messages_that_were_sent(governed):
    (branch,) = governed.branches
    _, story = story_of(governed)
    (talk,) = story["conversations"]
    shortened, before = 0, []
    for turn, shown in zip(branch.turns, talk["strategies"][-1], strict=True):
        numbers = expanded(shown["request"])
        positions = [form.position for form in branch.sent(turn)]
        assert [n if n < talk["messages"] else talk["texts"][n]["of"] for n in numbers] == positions
        shortened += sum(n >= talk["messages"] for n in numbers)
        assert any("are sent" in words for words in shown["told"])
        left = set(before) - set(positions)
        assert left <= {at for note in shown["notes"] for at in note["at"]}
        before = [at for at in positions if at is not None]
    assert shortened
    assert talk["steps"] == [turn.count for turn in branch.turns]
    assert "function_9_0" not in json.dumps(talk["texts"])
    assert "function_8_0" in json.dumps(talk["texts"])


def test_counts_without_a_usage_are_called_estimated(tmp_path):
    """Such as those of Chat Completions that are streamed without `include_usage`."""
    said = {"choices": [{"message": {"role": "assistant", "content": "Done."}}]}
    with running(lambda _: answer(said)) as upstream, proxied(upstream.url, folder=tmp_path / "windows") as proxy:
        converse(proxy, steps=2)
        row, story = story_of(proxy)
        assert row["estimated"]
        assert "cupel's estimate" in story["conversations"][0]["strategies"][0][-1]["told"][0]
    (recorded,) = [json.loads(path.read_text()) for path in (tmp_path / "windows").glob("*.json")]
    assert [turn["bill"]["settled"] for turn in recorded["turns"]] == [False, False]


def test_a_window_that_is_not_kept_any_more_is_not_shown_as_something_else(monkeypatch):
    monkeypatch.setattr("cupel.watch._govern._MOST_FORMS", 3)
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        converse(proxy, steps=16)
        _, story = story_of(proxy)
        forgotten = [row for row in story["conversations"][0]["strategies"][-1] if row["request"] == []]
        assert forgotten
        assert all("The messages of this request are not kept any more." in row["told"] for row in forgotten)


def test_the_system_prompt_opens_the_request():
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        httpx.post(proxy.url + PATHS["anthropic"], json=body("anthropic", history("anthropic", 1)))
        proxy.turns(1)
        _, story = story_of(proxy)
        assert [row["text"] for row in story["conversations"][0]["opening"]] == ["You are an agent."]


def test_branches_are_listed_one_by_one():
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        for last in ("one", "other"):
            messages = [*history("openai", 2), {"role": "assistant", "content": last}, *step("openai", 7)]
            httpx.post(proxy.url + PATHS["openai"], json=body("openai", messages))
        proxy.turns(2)
        rows = branch_rows(proxy.store)
        assert len(rows) == 2
        assert sorted(row["forked"] for row in rows) == [0, 5]
        for row in rows:
            branch = proxy.store.branch(row["session"])
            assert turns_payload(proxy.store, branch)["conversations"][0]["messages"] == 8


def test_a_message_that_nobody_can_read_is_shown_as_it_is():
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        odd = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": 7}]
        httpx.post(proxy.url + PATHS["openai"], json=body("openai", odd))
        proxy.turns(1)
        rows = branch_rows(proxy.store)
        for row in rows:
            branch = proxy.store.branch(row["session"])
            (talk,) = turns_payload(proxy.store, branch)["conversations"]
            assert "7" in talk["texts"][1]["text"]


def test_a_turn_opens_as_a_page_that_answers(watched):
    _, story = story_of(watched)
    place = f"{watched.url}{PAGE}{story['window']}/9/"
    page = httpx.get(place, cookies=watched.cookies)
    data = json.loads(re.search(r'id="payload">(.*?)</script>', page.text, re.DOTALL)[1])
    assert data["live"]
    assert "function_8_0" in json.dumps(data["items"])
    said = httpx.post(f"{place}ask", cookies=watched.cookies, json={"budget": 777, "pins": {"0": False}})
    assert said.json()["policies"][0]["stages_at"] == 777
    assert httpx.post(f"{place}ask", cookies=watched.cookies, json={"budget": -1}).status_code == 400


def test_places_that_are_not_there(watched):
    for path in ("turns", "turns?session=x.y", "window/x.y/0/", "window/x.y/nonsense/", "missing"):
        assert httpx.get(f"{watched.url}{PAGE}{path}", cookies=watched.cookies).status_code == 404
    assert (
        httpx.post(f"{watched.url}{PAGE}window/x.y/0/ask", cookies=watched.cookies, json={"budget": 1}).status_code
        == 404
    )
    assert httpx.post(f"{watched.url}{PAGE}conversations", cookies=watched.cookies).status_code == 405


@pytest.mark.parametrize("path", ["", "conversations", "turns", "events"])
def test_only_this_machine_gets_the_page(watched, path):
    for headers in ({"host": "evil.example"}, {"host": "127.0.0.1.evil.example"}, {"sec-fetch-site": "cross-site"}):
        refusal = httpx.get(f"{watched.url}{PAGE}{path}", cookies=watched.cookies, headers=headers)
        assert refusal.status_code in {403, 421}
        assert "parser" not in refusal.text


def test_the_page_may_run_its_script_alone(watched):
    page = httpx.get(f"{watched.url}{PAGE}", cookies=watched.cookies, headers={"origin": "https://evil.example"})
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert not [name for name in page.headers if name.startswith("access-control-")]


def test_the_page_holds_no_conversation_before_it_asks(watched):
    """The page itself can be saved or sent: it carries neither messages nor keys."""
    assert "Find the bug" not in httpx.get(f"{watched.url}{PAGE}", cookies=watched.cookies).text


def test_every_change_is_told(governed):
    with httpx.stream("GET", f"{governed.url}{PAGE}events", cookies=governed.cookies, timeout=10) as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": watching"
        for opening in ("one", "two"):
            httpx.post(governed.url + PATHS["openai"], json=body("openai", history("openai", 1, opening)))
            assert next(line for line in lines if line) == "data: changed"


def test_an_open_page_does_not_hold_up_the_end():
    command = [sys.executable, "-m", "cupel", "watch", "--upstream", "http://127.0.0.1:9", "--no-record"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process, httpx.Client(timeout=20) as client:
        page, _, token = next(line for line in process.stderr if PAGE in line).split()[-1].partition("?")
        with client.stream("GET", f"{page}events?{token}") as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": watching"
            process.send_signal(signal.SIGINT)
            begun = monotonic()
            assert list(lines) == [""]
            process.wait(20)
        assert monotonic() - begun < 4


def test_a_long_conversation_is_sent_page_by_page(monkeypatch):
    monkeypatch.setattr("cupel.watch._page._TURNS", 4)
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        converse(proxy, steps=10)
        (branch,) = proxy.branches
        for wanted, first, count in ((None, 8, 2), (1, 0, 4), (4, 0, 4), (5, 4, 4), (99, 8, 2), (0, 8, 2)):
            story = turns_payload(proxy.store, branch, wanted)
            (talk,) = story["conversations"]
            assert (story["first"], story["turns"], len(talk["steps"])) == (first, 10, count)
            assert talk["messages"] == branch.turns[first + count - 1].count
        (row,) = branch_rows(proxy.store)
        address = f"{proxy.url}{PAGE}turns"
        for turn, first in (("3", 0), ("nonsense", 8)):
            asked = {"session": row["session"], "turn": turn}
            assert httpx.get(address, params=asked, cookies=proxy.cookies).json()["first"] == first
