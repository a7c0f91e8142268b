"""Write the JSON Schema of selection reports into the docs."""

from __future__ import annotations

import json
from pathlib import Path

from cupel.diagnostics import report_schema

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "report.schema.json"

if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(json.dumps(report_schema(), indent=2) + "\n", encoding="utf-8")
