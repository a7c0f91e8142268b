"""The page of the reference that is written from the parsers."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_is_up_to_date():
    script = runpy.run_path(str(ROOT / "scripts/cli_reference.py"))
    shown = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
    assert shown == script["page"](), "run: python scripts/cli_reference.py"
