"""Long strings inside a call's arguments."""

from __future__ import annotations

from typing import Any

from cupel.shorten._json import cut, dump, is_array, is_object, rewritten
from cupel.shorten._key_lines import key_lines
from cupel.shorten._request import ShortenCall
from cupel.shorten._shortener import Shortener
from cupel.tokens import TokenCounter

_SHORTEST = 16  # tokens: less would hold little more than the marker


def arguments(text: str, limit: int, *, counter: TokenCounter | None = None, form: Shortener | None = None) -> str:
    r"""Return a call's JSON arguments with their long strings shortened in place; they still parse.

    All strings get the same limit, the largest that lets the whole fit, so short ones stay as they are. `form` shortens
    a string, by default `key_lines`. Where even short strings leave too much, other parts are cut as `values` does.
    A model sees its own call changed: shorten arguments only where you know that it does no harm.

    >>> import json
    >>> script = "import json\n" + "print('next row')\n" * 200 + "json.dump(rows, open('rows.json', 'w'))"
    >>> short = arguments(json.dumps({"path": "rows.py", "content": script}), 60)
    >>> print(json.loads(short)["path"], json.loads(short)["content"], sep="\n")
    rows.py
    import json
    print('next row')
    … 199 lines, 995 tokens left out …
    json.dump(rows, open('rows.json', 'w'))
    """
    request = ShortenCall.of(text, limit, counter)
    ratio = len(request.text) / max(request.tokens, 1)

    def write(value: Any) -> str:
        def build(size: int) -> str:
            return dump(_shortened(value, size + _SHORTEST, ratio, request, form))

        most = int(max(_lengths(value), default=0) / ratio) - _SHORTEST
        return request.largest(build, most, guess=int(request.room / ratio * 0.75)) or cut(request, value)

    return rewritten(request, write)


def _shortened(value: Any, limit: int, ratio: float, request: ShortenCall, form: Shortener | None) -> Any:
    if isinstance(value, str):
        if len(value) <= limit * ratio:  # an estimate, so that short strings are not counted one by one
            return value
        return form(value, limit) if form else key_lines(value, limit, counter=request.counter)
    if is_array(value):
        return [_shortened(entry, limit, ratio, request, form) for entry in value]
    if is_object(value):
        return {key: _shortened(entry, limit, ratio, request, form) for key, entry in value.items()}
    return value


def _lengths(value: Any) -> list[int]:
    if isinstance(value, str):
        return [len(value)]
    if is_array(value) or is_object(value):
        entries = value.values() if is_object(value) else value
        return [length for entry in entries for length in _lengths(entry)]
    return []
