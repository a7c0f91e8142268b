"""Cutting inside a line, between whole characters."""

from __future__ import annotations

from unicodedata import category, combining

_JOINER = "\u200d"
_EXTENDING = frozenset(("Mn", "Me", "Mc"))
_FARTHEST = 32  # a character with more marks than this is noise, and cutting it does no harm


def boundary(text: str, at: int) -> int:
    """Return the last place at or before `at` that does not part a character from its marks.

    Combining marks, variation selectors, skin tones, joined emoji, surrogate halves and the two characters of a
    Windows line end stay together; rarer clusters (flags, Hangul written in letters) may be cut.
    """
    if not 0 < at < len(text):
        return min(max(at, 0), len(text))
    place = at
    while place > max(at - _FARTHEST, 0) and _belongs(text[place - 1], text[place]):
        place -= 1
    return place


def _belongs(before: str, after: str) -> bool:
    if after < "\u0300":
        return before == "\r" and after == "\n"
    if _JOINER in (before, after) or combining(after):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff":  # skin tones
        return True
    return category(after) in _EXTENDING or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
