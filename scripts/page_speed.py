"""Times the page with 5,000 items, or as many as its argument says: making it, loading it, and moving the slider.

Run it on a quiet machine: python scripts/page_speed.py 20000. Needs the dependency group `pages` and Chromium.
"""

import random
import shutil
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import sync_playwright

from cupel import ContextBudget, ContextItem, presets
from cupel.page import Variant, page_payload, render_page

MOVE = """async () => {
    const slider = document.getElementById("slider");
    const times = [];
    for (let step = 1; step <= 40; step++) {
        slider.value = String((step * 7) % Number(slider.max));
        const start = performance.now();
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        times.push(performance.now() - start);
    }
    return times;
}"""


def main() -> None:
    rng = random.Random(1)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    items = [
        ContextItem(
            f"item {number}: " + "some text of a usual length, " * rng.randrange(3, 40),
            rng.randrange(20, 800),
            kind=rng.choice(["Message", "Document", "ToolOutput", "Memory"]),
            priority=rng.randrange(10),
            timestamp=start + timedelta(minutes=number),
            future_relevance_hint=rng.random(),
        )
        for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
    ]
    variants = [
        Variant(policy, str(policy.name), "") for policy in (presets.chat(), presets.rag(), presets.document_qa())
    ]
    begun = time.perf_counter()
    budget = ContextBudget(128_000, 128_000)
    payload = page_payload(items, budget, variants, title="Speed", source="items", fixed_window=False)
    html = render_page(payload)
    print(f"made in Python    {time.perf_counter() - begun:6.2f} s, {len(html) / 1e6:.1f} MB")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as session:
        file = Path(folder, "page.html")
        file.write_text(html, encoding="utf-8")
        browser = session.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        loads = []
        for _ in range(5):
            page = browser.new_page()
            begun = time.perf_counter()
            page.goto(file.as_uri())
            loads.append(time.perf_counter() - begun)
        print(f"loaded            {statistics.median(loads):6.2f} s (median of {len(loads)})")
        for number, variant in enumerate(variants):
            page.locator(".choice input").nth(number).check(force=True)
            page.wait_for_timeout(1000)
            moves = page.evaluate(MOVE)
            middle, worst = statistics.median(moves), max(moves)
            print(f"slider, {variant.name:<12}{middle:4.0f} ms median, {worst:.0f} ms worst of {len(moves)}")
        browser.close()


if __name__ == "__main__":
    main()
