"""What counts as a word, and which terms a word is looked up by."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from unicodedata import normalize

from cupel._checks import shown
from cupel.errors import MissingExtraError, ScorerConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

_ENGLISH: Final = """
    a about also am an and any are as at be been being but by can could d did do does done for from had has have having
    he her hers him his how i if in into is it its just ll m me might more most must my no not of on or other our re s
    shall she should so some such t than that the their them then there these they this to too us ve very was we were
    what when where which who whom whose why will with would you your yours
"""
ENGLISH: Final = frozenset(_ENGLISH.split())
"""English words that say nothing about a subject; "may" is not among them, because it is also a month."""

_SPACELESS: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Scripts that do not put spaces between words: their characters and pairs of characters are the terms."""
_MARKS: Final = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff\u200c\u200d"
)
"""Vowel signs and accents, which `\\w` leaves out and which would tear words of many scripts apart."""
_WORD: Final = re.compile(rf"[\w{_MARKS}{_SPACELESS}]+(?:\.[\w{_MARKS}]+)*")
_SPACELESS_RUN: Final = re.compile(f"[{_SPACELESS}]+")
_PART: Final = re.compile(r"U+(?!l)|U?l+|0+")
_LONGEST: Final = 100
"""Longer words are data (keys, hashes, encoded files): looked up whole, never split, stemmed or remembered."""
_MOST_WORDS: Final = 200_000


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are written; dots and underscores inside a word belong to it.

    >>> words_of("Call os.path.join, then my_helper.")
    ['Call', 'os.path.join', 'then', 'my_helper']
    """
    found: list[str] = _WORD.findall(text if text.isascii() else normalize("NFKC", text))
    return found


class Terms(dict[str, tuple[str, ...]]):
    """The terms of each word met so far, found once for all pools.

    >>> Terms(str, frozenset({"is"}))["is_HTTPServer2"]
    ('is_httpserver2', 'http', 'server', '2')
    """

    __slots__ = ("_lock", "_stem", "_stop")

    def __init__(self, stem: Callable[[str], str], stop: frozenset[str]) -> None:
        super().__init__()
        self._stem = stem
        self._stop = stop
        self._lock = Lock()  # a stemmer works in fields of its own

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(word) > _LONGEST and not _SPACELESS_RUN.search(word):
            return (word.lower(),)
        with self._lock:
            if len(self) >= _MOST_WORDS:
                self.clear()
            terms = tuple(map(self._stem, dict.fromkeys(part for part in _parts(word) if part not in self._stop)))
            if len(word) <= _LONGEST:
                self[word] = terms
        return terms


def _parts(word: str) -> list[str]:
    """Return a word in lower case and, if it is made of several, its parts."""
    if word.isascii() and word.isalpha() and (word[1:].islower() or word.islower() or word.isupper()):
        return [word.lower()]
    parts: list[str] = []
    rest = word
    for run in _SPACELESS_RUN.findall(word):
        parts += [*run, *map("".join, pairwise(run))]
    if parts:
        rest = _SPACELESS_RUN.sub(".", word)
    shape = "".join(map(_shape, rest))
    pieces = [rest[found.start() : found.end()].lower() for found in _PART.finditer(shape)]
    whole = [] if parts or pieces == [word.lower()] else [word.lower()]
    return whole + pieces + parts


def _shape(character: str) -> str:
    if character in "._":
        return "."
    return "0" if character.isdigit() else "U" if character.isupper() else "l"


def stop_words(words: frozenset[str]) -> frozenset[str]:
    """Return stop words in the spelling that words are compared in."""
    return frozenset(normalize("NFKC", word).lower() for word in words)


@cache
def terms_for(language: str | None, stop: frozenset[str]) -> Terms:
    """Return the one collection of terms for a language and its stop words."""
    return Terms(_plain if language is None else _stemmer(language), stop)


def check_language(language: str) -> None:
    """Raise when words of this language cannot be stemmed."""
    terms_for(language, frozenset[str]())


def _plain(word: str) -> str:
    return word


def _stemmer(language: str) -> Callable[[str], str]:
    try:
        import snowballstemmer  # pyright: ignore[reportMissingTypeStubs] - an extra, and slow to import
    except ImportError:
        raise MissingExtraError("snowballstemmer", "relevance") from None
    untyped: Any = snowballstemmer
    known: list[str] = sorted(untyped.algorithms())
    if language not in known:
        msg = f"stem must be True, False or one of {', '.join(known)}, got {shown(language)}"
        raise ScorerConfigError(msg)
    stem: Callable[[str], str] = untyped.stemmer(language).stemWord
    return stem
