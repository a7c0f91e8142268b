"""The page of the reference that is written from the parsers."""

import inspect
import runpy
from pathlib import Path

from cupel import MessageSession

ROOT = Path(__file__).parents[2]


def test_the_reference_is_up_to_date():
    script = runpy.run_path(str(ROOT / "scripts/cli_reference.py"))
    shown = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
    assert shown == script["page"](), "run: python scripts/cli_reference.py"


def test_the_share_that_a_session_keeps_is_its_own_default():
    default = inspect.signature(MessageSession).parameters["keep"].default
    shown = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
    assert f"when it cuts a request; default: {default:.0%} |" in shown
