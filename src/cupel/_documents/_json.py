"""Text to plain values and back, strictly: every key once, numbers that are numbers, limits of our own."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from math import isinf
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from cupel._checks import as_integer, shown, wrong_type
from cupel._documents._limits import MAX_DIGITS, TOO_DEEP, TOO_LONG, RefusedError, check_limits
from cupel._documents._paths import Path, shown_path

if TYPE_CHECKING:
    from json import JSONDecoder


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

    return JSONDecoder(object_pairs_hook=_members, parse_int=_integer, parse_float=_number, parse_constant=_constant)


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


def decode_toml(text: str, *, error: type[Exception] = ValueError) -> dict[str, Any]:
    """Return the value of a TOML text."""
    if sys.version_info >= (3, 15):  # the first whose own parser reads TOML 1.1 (ruling 11.1)
        import tomllib
    else:
        import tomli as tomllib
    if not isinstance(text, str):
        raise wrong_type("text", "a string", text)
    try:
        document = tomllib.loads(text)
        check_limits(document)
    except RecursionError:
        raise error(f"$: {TOO_DEEP}") from None
    except tomllib.TOMLDecodeError as bad:
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


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS and (count := len(digits.lstrip("-"))) > MAX_DIGITS:
        raise RefusedError(f"{TOO_LONG}, got {count:,}")
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if isinf(number):
        raise RefusedError(f"{shown(digits)[1:-1]} does not fit a double")
    return number


def _constant(name: str) -> NoReturn:
    raise RefusedError(f"{name} is not a JSON number")
