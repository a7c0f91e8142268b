"""The oracle's own values, so that a defect in the library's values cannot hide itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


class OracleError(Exception):
    """A run that must fail, with the kind of failure the library's error class stands for."""

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


@dataclass(eq=False)
class Item:
    """A candidate; compared by identity only."""

    content: str
    tokens: int
    kind: str = "Message"
    source: str = "Chat"
    priority: int | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    timestamp: datetime | None = None
    future_relevance_hint: float | None = None
    pinned: bool = False
    original_tokens: int | None = None


@dataclass(frozen=True)
class Budget:
    max_tokens: int
    target_tokens: int
    output_reserve: int = 0
    reserved_slots: Mapping[str, int] = field(default_factory=dict)
    estimation_safety_margin_percent: float = 0.0


def fold(text: str) -> str:
    """Lower the 26 ASCII capitals and nothing else."""
    return "".join(chr(ord(letter) + 32) if "A" <= letter <= "Z" else letter for letter in text)


def descending(values: list[float]) -> list[int]:
    """Positions by value, largest first; NaN below everything; ties by position (rulings 1.3, 1.4)."""
    numbers = sorted((-value, position) for position, value in enumerate(values) if not math.isnan(value))
    return [position for _, position in numbers] + [p for p, value in enumerate(values) if math.isnan(value)]
