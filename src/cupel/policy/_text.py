"""A policy document as text: JSON, or TOML for what is made of tables, lists, strings, numbers and booleans."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from cupel._checks import as_integer
from cupel._documents import RefusedError, at_index, at_key, plain
from cupel.policy._errors import malformed
from cupel.policy._forms import Json

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_MUST_ESCAPE = re.compile(r'[\\"\x00-\x1f\x7f]')


def format_json(document: dict[str, Json], indent: int | None) -> str:
    """The document as JSON; numbers that JSON cannot express are refused."""
    import json

    if indent is not None:
        indent = as_integer("indent", indent, least=0, expected="an integer or None")
    try:
        return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise malformed("$", f"cannot be written as JSON: {error}") from error


def format_toml(document: dict[str, Json]) -> str:
    """The document as TOML: plain values first, then one table for each object, everything deeper inline."""
    lines = _assignments({key: value for key, value in document.items() if not isinstance(value, dict)}, "$")
    for key, value in document.items():
        if isinstance(value, dict):
            lines += ["", f"[{_key(key)}]", *_assignments(value, at_key("$", key))]
    return "\n".join(lines).lstrip("\n") + "\n"


def _assignments(table: Mapping[str, Json], path: str) -> list[str]:
    return [f"{_key(key)} = {_block(value, at_key(path, key))}" for key, value in table.items()]


def _block(value: Json, path: str) -> str:
    """A value on the right of `=`: a list of tables gets a line for each, the rest stays inline."""
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        rows = (f"    {_inline(entry, at_index(path, i))},\n" for i, entry in enumerate(value))
        return f"[\n{''.join(rows)}]"
    return _inline(value, path)


def _inline(value: Json, path: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return _integer(value, path)
        case float():
            return _float(value)
        case str():
            return _string(value)
        case list():
            return f"[{', '.join(_inline(entry, at_index(path, i)) for i, entry in enumerate(value))}]"
        case dict():
            members = (f"{_key(key)} = {_inline(entry, at_key(path, key))}" for key, entry in value.items())
            return f"{{ {', '.join(members)} }}" if value else "{}"
        case None:
            raise malformed(path, "TOML has no null; leave the key out or use JSON")


def _integer(value: int, path: str) -> str:
    try:
        return str(plain(value))
    except RefusedError as error:
        raise malformed(path, str(error)) from None


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(value)  # inf and -inf are TOML as they stand; an exponent needs no point


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    return '"' + _MUST_ESCAPE.sub(lambda found: _escape(found[0]), text) + '"'


def _escape(character: str) -> str:
    return _ESCAPES.get(character) or f"\\u{ord(character):04x}"
