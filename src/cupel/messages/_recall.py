"""Answers to a model that asks for what was left out: the original texts of a history, page by page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from cupel._internal.checks import as_integer, shown
from cupel._internal.text import plural
from cupel.errors import ConfigurationError, CupelError
from cupel.messages._formats import detect_format
from cupel.messages._history import read_history
from cupel.messages._ids import RECALL_TOOL, UNTIL, Ids, noted_step, originals, parted
from cupel.messages._plain import fields, plain
from cupel.messages._reading import HistoryReader, Options

if TYPE_CHECKING:
    from cupel.messages._formats import Provider
    from cupel.messages._state import State
    from cupel.messages._units import Message
    from cupel.tokens import TokenCounter

PAGES: Final = 5
"""A page takes this part of the room (a fifth), so that two fit into one step uncut."""
_PAGE: Final = 2_000
_LEAST: Final = 16
"""Tokens of a text that a page holds at least."""
_WIDEST: Final = 8
"""Longer beginnings than this many characters for each token are not tried."""
_BESIDE: Final = 2
"""Lines before and after a line that was found."""
_FARTHEST: Final = 400
"""Characters before and after what was found, where lines are long; more than these are not searched for."""
_MOST: Final = 100
"""Places that a search returns."""
_WRAPPERS = ("function", "functionCall", "function_call", "toolUse", "tool_use", "arguments", "args", "input")
_TAKES = 'give an id, and perhaps a line or a text, such as {"id": "3fa7c", "line": 40} or {"text": "some words"}'


def recall(
    call: object,
    history: Sequence[Any],
    *,
    provider: Provider | None = None,
    counter: TokenCounter | None = None,
    page: int = _PAGE,
) -> str:
    """Return the answer to a model's call of the recall tool: a text of a history as it was, or where words are in it.

    Whatever the call holds, there is an answer: that of a `MessageSession` takes at most a fifth of its room.

    Args:
        call: the call in any provider's format, as a dict or an SDK's object, or a mapping of its arguments.
        history: the whole history.
        provider: the format of the history, recognised unless it is named.
        counter: how tokens are counted; without one, by `cupel.tokens.default_counter()`.
        page: the most tokens of an answer.

    >>> history = [{"role": "user", "content": "The key is under the mat."}]
    >>> print(recall({"text": "key"}, history))
    [#bcf8d, line 1]
    The key is under the mat.
    >>> recall({"id": "bcf8d"}, history)
    'The key is under the mat.'
    """
    page = as_integer("page", page, least=1, error=ConfigurationError)
    return Answers(history, Options(provider=provider, counter=counter)).answer(call, page)


def recall_tool(provider: Provider) -> dict[str, Any]:
    """Return the definition of the recall tool in a provider's format.

    >>> recall_tool("anthropic")["name"]
    'recall'
    """
    return dict(detect_format((), provider, system=None, tools=None).tool(RECALL_TOOL))


def within_reach(text: str, history: Sequence[Any], provider: Provider) -> str:
    """Return all that at most two calls of the recall tool return, the first with an id that is in a text.

    >>> history = [{"role": "user", "content": "The key is under the mat."}]
    >>> within_reach("[cupel: 1 earlier step omitted here: #bcf8d user: The key…]", history, "openai")
    'The key is under the mat.'
    """
    answers, found = Answers(history, Options(provider=provider)), dict[str, str]()
    text = "\n".join(re.findall(r"\[cupel: [^\]]*\]", text))
    for _ in range(2):
        for name in re.findall(r"#([0-9a-f]+)", text):
            with suppress(_UnclearError):
                found[name] = found.get(name) or answers.named(name)
        text = "\n".join(found.values())
    return text


class _UnclearError(Exception):
    """A call asks for nothing, or for something that there is not."""


def _question(call: object) -> tuple[str, int, str]:
    """Return the id, the line and the text that a call asks for."""
    try:
        given = _arguments(plain(call, "call"))
    except (CupelError, TypeError, ValueError, RecursionError):
        given = {}
    name, line, text = (given.get(key) or "" for key in ("id", "line", "text"))
    name = f"{name:05}" if isinstance(name, int) else name  # an id of digits alone
    if not isinstance(name, str) or not isinstance(text, str) or not (name.strip() or text.strip()):
        raise _UnclearError(_TAKES)
    if not re.fullmatch(r"\d{0,15}(\.0)?", str(line)):
        raise _UnclearError(f"line is a number from 1; {_TAKES}")
    return name.strip().strip("[]#").lower(), int(float(line or 0)), text.strip()


def _arguments(call: Any) -> dict[str, Any]:
    """Return the arguments of a call, in whatever format it is."""
    if isinstance(call, str):
        return _arguments(json.loads(call)) if call.lstrip().startswith("{") else {"id": call}
    entries = fields(call)
    inner = next((entries[key] for key in _WRAPPERS if isinstance(entries.get(key), (dict, str))), None)
    return entries if inner is None else _arguments(inner)


class Answers:
    """Answers questions about one history.

    Args:
        messages: the history.
        options: how it is read.
        state: that of a session; what is whole in its last request, or new since, is not searched.
    """

    def __init__(self, messages: Sequence[Any], options: Options, state: State | None = None) -> None:
        self.reader = HistoryReader(replace(options, pin=None, recall=True, sends=False))
        self._sent: set[int] = set()
        if state is not None and state.turns:
            self.reader.recognise(state.written, state.quoted, state.seen)
            self._sent = {entry.at for entry in state.last if entry.limit is None}
        self._history = read_history(messages, self.reader)
        if self._sent and state is not None:
            self._sent.update(range(state.seen, len(messages)))
        self._ids = self.reader.ids = Ids(self.reader, messages)

    def answer(self, call: object, page: int) -> str:
        """Return the answer to a call, of at most some tokens."""
        try:
            name, line, text = _question(call)
            name, _, offset = name.partition(":")
            whole = self.named(name) if name else ""
            if text:
                whole = _found([(name, whole)] if name else self._unsent(), text)
            return self._paged(whole, _start(whole, line, offset), name, page)
        except _UnclearError as why:
            last = len(self._history.messages) - 1
            every = self._ids.name(last, UNTIL) if last >= 0 else ""
            return self._fitted(
                f'[{why}. Ids follow # in the notes on what was omitted; recall(id="{every}") lists every step, '
                f'the newest first, and recall(text="some words") searches them]',
                page,
            )

    def named(self, name: str) -> str:
        """Return what an id stands for: a text as it was, a call with its output, or a list with ids."""
        if (place := self._ids.place(name)) is None:
            raise _UnclearError(f"nothing here has the id {shown(name)}")
        at, number = place
        if number == UNTIL:
            return "".join(self._listed(at))
        members = next(unit for unit in self._units() if at in [one.at for one in unit])
        first, others = parted(members, self.reader)
        message = self._history.messages[at]
        own, beside = self._texts([message]), self._texts(others) if message is first else []
        if number > UNTIL or (len(own) == 1 and not beside):
            return own[max(0, number - UNTIL - 1)][1]
        if len(own) > 1:
            return _list([*own, *beside])
        if len(beside) > 1:
            return f"{_ended(own[0][1])}{_list(beside)}"
        return f"{_ended(own[0][1])}[#{beside[0][0]}]\n{beside[0][1]}"

    def _texts(self, messages: Iterable[Message]) -> list[tuple[str, str]]:
        """Return the texts of some messages with their ids."""
        pairs = (zip(self._ids.names(one), originals(one, self.reader), strict=True) for one in messages)
        return [*chain.from_iterable(pairs)]

    def _units(self) -> Iterator[list[Message]]:
        """Yield the messages of each unit, the newest unit first."""
        return map(self._history.of, reversed(range(len(self._history.units))))

    def _listed(self, last: int) -> Iterator[str]:
        """Yield a line for each step up to a position, the newest first."""
        for members in self._units():
            if members[0].at <= last and members[0].role != "system":
                beside = self._texts(parted(members, self.reader)[1])
                names = f" ({', '.join(f'#{name}' for name, _ in beside)})" if len(beside) > 1 else ""
                yield f"{'; '.join(noted_step(members, self.reader).lines)}{names}\n"

    def _unsent(self) -> Iterator[tuple[str, str]]:
        """Yield the texts that are not in the request with their ids, the newest first."""
        for one in reversed(self._history.messages):
            if one.role != "system" and one.at not in self._sent:
                yield from self._texts([one])

    def _paged(self, whole: str, start: int, name: str, page: int) -> str:
        """Return a text from a character on: what a page holds, in whole lines if possible, and how to go on."""
        rest = whole[start:]
        if self._fitted(rest, page) == rest:
            return rest or "[nothing that is text]"
        below = self.reader.counter.count(f"\n{_below(whole, start, len(whole) - 1, name)}")
        end = start + len(self._fitted(rest, max(_LEAST, page - below)))
        end = whole.rfind("\n", (start + end) // 2, end) + 1 or end  # a page of one short line says too little
        return f"{_ended(whole[start:end])}{_below(whole, start, end, name)}"

    def _fitted(self, text: str, limit: int) -> str:
        """Return the beginning of a text that takes at most some tokens."""
        size = min(len(text), limit * _WIDEST)
        while size > 1 and (tokens := self.reader.counter.count(text[:size])) > limit:
            size = max(1, min(size - 1, size * limit // tokens))
        return text[:size]


def _list(texts: Iterable[tuple[str, str]]) -> str:
    return "".join(f"#{name} {' '.join(text[:400].split())[:80]}\n" for name, text in texts)


def _found(texts: Iterable[tuple[str, str]], words: str) -> str:
    """Return the lines around each place where some words are in a row."""
    pattern = re.compile(r"\s+".join(map(re.escape, words[:_FARTHEST].split())), re.IGNORECASE)
    found = [*islice((part for name, text in texts for part in _excerpts(name, text, pattern)), _MOST)]
    if not found:
        raise _UnclearError(f"{shown(words)} was not found")
    return "".join([*found, "[and more]" if len(found) == _MOST else ""]).removesuffix("\n")


def _excerpts(name: str, whole: str, pattern: re.Pattern[str]) -> Iterator[str]:
    shown_to = 0
    for match in pattern.finditer(whole):
        if match.start() < shown_to:
            continue
        start, end = match.span()
        for _ in range(_BESIDE + 1):
            start, end = whole.rfind("\n", 0, max(start - 1, 0)) + 1, whole.find("\n", end) + 1 or len(whole)
        start, end = max(start, match.start() - _FARTHEST, shown_to), min(end, match.end() + _FARTHEST)
        shown_to, first, last = end, _line(whole, start), _line(whole, end - 1)
        yield f"[#{name}, {f'line {first}' if first == last else f'lines {first}–{last}'}]\n{_ended(whole[start:end])}"


def _start(whole: str, line: int, offset: str) -> int:
    """Return where a page begins: at a line, or at a character."""
    before = whole.split("\n", line - 1)[: line - 1] if line > 1 else []
    at = sum(len(one) + 1 for one in before) if line else int(offset[:15] if offset.isdecimal() else 0)
    if at and at >= len(whole):
        raise _UnclearError(f"the text has {plural(_line(whole, len(whole) - 1), 'line')}")
    return at


def _below(whole: str, start: int, end: int, name: str) -> str:
    """Return the line below a page that ends before the end of a text."""
    last, is_line = _line(whole, end - 1), whole[end - 1] == "\n"
    place = f"line={last + 1}" if is_line else f'id="{name}:{end}"'
    return (
        f"[lines {_line(whole, start)}–{last} of {_line(whole, len(whole) - 1)}; to go on: the same call with {place}]"
    )


def _line(text: str, at: int) -> int:
    """Return the number of the line that a character is in."""
    return text.count("\n", 0, at) + 1


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else f"{text}\n"
