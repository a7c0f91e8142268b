"""The default way to shorten a text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cupel._checks import as_text
from cupel.shorten._json import Context, Document, NotJSONError, ranked_rows, rows_of
from cupel.shorten._pieces import spread, without_images
from cupel.shorten._request import Request
from cupel.shorten._text import Page, Weigh, least, ranked, rare_words, split_lines, structure, troubled, with_context
from cupel.tokens import TokenCounter

_USUAL = 0.3
"""Above this share of lines with errors, an error no longer distinguishes a line."""
_HEAD, _TAIL = 0.3, 0.4
"""Shares of a form that go to the first and to the last lines; the rest goes to lines that matter between them."""


def shorten(text: str, limit: int, *, counter: TokenCounter | None = None, query: str | None = None) -> str:
    r"""Return a readable form of a text within a limit of tokens.

    The form has whole lines of the text in their order: always the last ones, the first ones, and of those between them
    lines with words of `query`, errors, definitions and headings. JSON is cut between rows and members, rows that
    differ from the others or that `query` asks for are kept first, and it is still JSON without the markers. Each gap
    has a marker on a separate line. A text within the limit is returned as it is.

    Args:
        text: The text, such as a tool's output.
        limit: The most tokens that the form may have.
        counter: Counts tokens; `cupel.tokens.default_counter()` by default.
        query: The text to keep matching lines for: the user's newest message, or the call that produced the output.

    >>> log = "\n".join(f"copied part {number} of 90" for number in range(1, 91))
    >>> print(shorten(log + "\nOSError: no space left on device", 60))
    copied part 1 of 90
    copied part 2 of 90
    [cupel: lines 3–88 omitted]
    copied part 89 of 90
    copied part 90 of 90
    OSError: no space left on device
    """
    query = "" if query is None else as_text("query", query)
    request = Request.of(text, limit, counter)
    if request.is_met:
        return text
    plain = without_images(text)
    if plain != text:
        request = request.with_text(plain)
        if request.is_met:
            return plain
    return request.longest(_form(plain, query).build) or least(request)


def _form(text: str, query: str) -> Page | Document:
    try:
        return Document(text, Context(query, partial(_page, query)))
    except NotJSONError:
        return _json_lines(text, query) or _page(query, text)


def _json_lines(text: str, query: str) -> Page | None:
    """Return the page of a text of which every line is a JSON object, or None if it is another text."""
    if text[:1] != "{":
        return None
    lines = split_lines(text)
    try:
        rows = rows_of(lines)
    except NotJSONError:
        return None

    def cut(position: int, size: int) -> list[str] | None:
        return Document(lines[position], Context(query, partial(_page, query))).segments(size)

    wanted = ranked_rows(rows, rare_words(lines, query))
    return Page(text, lambda page: spread(page.lengths, wanted, head=_HEAD, tail=_TAIL), cut=cut)


def _page(query: str, text: str, weigh: Weigh = len) -> Page:
    def ranking(page: Page) -> Iterator[int]:
        return spread(page.lengths, _between(page.lines, query), head=_HEAD, tail=_TAIL)

    return Page(text, ranking, weigh=weigh)


def _between(lines: list[str], query: str) -> Iterator[int]:
    """Yield positions of relevant lines: with words of the query or errors, in context, then structure."""
    scores = rare_words(lines, query)
    trouble = troubled(lines)
    if len(trouble) < _USUAL * len(lines):
        for position in trouble:
            scores[position] = scores.get(position, 0.0) + 1.0
    yield from with_context(ranked(lines, scores), len(lines), before=1, after=2)
    depths = structure(lines)
    yield from sorted(depths, key=depths.__getitem__)
