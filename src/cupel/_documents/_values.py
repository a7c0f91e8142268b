"""Plain JSON values: strict reading, limits, paths in errors."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from math import inf, isfinite, isinf, nan
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, TypeGuard, cast

import msgspec

from cupel._checks import as_integer, shown, wrong_type

if TYPE_CHECKING:
    from json import JSONDecoder


MAX_DEPTH: Final = 100
"""Objects and lists within each other, in any document."""
MAX_DIGITS: Final = 1000
"""Digits of an integer in any document; sums of a million such integers can still be written."""

TOO_DEEP: Final = f"nested too deeply: at most {MAX_DEPTH} levels"
TOO_LONG: Final = f"an integer has at most {MAX_DIGITS:,} digits"


class RefusedError(ValueError):
    """A value that a document may not hold: too deep, too long, a key twice, a number that is none."""


_TOO_LARGE: Final = 10**MAX_DIGITS


def check_limits(document: object) -> None:
    """Refuse a document that is too deep, or with an integer of more than `MAX_DIGITS` digits."""
    check_depth(document)
    pending = [document]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            pending.extend(cast("dict[str, object]", node).values())
        elif isinstance(node, list):
            pending.extend(cast("list[object]", node))
        elif isinstance(node, int) and abs(node) >= _TOO_LARGE:
            raise RefusedError(TOO_LONG)


def check_depth(value: object, *, already: int = 0) -> None:
    """Refuse objects and lists that lie within each other more than `MAX_DEPTH` deep, which cycles do."""
    pending: list[tuple[object, int]] = [(value, already)]
    while pending:
        node, depth = pending.pop()
        if isinstance(node, Mapping):
            inside = list(cast("Mapping[object, object]", node).values())
        elif isinstance(node, (list, tuple, set, frozenset)):
            inside = list(cast("list[object]", node))
        else:
            continue
        if depth >= MAX_DEPTH:
            raise RefusedError(TOO_DEEP)
        pending.extend([(entry, depth + 1) for entry in inside])


Path: TypeAlias = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,79}")


def at_key(path: str, key: str) -> str:
    """Return the path of a member: `$.slicer.inner`, or `$.weights["two words"]` where the key is no plain word."""
    if _PLAIN_KEY.fullmatch(key):
        return f"{path}.{key}"
    quoted = shown(key)[1:-1].replace('"', '\\"')
    return f'{path}["{quoted}"]'


def at_index(path: str, index: int) -> str:
    """Return the path of a list's element: `$.scorer.scorers[0]`."""
    return f"{path}[{index}]"


def shown_path(steps: Path) -> str:
    """Return a path from its steps.

    >>> shown_path(("included", 3, "item"))
    '$.included[3].item'
    """
    path = "$"
    for step in steps:
        path = at_index(path, step) if isinstance(step, int) else at_key(path, step)
    return path


NON_FINITE: Final = {"NaN": nan, "Infinity": float("inf"), "-Infinity": float("-inf")}
"""JSON has no numbers for these; they are written as strings."""

_ATOMS: Final = frozenset({str, bool, type(None)})
_HUGE: Final = 10**MAX_DIGITS
_TINY: Final = -_HUGE


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether a value that was read from JSON is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Tell whether a value that was read from JSON is a list."""
    return isinstance(value, list)


def plain_number(value: float) -> float | str:
    """Return a number, or the string that stands for it where it is not finite."""
    if isfinite(value):
        return value
    return ("Infinity" if value > 0 else "-Infinity") if isinf(value) else "NaN"


def plain_integer(value: int) -> int:
    """Return an integer that may be written."""
    if _TINY < value < _HUGE:
        return value
    raise RefusedError(f"{TOO_LONG}, got {shown(value)}")


def plain(value: Any, depth: int = 0) -> Any:
    """Return the JSON values behind a value of somebody's metadata; sets are written in order, whatever their hashes.

    A value that JSON cannot write is a TypeError, one that is too deep or too long a ValueError.
    """
    if type(value) in _ATOMS:
        return value
    if type(value) is int:
        return plain_integer(value)
    if type(value) is float:
        return plain_number(value)
    if depth >= MAX_DEPTH and isinstance(value, (Mapping, list, tuple, set, frozenset)):
        raise RefusedError(TOO_DEEP)
    members: Mapping[Any, Any] = value
    if isinstance(value, Mapping):
        return {_key(key): plain(entry, depth + 1) for key, entry in members.items()}
    if not isinstance(value, (list, tuple, set, frozenset)):
        return _leaf(value, depth)
    entries = [plain(entry, depth + 1) for entry in cast("list[Any]", value)]
    return sorted(entries, key=_order) if isinstance(value, (set, frozenset)) else entries


def _order(entry: Any) -> tuple[str, Any]:
    return type(entry).__name__, entry if isinstance(entry, (str, int, float)) else repr(entry)


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"keys must be strings, got {type(key).__name__}: {shown(key)}")
    return str.__str__(key)


def _leaf(value: Any, depth: int) -> Any:
    """Return the plain value behind a subclass, another library's number, or a type that msgspec knows."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Integral):
        return plain_integer(int(value))
    if isinstance(value, Real):
        return plain_number(float(value))
    try:
        known = msgspec.to_builtins(value)
    except (TypeError, RecursionError):
        known = value
    if known is value or type(known) is type(value):
        raise TypeError(f"must hold values that JSON can write, got {type(value).__name__}: {shown(value)}")
    return plain(known, depth)


_ZEROS: Final = bytes.maketrans(b"123456789", b"0" * 9)
_TOO_MANY: Final = b"0" * (MAX_DIGITS + 1)


class _TwiceError(RefusedError):
    """An object names a key twice."""


@dataclass(frozen=True, slots=True)
class _Twice:
    """Stands in for an object that names this key twice, until its path is known."""

    key: str


@cache
def strict_decoder() -> JSONDecoder:
    """Return a decoder that refuses what `decode_json` refuses, without a path; RecursionError means too deep."""
    from json import JSONDecoder  # msgspec would let the last of two equal keys win in silence

    return JSONDecoder(
        object_pairs_hook=_members, parse_int=_parse_integer, parse_float=_parse_number, parse_constant=_constant
    )


def decode_json(text: str | bytes, *, error: type[Exception] = ValueError) -> Any:
    """Return the value of a JSON text; the error names the place of a key that occurs twice."""
    from json import JSONDecoder, detect_encoding

    if not isinstance(text, (str, bytes, bytearray)):
        raise wrong_type("text", "a string or bytes", text)
    characters = ""
    try:
        characters = text if isinstance(text, str) else text.decode(detect_encoding(text), "surrogatepass")
        return strict_decoder().decode(characters)
    except RecursionError:
        raise error(f"$: {TOO_DEEP}") from None
    except _TwiceError:
        marked = JSONDecoder(object_pairs_hook=lambda pairs: _twice(pairs) or dict(pairs)).decode(characters)
        raise error(f"{shown_path(_path_of_twice(marked))}: the key occurs twice in one object") from None
    except ValueError as bad:
        raise error(f"$: not valid JSON: {bad}") from None


def is_written(value: Any, text: str | bytes) -> bool:
    """Tell whether a text is to the letter what a value that was read from it is written as.

    Then no key occurs twice in it, and nothing else that `decode_json` refuses.
    """
    written = msgspec.json.encode(value)
    return written == (text.encode() if isinstance(text, str) else text) and _TOO_MANY not in written.translate(_ZEROS)


def decode_toml(text: str | bytes, *, error: type[Exception] = ValueError) -> dict[str, Any]:
    """Return the value of a TOML text."""
    if sys.version_info >= (3, 15):  # the first whose own parser reads TOML 1.1 (ruling 11.1)
        import tomllib
    else:
        import tomli as tomllib
    if not isinstance(text, (str, bytes)):
        raise wrong_type("text", "a string or bytes", text)
    try:
        document = tomllib.loads(text if isinstance(text, str) else text.decode())
        check_limits(document)
    except RecursionError:
        raise error(f"$: {TOO_DEEP}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as bad:
        raise error(f"$: not valid TOML: {bad}") from None
    except RefusedError as bad:
        raise error(f"$: {bad}") from None
    except ValueError:  # the interpreter's, about an integer of thousands of digits
        raise error(f"$: {TOO_LONG}") from None
    return document


def encode_json(value: Any, *, indent: int | None = None) -> str:
    """Return plain values, or a form's packed ones, as JSON text."""
    if indent is not None:
        indent = as_integer("indent", indent, least=0, expected="an integer or None")
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        import json

        # Half of a surrogate pair has no UTF-8 form, but JSON can escape it.
        return json.dumps(
            msgspec.to_builtins(value), indent=indent, separators=None if indent else (",", ":"), allow_nan=False
        )
    return (encoded if indent is None else msgspec.json.format(encoded, indent=indent)).decode()


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs) and (twice := _twice(pairs)):
        raise _TwiceError(f"the key {shown(twice.key)} occurs twice in one object")
    return members


def _twice(pairs: list[tuple[str, Any]]) -> _Twice | None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return _Twice(key)
        seen.add(key)
    return None


def _path_of_twice(value: Any) -> Path:
    pending: list[tuple[Path, Any]] = [((), value)]
    while pending:
        path, node = pending.pop()
        if type(node) is _Twice:
            return (*path, node.key)
        members: dict[str, Any] = node
        entries: list[Any] = node
        if isinstance(node, dict):
            pending.extend([((*path, key), entry) for key, entry in members.items()])
        elif isinstance(node, list):
            pending.extend([((*path, index), entry) for index, entry in enumerate(entries)])
    return ()  # pragma: no cover - it is somewhere


def _parse_integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS and (count := len(digits.lstrip("-"))) > MAX_DIGITS:
        raise RefusedError(f"{TOO_LONG}, got {count:,}")
    return int(digits)


def _parse_number(digits: str) -> float:
    number = float(digits)
    if isinf(number):
        raise RefusedError(f"{shown(digits)[1:-1]} does not fit a double")
    return number


def _constant(name: str) -> NoReturn:
    raise RefusedError(f"{name} is not a JSON number")


_INSTANT: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
_IS_INSTANT: Final = re.compile(_INSTANT)
_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_CONTAINERS: Final = (dict, list)


@dataclass(frozen=True, slots=True)
class Value:
    """One kind of value: what to call it, its schema, and how it is read and written.

    `read` takes a JSON value, `cell` the text of a CSV cell; both raise ValueError for what is none. What they let
    pass is checked by the class that the field belongs to.
    """

    expected: str
    schema: Mapping[str, Any]
    read: Callable[[Any], Any]
    cell: Callable[[str], Any] = str
    write: Callable[[Any], Any] | None = None
    """None where msgspec writes the value as it should be."""
    convert: bool = False
    """Whether `read` has something to do even where a value is as it should be."""
    type: Any = Any
    """What a decoder may check by itself: everything of this type that JSON can say is a value, or left to `read`."""


def _integer(value: Any) -> int:
    """Take 1.0 for 1: JSON has one kind of number, and a schema cannot tell these apart."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not int:
        raise ValueError(value)
    return plain_integer(value)


def _count(value: Any) -> int:
    count = _integer(value)
    if count < 0:
        raise ValueError(value)
    return count


def _duration(value: Any) -> float:
    number = _number(value)
    if type(value) is str or not 0.0 <= number < inf:
        raise ValueError(value)
    return number


def _integer_cell(text: str) -> int:
    return _integer(decode_json(text) if text.lstrip("+-").isdigit() and text.isascii() else text)


def _number(value: Any) -> float:
    if type(value) is str:
        if value not in NON_FINITE:
            raise ValueError(value)
        return NON_FINITE[value]
    if type(value) not in {int, float}:
        raise ValueError(value)
    return float(value)


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(value)
    return value


def _flag_cell(text: str) -> bool:
    if text.lower() not in _WORDS:
        raise ValueError(text)
    return _WORDS[text.lower()]


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(value)
    return value


def _words(value: Any) -> list[str]:
    words: list[Any] = value
    if type(value) is not list or not all(type(word) is str for word in words):
        raise ValueError(words)
    return words


def _words_cell(text: str) -> list[str]:
    if text.startswith("["):
        return _words(decode_json(text))
    return [word.strip() for word in text.split(";") if word.strip()]


def _object(value: Any) -> Any:
    members: Mapping[str, Any] = value
    if type(value) is not dict and not isinstance(value, Mapping):
        raise ValueError(value)
    if any(isinstance(entry, _CONTAINERS) for entry in members.values()):
        check_depth(members)
    return members


def _integers(value: Any) -> dict[str, int]:
    return {key: _integer(entry) for key, entry in _object(value).items()}


def _instant(value: Any) -> datetime:
    if isinstance(value, datetime):  # TOML and Arrow have a type for it
        return value
    if type(value) is not str:
        raise ValueError(value)
    instant = datetime.fromisoformat(value if value.endswith("Z") else value.upper())
    if instant.tzinfo is not None and not _IS_INSTANT.match(value):  # what has no zone, the item itself refuses
        raise ValueError(value)
    return instant


TEXT: Final = Value("a string", {"type": "string"}, _text, type=str)
CONTENT: Final = Value("a string", {"type": "string", "minLength": 1}, _text, type=str)
NAME: Final = Value("a string", {"type": "string", "pattern": r"\S"}, _text, write=str, type=str)
INTEGER: Final = Value("an integer", {"type": "integer"}, _integer, _integer_cell, plain_integer, type=int)
COUNT: Final = Value("an integer >= 0", {"type": "integer", "minimum": 0}, _count, _integer_cell, _count, type=int)
DURATION: Final = Value("a number >= 0", {"type": "number", "minimum": 0}, _duration, float, _duration, type=float)
NUMBER: Final = Value(
    "a number, 'NaN', 'Infinity' or '-Infinity'",
    {"anyOf": [{"type": "number"}, {"enum": list(NON_FINITE)}]},
    _number,
    float,
    plain_number,
    type=float,
)
FLAG: Final = Value("true or false", {"type": "boolean"}, _flag, _flag_cell, type=bool)
WORDS: Final = Value(
    "a list of strings", {"type": "array", "items": {"type": "string"}}, _words, _words_cell, list, type=tuple[str, ...]
)
OBJECT: Final = Value(
    "an object",
    {"type": "object"},
    _object,
    lambda text: _object(decode_json(text)),
    plain,
    convert=True,
    type=dict[str, Any],
)
INTEGERS: Final = Value(
    "an object of integers",
    {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}, "propertyNames": {"pattern": r"\S"}},
    _integers,
    lambda text: _integers(decode_json(text)),
    lambda slots: {str(kind): plain_integer(count) for kind, count in slots.items()},
)
INSTANT: Final = Value(
    "an RFC 3339 date-time such as '2026-01-31T09:30:00Z'",
    {"type": "string", "format": "date-time", "pattern": _INSTANT},
    _instant,
    _instant,
    convert=True,
    type=str,
)
