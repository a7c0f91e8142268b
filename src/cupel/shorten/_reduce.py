"""Shorteners that rewrite a text: tables and values of JSON, strings in arguments, names, and a line in its place.

None of them is a default: each loses information that a reader of the original has. Use them explicitly.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from cupel._internal.text import plural
from cupel.shorten._json import is_array, is_object
from cupel.shorten._pieces import Marker
from cupel.shorten._request import Request
from cupel.shorten._select import head_tail, names_in, shorten, weights
from cupel.shorten._text import boundary, line_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from cupel.shorten._request import Shortener
    from cupel.tokens import TokenCounter

_FLAT = 4
"""An array or object of plain values keeps this many times more entries than one of containers."""
_GROWTH = 1.3
_SHORTEST = 16
"""Fewer tokens of a string would hold little more than the marker."""


def table(text: str, limit: int | None, *, counter: TokenCounter | None = None) -> str:
    """Return JSON with each array of objects written as its keys, once, and rows without them.

    No value is lost until the limit demands it: a row whose keys are not those of most stays an object. A text that is
    no JSON, or JSON that cannot be written again as it was (doubled keys, numbers beyond a float), is shortened as
    `head_tail` does; without a limit it stays as it is.

    >>> rows = [{"flight": f"HAT{number}", "seats": 9, "price": 100 + number} for number in range(1, 4)]
    >>> import json
    >>> print(table(json.dumps({"found": rows}), 45))
    {"found":{"keys":["flight","seats","price"],"rows":[["HAT1",9,101],["HAT2",9,102],["HAT3",9,103]]}}
    """
    return _rewritten(text, limit, counter, lambda request, value: _cut(request, _tabled(value)))


def values(text: str, limit: int | None, *, counter: TokenCounter | None = None) -> str:
    """Return JSON reduced to the distinct values under each path: no nulls, no key twice, arrays merged.

    Which values belong to one row is lost. A limit of None keeps all values. A text that is not JSON is treated as
    `table` does.

    >>> text = '{"user": "mia", "cards": [{"id": 7, "brand": "visa"}, {"id": 9, "brand": "visa", "note": null}]}'
    >>> values(text, None)
    '{"user":"mia","cards":{"id":[7,9],"brand":"visa"}}'
    """
    return _rewritten(text, limit, counter, lambda request, value: _cut(request, _merged((value,))))


def arguments(text: str, limit: int, *, counter: TokenCounter | None = None, form: Shortener | None = None) -> str:
    r"""Return a call's JSON arguments with their long strings shortened in place; they still parse.

    All strings get the same limit, the largest that lets the whole fit, so short ones stay as they are. `form` shortens
    a string, by default `shorten`. Where even short strings leave too much, other parts are cut as `values` does.
    A model sees its own call changed: shorten arguments only where you know that it does no harm.

    >>> import json
    >>> script = "import json\n" + "print('next row')\n" * 200 + "json.dump(rows, open('rows.json', 'w'))"
    >>> short = arguments(json.dumps({"path": "rows.py", "content": script}), 60)
    >>> print(json.loads(short)["path"], json.loads(short)["content"], sep="\n")
    rows.py
    import json
    print('next row')
    print('next row')
    [cupel: lines 4–200 omitted]
    print('next row')
    json.dump(rows, open('rows.json', 'w'))
    """

    def write(request: Request, value: Any) -> str:
        ratio = len(request.text) / max(request.tokens, 1)

        def build(room: int) -> str | None:
            whole = dump(_shortened(value, int(room / ratio) + _SHORTEST, ratio, request, form))
            return whole if len(whole) <= len(request.text) else None

        return request.longest(build) or _cut(request, value)

    return _rewritten(text, limit, counter, write, in_full=False)


def names(text: str, limit: int, *, counter: TokenCounter | None = None, known: Mapping[str, int] | None = None) -> str:
    r"""Return one line with the distinct identifiers, paths and numbers of a text, the most informative first.

    A name is informative if it is no ordinary word and few other texts contain it; `known` has the numbers of texts
    (see `Rarity`).
    Equally informative names keep the order of the text.

    >>> log = "tests/test_header.py ...... passed in the usual time\n" * 9
    >>> log += "FAILED tests/test_fold.py, see report_7.html for all the details\n"
    >>> print(names(log, 30))
    [cupel: 10 lines omitted, with tests/test_header.py FAILED tests/test_fold.py report_7.html passed usual details]
    """
    request = Request.of(text, limit, counter)
    if request.is_met:
        return text
    weight = weights(names_in(text), known or {})
    listed = sorted(weight, key=weight.__getitem__, reverse=True)

    def build(room: int) -> str | None:
        return _named(text, listed, room)

    return request.longest(build) or request.first_allowed(_named(text, [], 0), Marker.of("text"))


def _named(text: str, listed: list[str], room: int) -> str:
    lines = plural(line_count(text), "line")
    note = ""
    for name in listed:
        if len(note) + len(name) + len(lines) + len("[cupel:  omitted, with  ]") > room:
            break
        note += f" {name}"
    return f"[cupel: {lines} omitted, with{note}]" if note else Marker.of(lines)


def stub(
    text: str,
    limit: int | None = None,
    *,
    counter: TokenCounter | None = None,
    tool: str | None = None,
    hint: str | None = None,
) -> str:
    r"""Return one line in place of a tool's output: the tool, the length, and `hint`, how to get the output back.

    A limit is only needed where a line may be too much; a line that is a stub stays as it is.

    >>> stub("line of output\n" * 500, 30, tool="read_file")
    '[cupel: read_file: 500 lines, 2,000 tokens omitted]'
    >>> stub("line of output\n" * 500, 30, hint="stored as run-17.log")
    '[cupel: 500 lines, 2,000 tokens omitted; stored as run-17.log]'
    """
    request = Request.of(text, limit, counter, exact=True, in_full=True)
    if request.is_met or (limit is None and text.startswith("[cupel: ") and text.endswith("]") and "\n" not in text):
        return text
    numbers = f"{plural(line_count(text), 'line')}, {plural(request.tokens, 'token')} omitted"
    whose = f"{_one_line(tool)}: " if tool else ""
    forms = [f"[cupel: {whose}{numbers}; {_one_line(hint)}]"] if hint else []
    return request.first_allowed(*forms, f"[cupel: {whose}{numbers}]", f"[cupel: {numbers}]")


def _one_line(words: str) -> str:
    return " ".join(words.split()).replace("]", ")")


def _rewritten(
    text: str,
    limit: int | None,
    counter: TokenCounter | None,
    write: Callable[[Request, Any], str],
    *,
    in_full: bool = True,
) -> str:
    """Return JSON as `write` does; a text that is none is shortened as `head_tail` does."""
    request = Request.of(text, limit, counter, exact=True, in_full=in_full)
    if request.is_met:
        return text
    try:
        return write(request, _parsed(text))
    except (ValueError, RecursionError):
        return text if limit is None else head_tail(text, limit, counter=counter)


def _parsed(text: str) -> Any:
    """Return the value of a JSON object or array; numbers that would change and doubled keys are refused."""
    if text.lstrip()[:1] not in ("{", "["):
        raise ValueError
    return json.loads(text, object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)


def dump(value: Any) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _tabled(value: Any) -> Any:
    """Return a value with its arrays of objects as tables, where that is shorter; inner ones first."""
    if is_object(value):
        return {key: _tabled(entry) if isinstance(entry, (dict, list)) else entry for key, entry in value.items()}
    if not is_array(value):
        return value
    entries = [_tabled(entry) for entry in value]
    if len(entries) < 2 or not all(map(is_object, entries)):  # noqa: PLR2004 - one row is no table
        return entries
    shapes = Counter(frozenset(entry) for entry in entries)
    shape, rows = shapes.most_common(1)[0]
    keys = next(list(entry) for entry in entries if entry.keys() == shape)
    once = sum(len(key) + 4 for key in keys)
    if (rows - 1) * once <= len('{"keys":[],"rows":}'):
        return entries
    return {
        "keys": keys,
        "rows": [[entry[key] for key in keys] if entry.keys() == shape else entry for entry in entries],
    }


def _merged(entries: Iterable[Any]) -> Any:
    """Return all values of one path as one value: a scalar, an object, or an array of distinct ones."""
    scalars: dict[tuple[type, Any], Any] = {}
    objects: dict[str, list[Any]] = {}
    waiting = list(entries)
    waiting.reverse()
    while waiting:
        entry = waiting.pop()
        if is_array(entry):
            waiting.extend(reversed(entry))
        elif is_object(entry):
            for key, value in entry.items():
                objects.setdefault(key, []).append(value)
        elif entry is not None:
            scalars[type(entry), entry] = entry
    inner = {key: _merged(found) for key, found in objects.items()}
    inner = {key: value for key, value in inner.items() if value not in ([], {})}
    distinct = [*scalars.values(), *([inner] if inner else [])]
    return distinct[0] if len(distinct) == 1 else distinct


def _shortened(value: Any, limit: int, ratio: float, request: Request, form: Shortener | None) -> Any:
    if isinstance(value, str):
        if len(value) <= limit * ratio:  # an estimate, so that short strings are not counted one by one
            return value
        return form(value, limit) if form else shorten(value, limit, counter=request.counter)
    if is_array(value):
        return [_shortened(entry, limit, ratio, request, form) for entry in value]
    if is_object(value):
        return {key: _shortened(entry, limit, ratio, request, form) for key, entry in value.items()}
    return value


def _cut(request: Request, value: Any) -> str:
    """Return a JSON value within the limit: as it is, or with long parts cut in place.

    Without a limit, it is the request's text where the value is longer than that.
    """
    whole = dump(value)
    if request.allows(whole):
        return whole
    if request.limit is None:
        return request.text
    shorter: list[str] = []
    caps = [1]

    def build(room: int) -> str | None:
        while not shorter or (len(shorter[-1]) <= room and shorter[-1] != whole):
            shorter.append(dump(_capped(value, caps[-1])))
            caps.append(int(caps[-1] * _GROWTH) + 1)
        return next((form for form in reversed(shorter) if len(form) <= room), None)

    return request.longest(build) or request.first_allowed(dump(_told(request.tokens, "token")), "{}")


def _told(number: int, unit: str) -> dict[str, str]:
    return {"cupel": f"{plural(number, unit)} omitted"}


def _capped(value: Any, cap: int) -> Any:
    """Return a value whose lists, objects and strings have a bounded length; each says how much it lost."""
    if isinstance(value, str):
        return _string(value, 16 * cap)
    if is_array(value):
        # Rows go before the cells of a row, so that tables keep their columns.
        room = cap if any(is_array(entry) or is_object(entry) for entry in value[: _FLAT * cap]) else _FLAT * cap
        kept = [_capped(entry, cap) for entry in value[:room]]
        if len(value) > room:
            kept.append(Marker.of(f"{len(value) - room:,} more"))
        return kept
    if is_object(value):
        room = _FLAT * cap
        short = {key: _capped(value[key], cap) for key in list(value)[:room]}
        return short | _told(len(value) - room, "member") if len(value) > room else short
    return value


def _string(value: str, room: int) -> str:
    if len(value) <= room + len(Marker.amount(len(value), "character")):
        return value
    start = boundary(value, room // 2)
    stop = max(boundary(value, len(value) - room // 2), start)
    return value[:start] + Marker.amount(stop - start, "character") + value[stop:]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError
    return value


def _float(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        raise ValueError
    return number


def _constant(_: str) -> Any:
    raise ValueError
