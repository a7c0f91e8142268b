"""JSON arrays of objects as tables."""

from __future__ import annotations

from collections import Counter
from typing import Any

from cupel.shorten._json import cut, is_array, is_object, rewritten
from cupel.shorten._request import ShortenCall
from cupel.tokens import TokenCounter


def table(text: str, limit: int | None, *, counter: TokenCounter | None = None) -> str:
    """Return JSON with each array of objects written as its keys, once, and rows without them.

    No value is lost until the limit demands it: a row whose keys are not those of most stays an object. What is cut is
    counted in place, and the result is still JSON. A text that is no JSON, or JSON that cannot be written again as it
    was (doubled keys, numbers beyond a float), is shortened as `head_tail` does, and the marker says so.

    >>> rows = [{"flight": f"HAT{number}", "seats": 9, "price": 100 + number} for number in range(1, 4)]
    >>> import json
    >>> print(table(json.dumps({"found": rows}), 45))
    {"found":{"keys":["flight","seats","price"],"rows":[["HAT1",9,101],["HAT2",9,102],["HAT3",9,103]]}}
    """
    request = ShortenCall.of(text, limit, counter, in_full=True)
    return rewritten(request, lambda value: cut(request, tabled(value)))


def tabled(value: Any) -> Any:
    """Return a value with its arrays of objects as tables, where that is shorter; inner ones first."""
    if is_object(value):
        return {key: tabled(entry) if isinstance(entry, (dict, list)) else entry for key, entry in value.items()}
    if not is_array(value):
        return value
    entries = [tabled(entry) for entry in value]
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
