"""The names a later step might refer to."""

from __future__ import annotations

from collections.abc import Mapping

from cupel.shorten._lines import Page
from cupel.shorten._rarity import names_in, weights
from cupel.shorten._request import ShortenCall
from cupel.tokens import TokenCounter


def names(text: str, limit: int, *, counter: TokenCounter | None = None, known: Mapping[str, int] | None = None) -> str:
    r"""Return one line with the distinct identifiers, paths and numbers of a text, the most informative first.

    A name is informative if it is no ordinary word and stood in few other texts; `known` says in how many (see
    `Rarity`). Equally informative names keep the order of the text.

    >>> log = "tests/test_header.py ...... passed in the usual time\n" * 9
    >>> log += "FAILED tests/test_fold.py, see report_7.html for all the details\n"
    >>> print(names(log, 36))
    … 10 lines, 115 tokens left out, with tests/test_header.py FAILED tests/test_fold.py report_7.html passed usual
    details …
    """
    request = ShortenCall.of(text, limit, counter)
    if request.is_met:
        return text
    page = Page.of(request)
    ranked = ranked_names(text, known or {})
    listed = request.largest(lambda size: page.marker(names_note(ranked[:size])), len(ranked))
    return listed or request.first_allowed(page.marker())


def ranked_names(text: str, known: Mapping[str, int]) -> list[str]:
    """Return the names of a text, the most informative first."""
    weight = weights(names_in(text), known)
    return sorted(weight, key=weight.__getitem__, reverse=True)


def names_note(names: list[str]) -> str:
    """Return what a marker says of names that are missing."""
    return f", with {' '.join(names)}" if names else ""
