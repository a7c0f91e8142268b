"""JSON in and out, and cutting it so that it still parses."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, TypeGuard

from cupel.shorten._cut import boundary
from cupel.shorten._head_tail import keep_ends
from cupel.shorten._marker import amount

if TYPE_CHECKING:
    from collections.abc import Callable

    from cupel.shorten._request import ShortenCall

_MARK = "…"
_FLAT = 4  # so many times more values than containers are kept


class NotJSONError(ValueError):
    """The text is no JSON document, or none whose values Python can hold and write again."""


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Tell whether a JSON value is an array."""
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether a JSON value is an object."""
    return isinstance(value, dict)


def parse(text: str) -> Any:
    """Return the value of a JSON object or array; numbers that would not survive and doubled keys are refused."""
    if text.lstrip()[:1] not in ("{", "["):
        raise NotJSONError
    try:
        return json.loads(text, object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
    except (ValueError, RecursionError):
        raise NotJSONError from None


def dump(value: Any) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def rewritten(request: ShortenCall, write: Callable[[Any], str]) -> str:
    """Return what `write` makes of a request's JSON; a text that is none is shortened as `head_tail` does."""
    if request.is_met:
        return request.text
    try:
        return write(parse(request.text))
    except (NotJSONError, RecursionError):
        return keep_ends(request, note="; not JSON")


def cut(request: ShortenCall, value: Any) -> str:
    """Return a JSON value within the limit: as it is, with long parts cut in place, or a bare mark.

    Without a limit, it is the request's text where the value is longer than that.
    """
    whole = dump(value)
    if request.allows(whole):
        return whole
    if request.limit is None:
        return request.text
    most = 1
    while most < len(whole) and len(dump(capped(value, most))) < 2 * request.room:
        most *= 2
    shorter = request.largest(lambda size: dump(capped(value, size)), most, guess=most // 2)
    if shorter is None:
        return request.first_allowed(dump({_MARK: f"{amount(request.tokens, 'token')} left out"}))
    return shorter


def capped(value: Any, cap: int) -> Any:
    """Return a value whose lists, objects and strings have a bounded length; each says what it lost."""
    if isinstance(value, str):
        return _string(value, 16 * cap)
    if is_array(value):
        # Rows go before the cells of a row, so that tables keep their columns.
        room = cap if any(is_array(entry) or is_object(entry) for entry in value[: _FLAT * cap]) else _FLAT * cap
        kept = [capped(entry, cap) for entry in value[:room]]
        if len(value) > room:
            kept.append(f"{_MARK} {len(value) - room:,} more left out {_MARK}")
        return kept
    if is_object(value):
        room = _FLAT * cap
        short = {key: capped(value[key], cap) for key in list(value)[:room]}
        if len(value) > room:
            short[_MARK] = f"{len(value) - room:,} more left out"
        return short
    return value


def _string(value: str, room: int) -> str:
    marked = f"{_MARK} {amount(len(value) - room, 'character')} left out {_MARK}"
    if len(value) <= room + len(marked):
        return value
    start = boundary(value, room // 2)
    stop = max(boundary(value, len(value) - room // 2), start)
    return f"{value[:start]}{_MARK} {amount(stop - start, 'character')} left out {_MARK}{value[stop:]}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise NotJSONError
    return value


def _float(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        raise NotJSONError
    return number


def _constant(_: str) -> Any:
    raise NotJSONError
