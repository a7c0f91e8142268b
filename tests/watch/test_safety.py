"""Who may use the proxy, and where it forwards to."""

import socket

import httpx
import pytest

from tests.watch.agent import PATHS, body, history, reply_to
from tests.watch.upstream import answer, proxied, running

CHAT = PATHS["openai"]


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
        assert httpx.get(f"{proxy.url}/_cupel/", headers={"host": host}).status_code == 200


def test_a_name_can_be_allowed_and_any_address_beyond_loopback():
    with running(reply_to) as upstream, proxied(upstream.url, hosts=("Agent.local",), any_address=True) as proxy:
        for host, status in (("agent.local:9", 200), ("192.168.1.5", 200), ("evil.example", 421)):
            assert httpx.get(f"{proxy.url}/_cupel/", headers={"host": host}).status_code == status


def test_other_sites_cannot_read_the_page():
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
            response = httpx.get(
                f"{proxy.url}/_cupel/", headers={"sec-fetch-site": site, "origin": "http://evil.example"}
            )
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
            for path in ("/v1/models", "/openaix/y", "/", "/openai"):
                assert httpx.get(proxy.url + path).status_code == 404
        assert len(one.received) == len(two.received) == 1


def test_websockets_are_refused_so_that_clients_use_http():
    headers = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-key": "x", "sec-websocket-version": "13"}
    with running(reply_to) as upstream, proxied(upstream.url) as proxy:
        assert httpx.get(f"{proxy.url}/v1/responses", headers=headers).status_code == 426
        assert upstream.received == []
