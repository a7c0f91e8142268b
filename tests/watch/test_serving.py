"""A served page: this machine alone gets it, nothing but its script runs, and questions get the library's answers."""

import asyncio
import base64
import hashlib
import json
import re
import signal
import subprocess
import sys
from functools import partialmethod

import pytest

from cupel import ContextBudget, presets
from cupel.cli import main
from cupel.demo import session_items
from cupel.page import LivePage, Variant
from cupel.watch import page_app

pytest.importorskip("starlette", reason="the extra watch is not installed")
httpx = pytest.importorskip("httpx2", reason="the extra watch is not installed")

ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def page() -> LivePage:
    variants = [Variant(presets.chat(), "chat", "--policy chat"), Variant(presets.rag(), "rag", "--policy rag")]
    return LivePage(
        session_items(), ContextBudget(4000, 4000), variants, title="T", source="s.jsonl", fixed_window=False
    )


class Client:
    """Sends requests to an application without a network."""

    def __init__(self, app) -> None:
        self._app = app

    def request(self, method: str, path: str, **options):
        async def send():
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
                return await client.request(method, path, **options)

        return asyncio.run(send())

    get = partialmethod(request, "GET")
    post = partialmethod(request, "POST")
    options = partialmethod(request, "OPTIONS")


@pytest.fixture
def client(page):
    return Client(page_app(page))


def test_the_page_is_there_with_its_data(client, page):
    answer = client.get("/")
    data = json.loads(re.search(r'id="payload">(.*?)</script>', answer.text, re.DOTALL)[1])
    assert data == json.loads(json.dumps(page.payload))


def test_the_policy_allows_only_the_script_the_style_and_questions_to_the_server(client):
    answer = client.get("/")
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    for tag in ("script", "style"):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert policy[f"{tag}-src"] == f"'sha256-{digest}'"
    assert policy["connect-src"] == "'self'"
    assert [policy[name] for name in ("default-src", "frame-ancestors", "base-uri")] == ["'none'"] * 3
    assert "unsafe" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/ask"])
def test_no_other_site_is_let_in(client, path):
    for origin in ("https://evil.example", "null"):
        answer = client.request("POST" if path == "/ask" else "GET", path, headers={"origin": origin})
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert client.options(path, headers={"origin": "https://evil.example"}).status_code == 405


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "192.168.0.7", ""])
def test_another_host_is_refused(client, host):
    assert client.get("/", headers={"host": host}).status_code == 400
    assert client.post("/ask", json={"budget": 10}, headers={"host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost", "localhost:80", "127.0.0.1"])
def test_the_names_of_this_machine_are_accepted(client, host):
    assert client.get("/", headers={"host": host}).status_code == 200


def test_a_question_is_answered(client, page):
    question = {"budget": 3217, "policy": 1, "weights": {"0": [1, 2]}, "pins": {"17": True}}
    answer = client.post("/ask", json=question)
    assert answer.json() == json.loads(json.dumps(page.answer(json.dumps(question).encode())))
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"content": b"{}", "headers": {"content-type": "text/plain"}}, 415),  # other sites can send this
        ({"content": b"{}"}, 415),
        ({"json": {}}, 400),
        ({"json": {"budget": 10, "weights": {"0": [0, 1]}}}, 400),
        ({"content": b" " * 4_000_001, "headers": {"content-type": "application/json"}}, 413),
    ],
)
def test_other_questions_are_refused(client, sent, status):
    answer = client.post("/ask", **sent)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_the_command_serves_on_loopback_and_ends_with_an_interrupt(tmp_path):
    items = tmp_path / "items.jsonl"
    items.write_text("".join(item.to_json() + "\n" for item in session_items()[:20]), encoding="utf-8")
    command = [sys.executable, "-m", "cupel", "inspect", str(items), "--budget", "900", "--serve", "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = next(line for line in process.stderr if line.startswith("serving "))
            address = line.split()[1]
            assert address.startswith("http://127.0.0.1:")
            assert "cupel" in httpx.get(address).text
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


@pytest.mark.parametrize("more", [["--serve", "-o", "page.html"], ["--serve", "--format", "json"], ["--no-open"]])
def test_options_that_do_not_go_together(more, capsys, tmp_path):
    items = tmp_path / "items.jsonl"
    items.write_text(session_items()[0].to_json() + "\n", encoding="utf-8")
    assert main(["inspect", str(items), "--budget", "10", *more]) == 2
    assert "--serve" in capsys.readouterr().err
