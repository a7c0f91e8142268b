"""A proxy that only looks: every byte passes in both directions, and nothing that goes wrong beside it is noticed."""

import asyncio
import gzip
import http.client
import json
import socket
import time
from time import monotonic

import httpx2 as httpx
import pytest

from tests.watch.upstream import GO_AWAY, answer, proxied, running, stream

CHAT = "/v1/chat/completions"
BODY = b'{"model"  : "m","messages":[ {"content":"H\\u00e9llo","role":"user"}],\n "x": 1.0e2, "x2": null}'
SAID = {"choices": [{"message": {"role": "assistant", "content": "Hi"}}], "usage": {"prompt_tokens": 20}}


def test_both_bodies_are_forwarded_byte_for_byte():
    said = b'{"choices":[ {"message":{"role":"assistant","content":"Hi"}}],  "usage":{"prompt_tokens":9}}'
    with running(lambda _: answer(said)) as upstream, proxied(upstream.url) as proxy:
        response = httpx.post(f"{proxy.url}{CHAT}?api-version=1%2F2&a=b|c", content=BODY)
        httpx.post(f"{proxy.url}{CHAT}", content=iter([BODY[:9], BODY[9:]]))  # in chunks
        assert [one.body for one in upstream.received] == [BODY, BODY]
        assert upstream.received[0].line == f"POST {CHAT}?api-version=1%2F2&a=b|c HTTP/1.1"
        assert response.content == said
        turn = proxy.turns(2)[0]
        assert (turn.status, turn.usage) == (200, {"prompt_tokens": 9})
        assert proxy.sent(turn) == [{"content": "Héllo", "role": "user"}]


def test_headers_are_forwarded_but_those_of_the_connection():
    sent = [("Connection", "keep-alive, X-Hop"), ("X-Hop", "1"), ("X-Stays", "a"), ("x-stays", "b"), ("TE", "trailers")]
    reply = answer(SAID, headers="content-type: application/json\r\nX-Twice: 1\r\nX-Twice: 2\r\nKeep-Alive: timeout=5")
    with running(lambda _: reply) as upstream, proxied(upstream.url) as proxy:
        response = httpx.post(proxy.url + CHAT, content=BODY, headers=sent)
        got = upstream.received[0]
        assert [value for name, value in got.headers if name.lower() == "x-stays"] == ["a", "b"]
        assert got.header("x-hop") is got.header("te") is None
        assert got.header("host") == upstream.url.removeprefix("http://")
        assert got.header("content-length") == str(len(BODY))
        assert response.headers.get_list("x-twice") == ["1", "2"]
        assert "keep-alive" not in response.headers


def test_an_answer_is_forwarded_while_it_arrives():
    events = [b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', b"data: [DONE]\n\n"]
    with running(lambda _: stream(events, wait=0.3)) as upstream, proxied(upstream.url) as proxy:
        with httpx.stream("POST", proxy.url + CHAT, content=BODY) as response:
            pieces = [(monotonic(), piece) for piece in response.iter_raw()]
        assert [piece for _, piece in pieces] == events
        assert pieces[1][0] - pieces[0][0] > 0.2
        proxy.turns(1)
        assert proxy.branches[0].messages[1:] == [{"role": "assistant", "content": "a"}]


def test_compressed_bodies_pass_as_they_are_and_are_read():
    packed, said = gzip.compress(BODY), gzip.compress(json.dumps(SAID).encode())
    reply = answer(said, headers="content-type: application/json\r\ncontent-encoding: gzip")
    with running(lambda _: reply) as upstream, proxied(upstream.url) as proxy:
        headers = {"content-encoding": "gzip", "accept-encoding": "br, gzip;q=0.5, zstd"}
        with httpx.stream("POST", proxy.url + CHAT, content=packed, headers=headers) as response:
            assert b"".join(response.iter_raw()) == said
        assert response.headers["content-encoding"] == "gzip"
        assert upstream.received[0].body == packed
        assert upstream.received[0].header("content-encoding") == "gzip"
        assert upstream.received[0].header("accept-encoding") == "gzip;q=0.5"  # an answer that can be read
        turn = proxy.turns(1)[0]
        assert turn.usage == {"prompt_tokens": 20}
        assert turn.count == 1


def test_everything_else_passes_untouched():
    reply = answer(b"\x00\x01binary", status=404, headers="content-type: x/y")
    with running(lambda _: reply) as upstream, proxied(upstream.url) as proxy:
        response = httpx.put(
            f"{proxy.url}/v1/files/a%20b", content=iter([b"one", b"two"]), headers={"accept-encoding": "br"}
        )
        got = upstream.received[0]
        assert (got.line, got.body) == ("PUT /v1/files/a%20b HTTP/1.1", b"onetwo")
        assert got.header("accept-encoding") == "br"
        assert (response.status_code, response.content) == (404, b"\x00\x01binary")
        assert httpx.get(f"{proxy.url}/v1/models").status_code == 404
        assert upstream.received[1].header("content-length") is None
        assert proxy.branches == []


@pytest.mark.parametrize("body", [b"no json", b"[1]", b'{"messages": [{"role": 7}]}', b'{"messages": "x"}', b"", b"{}"])
def test_a_body_that_cannot_be_read_is_forwarded(body):
    with running(lambda _: answer({"error": {}}, status=400)) as upstream, proxied(upstream.url) as proxy:
        assert httpx.post(proxy.url + CHAT, content=body).status_code == 400
        assert upstream.received[0].body == body


def test_a_failure_of_the_observer_does_not_reach_the_client(monkeypatch):
    def fail(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr("cupel.watch._watcher.read_request", fail)
    monkeypatch.setattr("cupel.watch._watcher.read_answer", fail)
    with running(lambda _: answer(SAID)) as upstream, proxied(upstream.url) as proxy:
        for _ in range(3):
            assert httpx.post(proxy.url + CHAT, content=BODY).json() == SAID
        assert [one.body for one in upstream.received] == [BODY] * 3


def test_an_observer_that_fails_at_once_does_not_reach_the_client(monkeypatch):
    def fail(*_):
        raise RuntimeError("broken")

    with running(lambda _: answer(SAID)) as upstream, proxied(upstream.url) as proxy:
        monkeypatch.setattr(proxy.watcher, "look", fail)
        monkeypatch.setattr(proxy.watcher, "answered", fail)
        assert httpx.post(proxy.url + CHAT, content=BODY).json() == SAID
        assert upstream.received[0].body == BODY


def test_a_recorder_that_fails_does_not_reach_the_client(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("cupel.watch._recordings.Recordings.write", fail)
    with running(lambda _: answer(SAID)) as upstream, proxied(upstream.url, folder=tmp_path / "windows") as proxy:
        assert httpx.post(proxy.url + CHAT, content=BODY).json() == SAID
        assert proxy.turns(1)[0].status == 200
        assert "the disk is full" in _noted(proxy)


def _noted(proxy):
    until = monotonic() + 3
    while not (notes := proxy.turns(1)[0].notes) and monotonic() < until:
        time.sleep(0.01)
    return notes[0]


def test_twenty_megabytes_pass_and_are_read():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0K" * 2_500_000}}
    body = json.dumps({"messages": [{"role": "user", "content": [image]}]}).encode()
    with running(lambda _: answer(SAID)) as upstream, proxied(upstream.url) as proxy:
        assert httpx.post(proxy.url + CHAT, content=body, timeout=30).json() == SAID
        assert upstream.received[0].body == body
        assert proxy.turns(1)[0].count == 1
        assert proxy.store.live[0].size == len(body)


def test_a_body_beyond_the_limit_passes_unread(monkeypatch):
    monkeypatch.setattr("cupel.watch._server.MAX_BODY", 1000)
    body = json.dumps({"messages": [{"role": "user", "content": "x" * 300_000}]}).encode()
    with running(lambda _: answer(SAID)) as upstream, proxied(upstream.url) as proxy:
        assert httpx.post(proxy.url + CHAT, content=body).json() == SAID
        assert upstream.received[0].body == body
        assert proxy.branches == []
        assert proxy.watcher.unread == {f"POST {CHAT}": 1}


@pytest.mark.parametrize("budget", [None, 3000])
def test_calls_that_are_not_read_are_counted(budget):
    asked = {"model": "m", "contents": [], "prompt": "x"}
    unread = ["/v1beta/models/m:streamGenerateContent", "/v1/completions", "/model/m/converse-stream", "/x/y"]
    with running(lambda _: answer(SAID)) as upstream, proxied(upstream.url, budget=budget) as proxy:
        for path in unread:
            httpx.post(proxy.url + path, json=asked)
        httpx.post(proxy.url + CHAT, content=b"no json")
        for path in ("/v1/embeddings", "/v1/files", "/api/event_logging/batch", "/v1/messages/count_tokens"):
            httpx.post(proxy.url + path, json={"model": "m", "input": "x", "messages_seen": 3})
        httpx.get(f"{proxy.url}/v1/responses")
        assert len(upstream.received) == 10
        until = monotonic() + 5
        while proxy.watcher.held and monotonic() < until:
            time.sleep(0.01)
        assert proxy.watcher.unread == {f"POST {path}": 1 for path in (*unread, CHAT)}


def test_more_bytes_at_once_than_may_be_held_pass_unread(monkeypatch):
    monkeypatch.setattr("cupel.watch._server._MOST_HELD", 0)
    with running(lambda _: answer(SAID)) as upstream, proxied(upstream.url) as proxy:
        assert httpx.post(proxy.url + CHAT, content=BODY).json() == SAID
        assert proxy.branches == []


def test_an_upstream_that_goes_away_breaks_the_answer_off():
    events = [b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n']
    with running(lambda _: stream(events, ends=False)) as upstream, proxied(upstream.url) as proxy:
        with pytest.raises(httpx.RemoteProtocolError), httpx.stream("POST", proxy.url + CHAT, content=BODY) as response:
            list(response.iter_raw())
        turn = proxy.turns(1)[0]
        assert "the upstream went away" in turn.notes[0]
        assert proxy.branches[0].messages[1:] == [{"role": "assistant", "content": "a"}]


def test_an_upstream_that_cannot_be_reached_is_an_error_that_says_so():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with proxied(f"http://127.0.0.1:{port}") as proxy:
        response = httpx.post(proxy.url + CHAT, content=BODY)
        assert response.status_code == 502
        assert "cannot be reached" in response.json()["error"]["message"]
        assert proxy.turns(1)[0].status == 502


def test_an_upstream_that_closes_without_an_answer_is_an_error():
    with running(lambda _: [GO_AWAY]) as upstream, proxied(upstream.url) as proxy:
        assert httpx.post(proxy.url + CHAT, content=BODY).status_code == 502


def test_a_client_that_goes_away_ends_the_call_upstream():
    events = [b"data: {}\n\n"] * 100
    with running(lambda _: stream(events, wait=0.05)) as upstream, proxied(upstream.url) as proxy:
        with httpx.stream("POST", proxy.url + CHAT, content=BODY) as response:
            next(response.iter_raw())
        turn = proxy.turns(1)[0]
        assert turn.notes == ["the client went away"]
        until = monotonic() + 3
        while not upstream.gone and monotonic() < until:
            time.sleep(0.01)
        assert upstream.gone


def test_a_client_that_goes_away_before_the_answer_ends_the_call():
    with running(lambda _: [30.0]) as upstream, proxied(upstream.url) as proxy:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(proxy.url + CHAT, content=BODY, timeout=0.3)
        assert proxy.turns(1)[0].notes == ["the client went away"]


def test_a_client_that_goes_away_in_the_middle_of_its_request_is_forgotten():
    with running(lambda _: answer(SAID)) as upstream, proxied(upstream.url) as proxy:
        host, port = proxy.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 1000\r\n\r\n".encode() + BODY)
        assert httpx.post(proxy.url + CHAT, content=BODY).json() == SAID
        assert len(upstream.received) == 1


def test_a_hundred_conversations_at_once():
    def reply(request):
        return [0.2, *answer({"choices": [{"message": request.json["messages"][0]}], "usage": {"prompt_tokens": 5}})]

    async def ask(client, url, number):
        message = {"role": "user", "content": f"question {number}"}
        response = await client.post(url + CHAT, json={"messages": [message]})
        return response.json()["choices"][0]["message"] == message

    async def ask_all(url):
        async with httpx.AsyncClient(timeout=30, limits=httpx.Limits(max_connections=None)) as client:
            return await asyncio.gather(*(ask(client, url, number) for number in range(100)))

    with running(reply) as upstream, proxied(upstream.url) as proxy:
        start = monotonic()
        assert asyncio.run(ask_all(proxy.url)) == [True] * 100
        assert monotonic() - start < 8
        assert len(proxy.turns(100)) == len(proxy.branches) == 100


def test_a_kept_connection_serves_many_requests():
    with running(lambda _: answer(SAID)) as upstream, proxied(upstream.url) as proxy:
        host = proxy.url.removeprefix("http://")
        connection = http.client.HTTPConnection(host)
        for _ in range(3):
            connection.request("POST", CHAT, BODY)
            assert json.loads(connection.getresponse().read()) == SAID
        connection.close()
