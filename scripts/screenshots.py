"""Takes the pictures of the page that README.md and the site show, from the demonstration's session.

Run it after changing the page: python scripts/screenshots.py. Needs the extra `watch`, the dependency group `pages` and
Chromium.
"""

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx2 as httpx
from playwright.sync_api import Browser, sync_playwright

from cupel.cli import main as cupel
from cupel.demo import conversation

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.evaluation.logs import ClaudeLog

ASSETS = Path(__file__).parents[1] / "docs/assets"
WIDTH, HEIGHT, TALL = 1280, 1000, 1400
BUDGET, TURNS = 6000, 46
SHORT, PAUSE, SWITCH, COMPACTION, TURN = 780, 50, 90, 122, 25


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), sync_playwright() as session:
        cupel(["demo", "--format", "json"])
        browser = session.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        take_page(browser, Path(folder, "cupel-demo/page.html").as_uri())
        take_logs(browser, Path(folder))
        take_watch(browser)
        browser.close()
    print(*(f"wrote docs/assets/{file.name}" for file in sorted(ASSETS.glob("*.png"))), sep="\n")


def take_page(browser: Browser, address: str) -> None:
    """A window, a conversation, and a comparison of policies, in both themes."""
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
        for view, name in (("turns&turn=46", "turns"), ("selection", "page")):
            page.goto(f"{address}#view={view}")
            page.wait_for_timeout(500)
            page.screenshot(path=ASSETS / f"{name}-{scheme}.png")
        page.locator("#policies input").nth(6).check(force=True)
        page.evaluate("scrollTo(0, document.querySelector('#swings').offsetTop - 240)")
        page.wait_for_timeout(500)
        page.screenshot(path=ASSETS / f"swings-{scheme}.png")


def take_logs(browser: Browser, folder: Path) -> None:
    """A log of an agent that is left alone for a while, gets another model and is compacted."""
    log = ClaudeLog(session="a41c07d2")
    for at, message in enumerate(conversation()):
        if at == PAUSE:
            log.wait(1900)
        if at == SWITCH:
            log.model = "claude-opus-5"
        if at == COMPACTION:
            log.compact(
                "The webhook test is flaky: two workers take the same event, because the lock is released early."
            )
        if message["role"] == "user":
            log.user(message["content"])
        elif message["role"] == "tool":
            log.call(message["content"])
        elif message["role"] == "assistant" and not message.get("tool_calls"):
            log.assistant({"type": "text", "text": message["content"]})
    path = log.save(folder / "projects/a41c07d2.jsonl").parent
    cupel(["replay", str(path), "--budget", "10000", "--page", str(folder / "logs.html")])
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": WIDTH, "height": SHORT}, color_scheme=scheme)
        page.goto(f"{Path(folder, 'logs.html').as_uri()}#strategy=as it was&turn={TURN}")
        page.wait_for_timeout(500)
        page.screenshot(path=ASSETS / f"logs-{scheme}.png")


def take_watch(browser: Browser) -> None:
    """The conversation of an agent that runs through the proxy."""
    with provider() as upstream, watched(upstream) as address:
        history = conversation()
        answers = [at for at, message in enumerate(history) if message["role"] == "assistant" and at > 1]
        for at in answers[:TURNS]:
            body = {"model": "gpt-5", "messages": history[:at]}
            httpx.post(f"{address.partition('/_cupel/')[0]}/v1/chat/completions", json=body)
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": WIDTH, "height": TALL}, color_scheme=scheme)
            page.goto(address)
            page.wait_for_timeout(3000)
            page.evaluate("setTurn({ turn: turnsNow().findLastIndex((turn) => rewrittenOf(turn) > turn.sent / 2) })")
            page.wait_for_timeout(500)
            page.screenshot(path=ASSETS / f"watch-{scheme}.png")


@contextlib.contextmanager
def provider() -> Iterator[str]:
    """A provider on this machine that caches prefixes, and counts four bytes as a token."""
    last = b""

    class Provider(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            nonlocal last
            body = self.rfile.read(int(self.headers["content-length"]))
            pairs = enumerate(zip(body, last, strict=False))
            same = next((at for at, (one, other) in pairs if one != other), len(last))
            cached = same // 4 // 128 * 128
            last = body
            usage = {"prompt_tokens": len(body) // 4, "prompt_tokens_details": {"cached_tokens": cached}}
            answer = {"choices": [{"message": {"role": "assistant", "content": "Done."}}], "usage": usage}
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@contextlib.contextmanager
def watched(upstream: str) -> Iterator[str]:
    """The page of a proxy in front of it, which keeps requests under a budget."""
    command = [sys.executable, "-m", "cupel", "watch", "--upstream", upstream, "--budget", str(BUDGET), "--no-record"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        line = next(line for line in process.stderr or () if "/_cupel/" in line)
        yield line.split()[-1]
        process.terminate()


if __name__ == "__main__":
    main()
