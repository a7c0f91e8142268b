"""Numbers as people write them on a command line."""

from __future__ import annotations

import argparse
import re
from fractions import Fraction
from typing import Final

from cupel._checks import shown
from cupel._documents import MAX_DIGITS

_TOKENS: Final = re.compile(r"(?P<number>(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d+)?)(?P<unit>[km]?)", re.ASCII)
_UNITS: Final = {"": 1, "k": 1_000, "m": 1_000_000}


def token_count(text: str) -> int:
    """Read a number of tokens as people write it; k is a thousand and m a million, as in the names of windows.

    >>> [token_count(text) for text in ("8000", "8_000", "8,000", "8k", "1.5M")]
    [8000, 8000, 8000, 8000, 1500000]
    """
    if len(text) > MAX_DIGITS:
        raise argparse.ArgumentTypeError(f"expected a number of at most {MAX_DIGITS:,} digits, got {shown(text)}")
    written = _TOKENS.fullmatch(text.strip().lower())
    if written is None:
        return whole_number(text)
    value = Fraction(written["number"].replace(",", "").replace("_", "")) * _UNITS[written["unit"]]
    if value.denominator != 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of tokens, got {shown(text)}")
    return value.numerator


def whole_number(text: str) -> int:
    """Read a whole number, zero or more."""
    try:
        value = int(text.replace("_", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {shown(text)}") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected zero or more, got {shown(value)}")
    return value


def share(text: str) -> float:
    """Read a share from 0 to 1, or a percentage.

    >>> share("0.9"), share("90%")
    (0.9, 0.9)
    """
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a share such as 0.9 or 90%, got {shown(text)}") from None
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected a share from 0 to 1, got {shown(text)}")
    return value
