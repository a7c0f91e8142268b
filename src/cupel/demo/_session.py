"""The session that ships with the package: an agent hunts a flaky payment-webhook test.

The text was written for this purpose; the token counts are those of the `o200k_base` encoding.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Final

from cupel._documents import ITEM
from cupel.model import ContextItem
from cupel.policy import Policy

BUDGET: Final = 4_000
"""The budget the demonstration uses: less than a quarter of what the session holds."""


def session_items() -> list[ContextItem]:
    """Return the session's 120 candidates: system prompt, chat, tool outputs, files and memories.

    >>> items = session_items()
    >>> len(items), sum(item.tokens for item in items)
    (120, 18353)
    """
    return [ITEM.read(json.loads(line)) for line in session_text().splitlines()]


def session_policy() -> Policy:
    """Return the policy the demonstration starts with.

    >>> session_policy().name
    'coding-agent'
    """
    return Policy.from_toml(policy_text())


def session_text() -> str:
    r"""Return the session as the JSON lines it is stored in.

    >>> session_text().count("\n")
    120
    """
    return _text("session.jsonl")


def policy_text() -> str:
    """Return the policy as the TOML it is stored in.

    >>> policy_text().splitlines()[0]
    'name = "coding-agent"'
    """
    return _text("policy.toml")


def _text(name: str) -> str:
    return files("cupel.demo").joinpath(name).read_text(encoding="utf-8")
