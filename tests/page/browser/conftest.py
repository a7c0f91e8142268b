"""The page in the machine's own Chromium; these tests are skipped where it or Playwright is missing."""

import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from cupel import ContextBudget
from cupel.page import Variant, page_payload, render_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HERE = Path(__file__).parent
QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


def pytest_collection_modifyitems(config, items):
    """Skip these minutes of browser work unless they were asked for by name, as `make pages` does."""
    asked = any("browser" in Path(argument.partition("::")[0]).parts for argument in config.args)
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            if not asked:
                item.add_marker(pytest.mark.skip(reason="the page in a browser: make pages"))


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as session:
        chromium = session.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser, tmp_path) -> Callable:
    """Open a page's HTML from disk; anything it logs, throws, or asks of the network fails the test."""
    contexts = []
    complaints = []

    def opener(html: str, *, width: int = 1280, scheme: str = "light", height: int = 900):
        file = tmp_path / "page.html"
        file.write_text(html, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"thrown: {error}"))
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: _only_local(request.url, complaints))
        page.goto(file.as_uri())
        settle(page)
        return page

    yield opener
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def open_served(browser) -> Iterator[Callable]:
    """Open an application in the browser, from a server on the loopback interface; complaints fail the test."""
    uvicorn = pytest.importorskip("uvicorn", reason="the extra watch is not installed")
    running, contexts, complaints = [], [], []

    def opener(app, path: str = "/", *, width: int = 1280, scheme: str = "light"):
        listener = socket.create_server(("127.0.0.1", 0))
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        running.append((server, thread))
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"thrown: {error}"))
        page.on("request", lambda request: _only_local(request.url, complaints, origin))
        page.goto(f"{origin}{path}")
        settle(page)
        return page

    yield opener
    for context in contexts:
        context.close()
    for server, thread in running:
        server.should_exit = True
        thread.join(10)
    assert complaints == []


def _only_local(url: str, complaints: list[str], origin: str = "file:") -> None:
    if not url.startswith(("file:", "data:", origin)):
        complaints.append(f"request: {url}")


def page_of(items, budget: ContextBudget, policies, *, fixed_window: bool = False, title: str = "A session") -> str:
    """Render the page for some policies, the first of them chosen."""
    variants = [
        Variant(policy, policy.name or f"policy {number}", f"--policy {number}")
        for number, policy in enumerate(policies)
    ]
    payload = page_payload(items, budget, variants, title=title, source="items.jsonl", fixed_window=fixed_window)
    return render_page(payload)


def settle(page) -> None:
    """Wait until the page has drawn what was asked of it."""
    page.evaluate(
        """() => new Promise((done) => {
            requestAnimationFrame(() => requestAnimationFrame(() => requestIdleCallback(done)));
        })"""
    )


def until(page, expression: str) -> None:
    """Wait until an expression holds on the page; its policy forbids Playwright's own way to do so."""
    for _ in range(400):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    pytest.fail(f"never true: {expression}")


def move_budget(page, tokens: int) -> int:
    """Set the budget as a person does who knows it, in the field; return the stop that the page goes to."""
    page.fill("#budget", str(tokens))
    settle(page)
    page.locator("#budget").blur()
    return int(page.input_value("#budget"))


def figure(page, name: str) -> int:
    """Read a number off the page."""
    return int(page.inner_text(f"#{name}").replace(",", ""))
