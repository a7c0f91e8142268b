"""Shorteners that keep lines by a rule of their own: the ends, matches, definitions, or rare names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import accumulate, chain, repeat
from typing import cast

from cupel._checks import as_finite, as_integer, wrong_type
from cupel.errors import ConfigurationError
from cupel.shorten._names import blanked, token_weights
from cupel.shorten._pieces import spread
from cupel.shorten._request import Request
from cupel.shorten._text import Page, holding_words, least, ranked, troubled, with_context
from cupel.tokens import TokenCounter

_POOL = 8
"""Of a text that is longer than this many times the room, only the likeliest lines are compared with one another."""
_NUMBERED = r"(?:[ \t]*\d+[:|\t→])?"  # as editors and `grep -n` print lines
_MODIFIERS = (
    r"(?:(?:export|default|declare|public|private|protected|internal|static|final|abstract|sealed|open|data|inline"
    r"|extern|async|unsafe|override|virtual|partial|pub(?:\([^)\n]*\))?)[ \t]+)*"
)
_SURE = r"(?:class|interface|struct|enum|trait|impl|fn|func|fun|function\*?|def|macro_rules!)[ \t<(]+[\w$~<*&(]"
_LIKELY = (
    r"(?:type|object|record|module|namespace|package|protocol|extension|union|mod|sub|procedure)[ \t]+[\w.$]+"
    r"[ \t]*(?:[<({:=;]|extends\b|implements\b|where\b|struct\b|interface\b|$)"
)
_ARROW = r"(?:const|let|var)[ \t]+[\w$]+[ \t]*=[ \t]*(?:async\b[ \t]*)?(?:function\b|\([^\n]*=>|[\w$]+[ \t]*=>)"
_NOT_A_METHOD = (
    r"(?![ \t]*\d+[:|\t→])"
    r"(?!(?:if|for|while|switch|return|else|catch|do|new|throw|await|yield|case|using|lock|with|elif)\b)"
)
_SQL = (
    r"(?i:create[ \t]+(?:or[ \t]+replace[ \t]+)?(?:temp\w*[ \t]+)?"
    r"(?:table|view|function|procedure|index|type|trigger))\b"
)
_DEFINITION = re.compile(rf"{_NUMBERED}([ \t]*)(?:{_MODIFIERS}(?:{_SURE}|{_LIKELY}|{_ARROW})|{_SQL}|\(def\w*[ \t])")
_METHOD = re.compile(
    rf"{_NUMBERED}([ \t]*){_NOT_A_METHOD}(?:[\w<>\[\],.:*&?]+[ \t]+){{0,6}}[*&#]?[\w:~$]+[ \t]*\([^;\n]{{0,200}}\)"
    r"[^;{}()\n]{0,60}\{?\s*"
)
_HEADING = re.compile(rf"{_NUMBERED} {{0,3}}(#{{1,6}})[ \t]+\S")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")

_CHANGE, _CHANGED = re.compile(r"diff --git |Index: |(@@ -\d)|()(?!\+\+\+ |--- )[+-]"), 2
"""A file, the beginning of a hunk, or a changed line of a diff."""

_SHORTEST, _LONGEST = len("def f"), 400
"""Lengths of a line that can define anything."""


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

    `known` says how many other texts hold a name (see `Rarity`), so that a name common in a conversation counts little.

    >>> log = "".join(f"copied part {number} of the archive to the store\n" for number in range(40))
    >>> log += "checksum of part_17.bin differs: 9f3a, see verify.log\n" + log
    >>> print(key_lines(log, 60))
    copied part 0 of the archive to the store
    [cupel: lines 2–40 omitted]
    checksum of part_17.bin differs: 9f3a, see verify.log
    [cupel: lines 42–81 omitted]
    """

    def ranking(page: Page) -> Iterable[int]:
        names = known or {}
        return _greedy(page.lines, _candidates(page, names, 4 * limit), names)

    return _kept(text, limit, counter, ranking)


def _kept(text: str, limit: int, counter: TokenCounter | None, ranking: Callable[[Page], Iterable[int]]) -> str:
    """Return the lines that come first in a ranking; the first and last lines if it is empty."""
    request = Request.of(text, limit, counter)
    if request.is_met:
        return text
    page = Page(text)
    order = iter(ranking(page))
    first = next(order, None)
    page.rank(spread(page.lengths, head=1 / 3, tail=2 / 3) if first is None else chain((first,), order))
    return request.longest(page.build) or least(request)


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


def structure(lines: list[str]) -> dict[int, int]:
    """Return the positions of headings, of definitions, or of the files and changes in a diff, with their depth."""
    return _changes(lines) or headings(lines) or definitions(lines)


def _changes(lines: list[str]) -> dict[int, int]:
    found = ((position, _CHANGE.match(line)) for position, line in enumerate(lines) if line[:1] in "dI@+-")
    depths = {position: match.lastindex or 0 for position, match in found if match}
    return depths if any(depth < _CHANGED for depth in depths.values()) else {}


def definitions(lines: list[str]) -> dict[int, int]:
    """Return the positions of lines that define something, with their indentation."""
    found: dict[int, int] = {}
    match = _DEFINITION.match
    for position, line in enumerate(lines):
        if not _SHORTEST < len(line) <= _LONGEST:
            continue
        definition = match(line) or (_METHOD.fullmatch(line) if _opens_block(lines, position) else None)
        if definition:
            found[position] = len(definition[1].expandtabs(4))
    return found


def _opens_block(lines: list[str], position: int) -> bool:
    """Whether a line ends in a brace, or in a parenthesis with a brace alone on the next line."""
    end = lines[position][-3:].rstrip()[-1:]
    return end == "{" or (end == ")" and position + 1 < len(lines) and lines[position + 1].strip() == "{")


def headings(lines: list[str]) -> dict[int, int]:
    """Return the positions of Markdown headings with their levels; none unless most stand apart, as headings do."""
    found: dict[int, int] = {}
    fenced, apart = False, 0
    for position, line in enumerate(lines):
        if "#" not in line and "`" not in line and "~" not in line:  # nearly always, and cheap to see
            continue
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and (match := _HEADING.match(line)):
            found[position] = len(match[1])
            before = not position or not lines[position - 1].strip()
            after = position + 1 == len(lines) or not lines[position + 1].strip()
            apart += before and after
    return found if apart * 2 > len(found) else {}


def _candidates(page: Page, known: Mapping[str, int], room: int) -> list[int]:
    """Positions of the lines to choose from: the first of equal ones, and of very many those that promise most."""
    backwards = dict(zip(reversed(page.lines), reversed(range(len(page.lines))), strict=True))
    positions = sorted(backwards.values())
    held = sum(page.lengths)
    return positions if held <= _POOL * room else _likeliest(page.lines, positions, known, _POOL * room)


def _greedy(lines: list[str], positions: Sequence[int], known: Mapping[str, int]) -> Iterator[int]:
    """Positions by names not yet covered for each character; a gain only shrinks, so it is renewed when it is next."""
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


def _likeliest(lines: list[str], positions: list[int], known: Mapping[str, int], room: int) -> list[int]:
    """Positions of the lines in which most names stand for the first time, for each character, within some room."""
    blank = blanked("\n".join([lines[at].rstrip("\n") for at in positions]))
    holding = [line.split() for line in blank.split("\n")]
    tokens = list(chain.from_iterable(holding))
    holders = list(chain.from_iterable(map(repeat, range(len(holding)), map(len, holding))))
    first = dict(zip(reversed(tokens), reversed(holders), strict=True))
    gains = [0] * len(positions)
    for token, weight in token_weights(first, known).items():
        gains[first[token]] += weight
    density = {at: -gain / (len(lines[at]) + 1) for at, gain in zip(positions, gains, strict=True)}
    ranked = sorted(positions, key=density.__getitem__)
    lengths = accumulate(len(lines[at]) for at in ranked)
    return sorted(at for at, length in zip(ranked, lengths, strict=True) if length <= room)
