"""Writes the JSON Schema of the policy document into the documentation."""

import json
from pathlib import Path

from cupel.policy import json_schema

TARGET = Path(__file__).resolve().parents[1] / "docs" / "reference" / "policy.schema.json"

if __name__ == "__main__":
    TARGET.write_text(json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
