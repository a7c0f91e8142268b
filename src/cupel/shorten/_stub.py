"""One line in place of a text."""

from __future__ import annotations

from cupel.shorten._lines import Page
from cupel.shorten._marker import amount
from cupel.shorten._request import ShortenCall
from cupel.tokens import TokenCounter


def stub(
    text: str,
    limit: int | None = None,
    *,
    counter: TokenCounter | None = None,
    tool: str | None = None,
    hint: str | None = None,
) -> str:
    r"""Return one line that says which tool's output is gone, how long it was, and how to get it back.

    Without `hint`, a stub that names a tool says to call it again. A limit is only needed where a line may be too much;
    a line that is a stub stays as it is.

    >>> stub("line of output\n" * 500, 30, tool="read_file")
    '… read_file: 500 lines, 2,000 tokens left out; call it again to see them …'
    >>> stub("line of output\n" * 500, 30, hint="stored as run-17.log")
    '… 500 lines, 2,000 tokens left out; stored as run-17.log …'
    """
    request = ShortenCall.of(text, limit, counter, in_full=True)
    if request.is_met or (limit is None and text.startswith("… ") and text.endswith(" …") and "\n" not in text):
        return text
    numbers = f"{amount(len(Page.of(request).lines), 'line')}, {amount(request.tokens, 'token')} left out"
    whose = f"{_one_line(tool)}: " if tool else ""
    how = _one_line(hint) if hint else "call it again to see them" if tool else ""
    candidates = [f"… {whose}{numbers} …", f"… {numbers} …"]
    return request.first_allowed(*([f"… {whose}{numbers}; {how} …"] if how else []), *candidates)


def _one_line(words: str) -> str:
    return " ".join(words.split())
