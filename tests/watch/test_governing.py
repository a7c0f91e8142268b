"""A proxy with a budget: requests are replaced by the session's, and no call fails because of it."""

import gzip
import json
import re
import threading
import time
from contextlib import suppress

import httpx2 as httpx
import pytest

from cupel.evaluation import read_recordings
from cupel.messages import MessageSession, recall
from cupel.watch._conversations import Store
from cupel.watch._reading import call_of, read_request
from cupel.watch._watcher import Exchange, Watcher
from tests.messages.provider_rules import unseen, violations
from tests.watch.agent import FIELD, PATHS, PROVIDERS, body, history, output, reply_to, says, step
from tests.watch.upstream import GO_AWAY, answer, proxied, running

BUDGET = 3000


def converse(url, provider, steps, **more):
    """Send the requests of an agent's conversation; return the histories."""
    histories = []
    for count in range(steps):
        messages = history(provider, count)
        response = httpx.post(url + PATHS[provider], json=body(provider, messages, **more), timeout=20)
        assert response.status_code == 200
        histories.append(messages)
    return histories


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_governed_request_is_valid_and_within_the_budget(provider):
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        histories = converse(proxy.url, provider, 14)
        turns = proxy.turns(14)
        for sent, full in zip(upstream.received, histories, strict=True):
            messages = sent.json[FIELD[provider]]
            assert violations(provider, messages, full) == []
            assert unseen(provider, messages)[:1] == unseen(provider, full)[:1]
        assert len(upstream.received[-1].body) < len(json.dumps(histories[-1])) / 2
        assert {turn.action for turn in turns} & {"cut"}
        last = turns[-1]
        assert proxy.sent(last) == upstream.received[-1].json[FIELD[provider]]
        assert proxy.branches[0].asked == histories[-1]
        assert any(number < 0 for number in last.window)
        assert len(last.window) <= last.count
        assert "tokens" in last.explain
        assert last.bill.settled
        assert last.bill.sent == len(upstream.received[-1].body) // 4
        assert last.appended.sent > last.bill.sent


@pytest.mark.parametrize("provider", PROVIDERS)
def test_all_but_the_messages_stays_as_it_was(provider):
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        sent = body(provider, history(provider, 14))
        raw = json.dumps(sent, separators=(" ,", " :  ")).encode()
        httpx.post(proxy.url + PATHS[provider], content=raw)
        got = upstream.received[0]
        assert {**got.json, FIELD[provider]: None} == {**sent, FIELD[provider]: None}
        assert list(got.json) == list(sent)
        assert b'"unknown_field":{"kept" :  [1 ,2.5 ,null]}' in got.body  # as it was written
        assert got.header("content-length") == str(len(got.body))
        own = [one for one in got.json[FIELD[provider]] if one in sent[FIELD[provider]]]
        assert own
        assert all(json.dumps(one, separators=(" ,", " :  ")).encode() in got.body for one in own)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_ids_of_what_is_left_out_find_it_in_the_recordings(tmp_path, provider):
    folder = tmp_path / "windows"
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET, folder=folder) as proxy:
        proxy.store.recall = True
        full = converse(proxy.url, provider, 14)[-1]
        proxy.turns(14)
        sent = json.dumps(upstream.received[-1].json[FIELD[provider]])
    (recording,) = read_recordings(folder)
    name = re.search(r"\[cupel: [^\]]*#(\w+)", sent)[1]
    answer = recall({"id": name}, recording.messages[: len(full)], provider=provider, page=BUDGET)
    assert answer.splitlines()[0] in json.dumps(full)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_request_that_fits_is_sent_in_its_original_bytes(provider):
    with running(reply_to) as upstream, proxied(upstream.url, budget=100_000) as proxy:
        raw = json.dumps(body(provider, history(provider, 5)), indent=3).encode()
        packed = gzip.compress(raw)
        httpx.post(proxy.url + PATHS[provider], content=raw)
        httpx.post(proxy.url + PATHS[provider], content=packed, headers={"content-encoding": "gzip"})
        assert [one.body for one in upstream.received] == [raw, packed]
        assert proxy.turns(2)[0].action == "append"


def test_a_compressed_request_is_governed_and_sent_unpacked():
    packed = gzip.compress(json.dumps(body("openai", history("openai", 14))).encode())
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        httpx.post(proxy.url + PATHS["openai"], content=packed, headers={"content-encoding": "gzip"})
        got = upstream.received[0]
        assert got.header("content-encoding") is None
        assert violations("openai", got.json["messages"]) == []


@pytest.mark.parametrize("status", [400, 422])
def test_a_refused_request_is_replaced_by_the_original(status):
    sizes = []

    def reply(request):
        sizes.append(len(request.body))
        refused = len(sizes) == 1
        return answer({"error": {"message": "bad tool_use"}}, status) if refused else reply_to(request)

    raw = json.dumps(body("anthropic", history("anthropic", 14)), indent=1).encode()
    with running(reply) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        response = httpx.post(proxy.url + PATHS["anthropic"], content=raw)
        assert response.status_code == 200
        assert len(upstream.received) == 2
        assert upstream.received[0].body != raw
        assert upstream.received[1].body == raw
        turn = proxy.turns(1)[0]
        assert turn.action == "original"
        assert "bad tool_use" in turn.notes[0]
        assert proxy.sent(turn) == json.loads(raw)["messages"]
        assert turn.bill.sent == len(raw) // 4


def test_a_refused_request_is_not_remembered():
    def reply(request):
        return answer({"error": "no"}, 400) if len(upstream.received) == 2 else reply_to(request)

    with running(reply) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", 14)))
        proxy.turns(1)
        state = proxy.branches[0].state
        httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", 15)))
        proxy.turns(2)
        assert proxy.branches[0].state == state


def test_the_original_is_sent_once_and_its_refusal_reaches_the_client():
    with running(lambda _: answer({"error": "no"}, 400)) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        response = httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", 14)))
        assert (response.status_code, len(upstream.received)) == (400, 2)


def test_a_branch_that_is_refused_twice_is_left_alone():
    def reply(request):
        return reply_to(request) if len(request.body) > 20_000 else answer({"error": "no"}, 400)

    with running(reply) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        for steps in (14, 15, 16, 17):
            assert httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", steps))).is_success
        assert len(upstream.received) == 6
        assert "refused" in proxy.turns(4)[-1].notes[0]


@pytest.mark.parametrize("where", ["fit", "to_json", "from_json"])
def test_a_failure_of_ours_sends_the_original(monkeypatch, where):
    def fail(*_, **__):
        raise RuntimeError("broken")

    raw = json.dumps(body("openai", history("openai", 14))).encode()
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", 13)))
        proxy.turns(1)
        proxy.store.live[0].governed.session = None
        monkeypatch.setattr(MessageSession, where, fail)
        response = httpx.post(proxy.url + PATHS["openai"], content=raw)
        monkeypatch.undo()
        assert response.is_success
        assert upstream.received[1].body == raw
        turn = proxy.turns(2)[1]
        assert turn.action == "original"
        assert "broken" in turn.notes[0]
        httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", 15)))
        assert proxy.turns(3)[2].action in {"append", "cut"}  # and the next one is governed again


def test_governing_that_takes_too_long_sends_the_original(monkeypatch):
    fit = MessageSession.fit
    monkeypatch.setattr("cupel.watch._watcher._PATIENCE", 0.1)
    monkeypatch.setattr(MessageSession, "fit", lambda *a, **k: (time.sleep(0.5), fit(*a, **k))[1])
    raw = json.dumps(body("openai", history("openai", 14))).encode()
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        assert httpx.post(proxy.url + PATHS["openai"], content=raw).is_success
        assert upstream.received[0].body == raw
        assert proxy.turns(1)[0].action == "original"


def test_a_request_that_waited_too_long_is_not_governed_afterwards(monkeypatch):
    """The others that wait would wait for it, too."""
    asked = []
    raw = json.dumps(body("openai", history("openai", 14))).encode()
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        converse(proxy.url, "openai", 14)
        proxy.turns(14)
        state = proxy.branches[0].state
        monkeypatch.setattr("cupel.watch._watcher._PATIENCE", 0.1)
        monkeypatch.setattr("cupel.watch._govern.LiveBranch.govern", lambda *_: asked.append(1))
        proxy.watcher._worker.submit(lambda: time.sleep(0.5))
        assert httpx.post(proxy.url + PATHS["openai"], content=raw).is_success
        assert upstream.received[-1].body == raw
        last = proxy.turns(15)[-1]
        assert (last.action, asked) == ("original", [])
        assert "longer than 0.1 seconds" in last.notes[0]
        assert proxy.branches[0].state == state


def test_requests_that_wait_come_before_recordings(monkeypatch):
    done, blocked, released = [], threading.Event(), threading.Event()
    monkeypatch.setattr(Watcher, "_keep", lambda _, exchange: done.append(("keep", exchange)))
    watcher = Watcher(Store(budget=BUDGET))
    raw = json.dumps(body("openai", history("openai", 1))).encode()
    one, two = (Exchange(call_of("POST", PATHS["openai"]), raw, [], status=200) for _ in range(2))
    watcher.answered(one)
    watcher._worker.submit(lambda: (blocked.set(), released.wait()))
    assert blocked.wait(5)
    watcher._submit(two, lambda exchange: done.append(("request", exchange)))
    released.set()
    watcher.close()
    assert done == [("request", two), ("keep", one)]


def test_tokens_are_counted_for_the_request_that_would_be_sent():
    messages = history("anthropic", 14)
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        path = f"{proxy.url}/v1/messages/count_tokens"
        raw = json.dumps(body("anthropic", messages)).encode()
        before = httpx.post(path, content=raw).json()["input_tokens"]
        sent = httpx.post(proxy.url + PATHS["anthropic"], content=raw)
        assert before == sent.json()["usage"]["input_tokens"] < len(raw) // 8
        small = json.dumps(body("anthropic", messages[:1])).encode()
        httpx.post(path, content=small)
        assert upstream.received[-1].body == small
        assert len(proxy.turns(1)) == 1  # counting is no turn


def test_counting_passes_when_only_looking_and_when_it_cannot_be_governed():
    raw = json.dumps(body("anthropic", history("anthropic", 14))).encode()
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        httpx.post(f"{proxy.url}/v1/messages/count_tokens", content=raw)
        assert upstream.received[0].body == raw
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        httpx.post(f"{proxy.url}/v1/messages/count_tokens", content=b"no json")
        assert upstream.received[0].body == b"no json"


def test_a_retry_sends_the_same_bytes_again_and_is_settled_once():
    failing = [True, True, False]

    def reply(request):
        return answer({"error": "busy"}, 529) if failing.pop(0) else reply_to(request)

    with running(reply) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        raw = json.dumps(body("openai", history("openai", 14))).encode()
        for _ in range(3):
            httpx.post(proxy.url + PATHS["openai"], content=raw)
        assert len({one.body for one in upstream.received}) == 1
        turns = proxy.turns(3)
        assert [turn.action for turn in turns][1:] == ["retry", "retry"]
        assert [turn.bill is None for turn in turns] == [True, True, False]
        assert turns[2].bill.sent == len(upstream.received[0].body) // 4


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_repeat_of_the_messages_keeps_its_own_parameters(provider):
    """As Claude Code falls back after a stream that was cut: another model, and the answer whole."""
    first = body(provider, history(provider, 14), stream=True, max_tokens=64_000)
    again = {**body(provider, history(provider, 14)), "stream": False, "max_tokens": 21_000, "model": "other-model"}

    def reply(request):
        if request.json["stream"]:
            return [
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
                GO_AWAY,
            ]
        return reply_to(request)

    with running(reply) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        with suppress(httpx.RemoteProtocolError):
            httpx.post(proxy.url + PATHS[provider], json=first)
        assert httpx.post(proxy.url + PATHS[provider], json=again).is_success
        sent = [one.json for one in upstream.received]
        assert [turn.action for turn in proxy.turns(2)] == ["append", "retry"]
    for asked, got in zip((first, again), sent, strict=True):
        assert {**got, FIELD[provider]: 0} == {**asked, FIELD[provider]: 0}
    assert sent[0][FIELD[provider]] == sent[1][FIELD[provider]] != history(provider, 14)


def test_a_repeat_with_other_tools_keeps_them():
    tools = [{"name": "read", "input_schema": {"type": "object"}}]
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        for more in ({}, {"tools": tools}, {"system": "Be short."}):
            asked = body("anthropic", history("anthropic", 14), **more)
            assert httpx.post(proxy.url + PATHS["anthropic"], json=asked).is_success
            got = upstream.received[-1].json
            assert {**got, "messages": 0} == {**asked, "messages": 0}
            assert violations("anthropic", got["messages"], history("anthropic", 14)) == []
            assert len(got["messages"]) < len(asked["messages"])


def test_a_repeat_with_other_cache_marks_has_at_most_four():
    messages = history("anthropic", 14)
    marked = [{**messages[-1], "content": [{**messages[-1]["content"][0], **MARK}]}]
    blocks = [{"type": "text", "text": f"Part {number}.", **MARK} for number in range(3)]
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        for last, system in ((marked, "Be."), (marked, blocks), (messages[-1:], "Be.")):
            sent = body("anthropic", [*messages[:-1], *last], system=system)
            assert httpx.post(proxy.url + PATHS["anthropic"], json=sent).is_success
        proxy.turns(3)
        assert all(one.body.count(b'"cache_control"') <= 4 for one in upstream.received)


def test_a_repeat_of_a_refused_request_is_sent_as_it_is():
    raw = json.dumps(body("anthropic", history("anthropic", 14))).encode()

    def reply(request):
        return reply_to(request) if request.body == raw else answer({"error": "no"}, 400)

    with running(reply) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        for _ in range(3):
            assert httpx.post(proxy.url + PATHS["anthropic"], content=raw).is_success
        assert [one.body == raw for one in upstream.received] == [False, True, True, True]
        assert {turn.action for turn in proxy.turns(3)} == {"original"}


def test_a_history_that_the_provider_keeps_is_not_governed():
    sent = body("openai-responses", history("openai-responses", 14), previous_response_id="resp_1")
    raw = json.dumps(sent).encode()
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        httpx.post(proxy.url + PATHS["openai-responses"], content=raw)
        assert upstream.received[0].body == raw
        assert "the provider keeps the history" in proxy.turns(1)[0].notes[0]


def test_a_signed_request_is_forwarded_as_it_is_with_a_note():
    raw = json.dumps(body("anthropic", history("anthropic", 14))).encode()
    headers = {"authorization": "AWS4-HMAC-SHA256 Credential=AKIA/x, Signature=abc", "accept-encoding": "br"}
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        httpx.post(proxy.url + PATHS["anthropic"], content=raw, headers=headers)
        assert upstream.received[0].body == raw
        assert upstream.received[0].header("accept-encoding") == "br"
        assert "SigV4" in proxy.turns(1)[0].notes[0]


MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize("system", [1, 2, 3])
def test_a_governed_request_has_at_most_four_cache_marks(system):
    blocks = [{"type": "text", "text": f"Part {number}.", **MARK} for number in range(system)]
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        for count in range(10, 16):
            messages = history("anthropic", count)
            messages[-1] = {**messages[-1], "content": [{**messages[-1]["content"][0], **MARK}]}
            httpx.post(proxy.url + PATHS["anthropic"], json=body("anthropic", messages, system=blocks))
        proxy.turns(6)
        assert len(proxy.branches) == 1
        for one in upstream.received:
            assert one.json["system"] == blocks
            assert system < one.body.count(b'"cache_control"') <= 4


def test_a_client_without_cache_marks_gets_none():
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        converse(proxy.url, "anthropic", 14)
        assert not any(b"cache_control" in one.body for one in upstream.received)


def test_a_billing_block_that_changes_does_not_rewrite_the_window():
    def system(number):
        return [{"type": "text", "text": f"x-anthropic-billing-header: cch={number}"}, {"type": "text", "text": "Be."}]

    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        sessions = set()
        for count in range(8, 16):
            sent = body("anthropic", history("anthropic", count), system=system(count))
            httpx.post(proxy.url + PATHS["anthropic"], json=sent)
            assert upstream.received[-1].json["system"] == system(count)
            sessions.add(proxy.store.live[0].governed.session)
        proxy.turns(8)
        assert len(sessions) == 1


def test_an_edited_message_becomes_a_branch_of_its_own():
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        first = history("openai", 12)
        httpx.post(proxy.url + PATHS["openai"], json=body("openai", first))
        proxy.turns(1)
        edited = [*first[:-2], *step("openai", 11, "something else")]
        httpx.post(proxy.url + PATHS["openai"], json=body("openai", edited))
        proxy.turns(2)
        assert [(branch.parent, branch.forked) for branch in proxy.branches] == [(None, 0), ("0", len(first) - 1)]
        one, two = (request.json["messages"] for request in upstream.received)
        assert (one[0], two[-1]) == (two[0], edited[-1])


def test_sessions_that_were_put_aside_continue_as_before(monkeypatch):
    def run():
        with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
            for count in range(8, 15):
                for opening in ("one", "two", "three"):
                    messages = history("openai", count, opening)
                    httpx.post(proxy.url + PATHS["openai"], json=body("openai", messages))
            proxy.turns(21)
            left.append(sum(live.governed.session is not None for live in proxy.store.live))
            return [request.body for request in upstream.received]

    left = []
    kept = run()
    monkeypatch.setattr("cupel.watch._conversations._MOST_SESSIONS", 1)
    assert run() == kept
    assert left == [3, 1]


@pytest.mark.parametrize("cached", [0.0, 0.9])
def test_sending_everything_is_compared_under_the_cache_that_the_provider_has(cached):
    """Without one, it costs as much as it has tokens."""

    def reply(request):
        tokens = len(request.body) // 4
        said = says("openai", "Done.", tokens)
        said["usage"]["prompt_tokens_details"] = {"cached_tokens": int(tokens * cached)}
        return answer(said)

    with running(reply) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        converse(proxy.url, "openai", 14)
        last = proxy.turns(14)[-1]
        assert (last.appended.read > 0) == (cached > 0)
        assert (last.appended.price == last.appended.sent) == (cached == 0)


def test_usage_calibrates_the_counter():
    """A provider that counts twice as much gets requests of half the size."""

    def reply(request):
        return answer(says("openai", "Done.", len(request.body) // 2))

    with running(reply) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        converse(proxy.url, "openai", 16)
        proxy.turns(16)
        assert all(len(one.body) // 2 <= BUDGET * 1.1 for one in upstream.received[8:])


def bulk(provider, kind):
    """A history of 20 MB."""
    if kind == "one text":
        return [*history(provider, 5, "Large."), *step(provider, 50, output(1, 300_000)), *step(provider, 51)]
    return history(provider, 7_000, "Large.")


@pytest.mark.parametrize("budget", [None, BUDGET], ids=["looking", "governing"])
@pytest.mark.parametrize("kind", ["one text", "many messages"])
def test_a_large_request_keeps_no_other_waiting(kind, budget):
    waits, done = [], []
    raw = json.dumps(body("openai", bulk("openai", kind))).encode()
    assert len(raw) > 17_000_000
    with running(reply_to) as upstream, proxied(upstream.url, budget=budget) as proxy:

        def large():
            done.append(httpx.post(proxy.url + PATHS["openai"], content=raw, timeout=60).is_success)

        converse(proxy.url, "openai", 2)  # the counter is loaded
        sender = threading.Thread(target=large)
        sender.start()
        with httpx.Client(timeout=30) as client:
            while sender.is_alive() or proxy.watcher.held or len(waits) < 20:
                start = time.monotonic()
                sent = body("openai", history("openai", 12, f"Task {len(waits) % 50}."))
                assert client.post(proxy.url + PATHS["openai"], json=sent).is_success
                waits.append(time.monotonic() - start)
                time.sleep(0.05)
        sender.join()
        (branch,) = [branch for branch in proxy.branches if branch.title == "Large."]
    assert done == [True]
    assert max(waits) < 1, waits
    (turn,) = branch.turns
    assert turn.notes == []
    assert turn.bill.settled
    assert (turn.window is None) == (budget is None)
    assert (turn.appended or turn.bill).sent > 3_000_000
    if budget is not None:
        assert max(len(one.body) for one in upstream.received) < 100_000


def test_a_large_conversation_goes_on(monkeypatch):
    """Its session is restored from its state, in another process each time, as the small one's goes on in this one."""

    def run(limit):
        monkeypatch.setattr("cupel.watch._govern.LARGE", limit)
        with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
            for count in range(10, 15):
                httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", count)))
            turns = proxy.turns(5)
            assert [turn.notes for turn in turns] == [[]] * 5
            return [one.body for one in upstream.received], [turn.bill for turn in turns]

    assert run(0) == run(10**9)


def out_of_memory(*_):
    raise MemoryError("out of memory")


def test_a_process_that_fails_sends_the_original(monkeypatch):
    monkeypatch.setattr("cupel.watch._govern.LARGE", 0)
    monkeypatch.setattr("cupel.watch._watcher.chosen_apart", out_of_memory)
    raw = json.dumps(body("openai", history("openai", 14))).encode()
    with running(reply_to) as upstream, proxied(upstream.url, budget=BUDGET) as proxy:
        assert httpx.post(proxy.url + PATHS["openai"], content=raw).is_success
        assert upstream.received[0].body == raw
        turn = proxy.turns(1)[0]
        assert turn.action == "original"
        assert "out of memory" in turn.notes[0]


@pytest.mark.parametrize(
    ("model", "thinking", "expected"),
    [
        ("claude-opus-4-5-20251101", {"type": "enabled", "budget_tokens": 1024}, "loop"),
        ("claude-sonnet-4-20250514", {"type": "enabled", "budget_tokens": 1024}, "loop"),
        ("claude-opus-5-4", {"type": "enabled", "budget_tokens": 1024}, "loop"),
        ("us.anthropic.claude-opus-5-5-v1", {"type": "enabled", "budget_tokens": 1024}, "bound"),
        ("claude-fable-5-1", {"type": "enabled", "budget_tokens": 1024}, "bound"),
        ("claude-haiku-6", {"type": "enabled", "budget_tokens": 1024}, "bound"),
        ("claude-opus-4-8", {"type": "adaptive"}, "bound"),
        ("some-model", None, "bound"),
    ],
)
def test_what_a_model_demands_of_its_thinking_is_read_from_its_name_and_the_request(model, thinking, expected):
    call = call_of("POST", "/v1/messages")
    request = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "thinking": thinking}
    assert read_request(call, json.dumps(request).encode()).thinking == expected
