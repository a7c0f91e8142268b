"""Arguments checked one way for every public callable, and the one way to show a value in a message.

A wrong type is a `TypeError` that names the argument; a wrong value is the `error` of the caller's family. Numbers and
strings of other libraries' types (NumPy's, a member of an enum) become plain ones, so that everything after a check
may rely on exact types.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from math import inf, isfinite
from numbers import Integral, Real
from reprlib import Repr
from typing import Any, Final, ParamSpec, TypeVar, cast

MOST_TOKENS: Final = 2**53
"""The largest token count and budget: doubles hold every integer up to here."""
_LONGEST: Final = 200
_SMALL_BITS: Final = 256

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _Shown(Repr):
    """Shortens at every level before anything is written out, and never fails."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 120
        self.maxlevel = 4

    def repr_int(self, x: int, level: int) -> str:
        del level
        bits = x.bit_length()  # beyond 4,300 digits the interpreter refuses to write an integer
        return int.__repr__(x) if bits <= _SMALL_BITS else f"an integer of {bits} bits"

    def repr_bytes(self, x: bytes, level: int) -> str:
        return self.repr_instance(x[: self.maxother], level)

    def repr_instance(self, x: Any, level: int) -> str:
        if isinstance(x, int) and not isinstance(x, bool) and x.bit_length() > _SMALL_BITS:
            return self.repr_int(x, level)
        try:
            text = repr(x)
        except Exception:  # noqa: BLE001 - somebody else's __repr__, or one too deep for the interpreter
            return f"<{type(x).__name__}>"
        return _cut(re.sub(r"\s*\n\s*", " ", text), self.maxother)


_SHOWN: Final = _Shown()


def shown(value: object) -> str:
    """Return a value's repr for a message: on one line, at most about 200 characters, whatever the value is.

    >>> shown("x" * 1_000_000)[:10], shown(10**5000)
    ("'xxxxxxxxx", 'an integer of 16610 bits')
    """
    return _cut(_SHOWN.repr(value), _LONGEST)


def _cut(text: str, longest: int) -> str:
    half = (longest - 3) // 2
    return text if len(text) <= longest else f"{text[:half]}...{text[-half:]}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the question after the likely word, to go into a message, or nothing if no word is like it.

    >>> did_you_mean("chatt", ["chat", "rag"])
    "; did you mean 'chat'?"
    """
    from difflib import get_close_matches  # only who has misspelt something pays for the import

    folded = {one.lower().replace("_", "-"): one for one in known}
    close = get_close_matches(word[:80].lower().replace("_", "-"), folded, n=1)
    return f"; did you mean {folded[close[0]]!r}?" if close else ""


def wrong_type(name: str, expected: str, value: object) -> TypeError:
    """Return the error for an argument of the wrong type."""
    return TypeError(f"{name} must be {expected}, got {type(value).__name__}: {shown(value)}")


def warn(warning: Warning) -> None:
    """Emit a warning that points to the line outside of cupel that led to it."""
    from inspect import currentframe  # only who is warned pays for the import

    frame, level = currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "cupel":
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


def as_integer(
    name: str,
    value: object,
    *,
    least: int | None = None,
    most: int | None = None,
    error: type[Exception] = ValueError,
    expected: str = "an integer",
) -> int:
    """Convert an integer of any type from `least` to `most`; bools and floats are refused."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise wrong_type(name, expected, value)
    whole = int.__int__(value) if isinstance(value, int) else int(value)
    if least is not None and whole < least:
        raise error(f"{name} must be >= {least}, got {shown(whole)}")
    if most is not None and whole > most:
        raise error(f"{name} must be <= {most}, got {shown(whole)}")
    return whole


def is_number(value: object) -> bool:
    """Return whether a value is a real number; a bool is none."""
    return not isinstance(value, bool) and isinstance(value, Real)


def as_number(name: str, value: object, *, error: type[Exception] = ValueError, flags: bool = False) -> float:
    """Convert a real number of any type to a double, which may be NaN or infinite; a bool counts with `flags` only."""
    if not (is_number(value) or (flags and isinstance(value, bool))):
        raise wrong_type(name, "a number", value)
    try:
        return float(cast("float", value))
    except OverflowError:
        raise error(f"{name} must fit a double, got {shown(value)}") from None


def as_finite(
    name: str,
    value: object,
    *,
    error: type[Exception] = ValueError,
    least: float = -inf,
    most: float = inf,
    flags: bool = False,
) -> float:
    """Convert a real number of any type to a finite double from `least` to `most`."""
    number = as_number(name, value, error=error, flags=flags)
    if isfinite(number) and least <= number <= most:
        return number
    raise error(f"{name} must be {_bounds(least, most)}, got {shown(value)}")


def _bounds(least: float, most: float) -> str:
    if most < inf:
        return f"from {least:g} to {most:g}"
    return "finite" if least == -inf else f"finite and >= {least:g}"


def as_text(name: str, value: object) -> str:
    """Convert a string of any type to a plain one."""
    if not isinstance(value, str):
        raise wrong_type(name, "a string", value)
    return str.__str__(value)


def as_flag(name: str, value: object) -> bool:
    """Return a bool; nothing else counts as true or false."""
    if not isinstance(value, bool):
        raise wrong_type(name, "True or False", value)
    return value


def as_function(name: str, value: object) -> Callable[..., Any]:
    """Return the value if it is callable, or raise TypeError."""
    if not callable(value):
        raise wrong_type(name, "callable", value)
    return value


def as_instance(name: str, value: Any, expected: type[T], *, hint: str = "") -> T:
    """Return an instance of a class.

    The error for the class itself suggests the missing parentheses, and that for an object with the method of a
    strategy the base class.
    """
    if isinstance(value, expected):
        return value
    given: object = value
    if isinstance(given, type) and issubclass(given, expected):
        hint = f"; did you mean {given.__name__}()?"
    elif hasattr(value, getattr(expected, "_faces", ("",))[0]):
        own = given.__name__ if isinstance(given, type) else type(given).__name__
        hint = f"; derive {own} from cupel.{expected.__name__}"
    raise TypeError(f"{wrong_type(name, _article(expected), value)}{hint}")


def _article(expected: type) -> str:
    name = expected.__name__
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def as_list(name: str, values: Iterable[T], expected: str) -> list[T]:
    """Copy an iterable of anything; the caller checks its elements."""
    try:
        entries = iter(values)
    except TypeError:
        raise wrong_type(name, expected, values) from None
    return list(entries)


def as_tuple(name: str, values: Iterable[T], kind: type[T], *, expected: str = "") -> tuple[T, ...]:
    """Copy an iterable of instances of a class; one string is no iterable of strings."""
    expected = expected or f"an iterable of {kind.__name__}"
    if isinstance(values, str):
        hint = f"; did you mean [{shown(values)}]?" if kind is str else ""
        raise TypeError(f"{name} must be {expected}, got one string: {shown(values)}{hint}")
    copied = tuple(as_list(name, values, expected))
    for position, value in enumerate(copied):
        if not isinstance(value, kind):
            raise wrong_type(f"{name}[{position}]", "a string" if kind is str else _article(kind), value)
    return copied


def as_pair(name: str, value: Any, expected: str) -> tuple[Any, Any]:
    """Take a pair apart."""
    try:
        first, second = value
    except (TypeError, ValueError):
        raise wrong_type(name, expected, value) from None
    return first, second


def as_mapping(name: str, value: Any) -> Mapping[Any, Any]:
    """Return a mapping."""
    found: Mapping[Any, Any] = value
    if not isinstance(value, Mapping):
        raise wrong_type(name, "a mapping", found)
    return found


def suggesting(**hints: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make the error for an unknown keyword argument say what to write instead.

    Args:
        hints: for arguments that callers often try, the text to show.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        code = function.__code__
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name not in known:
                    called = function.__qualname__.removesuffix(".__init__")
                    hint = f": {hints[name]}" if name in hints else did_you_mean(name, known)
                    raise TypeError(f"{called}() got an unexpected keyword argument {name!r}{hint}")
            return function(*args, **kwargs)

        return checked

    return decorate
