"""An estimate of tokens that needs no tokeniser: from the lengths of words, numbers, signs and spaces.

Tokenisers such as o200k_base split a text into words, digits by threes, runs of signs and white space before they look
for tokens, so most pieces are one token each. What a piece costs beyond that follows from its shape: `" aaaa"`,
`".Aaaa"`, `"000"`. `python -m benchmarks estimate` compares the estimate with o200k_base.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cupel._internal.checks import as_number, shown
from cupel.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class CharacterEstimate:
    """Estimates the tokens of a text, without a dependency, in about half of tiktoken's time.

    Calibrated on o200k_base: prose, code, JSON, logs, HTML, identifiers, base64, and most scripts. The page on counting
    tokens has a table of what remains. Combine it with a budget's safety margin, or with `CalibratedCounter`.

    Args:
        bytes_per_token: counts nothing but bytes: one token for this number of bytes of UTF-8, rounded up.

    >>> CharacterEstimate().count("The build failed on step 3.")
    8
    >>> CharacterEstimate(bytes_per_token=4.0).count("The build failed on step 3.")
    7
    """

    bytes_per_token: float | None = None

    def __post_init__(self) -> None:
        ratio = self.bytes_per_token
        if ratio is not None and not 0.0 < as_number("bytes_per_token", ratio, error=ConfigurationError) < math.inf:
            msg = f"bytes_per_token must be positive and finite, got {shown(ratio)}"
            raise ConfigurationError(msg)

    def count(self, text: str, /) -> int:
        """Return the estimate for `text`; 0 only for the empty string."""
        if self.bytes_per_token is not None:
            # A lone surrogate, as broken JSON escapes produce, has no UTF-8; it still costs its three bytes.
            size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
            return math.ceil(size / self.bytes_per_token)
        # Every character that Latin-1 lacks becomes a question mark, which then stands for nothing else.
        shapes = text.replace("?", "!").encode("latin-1", "replace").translate(_CLASSES)
        cost = sum(map(_chunk_cost, _CHUNK.findall(shapes)))
        if not text.isascii():
            others = Counter("".join(_OTHER.findall(text)))
            cost += sum(number * _SCRIPTS[bisect_left(_ENDS, one)][1] for one, number in others.items())
        return max(1 if text else 0, (cost + 50) // 100)


def _class_of(character: str) -> str:
    if character.isspace():
        return "\n" if character in "\r\n" else " "
    if character.isalpha():
        return "é" if not character.isascii() else "A" if character.isupper() else "a"
    kinds = ("0123456789", "0"), ("-=_*#~", "="), ('"\\', '"'), ("?", "?")
    return next((kind for members, kind in kinds if character in members), ".")


_CLASSES: Final = "".join(_class_of(chr(code)) for code in range(256)).encode("latin-1")
"""The class of each character: capital and other letters, digits, spaces, line breaks, and three classes of signs.

Signs that are repeated (`=`) and quotation marks (`"`) make longer tokens than other signs (`.`).
"""
_CHUNK: Final = re.compile(rb"[^Aa0\xe9]{0,64}[Aa0\xe9]{1,64}|[^Aa0\xe9]{1,64}")
"""Everything up to the end of the next word or number; as texts repeat their shapes, each is computed once."""
_PIECE: Final = re.compile(rb'[ .="]?[Aa\xe9][Aa0\xe9]*|0[Aa0\xe9]*| ?\?+| ?[.="]+\n*| *\n+| +(?= |\Z)| ')
_PART: Final = re.compile(rb"0+|A*[a\xe9]+|A+")
_SIGNS: Final = re.compile(rb"=+|\.+")
_OTHER: Final = re.compile("[^\x00-\xff]+")
_SCRIPTS: Final = (
    ("\u036f", 45),  # Latin with accents, which split a word
    ("\u03ff", 40),  # Greek
    ("\u058f", 30),  # Cyrillic
    ("\u05ff", 48),  # Hebrew
    ("\u08ff", 34),  # Arabic
    ("\u0dff", 37),  # the scripts of India
    ("\u1dff", 45),  # Thai, Burmese, Georgian, Khmer
    ("\u1eff", 20),  # Vietnamese
    ("\u24ff", 100),  # dashes, quotation marks, arrows
    ("\u257f", 45),  # lines of boxes and trees
    ("\u2e7f", 120),  # symbols
    ("\u303f", 72),
    ("\u309f", 76),  # Hiragana
    ("\u30ff", 64),  # Katakana
    ("\u9fff", 67),  # Chinese characters
    ("\ud7ff", 70),  # Hangul
    ("\uffff", 72),
    ("\U0010ffff", 170),  # emoji
)
"""The last character of each script, and hundredths of a token for one of its characters."""
_ENDS: Final = [end for end, _ in _SCRIPTS]


@lru_cache(maxsize=8192)
def _chunk_cost(shape: bytes) -> int:
    """Return hundredths of a token."""
    return sum(map(_piece_cost, _PIECE.findall(shape)))


def _piece_cost(shape: bytes) -> int:
    if shape.isspace():
        return 100
    if b"?" in shape:
        return 0  # counted by script
    parts: list[bytes] = _PART.findall(shape)
    if not parts:
        return _signs_cost(shape)
    # Digits between letters again and again: an identifier, a hash or base64, whose letters are no words.
    is_random = len(parts) > 3 and sum(part[:1] == b"0" for part in parts) > 1  # noqa: PLR2004
    is_after_space = shape[:1] == b" "
    return sum(_part_cost(part, is_random=is_random, is_after_space=is_after_space) for part in parts)


def _part_cost(part: bytes, *, is_random: bool, is_after_space: bool) -> int:
    size, capitals = len(part), part.count(b"A")
    if part[:1] == b"0":
        return 100 * -(-size // 3)
    if is_random:
        return 105 if size < 3 else 60 * size  # noqa: PLR2004
    if capitals == size:
        return 100 + 28 * max(0, size - 3)
    longer = (5 if is_after_space else 11) * max(0, size - 4) + 25 * max(0, size - 18)
    return 100 + longer + 75 * part.count(b"\xe9") + 60 * max(0, capitals - 2)


def _signs_cost(shape: bytes) -> int:
    runs = _SIGNS.findall(shape.replace(b'"', b""))
    longer = sum(40 * max(0, len(run) - 2) for run in runs if run[:1] == b".")
    return max(100, 100 * len(runs) + 175 * shape.count(b'""""') + longer)
