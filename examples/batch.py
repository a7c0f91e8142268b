"""Many requests at once: a file of them in, a file of selections out, resumable.

python examples/batch.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from cupel import presets
from cupel.batch import run_batch


def main() -> None:
    """Write a small file of requests, select for each, and show the first line of the answer."""
    with tempfile.TemporaryDirectory() as folder:
        requests, answers = Path(folder) / "requests.jsonl", Path(folder) / "selections.jsonl"
        rows = (
            {
                "id": f"request-{number}",
                "budget": {"maxTokens": 100, "targetTokens": 80},
                "items": [{"content": f"note {part} of request {number}", "tokens": 30} for part in range(5)],
            }
            for number in range(1_000)
        )
        requests.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        summary = run_batch(requests, answers, policy=presets.chat(), workers=1)
        print(summary)
        print(answers.read_text(encoding="utf-8").splitlines()[0])


if __name__ == "__main__":  # workers start by importing this file
    main()
