"""Who may use the proxy, and where it forwards to."""

import socket

import httpx2 as httpx
import pytest

from tests.watch.agent import PATHS, body, history, reply_to
from tests.watch.upstream import answer, proxied, running

CHAT = PATHS["openai"]


def _page(proxy, **headers):
    return httpx.get(f"{proxy.url}/_cupel/", cookies=proxy.cookies, headers=headers)


def test_a_host_that_is_not_this_machine_is_refused():
    hosts = ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "", "a,127.0.0.1", "[::1"]
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        for host in hosts:
            for path in ("/_cupel/", CHAT, "/v1/models"):
                sent = body("openai", history("openai", 1))
                assert httpx.post(proxy.url + path, headers={"host": host}, json=sent).status_code == 421
        assert upstream.received == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "127.8.9.1", "[::1]:80"])
def test_names_of_the_loopback_interface_are_served(host):
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        assert _page(proxy, host=host).status_code == 200


def test_a_name_can_be_allowed_and_any_address_beyond_loopback():
    with running(reply_to) as upstream, proxied(upstream.url, hosts=("Agent.local",), any_address=True) as proxy:
        for host, status in (("agent.local:9", 200), ("192.168.1.5", 200), ("evil.example", 421)):
            assert _page(proxy, host=host).status_code == status


def test_other_sites_cannot_read_the_page():
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
            response = _page(proxy, **{"sec-fetch-site": site, "origin": "http://evil.example"})
            assert response.status_code == status
            assert not [name for name in response.headers if name.startswith("access-control")]


def test_no_answer_has_cors_headers():
    allow = "content-type: a/b\r\naccess-control-allow-origin: *\r\naccess-control-allow-credentials: true"
    with running(lambda _: answer(b"{}", headers=allow)) as upstream, proxied(upstream.url) as proxy:
        for response in (
            httpx.options(proxy.url + CHAT, headers={"origin": "http://evil.example"}),
            httpx.post(proxy.url + CHAT, content=b"{}"),
        ):
            assert response.headers["content-type"] == "a/b"
            assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "target", ["http://other.example/v1/models", "//other.example/v1/models", "other.example:443", "*"]
)
def test_only_the_configured_upstream_is_reached(target):
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        host, port = proxy.url.removeprefix("http://").split(":")
        for method in ("GET", "CONNECT"):
            with socket.create_connection((host, int(port)), timeout=5) as client:
                client.sendall(f"{method} {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
                status = client.makefile("rb").readline().split()[1]
            assert status in {b"404", b"400", b"200"}
        assert all(one.header("host") == upstream.url.removeprefix("http://") for one in upstream.received)
        assert not any("://" in one.path for one in upstream.received)


def test_a_redirect_is_passed_on_and_not_followed():
    reply = answer(b"", status=307, headers="location: http://127.0.0.1:1/steal")
    with running(lambda _: reply) as upstream, proxied(upstream.url) as proxy:
        assert httpx.post(proxy.url + CHAT, content=b"{}").status_code == 307
        assert len(upstream.received) == 1


def test_cookies_of_one_client_are_not_sent_for_another():
    reply = answer(b"{}", headers="content-type: a/b\r\nset-cookie: session=1; Path=/")
    with running(lambda _: reply) as upstream, proxied(upstream.url) as proxy:
        assert httpx.get(f"{proxy.url}/a").headers["set-cookie"] == "session=1; Path=/"
        httpx.get(f"{proxy.url}/a")
        assert upstream.received[1].header("cookie") is None


def test_each_prefix_has_its_upstream():
    with running(reply_to) as one, running(reply_to) as two:
        with proxied({"/openai": f"{one.url}/v1", "/anthropic": two.url}) as proxy:
            httpx.post(f"{proxy.url}/openai/chat/completions", json=body("openai", history("openai", 1)))
            httpx.post(f"{proxy.url}/anthropic/v1/messages?beta=true", json=body("anthropic", history("anthropic", 1)))
            assert [one.received[0].path, two.received[0].path] == ["/v1/chat/completions", "/v1/messages?beta=true"]
            assert {branch.provider for branch in proxy.branches} <= {"openai", "anthropic"}
            assert len(proxy.turns(2)) == 2
            for path in ("/v1/models", "/openaix/y", "/"):
                assert httpx.get(proxy.url + path).status_code == 404
        assert len(one.received) == len(two.received) == 1


def test_websockets_are_refused_so_that_clients_use_http():
    headers = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-key": "x", "sec-websocket-version": "13"}
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        assert httpx.get(f"{proxy.url}/v1/responses", headers=headers).status_code == 426
        assert upstream.received == []


def test_the_page_needs_the_token_and_then_its_cookie():
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        httpx.post(proxy.url + CHAT, json=body("openai", history("openai", 1)))
        proxy.turns(1)
        paths = ["", "conversations", "turns?session=x", "events", "window/x.0/0/", "missing"]
        for path in paths:
            for query in ("", "token=", f"token={proxy.token}x", f"token={proxy.token[:-1]}"):
                address = f"{proxy.url}/_cupel/{path}{'&' if '?' in path else '?'}{query}"
                refusal = httpx.get(address, cookies={"cupel-watch-1": proxy.token})
                assert refusal.status_code == 403
                assert "parser" not in refusal.text
                assert proxy.token not in refusal.text + str(refusal.headers)
        with httpx.Client(base_url=proxy.url) as browser:
            opened = browser.get(f"/_cupel/?token={proxy.token}")
            assert opened.status_code == 200
            assert {"HttpOnly", "SameSite=Strict", "Path=/_cupel"} <= set(opened.headers["set-cookie"].split("; "))
            assert "parser" in browser.get("/_cupel/conversations").text
            browser.get("/v1/models")
        assert upstream.received[-1].header("cookie") is None, "the cookie is not sent to the provider"


def test_each_watcher_has_a_token_of_its_own():
    with running(reply_to) as upstream, proxied(upstream.url) as one, proxied(upstream.url) as two:
        assert len(one.token) > 20
        assert one.token != two.token
        assert httpx.get(f"{two.url}/_cupel/?token={one.token}").status_code == 403


FOREIGN = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:1"},
    {"sec-fetch-site": "cross-site"},
    {"origin": "https://evil.example", "sec-fetch-site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_calls_of_other_web_pages_are_not_forwarded(headers):
    with running(reply_to) as upstream, proxied(upstream.url, origins=("http://localhost:3000",)) as proxy:
        for path in (CHAT, "/v1/files"):
            refusal = httpx.post(proxy.url + path, json=body("openai", history("openai", 1)), headers=headers)
            assert refusal.status_code == 403
            assert "--allow-origin" in refusal.json()["error"]["message"]
        assert upstream.received == []


@pytest.mark.parametrize(
    "headers", [{}, {"sec-fetch-mode": "cors"}, {"origin": "http://localhost:3000", "sec-fetch-site": "cross-site"}]
)
def test_calls_of_programs_and_allowed_origins_are_forwarded(headers):
    with running(reply_to) as upstream, proxied(upstream.url, origins=("http://localhost:3000",)) as proxy:
        sent = body("openai", history("openai", 1))
        assert httpx.post(proxy.url + CHAT, json=sent, headers=headers).status_code == 200
        own = {"origin": proxy.url, "sec-fetch-site": "same-origin"}
        assert httpx.post(proxy.url + CHAT, json=sent, headers=own).status_code == 200
        assert len(upstream.received) == 2


def test_a_request_with_two_lengths_is_refused():
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        host, port = proxy.url.removeprefix("http://").split(":")
        head = f"POST {CHAT} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"
        with socket.create_connection((host, int(port)), timeout=5) as client:
            client.sendall(f"{head}0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
            answers = client.makefile("rb").read()
        assert answers.split()[1] == b"400"
        assert answers.count(b"HTTP/1.1") == 1
        assert upstream.received == []


@pytest.mark.parametrize(
    ("base", "path", "arrives"),
    [
        ("", "/messages", "/v1/messages"),
        ("", "/v1/messages", "/v1/messages"),
        ("/v1", "/messages", "/v1/messages"),
        ("/v1", "/v1/messages", "/v1/messages"),
        ("/gateway", "/messages?beta=true", "/gateway/v1/messages?beta=true"),
        ("", "/messages/count_tokens", "/v1/messages/count_tokens"),
        ("/v1", "/v1", "/v1"),
        ("/v1", "/v1x/y", "/v1/v1x/y"),
        ("", "", "/"),
    ],
)
def test_the_version_is_in_the_path_once(base, path, arrives):
    """Clients differ in whether their base URL has it; opencode's for Anthropic does."""
    with running(reply_to) as upstream, proxied({"/anthropic": upstream.url + base}, budget=3000) as proxy:
        sent = body("anthropic", history("anthropic", 14))
        assert httpx.post(f"{proxy.url}/anthropic{path}", json=sent).is_success
        assert upstream.received[0].path == arrives
        if path.partition("?")[0].endswith("/messages"):
            assert len(proxy.turns(1)[0].window) < 29


@pytest.mark.parametrize("path", ["/anthropic", "/openai/models", "/anthropic/"])
def test_head_requests_are_forwarded(path):
    with running(lambda _: [b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\nx-a: b\r\n\r\n"]) as upstream:
        with proxied({"/openai": f"{upstream.url}/v1", "/anthropic": upstream.url}) as proxy:
            answered = httpx.head(proxy.url + path)
            assert (answered.status_code, answered.headers["x-a"], answered.content) == (200, "b", b"")
        expected = {"/anthropic": "/", "/openai/models": "/v1/models", "/anthropic/": "/"}[path]
        assert upstream.received[0].line == f"HEAD {expected} HTTP/1.1"
