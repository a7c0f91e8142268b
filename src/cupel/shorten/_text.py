"""Texts as lines: which of them matter, and how they are written with markers in the gaps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, zip_longest
from typing import NamedTuple
from unicodedata import category, combining

from cupel.shorten._pieces import FOREIGN, MARKER, Cutting, Marker, Pieces, escape_foreign, gaps, rendered
from cupel.shorten._request import Request

Weigh = Callable[[str], int]
"""Returns the number of characters that a text takes where it will be written."""
Ranking = Callable[["Page"], Iterable[int]]
"""Returns the positions of lines in the order in which they are kept."""
CutText = Callable[[int, int], "list[str] | None"]
"""Returns the segments of one line within a number of characters."""

_LINES = Cutting(1000, 400, least=100, spare=0.2, marker=MARKER)
_SPARED = 12
"""A gap that is longer than its marker by no more characters is no gap."""
_OWN = re.compile(r"\[cupel: lines? (\d{1,15})(?:–(\d{1,15}))? omitted\]\r?\n?")
_JOINER = "\u200d"
_EXTENDING = frozenset(("Mn", "Me", "Mc"))
_FAR = 12
"""A form this many times longer than an exception is not given up for it."""
_FARTHEST = 32
"""A character with more marks than this is noise, and cutting it does no harm."""
_WORD_REACH = 24
"""How far a cut is moved so that it does not split a word."""
_RECORD = re.compile(r"[})\]],\s*(?=[{(\[])")
"""Where one record of a list ends and the next begins."""
_STEMS = (
    *("error", "exception", "traceback", "fail", "fatal", "panic", "warn", "assert", "critical", "denied", "refused"),
    *("not found", "no such", "no space", "undefined", "segfault", "killed", "timed out"),
)
"""Words that mark a line as an error."""
_NO_TROUBLE = re.compile(
    r"(?i:\b(?:0|no|without) (?:errors?|exceptions?|fail(?:ed|ures?)|warnings?))"
    r"|^\s*(?:\d+[-:|\t→]\s*)?(?:raise|throw|try|except|catch|import|from|return|def|class|if|elif|else|for|while|with|public"
    r"|private|protected|static|final|const|let|var|func|fn|[@#*}]|//|/\*|\"\"\")"
)
"""A line that reports success, or a line of source code that only mentions errors."""
_TRACEBACK = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\):?\s*$")
_FRAME = '  File "'
"""How a line after the first of a traceback begins, after a prefix that all of its lines share."""
_RAISED = re.compile(
    r"(?:E {3,}\S|(?:Exception in thread \"[^\"\n]*\" |Unhandled exception\. |(?:PHP Fatal error:  )?Uncaught "
    r"(?:\(in promise\) )?)?(?:[A-Za-z_$][\w$]*(?:\.|::|/))*"
    r"[A-Z]\w*(?:Error|Exception|Interrupt|Failure|Fault)\b(?: \[\w+\])?(?::|\s*$)"
    r"|\S+:\d+:in [`'][^'\n]*': [^\n]*\([\w:]+\)\s*$"
    r"|Caused by: |panic: |thread '[^'\n]*'[^\n]{0,40} panicked at|fatal: |FAILED [^(\s]|error\[\w+\]: "
    r"|[^\s:\"]+:\d+:(?:\d+:)? (?:fatal )?error: )"
)
_UNNAMED = "Error:", "Uncaught Error:"
"""How lines of Node begin that only count where no other names an exception."""
"""A line that names an exception, without the traceback before it."""
_SILENT = re.compile(r"\s*(?:</?[\w:.-]+/?>(?:\w{0,8}</[\w:.-]+>)?|[^\w\s]*)\s*")
"""A line with a tag or two, with brackets or with nothing: it says little without the lines around it."""
_WORD, _NAME = re.compile(r"[\w./@~-]+"), re.compile(r"[\d_./@-]|.[A-Z]")
_NAME_WEIGHT, _WORD_WEIGHT, _SHORTEST_WORD = 2.0, 0.7, 4
"""A line with a name from the query ranks above an error line, whose score is 1."""
_DIGITS = re.compile(r"\d+")
_COMMON = 0.2
"""A word or stem that is in more than this share of the lines does not distinguish one of them."""
_MOST_WORDS, _LONGEST_SHAPE = 32, 400
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


def split_lines(text: str) -> list[str]:
    r"""Split after each `\n`, and nowhere else: other separators stay inside their line."""
    *ended, last = text.split("\n")
    lines = [line + "\n" for line in ended]
    if last:
        lines.append(last)
    return lines


class KeyLine(NamedTuple):
    """The line of a text that says most."""

    line: str
    is_exception: bool = False

    def is_missing(self, form: str) -> bool:
        """Whether it is an exception that a form does not hold, but might in place of all else."""
        if not self.is_exception or len(form) > _FAR * (len(self.line) + MARKER):
            return False
        plain = _unescaped(form)
        parts = self.line.split(": ", 1)  # which are two members where an object describes it
        return not all(_unescaped(one) in plain or _unescaped(json.dumps(one)[1:-1]) in plain for one in parts)


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\", "")


class Page:
    """The lines of a text, and the form of it that some room allows.

    Lines are numbered from 1. A marker in the text that fits this numbering is one of an earlier shortening: its lines
    are counted, so that numbers refer to the text as it once was. Anything else that looks like a marker is escaped.
    """

    def __init__(
        self, text: str, ranking: Ranking, *, weigh: Weigh = len, cut: CutText | None = None, raised: str = ""
    ) -> None:
        self.lines, self._raised = split_lines(text), raised
        self.numbers: Sequence[int] = range(1, len(self.lines) + 1)
        self.last = len(self.lines)
        if "cupel" in text.lower() and FOREIGN.search(text):
            self._renumber()
        self.lengths = list(map(weigh, self.lines))
        self.end = "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"
        self._cut = cut
        self._pieces = Pieces(self.lengths, ranking(self), _LINES)

    def _renumber(self) -> None:
        lines: list[str] = []
        numbers: list[int] = []
        number = 1
        for line in self.lines:
            own = _OWN.fullmatch(line)
            if own and int(own[1]) == number and int(own[2] or own[1]) >= number:
                number = int(own[2] or own[1]) + 1
            else:
                lines.append(escape_foreign(line))
                numbers.append(number)
                number += 1
        self.lines, self.numbers, self.last = lines, numbers, number - 1

    def build(self, room: int) -> str | None:
        """Return the form of at most `room` characters, or None if there is none."""
        segments = self.segments(room)
        return None if segments is None else rendered(segments, self.end)

    def segments(self, room: int) -> list[str] | None:
        """Return the form as texts and markers."""
        kept = self._pieces.within(room)
        if not kept:
            return None
        for start, stop in list(gaps(kept, len(self.lines))):
            if stop - start <= MARKER and self._is_short(start, stop):
                kept.update((position, self.lengths[position]) for position in range(start, stop))
        segments: list[str] = []
        number = 1
        for position in sorted(kept):
            if self.numbers[position] > number:
                segments.append(Marker.span("line", number, self.numbers[position] - 1))
            number = self.numbers[position] + 1
            segments += self._line(position, kept[position])
        if number <= self.last:
            segments.append(Marker.span("line", number, self.last))
        return segments

    @cached_property
    def raised(self) -> list[int]:
        """The positions of lines that name an exception, the last first."""
        return exceptions(self.lines)

    def answer(self) -> KeyLine:
        """Return the line that says most: the last exception, or else the last line."""
        if self._raised:
            return KeyLine(self._raised, is_exception=True)
        last = next(
            (at for at in reversed(range(len(self.lines))) if not is_silent(self.lines[at])), len(self.lines) - 1
        )
        line = self.lines[[*self.raised, last][0]] if self.lines else ""
        return KeyLine(line.strip("\r\n"), is_exception=bool(self.raised))

    def _is_short(self, start: int, stop: int) -> bool:
        """Whether a gap is hardly longer than its marker, which does not count lines that were missing before."""
        first, last = self.numbers[start], self.numbers[stop - 1]
        if last - first != stop - start - 1:
            return False
        return sum(self.lengths[start:stop]) <= len(Marker.span("line", first, last)) + _SPARED

    def _line(self, position: int, size: int) -> list[str]:
        line = self.lines[position]
        if size >= self.lengths[position]:
            return [line]
        if self._cut is not None and (segments := self._cut(position, size)) is not None:
            return segments
        size = size * len(line) // max(self.lengths[position], 1)
        # What an exception is, its beginning says.
        return cut_line(line, size, head=0.8 if _RAISED.match(line) else 0.5)


def cut_line(line: str, size: int, *, head: float = 0.5) -> list[str]:
    """Return the beginning and the end of a line, with a marker between them."""
    body = line.rstrip("\r\n")
    first, last = int(size * head), len(body) - (size - int(size * head))
    records = [match.end() for match in _RECORD.finditer(body, first * 2 // 3, first)]
    first = records[-1] if records else _between_words(body, first, -1)
    record = _RECORD.search(body, last, last + (len(body) - last) // 3)
    last = max(record.end() if record else _between_words(body, last, 1), first)
    marker = Marker.amount(last - first, "character")
    return [body[:first], marker, body[last:] + line[len(body) :]]


def _between_words(text: str, at: int, step: int) -> int:
    """Return a place near `at`, in the direction of `step`, that splits no word; or `at`, if none is near."""
    for place in range(at, at + step * _WORD_REACH, step):
        if 0 < place < len(text) and (text[place - 1].isspace() or text[place].isspace()):
            return boundary(text, place)
    return boundary(text, at)


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


def troubled(lines: Sequence[str]) -> dict[int, float]:
    """Return the positions of lines with errors, failures and the like, each with the score 1."""
    found = _holding("".join(lines).lower(), _STEMS)
    return {position: 1.0 for position in sorted(found) if not _NO_TROUBLE.search(lines[position])}


def is_silent(line: str) -> bool:
    """Whether a line says nothing by itself, such as a closing tag or bracket."""
    return len(line) <= MARKER and _SILENT.fullmatch(line) is not None


def exceptions(lines: Sequence[str]) -> list[int]:
    """Return the positions of lines that name an exception, the last first: what a traceback or a test run ends in."""
    found = {at for at, line in enumerate(lines) if line[:1] not in " \t\r\n" and _RAISED.match(line)}
    found |= {at + 1 for at in found if lines[at].endswith(":\n") and " panicked at " in lines[at]}
    for header, line in enumerate(lines):
        if (match := _TRACEBACK.search(line)) is None:
            continue
        after = [at for at in range(header + 1, min(header + 3, len(lines))) if lines[at].strip()]
        # All lines may share a prefix, such as a time or the name of a container.
        start = match.start() if after and lines[after[0]].startswith(_FRAME, match.start()) else 0
        end = (start or len(line) - len(line.lstrip())) + 1
        found.update(islice((at for at in range(header + 1, len(lines)) if lines[at][start:end].strip()), 1))
    unnamed = (at for at, line in enumerate(lines) if line.startswith(_UNNAMED))
    return sorted(found or unnamed, reverse=True)


def holding_words(lines: Sequence[str], query: str) -> dict[int, float]:
    """Return the positions of lines that hold words of a query, each with the number of these words."""
    return _holding("".join(lines).lower(), dict.fromkeys(_WORD.findall(query.lower())))


def rare_words(lines: Sequence[str], query: str) -> dict[int, float]:
    """Return positions of lines with words of a query that few lines hold; names and rarer words score more."""
    weights: dict[str, float] = {}
    for word in _WORD.findall(query):
        name = word.strip("./-~@")
        if len(name) >= _SHORTEST_WORD:
            weights[name.lower()] = _NAME_WEIGHT if _NAME.search(name) else _WORD_WEIGHT
    scores: dict[int, float] = {}
    text = "".join(lines).lower() if weights else ""
    for word in sorted(weights, key=lambda word: (-weights[word], -len(word), word))[:_MOST_WORDS]:
        found = _holding(text, (word,))
        if len(found) <= max(_COMMON * len(lines), 1):
            for position in found:
                scores[position] = scores.get(position, 0.0) + weights[word] / (1 + len(found)) ** 0.5
    return scores


def _holding(text: str, words: Iterable[str]) -> dict[int, float]:
    """Return how many of the words each line holds; the whole text is searched at once, which is quicker."""
    scores: dict[int, float] = {}
    for word in words:
        position = start = 0
        while (place := text.find(word, start)) >= 0:
            position += text.count("\n", start, place)
            scores[position] = scores.get(position, 0.0) + 1.0
            start = text.find("\n", place)
            if start < 0:
                break
    return scores


def ranked(lines: Sequence[str], scores: Mapping[int, float]) -> list[int]:
    """Return positions: best first, equal ones from both ends inwards, lines that differ only in numbers last."""
    by_score: dict[float, list[int]] = {}
    repeated: list[int] = []
    known: set[str] = set()
    for position in sorted(scores):
        shape = _DIGITS.sub("0", lines[position][:_LONGEST_SHAPE])
        if shape in known:
            repeated.append(position)
        else:
            known.add(shape)
            by_score.setdefault(scores[position], []).append(position)
    order = [position for score in sorted(by_score, reverse=True) for position in _inwards(by_score[score])]
    return order + repeated


def _inwards(positions: list[int]) -> Iterable[int]:
    half = (len(positions) + 1) // 2
    pairs = zip_longest(positions[:half], reversed(positions[half:]))
    return [position for pair in pairs for position in pair if position is not None]


def with_context(positions: Iterable[int], count: int, *, before: int, after: int) -> Iterator[int]:
    """Yield positions, each with its neighbours, none twice."""
    given: set[int] = set()
    for match in positions:
        for position in (match, *range(match + 1, match + after + 1), *range(match - 1, match - before - 1, -1)):
            if 0 <= position < count and position not in given:
                given.add(position)
                yield position


def least(request: Request, answer: str = "") -> str:
    """Return the shortest form: the line that says most after a marker, a marker alone, or nothing."""
    count = line_count(request.text)
    others = Marker.amount(count - 1, "line") if count > 1 else Marker.of("text")
    forms = [f"{others}\n{answer}"] if answer and answer != request.text else []
    everything = Marker.amount(count, "line") if count > 1 else Marker.amount(len(request.text), "character")
    return request.first_allowed(*forms, everything, Marker.of("text"))


def line_count(text: str) -> int:
    """Return the number of lines of a text."""
    return text.count("\n") + (not text.endswith("\n"))


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
    """Return the positions of Markdown headings with their levels; none unless most have empty lines around them."""
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
