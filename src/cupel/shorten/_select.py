"""Shorteners that keep lines: the default one, and those of one rule: ends, matches, definitions, or rare names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from heapq import heapify, heappop, heapreplace
from itertools import chain
from math import sqrt
from typing import cast

from cupel._internal.checks import as_finite, as_integer, as_text, wrong_type
from cupel.errors import ConfigurationError
from cupel.shorten._json import Context, Document, NotJSONError, raised, ranked_rows, rows_of
from cupel.shorten._pieces import spread, without_images
from cupel.shorten._readings import lean, lifted
from cupel.shorten._request import Request
from cupel.shorten._text import (
    KeyLine,
    Page,
    Weigh,
    holding_words,
    is_silent,
    least,
    ranked,
    rare_words,
    split_lines,
    structure,
    troubled,
    with_context,
)
from cupel.tokens import TokenCounter

_SEPARATORS = re.compile(r"[^\w./@~\n-]+")
_BLANKED = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "_./@~-\n")}
_SHORTEST_WORD, _SHORTEST_NAME = 5, 3
_LONGEST_COUNT = 4
"""Digits of a number that is no rarer than a word: line numbers and counts."""
_WORD, _TELLING = 1 << 20, 1 << 21
"""Weights are whole numbers, so that a sum does not depend on its order."""
_USUAL = 0.3
"""Above this share of lines with errors, an error no longer distinguishes a line."""
_HEAD, _TAIL = 0.3, 0.4
"""Shares of a form that go to the first and to the last lines; the rest goes to lines that matter between them."""


def shorten(text: str, limit: int, *, counter: TokenCounter | None = None, query: str | None = None) -> str:
    r"""Return a readable form of a text within a limit of tokens.

    The form has whole lines of the text in their order: always the last ones, the first ones, and of those between them
    lines with words of `query`, errors, definitions and headings. JSON is cut between rows and members, rows that
    differ from the others or that `query` asks for are kept first, and it is still JSON without the markers; JSON in
    its strings is written as JSON, and members of long rows that are empty or the same in all go first. Each gap has a
    marker on a separate line. A text within the limit is returned as it is.

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
    return Shortening(as_text("text", text), query).within(limit, counter)


class Shortening:
    r"""The forms that `shorten` makes of one text; several limits take less time than a call for each.

    >>> text = Shortening("\n".join(f"part {number}" for number in range(90)))
    >>> [len(text.within(limit).splitlines()) for limit in (20, 60, 600)]
    [3, 13, 90]
    """

    def __init__(self, text: str, query: str | None = None) -> None:
        self._text = as_text("text", text)
        self._query = "" if query is None else as_text("query", query)

    @cached_property
    def _readings(self) -> list[str]:
        """The text, and shorter ones with the same lines or values, the last of which is cut."""
        plain = without_images(self._text)
        document = lifted(plain)
        return [*dict.fromkeys((self._text, plain, document, lean(document)))]

    @cached_property
    def _form(self) -> Page | Document:
        return _form(self._readings[-1], self._query)

    @cached_property
    def _build(self) -> Callable[[int], str | None]:
        return cache(self._form.build)  # the same sizes are tried for every limit

    @cached_property
    def _answer(self) -> KeyLine:
        return self._form.answer()

    @property
    def exception(self) -> str:
        """The last line that names an exception; empty, if none does."""
        return self._answer.line if self._answer.is_exception else ""

    def within(self, limit: int, counter: TokenCounter | None = None) -> str:
        """Return the form of at most `limit` tokens."""
        whole = request = Request.of(self._text, limit, counter)
        for reading in () if request.is_met else self._readings[1:]:
            request = request.with_text(reading)
            if request.is_met:
                break
        if request.is_met:
            return request.text
        form, answer = request.longest(self._build), self._answer
        if not form and self._query:
            return Shortening(self._text).within(limit, counter)
        if not form or answer.is_missing(form):
            shortest = least(whole, answer.line)
            form = shortest if not form or answer.line in shortest else form
        return str(form)  # no subclass, such as a marker


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
    named = {at: line for at, row in enumerate(rows) if (line := raised(row, lines[at]))}
    last = max(named, default=-1)

    def ranking(page: Page) -> Iterable[int]:
        return dict.fromkeys(chain([last] * (last >= 0), spread(page.lengths, wanted, head=_HEAD, tail=_TAIL)))

    return Page(text, ranking, cut=cut, raised=named.get(last, ""))


def _page(query: str, text: str, weigh: Weigh = len) -> Page:
    def ranking(page: Page) -> Iterator[int]:
        lines, silent = page.lines, list[int]()
        answer = page.raised[:1]
        yield from answer
        for position in spread(page.lengths, _between(lines, query, page.raised), head=_HEAD, tail=_TAIL):
            if is_silent(lines[position]):
                silent.append(position)
            elif position not in answer:
                yield position
        yield from silent

    return Page(text, ranking, weigh=weigh)


def _between(lines: list[str], query: str, raised: list[int]) -> Iterator[int]:
    """Yield positions of relevant lines: with words of the query or errors, in context, then structure."""
    scores = rare_words(lines, query)
    trouble = troubled(lines)
    if len(trouble) < _USUAL * len(lines):
        for position in trouble:
            scores[position] = scores.get(position, 0.0) + 1.0
    for position in raised:
        scores[position] = scores.get(position, 0.0) + 1.0
    yield from with_context(ranked(lines, scores), len(lines), before=1, after=2)
    depths = structure(lines)
    yield from sorted(depths, key=depths.__getitem__)


def head_tail(text: str, limit: int, *, counter: TokenCounter | None = None, head: float = 1 / 3) -> str:
    r"""Return the first and last lines of a text; `head` is the share of them that goes to the first ones.

    The end of a log or a command's output usually matters more, so it gets two thirds. A line that is too long is cut
    in the middle.

    >>> log = "\n".join(f"step {number} done" for number in range(1, 101))
    >>> print(head_tail(log, 40))
    step 1 done
    step 2 done
    [cupel: lines 3–96 omitted]
    step 97 done
    step 98 done
    step 99 done
    step 100 done
    """
    head = as_finite("head", head, least=0, most=1, error=ConfigurationError)
    return _kept(text, limit, counter, lambda page: spread(page.lengths, head=head, tail=1 - head))


def matching(
    text: str,
    limit: int,
    *,
    counter: TokenCounter | None = None,
    query: str | re.Pattern[str] | None = None,
    context: int = 2,
) -> str:
    r"""Return the lines that match, each with `context` lines around it.

    `query` is a text, of which the lines with most words match best, or a compiled pattern; without one, errors,
    failures and tracebacks match. Where not all fit, matches are taken from both ends, repeated lines last. A text
    without a match is shortened as `head_tail` does.

    >>> log = "\n".join(["ok"] * 50 + ["parsing b.toml", "ERROR: line 3: no value", "stopped"] + ["ok"] * 50)
    >>> print(matching(log, 40, context=1))
    [cupel: lines 1–50 omitted]
    parsing b.toml
    ERROR: line 3: no value
    stopped
    [cupel: lines 54–103 omitted]
    """
    context = as_integer("context", context, least=0, error=ConfigurationError)
    find = _finder(query)

    def ranking(page: Page) -> Iterable[int]:
        matches = ranked(page.lines, find(page.lines))
        return with_context(matches, len(page.lines), before=context, after=context) if matches else ()

    return _kept(text, limit, counter, ranking)


def outline(text: str, limit: int, *, counter: TokenCounter | None = None) -> str:
    r"""Return the definitions of source code, the headings of Markdown, or the files of a diff; outermost first.

    Lines are recognised by their form, in Python, JavaScript and TypeScript, Go, Rust, Java, C and its kin, Ruby, PHP,
    Swift, SQL and shells; nothing is parsed. A text with neither is shortened as `head_tail` does.

    >>> source = "".join(
    ...     f"def step_{number}(rows):\n    # a comment of some length about this step\n    return rows\n\n\n"
    ...     for number in range(1, 4)
    ... )
    >>> print(outline(source, 60))
    def step_1(rows):
    [cupel: lines 2–5 omitted]
    def step_2(rows):
    [cupel: lines 7–10 omitted]
    def step_3(rows):
    [cupel: lines 12–15 omitted]
    """

    def ranking(page: Page) -> Iterable[int]:
        depths = structure(page.lines)
        return sorted(depths, key=depths.__getitem__)

    return _kept(text, limit, counter, ranking)


def key_lines(
    text: str, limit: int, *, counter: TokenCounter | None = None, known: Mapping[str, int] | None = None
) -> str:
    r"""Return the lines with most rare names not yet covered by better ones, for their length.

    `known` is the number of other texts with each name (see `Rarity`), so that a common name counts little.

    >>> log = "".join(f"copied part {number} of the archive to the store\n" for number in range(40))
    >>> log += "checksum of part_17.bin differs: 9f3a, see verify.log\n" + log
    >>> print(key_lines(log, 60))
    copied part 0 of the archive to the store
    [cupel: lines 2–40 omitted]
    checksum of part_17.bin differs: 9f3a, see verify.log
    [cupel: lines 42–81 omitted]
    """

    def ranking(page: Page) -> Iterable[int]:
        first = dict(zip(reversed(page.lines), reversed(range(len(page.lines))), strict=True))  # of equal lines
        return _greedy(page.lines, sorted(first.values()), known or {})

    return _kept(text, limit, counter, ranking)


def _kept(text: str, limit: int, counter: TokenCounter | None, ranking: Callable[[Page], Iterable[int]]) -> str:
    """Return the lines that come first in a ranking; the first and last lines if it is empty."""
    request = Request.of(text, limit, counter)
    if request.is_met:
        return text

    def found(page: Page) -> Iterable[int]:
        order = iter(ranking(page))
        first = next(order, None)
        return spread(page.lengths, head=1 / 3, tail=2 / 3) if first is None else chain((first,), order)

    return request.longest(Page(text, found).build) or least(request)


def _finder(query: str | re.Pattern[str] | None) -> Callable[[list[str]], dict[int, float]]:
    """Return the function that finds the positions of matching lines, with their scores."""
    if query is None:
        return troubled
    if isinstance(query, str):
        return lambda lines: holding_words(lines, query)
    if not isinstance(cast("object", query), re.Pattern):
        raise wrong_type("query", "a string, a compiled pattern or None", query)
    search = query.search
    return lambda lines: {position: 1.0 for position, line in enumerate(lines) if search(line)}


def _greedy(lines: list[str], positions: Sequence[int], known: Mapping[str, int]) -> Iterator[int]:
    """Yield positions by names not yet covered, for each character; a gain only shrinks, so it is renewed in turn."""
    holding = {at: set(blanked(lines[at]).split()) for at in positions}
    weight = token_weights(set[str]().union(*holding.values()), known)
    of = weight.__getitem__

    def gain(at: int) -> float:
        return sum(map(of, holding[at])) / (len(lines[at]) + 1)

    heap = [(-gain(at), at) for at in positions]
    heapify(heap)
    while heap:
        promised, at = heap[0]
        now = gain(at)
        if not now:
            heappop(heap)
        elif now != -promised:  # names were covered since
            heapreplace(heap, (-now, at))
        else:
            heappop(heap)
            yield at
            weight.update(dict.fromkeys(holding[at], 0))


class Rarity(Counter[str]):
    """Counts the texts that contain each name; pass it to `key_lines` and `names` as `known`.

    Add every unit of a conversation once, as it arrives; the cost depends on the unit's length only. It is a `Counter`,
    so a plain mapping of names to numbers works as well, and `dict(rarity)` is its whole state.

    >>> rarity = Rarity()
    >>> rarity.add("def parse_header(line): ...")
    >>> rarity.add("parse_header is called by read_request")
    >>> rarity["parse_header"], rarity["read_request"], rarity["unseen"]
    (2, 1, 0)
    """

    def add(self, text: str) -> None:
        """Count the names of one more text."""
        self.update(iter(names_in(text)))


def names_in(text: str) -> dict[str, None]:
    """Return the distinct names of a text, in order of appearance."""
    found = dict.fromkeys(map(_name, dict.fromkeys(blanked(text).split())))
    found.pop("", None)
    return found


def blanked(text: str) -> str:
    """Return a text with spaces in place of characters that are in no name; line ends stay."""
    if text.isascii():
        return text.translate(_BLANKED)
    lines = text.split("\n")  # most are plain even then, and quicker so
    return "\n".join([line.translate(_BLANKED) if line.isascii() else _SEPARATORS.sub(" ", line) for line in lines])


def token_weights(tokens: Iterable[str], known: Mapping[str, int]) -> dict[str, int]:
    """Return the weight of each token: that of the name it is, or 0."""
    named = {token: _name(token) for token in tokens}
    weight = weights(named.values(), known)
    return {token: weight[name] for token, name in named.items()}


def weights(names: Iterable[str], known: Mapping[str, int]) -> dict[str, int]:
    """Return the weight of each name: double if it is no ordinary word, and less the more texts hold it."""
    seen = known.get
    return {name: int(_base(name) / sqrt(max(seen(name, 0), 0) + 1)) for name in names}


def _name(token: str) -> str:
    """Return a token without punctuation at its ends; nothing if the rest is a short ordinary word, or no name."""
    if token.isalnum():
        name = token
    else:
        name = token.rstrip(".-/~@").lstrip("-" if token.startswith(("./", "..")) else "-.~")
        if not (name[-1:].isalnum() or any(map(str.isalnum, name))):
            return ""
    if len(name) >= _SHORTEST_WORD:
        return name
    return "" if len(name) < _SHORTEST_NAME or (name.isalpha() and _base(name) == _WORD) else name


def _base(name: str) -> int:
    """Return the weight of a name by its kind: ordinary words have no inner capital; short numbers count like them."""
    if name.isalpha():
        return _WORD if name[1:] == name[1:].lower() else _TELLING
    if name.isdecimal() and len(name) <= _LONGEST_COUNT:
        return _WORD
    return _TELLING if name else 0
