"""Lines that match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, zip_longest
from typing import cast

from cupel._checks import as_integer, wrong_type
from cupel.errors import ConfigurationError
from cupel.shorten._head_tail import keep_ends
from cupel.shorten._lines import Page
from cupel.shorten._request import ShortenCall
from cupel.tokens import TokenCounter

_STEMS = (
    *("error", "exception", "traceback", "fail", "fatal", "panic", "warn", "assert", "critical", "denied", "refused"),
    *("not found", "no such", "undefined", "segfault", "killed", "timed out"),
)
"""What is looked for where no query is given."""
_NO_TROUBLE = re.compile(r"\b(?:0|no|without) (?:errors?|exceptions?|fail(?:ed|ures?)|warnings?)", re.IGNORECASE)

_WORD = re.compile(r"[\w./@~-]+")


def matching(
    text: str,
    limit: int,
    *,
    counter: TokenCounter | None = None,
    query: str | re.Pattern[str] | None = None,
    context: int = 2,
) -> str:
    r"""Return the lines that match, each with `context` lines around it; the gaps are counted, so places can be told.

    `query` is a text, of which the lines with most words match best, or a compiled pattern; without one, errors,
    failures and tracebacks match. Where not all fit, matches are taken from both ends, repeated lines last. A text
    without a match is shortened as `head_tail` does, and the marker says so.

    >>> log = "\n".join(["ok"] * 50 + ["parsing b.toml", "ERROR: line 3: no value", "stopped"] + ["ok"] * 50)
    >>> print(matching(log, 40, context=1))
    … 50 lines …
    parsing b.toml
    ERROR: line 3: no value
    stopped
    … 100 lines, 199 tokens left out …
    """
    context = as_integer("context", context, least=0, error=ConfigurationError)
    find = _finder(query)
    request = ShortenCall.of(text, limit, counter)
    if request.is_met:
        return text
    page = Page.of(request)
    ranked = _ranked(page.lines, find(page.lines))
    if not ranked:
        return keep_ends(request, note="; no line matches")
    return page.keep(_with_context(ranked, context, len(page.lines))) or keep_ends(request)


def troubled(lines: list[str]) -> dict[int, int]:
    """Return the positions of lines that tell of errors, failures and the like, each with the score 1."""
    found = _holding(lines, _STEMS)
    return {position: 1 for position in sorted(found) if not _NO_TROUBLE.search(lines[position])}


def _finder(query: str | re.Pattern[str] | None) -> Callable[[list[str]], dict[int, int]]:
    """Return what finds the positions of matching lines, with their scores."""
    if query is None:
        return troubled
    if isinstance(query, str):
        words = dict.fromkeys(_WORD.findall(query.casefold()))
        return lambda lines: _holding(lines, words)
    if not isinstance(cast("object", query), re.Pattern):
        raise wrong_type("query", "a string, a compiled pattern or None", query)
    search = query.search
    return lambda lines: {position: 1 for position, line in enumerate(lines) if search(line)}


def _holding(lines: list[str], words: Iterable[str]) -> dict[int, int]:
    """How many of the words each line holds; searched in the whole text at once, which is quicker than by lines."""
    text = "".join(lines).casefold()
    scores: dict[int, int] = {}
    for word in words:
        position = start = 0
        while (place := text.find(word, start)) >= 0:
            position += text.count("\n", start, place)
            scores[position] = scores.get(position, 0) + 1
            start = text.find("\n", place)
            if start < 0:
                break
    return scores


def _ranked(lines: list[str], scores: dict[int, int]) -> list[int]:
    """Positions of matching lines: best first, among equals from both ends inwards, repeated lines last."""
    by_score: dict[int, list[int]] = {}
    repeated: list[int] = []
    known: set[str] = set()
    for position in sorted(scores):
        if lines[position] in known:
            repeated.append(position)
        else:
            known.add(lines[position])
            by_score.setdefault(scores[position], []).append(position)
    order = chain.from_iterable(_inwards(by_score[score]) for score in sorted(by_score, reverse=True))
    return [*order, *repeated]


def _inwards(positions: list[int]) -> Iterable[int]:
    half = (len(positions) + 1) // 2
    pairs = zip_longest(positions[:half], reversed(positions[half:]))
    return [position for pair in pairs for position in pair if position is not None]


def _with_context(ranked: list[int], context: int, count: int) -> Iterator[int]:
    given: set[int] = set()
    for match in ranked:
        for distance in range(context + 1):
            for position in (match - distance, match + distance):
                if 0 <= position < count and position not in given:
                    given.add(position)
                    yield position
