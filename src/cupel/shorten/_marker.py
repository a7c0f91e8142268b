"""How a shortened text says what is missing."""

from __future__ import annotations


def amount(number: int, unit: str) -> str:
    """Return a number with its unit: `1 line`, `3,020 tokens`."""
    return f"{number:,} {unit}" if number == 1 else f"{number:,} {unit}s"


def gap(lines: int) -> str:
    """Return the marker of one of several gaps."""
    return f"… {amount(lines, 'line')} …"


def left_out(number: int, unit: str, tokens: int, note: str = "") -> str:
    """Return the marker that says what is missing in all; `note` follows the numbers."""
    return f"… {amount(number, unit)}, {amount(tokens, 'token')} left out{note} …"
