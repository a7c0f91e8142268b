"""JSON reduced to the values that stand in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cupel.shorten._json import cut, is_array, is_object, rewritten
from cupel.shorten._request import ShortenCall
from cupel.tokens import TokenCounter


def values(text: str, limit: int | None, *, counter: TokenCounter | None = None) -> str:
    """Return JSON reduced to the distinct values under each path: no nulls, no key twice, arrays merged.

    Which values stood together in one object of an array is lost; what a later step might refer to is not. A limit of
    None gives all values. What is cut is counted in place, and the result is still JSON; texts that are no JSON are
    treated as `table` does.

    >>> text = '{"user": "mia", "cards": [{"id": 7, "brand": "visa"}, {"id": 9, "brand": "visa", "note": null}]}'
    >>> values(text, None)
    '{"user":"mia","cards":{"id":[7,9],"brand":"visa"}}'
    """
    request = ShortenCall.of(text, limit, counter, in_full=True)
    return rewritten(request, lambda value: cut(request, merged((value,))))


def merged(entries: Iterable[Any]) -> Any:
    """Return everything that stands at one path as one value: a scalar, an object, or an array of distinct ones."""
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
    inner = {key: merged(found) for key, found in objects.items()}
    inner = {key: value for key, value in inner.items() if value not in ([], {})}
    distinct = [*scalars.values(), *([inner] if inner else [])]
    return distinct[0] if len(distinct) == 1 else distinct
