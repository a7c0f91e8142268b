"""Choosing a form by what a text is."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cupel.shorten._head_tail import keep_ends
from cupel.shorten._json import NotJSONError, cut, dump, parse
from cupel.shorten._key_lines import key_lines
from cupel.shorten._lines import split_lines
from cupel.shorten._matching import matching, troubled
from cupel.shorten._outline import definitions, headings, outline
from cupel.shorten._request import ShortenCall
from cupel.shorten._table import tabled
from cupel.shorten._values import merged
from cupel.tokens import TokenCounter

_LOG_LINE = re.compile(
    r"\W{0,2}(?:\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d"
    r"|\[?\b(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b)"
)
_SAMPLE = 100
_LINES_OF_CODE = 60
"""A text with fewer definitions than one in so many lines is not taken for source code."""
_FEW_LINES, _LONG_LINE = 8, 240


def shorten(
    text: str,
    limit: int,
    *,
    counter: TokenCounter | None = None,
    known: Mapping[str, int] | None = None,
) -> str:
    r"""Return a text in the form that suits it, within a limit of tokens.

    JSON becomes a `table`, or its `values` where the table does not fit; source code and Markdown an `outline`; a log
    or a traceback the lines `matching` trouble, or its head and tail where there is none; other texts of many lines
    their `key_lines`, for which `known` may be given; and prose its head and tail.

    >>> print(shorten("def area(side):\n    # of a square\n    return side * side\n\n\n" * 2, 30))
    def area(side):
    … 4 lines …
    def area(side):
    … 8 lines, 24 tokens left out …
    """
    request = ShortenCall.of(text, limit, counter)
    if request.is_met:
        return text
    if (written := _json(request)) is not None:
        return written
    lines = split_lines(text)
    if _is_source(lines):
        return outline(text, limit, counter=counter)
    if _is_log(lines):
        return matching(text, limit, counter=counter) if troubled(lines) else keep_ends(request)
    if len(lines) > _FEW_LINES and len(text) < _LONG_LINE * len(lines):
        return key_lines(text, limit, counter=counter, known=known)
    return keep_ends(request)


def _json(request: ShortenCall) -> str | None:
    try:
        value = parse(request.text)
        as_table = dump(tabled(value))
        return as_table if request.allows(as_table) else cut(request, merged((value,)))
    except (NotJSONError, RecursionError):
        return None


def _is_source(lines: list[str]) -> bool:
    if len(headings(lines)) > 1:
        return True
    found = definitions(lines)
    return len(found) > 1 and len(found) * _LINES_OF_CODE >= len(lines)


def _is_log(lines: list[str]) -> bool:
    sample = lines[:_SAMPLE] + lines[_SAMPLE:][-_SAMPLE:]
    marked = sum(1 for line in sample if _LOG_LINE.match(line))
    return marked * 3 >= len(sample) or any(line.startswith("Traceback (most recent") for line in lines)
