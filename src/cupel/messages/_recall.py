"""Answers to a model that asks for what was left out: the original texts of a history, page by page."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from cupel._internal.checks import as_integer, shown, wrong_type
from cupel._internal.text import plural
from cupel.errors import ConfigurationError, CupelError
from cupel.messages._formats import detect_format, provider_of
from cupel.messages._history import read_history
from cupel.messages._ids import RECALL_TOOL, TextId, originals, step_id, text_ids
from cupel.messages._notes import step_of
from cupel.messages._plain import fields, is_sequence, plain
from cupel.messages._reading import HistoryReader, Options

if TYPE_CHECKING:
    from cupel.messages._formats import Format, Provider
    from cupel.messages._history import History
    from cupel.messages._units import Message
    from cupel.tokens import TokenCounter

PAGES: Final = 5
"""A page takes this part of the room (a fifth), so that two fit into one step uncut."""
_PAGE: Final = 2_000
_WIDEST: Final = 8
"""Longer beginnings than this many characters for each token are not tried."""
_BESIDE: Final = 2
"""Lines before and after a line that was found."""
_FARTHEST: Final = 400
"""Characters before and after what was found, where lines are long."""
_MOST, _LEAST = 100, 16
_WRAPPERS = ("function", "functionCall", "function_call", "toolUse", "tool_use", "arguments", "args", "input")
_IN_TEXT = re.compile(r"#([0-9a-f]{5,})\b")
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
    [#5a827, line 1]
    The key is under the mat.
    >>> recall({"id": "5a827"}, history)
    'The key is under the mat.'
    """
    page = as_integer("page", page, least=1, error=ConfigurationError)
    return Answers(history, reader_for(history, Options(provider=provider, counter=counter)), page).answer(call)


def recall_tool(provider: Provider) -> dict[str, Any]:
    """Return the definition of the recall tool in a provider's format.

    >>> recall_tool("anthropic")["name"]
    'recall'
    """
    return dict(detect_format((), provider, system=None, tools=None).tool(RECALL_TOOL))


def within_reach(text: str, history: Sequence[Any], provider: Provider) -> str:
    """Return all that at most two calls of the recall tool return, the first with an id that is in a text.

    >>> history = [{"role": "user", "content": "The key is under the mat."}]
    >>> within_reach("[cupel: 1 earlier step omitted here: #5a827 user: The key…]", history, "openai")
    'The key is under the mat.'
    """
    answers = Answers(history, reader_for(history, Options(provider=provider)), page=0)
    found: dict[str, str] = {}
    text = "\n".join(re.findall(r"\[cupel: [^\]]*\]", text))
    for _ in range(2):
        found |= {name: whole for name in set(_IN_TEXT.findall(text)) - found.keys() if (whole := answers.whole(name))}
        text = "\n".join(found.values())
    return text


def reader_for(history: Sequence[Any], options: Options, fmt: Format | None = None) -> HistoryReader:
    """Return a reader of parts of a history, whose format is found in the whole unless it is known."""
    if not is_sequence(history):
        raise wrong_type("history", "a list of messages", history)
    provider = options.provider or (None if fmt is None else fmt.name)
    if provider is None and options.framework is None:
        tools = cast("Sequence[object] | None", options.tools)
        provider = provider_of(history, system=options.system, tools=tools)
    elif options.framework is not None:
        provider = None
    return HistoryReader(replace(options, provider=provider, pin=None, sends=False))


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


@dataclass(frozen=True)
class Answers:
    """Answers questions about one history."""

    messages: Sequence[Any]
    reader: HistoryReader
    page: int
    """The most tokens of an answer."""
    sent: Collection[int] = ()
    """Positions of the messages that are not searched: they are whole in the request, or will be."""

    def answer(self, call: object) -> str:
        """Return the answer to a call."""
        try:
            name, line, text = _question(call)
            name, _, offset = name.partition(":")
            texts = [self._named(name)] if name else self._everywhere()
            whole, beside = (_found(texts, text), "") if text else next(iter(texts))[1:]
            return self._paged(whole, _start(whole, line, offset), name, beside)
        except _UnclearError as why:
            everything = TextId(len(self.messages), is_group=True).name
            return self._fitted(
                f'[{why}. Ids follow # in the notes on what was omitted; recall(id="{everything}") lists every step, '
                f'the newest first, and recall(text="some words") searches them]'
            )

    def whole(self, name: str) -> str:
        """Return all pages of the answer to an id; nothing, if it is none."""
        try:
            _, whole, beside = self._named(name)
        except _UnclearError:
            return ""
        return f"{_ended(whole)}[{beside}]" if beside else whole

    @cached_property
    def _history(self) -> History:
        return read_history(self.messages, self.reader)

    def _texts(self, message: Message) -> list[tuple[str, str]]:
        """Return the texts of a message with their ids."""
        texts = originals(message, self._history.format, self.reader.own)
        return list(zip(text_ids(message, len(texts)), texts, strict=True))

    def _named(self, name: str) -> tuple[str, str, str]:
        """Return an id, what it stands for, and the ids of what else belongs to the step."""
        place = TextId.of(name)
        if place is not None and place.is_group and place.at <= len(self.messages):
            return name, self._listed(place.at), ""
        units = map(self._history.of, range(len(self._history.units)))
        members = next((unit for unit in units if place and place.at in [one.at for one in unit]), [])
        for one in members:
            texts, beside = self._texts(one), self._beside(members, one)
            text = dict(texts).get(name)
            if text is None and name == TextId(one.at).name:  # of several texts
                text = "".join(f"#{key} {' '.join(text.split())[:80]}\n" for key, text in texts)
            if text is not None:
                is_whole = _is_output(one) or not beside
                return (name, text, beside) if is_whole else (name, f"{text}\n[{beside}]", "")
        raise _UnclearError(f"nothing here has the id {shown(name)}")

    def _beside(self, members: Sequence[Message], message: Message) -> str:
        """Return the ids of the rest of a step; of an output's step, only calls of which a note does not say all."""
        others = [one for one in members if one is not message]
        calls, outputs = [one for one in others if not _is_output(one)], [one for one in others if _is_output(one)]
        if _is_output(message):
            calls = [one for one in calls if not one.calls or not {*one.calls}.isdisjoint(message.results)]
            outputs = []
        if not any(line.endswith("…") for line in self._lines(members)):
            calls = [one for one in calls if not one.calls or self._history.format.said(one.view)[1].strip()]
        ids = [[f"#{key}" for one in some for key, _ in self._texts(one)] for some in (calls, outputs)]
        return "; ".join(
            f"{what}: {', '.join(some)}" for what, some in zip(("call", "output"), ids, strict=True) if some
        )

    def _lines(self, members: Sequence[Message]) -> tuple[str, ...]:
        places, views = tuple(one.at for one in members), [one.view for one in members]
        return step_of(places, views, self._history.format, self.reader.counter).lines

    def _listed(self, before: int) -> str:
        """Return a line for each step before a position, the newest first."""
        found: list[str] = []
        for index in reversed(range(len(self._history.units))):
            members = self._history.of(index)
            if members[0].at < before and members[0].role != "system":
                name = step_id(members)
                beside = self._beside(members, next(one for one in members if TextId(one.at).name == name))
                found.append(f"#{name} {'; '.join(self._lines(members))}{f' [{beside}]' if beside else ''}\n")
        return "".join(found)

    def _everywhere(self) -> Iterator[tuple[str, str, str]]:
        """Yield the texts that are not in the request with their ids, the newest first."""
        for one in reversed(self._history.messages):
            if one.role != "system" and one.at not in self.sent:
                yield from ((name, text, "") for name, text in self._texts(one))

    def _paged(self, whole: str, start: int, name: str, beside: str) -> str:
        """Return a text from a character on: what a page holds, in whole lines if possible, and how to go on."""
        rest = whole[start:]
        for answer in (f"{_ended(rest)}[{beside}]" if beside else rest, rest):
            if self._fitted(answer) == answer:
                return answer or "[nothing that is text]"
        end = start + len(self._fitted(rest, _below(whole, start, len(whole) - 1, name)))
        end = whole.rfind("\n", start, end) + 1 or end
        return f"{_ended(whole[start:end])}{_below(whole, start, end, name)}"

    def _fitted(self, text: str, below: str = "") -> str:
        """Return the beginning of a text that a page holds beside another."""
        count = self.reader.counter.count
        limit = max(_LEAST, self.page - count(f"\n{below}")) if below else self.page
        size = min(len(text), limit * _WIDEST)
        while size > 1 and (tokens := count(text[:size])) > limit:
            size = max(1, min(size - 1, size * limit // tokens))
        return text[:size]


def _is_output(message: Message) -> bool:
    return bool(message.results) or message.is_output


def _found(texts: Iterable[tuple[str, str, str]], words: str) -> str:
    """Return the lines around each place where some words are in a row."""
    pattern = re.compile(r"\s+".join(map(re.escape, words.split())), re.IGNORECASE)
    found = [*islice((part for name, text, _ in texts for part in _excerpts(name, text, pattern)), _MOST)]
    if not found:
        raise _UnclearError(f"{shown(words)} was not found")
    return "".join([*found, "[and more]" if len(found) == _MOST else ""]).removesuffix("\n")


def _excerpts(name: str, whole: str, pattern: re.Pattern[str]) -> Iterator[str]:
    spans: list[tuple[int, int]] = []
    for match in pattern.finditer(whole):
        start, end = match.span()
        for _ in range(_BESIDE + 1):
            start, end = whole.rfind("\n", 0, max(start - 1, 0)) + 1, whole.find("\n", end) + 1 or len(whole)
        start, end = max(start, match.start() - _FARTHEST), min(end, match.end() + _FARTHEST)
        if spans and start <= spans[-1][1]:
            start = spans.pop()[0]
        spans.append((start, end))
    for start, end in spans:
        first, last = _line(whole, start), _line(whole, end - 1)
        yield f"[#{name}, {f'line {first}' if first == last else f'lines {first}–{last}'}]\n{_ended(whole[start:end])}"


def _start(whole: str, line: int, offset: str) -> int:
    """Return where a page begins: at a line, or at a character."""
    starts = [0, *(match.end() for match in re.finditer("\n", whole))] if line > 1 else [0]
    at = (
        (starts[line - 1] if line <= len(starts) else len(whole))
        if line
        else int(offset[:15] if offset.isdecimal() else 0)
    )
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
