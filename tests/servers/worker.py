"""A process of a web server that answers with the code of a recipe: `python worker.py RECIPE KEY JOURNAL TEXT...`.

The journal gets a line of JSON for each request that the model would have received, before the model answers.
"""

import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import redis

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.docs_runner import blocks  # noqa: E402  (found by the line above)

Message = dict[str, Any]
BUDGET = 700
PAGE = ROOT / "docs/how-to/web-server.md"


def recipe(title: str) -> dict[str, Any]:
    """Run the recipe's blocks as the page has them, and what comes before them; return their names."""
    page = PAGE.read_text(encoding="utf-8")
    code = ""
    for heading in ("", "Redis, with a lock", title):
        if f"# {heading}\n" in code:
            continue
        section = page.partition(f"\n## {heading}\n" if heading else "\n")[2].partition("\n## ")[0]
        found = "".join(block.code for block in blocks(section) if block.language == "python")
        assert found, f"{PAGE.name} has no code under {heading!r}"
        code += f"# {heading}\n{found}"
    names: dict[str, Any] = {}
    with patch("fakeredis.FakeRedis", partial(redis.Redis.from_url, os.environ["REDIS_URL"])):
        exec(compile(code, PAGE.name, "exec"), names)
    return names


def answer(messages: list[Message]) -> tuple[Message, dict[str, int]]:
    """Answer at such length that a conversation soon exceeds the budget."""
    said = f"answer to {messages[-1]['content']}: {'and so on ' * 20}"
    return {"role": "assistant", "content": said}, {"prompt_tokens": 40 * len(messages)}


def main() -> None:
    title, key, journal, *texts = sys.argv[1:]
    names = recipe(title)
    names["LOCK"]["timeout"] = int(os.environ.get("LOCK_TIMEOUT", "120"))
    names["OPTIONS"]["budget"] = BUDGET

    def slow(messages: list[Message]) -> tuple[Message, dict[str, int]]:
        with Path(journal).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(messages) + "\n")
        time.sleep(float(os.environ.get("ANSWER_SECONDS", "0.05")))
        return answer(messages)

    names["answer"] = slow
    for text in texts:
        with names["conversation"](key) as (session, history):
            names["respond"](session, history, text)
        time.sleep(0.15)  # the other process has its turn; it asks for Redis' lock ten times a second


if __name__ == "__main__":
    main()
