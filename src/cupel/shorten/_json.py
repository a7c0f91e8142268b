"""JSON as rows and members: it is cut between them, and still parses once the markers are removed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple, TypeGuard

from cupel._internal.text import plural
from cupel.shorten._pieces import (
    MARKER,
    Cutting,
    Marker,
    Pieces,
    escape_foreign,
    gaps,
    rendered,
    spread,
)
from cupel.shorten._text import KeyLine, Page, Weigh, exceptions, rare_words, split_lines

_SPACE, _SPACES = re.compile(r"[ \t\r\n]*"), frozenset(" \t\r\n")
DEEPEST = 24
"""Containers that are nested deeper than this are kept or omitted whole."""
_SMALL = 160
"""Members of an object that are shorter come first."""
_USUAL = 0.6
"""A value that this share of the rows has in common makes rows with another value notable."""
_FEWEST_ROWS = 3
_VARIED = 0.5
"""A member with a value of its own in this share of the rows comes before others."""
_MEMBERS, _ROWS = Cutting(800, 320, _SMALL, 0.2), Cutting(400, 240, _SMALL, 0.3)
_NAMED, _LONGEST_NAMES = 3, 32
"""At most this many members that are omitted together are named, in at most this many characters."""
_OWN = re.compile(r"^\[cupel: (?:rows? |\d|\"|lines? )[^\]\n]{0,80} omitted\]\n", re.MULTILINE)
"""A marker of an earlier shortening."""
REDUNDANT = "empty or repeated member"
_REDUNDANT = re.compile(rf"\[cupel: [\d,]+ {REDUNDANT}s? omitted\]\n")
"""The marker of members that are omitted from all over a document."""
_SILENT: tuple[object, ...] = (None, False, "", "text", [], {})
"""Values of members that say nothing of the string beside them: `{"type": "text", "annotations": null, "text": …}`."""
_LABELS: Final = frozenset(("kind", "object", "type"))
"""Members that say no more than what kind of object they are in."""
_EXCEPTION_NAME = re.compile(r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Failure|Fault|Exit)")
_LONGEST_MESSAGE = 320
_MESSAGES = ("evalue", "message", "msg", "detail")
"""Members that say what happened, beside one with the name of an exception."""
_BESIDE = 2
"""A wrapper is left out if it takes more than one part in this many of the room."""
_ROOMY = 400
"""A form with less room has no markers of what is omitted from all over the document: others say that it is cut."""
_RAISED, _RAISED_WEIGHT = re.compile('[Ee]rror|"ename|Exception|Failure|Fault|Interrupt|Traceback|panic'), 5.0
"""What a string that names an exception contains, and what its row or member counts beside words of a query."""
_scan = json.JSONDecoder(strict=False).raw_decode

PlainText = Callable[[str, Weigh], Page]
"""Returns the page of a text that is not JSON."""


class NotJSONError(ValueError):
    """The text is no JSON document."""


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Return whether a JSON value is an array."""
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a JSON value is an object."""
    return isinstance(value, dict)


def read(text: str) -> tuple[Any, int, int]:
    """Return the value of a JSON object or array, and where it begins and ends."""
    start = _skip(text, 0)
    if text[start : start + 1] not in ("{", "["):
        raise NotJSONError
    try:
        value, end = _scan(text, start)
    except (ValueError, RecursionError):
        raise NotJSONError from None
    if _skip(text, end) != len(text):
        raise NotJSONError
    return value, start, end


def _skip(text: str, at: int) -> int:
    """Return the next place that is no space."""
    while text[at : at + 1] in _SPACES:
        at += 1
        if text[at : at + 1] in _SPACES and (match := _SPACE.match(text, at)):
            return match.end()
    return at


class Child(NamedTuple):
    """A row of an array or a member of an object: where it begins, with its key, and where its value is."""

    start: int
    at: int
    end: int
    value: Any


class Context(NamedTuple):
    """Facts about a whole document."""

    query: str
    plain: PlainText


class Node:
    """A value in a JSON text, with its children once it has to be cut."""

    def __init__(self, text: str, child: Child, context: Context, parent: Node | None = None) -> None:
        self._text, self._child, self._context = text, child, context
        self._depth, self._varied, self._raises = parent.of(child) if parent else (0, {}, True)
        self._raising: set[int] = set()
        self._children: list[Child] = []
        self._lengths: list[int] = []
        self._nodes: dict[int, Node] = {}
        self._pieces: Pieces | None = None
        self._varied_members: dict[str, float] = {}
        self.length = child.end - child.start

    def of(self, child: Child) -> tuple[int, dict[str, float], bool]:
        """Return a child's depth, how members vary from row to row, and whether the child names an exception."""
        return self._depth + 1, self._varied_members, child.end in self._raising

    def segments(self, room: int) -> list[str] | None:
        """Return the value, with its key, in at most `room` characters, or None if it has no such form."""
        text, child = self._text, self._child
        if self.length <= room:
            return [text[child.start : child.end]]
        if self.is_string:
            return self._string(room)
        if not (is_array(child.value) or is_object(child.value)) or not child.value or self._depth > DEEPEST:
            return None
        self._open()
        before, after = text[child.start : child.at + 1], text[self._children[-1].end : child.end]
        kept = self._parts(room - len(before) - len(after))
        if self._main() not in (None, *kept):
            return None
        if len(kept) < len(self._children) and not any(self._is_telling(self._children[at]) for at in kept):
            return None
        # A marker in brackets says no more than a marker in their place.
        return [before, *self._written(kept), after] if kept else None

    def bare(self, room: int) -> list[str] | None:
        """Return the same as `segments`, but a string as its text."""
        return self.page.segments(room) if self.is_string else self.segments(room)

    @property
    def is_string(self) -> bool:
        """Whether the value is a string."""
        return isinstance(self._child.value, str)

    @cached_property
    def page(self) -> Page:
        """The lines of a string."""
        return self._context.plain(self._child.value, _weigh_string)

    @cached_property
    def wrapped(self) -> tuple[Node, list[str]] | None:
        """The value that makes up nearly all of this one, and the keys of the members beside it that say something."""
        value = self._child.value
        if not (is_array(value) or is_object(value)) or not value or self._depth > DEEPEST:
            return None
        self._open()
        if (main := self._main()) is None:
            return None
        others = [one for at, one in enumerate(self._children) if at != main and _says(one.value)]
        child = self._children[main]
        return Node(self._text, child._replace(start=child.at), self._context, self), [*map(self._key, others)]

    @property
    def beside(self) -> int:
        """The characters beside the value that makes up nearly all of this one."""
        return self.length - max(self._lengths)

    def _main(self) -> int | None:
        """Return the position of the child that makes up nearly all of a container, if one does."""
        if is_array(self._child.value) and len(self._lengths) > 1:
            return None
        longest = max(range(len(self._lengths)), key=self._lengths.__getitem__)
        return longest if self.beside <= min(2 * _SMALL, self.length // 4) else None

    def _node(self, position: int) -> Node:
        if position not in self._nodes:
            self._nodes[position] = Node(self._text, self._children[position], self._context, self)
        return self._nodes[position]

    def _open(self) -> None:
        if self._pieces is not None:
            return
        child = self._child
        self._children = list(children_of(self._text, child, keyed=is_object(child.value)))
        lengths = [one.end - one.start + 2 for one in self._children]
        wanted = self._wanted()
        rows = _rows(child.value)
        if rows is None:
            order: Iterable[int] = ranked_members(
                [self._name(one) for one in self._children], lengths, wanted, self._varied
            )
        else:
            order, self._varied_members = ranked_children(rows, lengths, wanted), varied_members(rows)
        raising = {at for at, one in enumerate(self._children) if one.end in self._raising}
        self._pieces = Pieces(lengths, order, _MEMBERS if rows is None else _ROWS, whole=raising)
        self._lengths = lengths

    def _wanted(self) -> dict[int, float]:
        """Return the children that a query asks for or that name an exception, by position."""
        text, children, query = self._text, self._children, self._context.query
        wanted = dict[int, float]()
        if query:
            wanted = rare_words([text[one.start : one.end].replace("\n", " ") + "\n" for one in children], query)
        if self._raises:
            raising = [at for at, one in enumerate(children) if raised(one.value, text[one.start : one.end])]
            self._raising = {children[at].end for at in raising}
            described = _exception(self._child.value)
            for at in raising:  # of several, the last says how it ended
                wanted[at] = wanted.get(at, 0.0) + _RAISED_WEIGHT + (at == raising[-1])
            for at in range(len(children) if described else 0):
                if self._name(children[at]) in described:
                    wanted[at] = 2 * _RAISED_WEIGHT
        return wanted

    def _parts(self, room: int) -> dict[int, list[str]]:
        """Return the segments of the children that are kept, by position."""
        assert self._pieces is not None  # noqa: S101 - opened by the caller
        found: dict[int, list[str]] = {}
        for position, size in self._pieces.within(room).items():
            node = self._node(position)
            segments = node.segments(node.length if size >= self._lengths[position] else size)
            if segments is not None:
                found[position] = segments
        for start, stop in list(gaps(found, len(self._children))) if found else ():
            if sum(self._lengths[start:stop]) <= MARKER:
                found.update(
                    (at, [self._text[self._children[at].start : self._children[at].end]]) for at in range(start, stop)
                )
        return found

    def _written(self, kept: dict[int, list[str]]) -> list[str]:
        """Return the kept children in order, with the commas that the rest needs, and a marker for each gap."""
        text, children = self._text, self._children
        parts: list[str] = []
        last, place = max(kept), 0
        for position in sorted(kept):
            if position > place:
                parts.append(self._marker(place, position))
            elif not position:
                parts.append(text[self._child.at + 1 : children[0].start])
            place = position + 1
            parts += kept[position]
            if position != last:
                comma = len(parts)
                while isinstance(parts[comma - 1], Marker):  # it goes before the marker at the end of a child
                    comma -= 1
                parts.insert(comma, ",")
                following = text[children[position].end : children[position + 1].start]
                parts.append(following.replace(",", "", 1) if position + 1 in kept else "")
        if last + 1 < len(children):
            parts.append(self._marker(last + 1, len(children)))
        return parts

    def _marker(self, start: int, stop: int) -> Marker:
        """Return the marker of omitted rows, which are counted, or of members, which are named if they are few."""
        if not is_object(self._child.value):
            return Marker.span("row", start + 1, stop)
        return _members([*map(self._key, self._children[start:stop])])

    def _key(self, child: Child) -> str:
        return self._text[child.start : child.at].rstrip(" \t\r\n:")

    def _is_telling(self, child: Child) -> bool:
        return _says(child.value) and self._name(child) not in _LABELS

    def _name(self, child: Child) -> str:
        return str(_scan(self._key(child))[0]) if child.at > child.start else ""

    def _string(self, room: int) -> list[str] | None:
        """Return a long string as a shorter string, with its markers on separate lines of it."""
        label = self._text[self._child.start : self._child.at]
        form = self.page.build(room - len(label) - 2)
        return None if form is None else [label + quoted(form)]


class Document(Node):
    """A JSON document, and the form of it that some room allows; the markers of an earlier one are only counted."""

    def __init__(self, text: str, context: Context) -> None:
        redundant = _REDUNDANT.match(text)
        plain, earlier = _OWN.subn("", text[redundant.end() :] if redundant else text)
        self._earlier = [Marker(redundant[0].rstrip())] if redundant else []
        self._earlier += [Marker.of(f"{plural(earlier, 'part')} already")] if earlier else []
        text = escape_foreign(plain)
        value, start, end = read(text)
        super().__init__(text, Child(start, start, end, value), context)

    def build(self, room: int) -> str | None:
        """Return the form of at most `room` characters, or None if there is none.

        Where the document wraps a value, and there is no room for both, it is the form of that value, with a marker
        for the other members of the wrapper.
        """
        for node, beside in self._chain:
            if node is not self._chain[-1][0] and node.beside * _BESIDE > room:
                continue
            segments = node.bare(room - sum(len(marker) + 1 for marker in beside))
            if segments is not None:
                earlier = self._earlier if room >= _ROOMY else []
                return rendered([*earlier, *beside, *segments])
        return None

    @cached_property
    def _chain(self) -> list[tuple[Node, list[Marker]]]:
        """This document, and the values that it wraps, each with a marker for what is beside it."""
        chain: list[tuple[Node, list[Marker]]] = [(self, [])]
        keys: list[str] = []
        while (wrapped := chain[-1][0].wrapped) is not None:
            keys += wrapped[1]
            chain.append((wrapped[0], [_members(keys)] if keys else []))
        return chain

    def answer(self) -> KeyLine:
        """Return the line that says most: the last exception, or else the end of the longest string."""
        if line := raised(self._child.value, self._text):
            return KeyLine(line, is_exception=True)
        if (innermost := self._chain[-1][0]).is_string:
            return innermost.page.answer()
        longest = max(strings_in(self._child.value), key=len, default="").rstrip()
        return KeyLine(longest.rpartition("\n")[2] if "\n" in longest else "")


def raised(value: object, text: str) -> str:
    """Return the last line in the strings of a value, given its JSON, that names an exception; empty, if none does."""
    found = ""
    for one in strings_in(value) if _RAISED.search(text) else ():
        if not (isinstance(one, _Described) or _RAISED.search(one)):
            continue
        lines = split_lines(one)
        found = one if isinstance(one, _Described) else next((lines[at].rstrip() for at in exceptions(lines)), found)
    return found


class _Described(str):
    """The name and the message of an exception."""

    __slots__ = ()


def _exception(value: object) -> tuple[str, ...]:
    """Return the keys of the name and of the message of an exception that an object describes."""
    if not is_object(value) or value.keys().isdisjoint(_MESSAGES):
        return ()
    texts = {key: one for key, one in value.items() if isinstance(one, str) and one.strip()}
    names = [key for key, one in texts.items() if key == "ename" or _EXCEPTION_NAME.fullmatch(one)]
    messages = [key for key in _MESSAGES if key in texts]
    return (names[0], messages[0]) if names and messages else ()


def strings_in(value: object) -> Iterator[str]:
    """Yield the strings of a JSON value in order; of an object that describes an exception, its name and message."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif is_object(one) and (keys := _exception(one)):
            name, message = (one[key].strip() for key in keys)
            whole = message if len(message) <= _LONGEST_MESSAGE else message.partition("\n")[0]
            yield _Described(f"{name}: {whole}")
        elif is_array(one) or is_object(one):
            waiting += reversed([*one.values()] if is_object(one) else one)


def _says(value: object) -> bool:
    """Return whether a value beside a string says something of it; 0, such as an exit code, does."""
    return all(value != one or type(value) is not type(one) for one in _SILENT)


def _members(keys: Sequence[str]) -> Marker:
    """Return the marker of omitted members, which are named if they are few."""
    named = ", ".join(keys) if len(keys) <= _NAMED else ""
    if not 0 < len(named) <= _LONGEST_NAMES or "]" in named or not named.isprintable():
        return Marker.amount(len(keys), "member")
    return Marker.of(named)


def _weigh_string(text: str) -> int:
    return len(quoted(text)) - 2


def quoted(text: str) -> str:
    """Return a text as a JSON string; lone surrogates are escaped."""
    written = encode_basestring(text)
    return written if written.isascii() or not SURROGATE.search(written) else json.dumps(text)


SURROGATE = re.compile("[\ud800-\udfff]")


def children_of(text: str, parent: Child, *, keyed: bool) -> Iterator[Child]:
    """Yield the rows or members of a container that is known to be valid."""
    at = _skip(text, parent.at + 1)
    while at < parent.end and text[at] not in "]}":
        start = at
        if keyed:
            at = _skip(text, _skip(text, _scan(text, at)[1]) + 1)  # after the key and its colon
        value, end = _scan(text, at)
        yield Child(start, at, end, value)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _rows(value: Any) -> list[Any] | None:
    """Return the rows of an array, or of an object whose members are all objects; None for another object."""
    if is_array(value):
        return value
    rows = [*value.values()] if is_object(value) else []
    return rows if len(rows) >= _FEWEST_ROWS and all(map(is_object, rows)) else None


def ranked_children(rows: Sequence[Any], lengths: Sequence[int], wanted: dict[int, float]) -> Iterator[int]:
    """Yield positions of rows in the order in which they are kept: wanted and unusual ones, and those at both ends."""
    special = ranked_rows(rows, wanted)
    given: set[int] = set()
    for position in chain(special[:1], (len(lengths) - 1, 0), special, spread(lengths, head=0.7, tail=0.3)):
        if position not in given:
            given.add(position)
            yield position


def ranked_members(
    names: Sequence[str], lengths: Sequence[int], wanted: Mapping[int, float], varied: Mapping[str, float]
) -> list[int]:
    """Return positions of members in the order in which they are kept.

    The first short one that differs in all rows comes first: it says which row this is. Then come wanted ones, and
    those that differ in most rows, short ones before long ones; among these, those that differ most.
    """
    key = next((at for at, name in enumerate(names) if varied.get(name) == 1.0 and lengths[at] <= _SMALL // 2), None)

    def rank(at: int) -> tuple[bool, float, bool, bool, float, int]:
        variety = varied.get(names[at], 0.0)
        return at != key, -wanted.get(at, 0.0), variety < _VARIED, lengths[at] > _SMALL, -variety, at

    return sorted(range(len(names)), key=rank)


def varied_members(rows: Sequence[Any]) -> dict[str, float]:
    """Return how many different values each key of the rows has, as a share of the rows that have it.

    Keys of the first row alone are left out: `lean` leaves members there that are the same in all rows.
    """
    objects = [row for row in rows if is_object(row)]
    if len(objects) < _FEWEST_ROWS:
        return {}
    values: dict[str, list[str]] = {}
    for row in objects:
        for name, value in row.items():
            values.setdefault(name, []).append(repr(value))
    elsewhere = set[str]().union(*objects[1:])
    return {name: len({*found}) / len(found) for name, found in values.items() if name in elsewhere}


def ranked_rows(rows: Sequence[Any], wanted: dict[int, float]) -> list[int]:
    """Return the positions of rows that a query asks for or that differ from the others, the most different first."""
    scores = dict(wanted)
    for position, score in unusual(rows).items():
        scores[position] = scores.get(position, 0.0) + score
    return sorted(scores, key=lambda position: (-scores[position], position))


def unusual(rows: Sequence[Any]) -> dict[int, float]:
    """Return the rows with a value other than the usual one of its column, each with the number of such values."""
    if len(rows) < _FEWEST_ROWS or not all(map(is_object, rows)):
        return {}
    columns: dict[str, dict[int, Any]] = {}
    for position, row in enumerate(rows):
        for name, value in row.items():
            if is_array(value) or is_object(value):  # containers are only told apart by being empty
                columns.setdefault(name, {})[position] = len(value) > 0
            else:
                columns.setdefault(name, {})[position] = (type(value), value)
    scores: dict[int, float] = {}
    for column in columns.values():
        usual, count = Counter(column.values()).most_common(1)[0]
        absent = len(rows) - len(column)
        if max(count, absent) < _USUAL * len(rows) or count == len(rows):
            continue
        if column.keys() == {0}:  # `lean` left a member there that is the same in all rows
            scores.setdefault(0, 0.0)
            continue
        if absent > count:
            others: Iterable[int] = column
        else:
            others = [at for at in range(len(rows)) if column.get(at) != usual]
        for position in others:
            scores[position] = scores.get(position, 0.0) + max(count, absent) / len(rows)
    return scores


def rows_of(lines: Iterable[str]) -> list[Any]:
    """Return the values of JSON lines; raise if one of them is no JSON object or array."""
    return [read(line)[0] if line.strip() else None for line in lines]
