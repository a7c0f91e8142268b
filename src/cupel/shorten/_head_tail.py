"""First and last lines."""

from __future__ import annotations

from collections.abc import Iterator

from cupel._checks import as_finite
from cupel.errors import ConfigurationError
from cupel.shorten._cut import boundary
from cupel.shorten._lines import Page
from cupel.shorten._marker import left_out
from cupel.shorten._request import ShortenCall
from cupel.tokens import TokenCounter


def head_tail(text: str, limit: int, *, counter: TokenCounter | None = None, head: float = 1 / 3) -> str:
    r"""Return the first and last lines of a text; `head` is the share of what is kept that goes to the first ones.

    The end of a log or a command's output usually matters more, so it gets two thirds. Where whole lines would leave
    more than half of the limit unused, as with one giant line, the marker's line also carries the beginning of the
    first and the end of the last line that is missing.

    >>> log = "\n".join(f"step {number} done" for number in range(1, 101))
    >>> print(head_tail(log, 40))
    step 1 done
    step 2 done
    … 94 lines, 470 tokens left out …
    step 97 done
    step 98 done
    step 99 done
    step 100 done
    """
    head = as_finite("head", head, least=0, most=1, error=ConfigurationError)
    return keep_ends(ShortenCall.of(text, limit, counter), head=head)


def keep_ends(request: ShortenCall, *, head: float = 1 / 3, note: str = "") -> str:
    """Return the first and last lines for a request; `note` is what the marker says beside the numbers."""
    if request.is_met or request.limit is None:
        return request.text
    page = Page.of(request)
    whole = page.keep(_from_both_ends(page.lines, head, request.room), note)
    if whole is not None and request.counter.count(whole) * 2 >= request.limit:
        return whole
    return _with_pieces(page, head, note) or whole or request.first_allowed(page.marker(note))


def _from_both_ends(lines: list[str], head: float, room: int) -> Iterator[int]:
    """Positions from both ends inwards, in the given shares; a side stops at a line longer than the room."""
    first, last = 0, len(lines) - 1
    used_first = used_last = 0
    while first <= last:
        open_first, open_last = head > 0 and len(lines[first]) <= room, head < 1 and len(lines[last]) <= room
        if not open_first and not open_last:
            return
        behind = (used_first + len(lines[first])) * (1 - head) <= (used_last + len(lines[last])) * head
        if open_first and (behind or not open_last):
            yield first
            used_first += len(lines[first])
            first += 1
        else:
            yield last
            used_last += len(lines[last])
            last -= 1


def _with_pieces(page: Page, head: float, note: str) -> str | None:
    """Whole lines for at most half of the room, then the ends of the lines that are missing, in the marker's line."""
    lines, request = page.lines, page.request
    before, after, used = _outer_lines(lines, head, request.room // 2)
    is_one = after - before == 1
    opening, closing = lines[before].rstrip("\r\n"), lines[after - 1].rstrip("\r\n")
    top, bottom = "".join(lines[:before]), lines[after - 1][len(closing) :] + "".join(lines[after:])

    def build(size: int) -> str:
        start = boundary(opening, min(int(size * head), len(opening)))
        stop = boundary(closing, max(len(closing) - (size - start), 0))
        if is_one:
            stop = max(start, stop)
        first, last = top + opening[:start], closing[stop:] + bottom
        tokens = max(request.tokens - request.counter.count(first + last), 0)
        missing = (stop - start, "character") if is_one else (after - before, "line")
        return first + left_out(*missing, tokens, note) + last

    most = len(opening) if is_one else len(opening) + len(closing)
    return request.largest(build, most, guess=max(request.room - used, 1))


def _outer_lines(lines: list[str], head: float, room: int) -> tuple[int, int, int]:
    """Where the lines that some room holds end before the middle and go on behind it, and their length so far."""
    before, after = 0, len(lines)
    used = 0
    for position in _from_both_ends(lines, head, room // 2):
        used += len(lines[position])
        if used > room or after - before <= 1:
            break
        if position == before:
            before += 1
        else:
            after -= 1
    return before, after, used
