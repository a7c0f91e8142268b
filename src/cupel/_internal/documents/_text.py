"""Documents as text: JSON and TOML within limits, plain values, paths in errors."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache
from math import isfinite, isinf, nan
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, TypeGuard, cast

import msgspec

from cupel._internal.checks import as_integer, shown, wrong_type
from cupel.errors import ConfigurationError, MissingExtraError

if TYPE_CHECKING:
    from json import JSONDecoder

MAX_DEPTH: Final = 100
"""The most objects and lists within each other in a document."""
TOO_DEEP: Final = f"nested too deeply: at most {MAX_DEPTH} levels"
NON_FINITE: Final = {"NaN": nan, "Infinity": float("inf"), "-Infinity": float("-inf")}
"""JSON has no numbers for these; items and reports write them as strings."""

Path: TypeAlias = tuple[str | int, ...]
"""Keys and positions that lead to a value in a document."""


class RefusedError(ValueError):
    """A value that a document cannot hold; each container that the error passes through adds a step to its path."""

    def __init__(self, problem: str, *, cause: ConfigurationError | None = None) -> None:
        super().__init__(problem)
        self.path: Path = ()
        self.cause = cause
        """The error of the class that refused well-formed values."""

    def inside(self, *steps: str | int) -> RefusedError:
        """Put steps in front of the path, and return the error itself."""
        self.path = (*steps, *self.path)
        return self

    def raised_as(self, error: type[Exception], *, rooted: bool = True) -> Exception:
        """Return the error for callers, with the path in its message; an unrooted one names no path of the root.

        A configuration error keeps its class.
        """
        where = shown_path(self.path) if self.path or rooted else ""
        if self.cause is not None:
            return placed(self.cause, where)
        return error(f"{where}: {self}" if where else str(self))


def placed(error: ConfigurationError, where: str) -> ConfigurationError:
    """Return the error with a place in front; a class with another constructor gets the place as a note."""
    if type(error).__init__ is ConfigurationError.__init__:
        return type(error)(f"{where}: {error}")
    error.add_note(where)
    return error


_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,79}")


def shown_path(steps: Path) -> str:
    """Return a path from its steps; a key that is no plain word is quoted.

    >>> shown_path(("included", 3, "item")), shown_path(("weights", "two words"))
    ('$.included[3].item', '$.weights["two words"]')
    """
    path = "$"
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            path += f".{step}"
        else:
            quoted = shown(step)[1:-1].replace('"', '\\"')
            path += f'["{quoted}"]'
    return path


def check_depth(value: object) -> None:
    """Refuse objects and lists that are nested more than `MAX_DEPTH` deep, as cycles are."""
    pending: list[tuple[object, int]] = [(value, 0)]
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


_ATOMS: Final = frozenset({str, bool, int, type(None)})


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value that was read from JSON is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value that was read from JSON is a list."""
    return isinstance(value, list)


def plain_number(value: float) -> float | str:
    """Return a number, or its name if it is not finite."""
    if isfinite(value):
        return value
    return ("Infinity" if value > 0 else "-Infinity") if isinf(value) else "NaN"


def plain(value: Any, depth: int = 0) -> Any:
    """Convert metadata to JSON values; sets are sorted, so that the result does not depend on hashes.

    A value that JSON cannot express is a TypeError, one that is nested too deeply a ValueError.
    """
    if type(value) in _ATOMS:
        return value
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
    """Convert an instance of a subclass, another library's number, or a type that msgspec supports."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return plain_number(float(value))
    try:
        known = msgspec.to_builtins(value)
    except (TypeError, RecursionError):
        known = value
    if known is value or type(known) is type(value):
        raise TypeError(f"must hold values that JSON can write, got {type(value).__name__}: {shown(value)}")
    return plain(known, depth)


@cache
def strict_decoder() -> JSONDecoder:
    """Return a decoder that refuses what `decode_json` refuses, without a path; RecursionError means too deep."""
    from json import JSONDecoder  # msgspec would silently keep the last of two equal keys

    return JSONDecoder(object_pairs_hook=_members, parse_float=_parse_number, parse_constant=_constant)


def decode_json(text: str | bytes, *, error: type[Exception] = ValueError) -> Any:
    """Return the value of a JSON text, in which no object names a key twice and all numbers are finite."""
    from json import detect_encoding

    if not isinstance(text, (str, bytes, bytearray)):
        raise wrong_type("text", "a string or bytes", text)
    try:
        characters = text if isinstance(text, str) else text.decode(detect_encoding(text), "surrogatepass")
        return strict_decoder().decode(characters)
    except RecursionError:
        raise error(f"$: {TOO_DEEP}") from None
    except ValueError as bad:
        raise error(f"$: not valid JSON: {bad}") from None


def is_written(value: Any, text: str | bytes) -> bool:
    """Return whether a text is exactly what msgspec writes for the value that it read from the text.

    Then the text has no key twice in one object, and nothing else that `decode_json` refuses.
    """
    return msgspec.json.encode(value) == (text.encode() if isinstance(text, str) else text)


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
        check_depth(document)
    except RecursionError:
        raise error(f"$: {TOO_DEEP}") from None
    except RefusedError as bad:
        raise error(f"$: {bad}") from None
    except ValueError as bad:
        raise error(f"$: not valid TOML: {bad}") from None
    return document


def encode_json(value: Any, *, indent: int | None = None) -> str:
    """Return plain values, or the structs of records, as JSON text."""
    if indent is not None:
        indent = as_integer("indent", indent, least=0, expected="an integer or None")
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        import json

        # Half of a surrogate pair has no UTF-8 encoding, but JSON can escape it.
        return json.dumps(
            msgspec.to_builtins(value), indent=indent, separators=None if indent else (",", ":"), allow_nan=False
        )
    return (encoded if indent is None else msgspec.json.format(encoded, indent=indent)).decode()


def encode_toml(document: Mapping[str, Any]) -> str:
    """Return plain values as TOML text; a null is refused."""
    try:
        import tomli_w
    except ImportError:
        raise MissingExtraError("tomli-w", "cli") from None
    _check_toml(document)
    return tomli_w.dumps(document)


def _check_toml(value: object) -> None:
    entries: Any = ()
    if value is None:
        raise RefusedError("TOML has no null; leave the key out or use JSON")
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value).items()
    elif isinstance(value, list):
        entries = enumerate(cast("list[object]", value))
    for step, entry in entries:
        try:
            _check_toml(entry)
        except RefusedError as error:
            error.inside(step)
            raise


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise RefusedError(f"the key {shown(twice)} occurs twice in one object")
    return members


def _parse_number(digits: str) -> float:
    number = float(digits)
    if isinf(number):
        raise RefusedError(f"{shown(digits)[1:-1]} does not fit a double")
    return number


def _constant(name: str) -> NoReturn:
    raise RefusedError(f"{name} is not a JSON number")
