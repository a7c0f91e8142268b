"""Source code and Markdown reduced to definitions and headings."""

from __future__ import annotations

import re

from cupel.shorten._head_tail import keep_ends
from cupel.shorten._lines import Page
from cupel.shorten._request import ShortenCall
from cupel.tokens import TokenCounter

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
_NOT_A_METHOD = r"(?!(?:if|for|while|switch|return|else|catch|do|new|throw|await|yield|case|using|lock|with|elif)\b)"
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

_SHORTEST = len("def f")  # of a line that can define anything


def outline(text: str, limit: int, *, counter: TokenCounter | None = None) -> str:
    r"""Return the definitions of source code, or the headings of Markdown; the outermost where not all fit.

    Lines are recognised by their form, in Python, JavaScript and TypeScript, Go, Rust, Java, C and its kin, Ruby, PHP,
    Swift, SQL and shells; nothing is parsed. A text with neither is shortened as `head_tail` does.

    >>> source = '''import os, threading
    ...
    ... class Store:
    ...     def get(self, key):
    ...         with self.lock:
    ...             return self.rows[key]
    ...
    ...     def put(self, key, row):
    ...         with self.lock:
    ...             self.rows[key] = row
    ...
    ... def main():
    ...     store = Store()
    ...     print(store.get("a"))
    ... '''
    >>> print(outline(source, 48))
    … 2 lines …
    class Store:
        def get(self, key):
    … 3 lines …
        def put(self, key, row):
    … 3 lines …
    def main():
    … 10 lines, 41 tokens left out …
    """
    request = ShortenCall.of(text, limit, counter)
    if request.is_met:
        return text
    page = Page.of(request)
    depths = headings(page.lines) or definitions(page.lines)
    if not depths:
        return keep_ends(request, note="; no definitions or headings")
    ranking = sorted(depths, key=depths.__getitem__)
    return page.keep(ranking) or keep_ends(request)


def definitions(lines: list[str]) -> dict[int, int]:
    """Return the positions of lines that define something, with their indentation."""
    found: dict[int, int] = {}
    match = _DEFINITION.match
    for position, line in enumerate(lines):
        if len(line) <= _SHORTEST:
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
