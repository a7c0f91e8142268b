"""Takes the pictures of the page that README.md and the site show, from the demonstration's session.

Run it after changing the page: python scripts/screenshots.py. Needs the dependency group `pages` and Chromium.
"""

import contextlib
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from cupel.cli import main as cupel

ASSETS = Path(__file__).parents[1] / "docs/assets"
WIDTH, HEIGHT = 1280, 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), sync_playwright() as session:
        cupel(["demo", "--format", "json"])
        browser = session.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
            for view, name in (("turns&turn=46", "turns"), ("selection", "page")):
                page.goto(f"{Path(folder, 'cupel-demo/page.html').as_uri()}#view={view}")
                page.wait_for_timeout(500)
                if (name, scheme) != ("turns", "dark"):
                    page.screenshot(path=ASSETS / f"{name}-{scheme}.png")
        page.locator("#policies input").nth(6).check(force=True)
        page.evaluate("scrollTo(0, document.querySelector('#swings').offsetTop - 240)")
        page.wait_for_timeout(500)
        page.screenshot(path=ASSETS / "swings-dark.png")
        browser.close()
    print(*(f"wrote docs/assets/{file.name}" for file in sorted(ASSETS.glob("*.png"))), sep="\n")


if __name__ == "__main__":
    main()
