"""How the policy reader complains: always with the place in the document, and a likely correction."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cupel.errors import PolicyConfigError

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def at_key(path: str, key: str) -> str:
    """The path of a member: `$.slicer.inner`, or `$.weights["two words"]` where the key is not a plain word."""
    if _PLAIN_KEY.fullmatch(key):
        return f"{path}.{key}"
    quoted = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'{path}["{quoted}"]'


def at_index(path: str, index: int) -> str:
    """The path of a list's element: `$.scorer.scorers[0]`."""
    return f"{path}[{index}]"


def malformed(path: str, problem: str) -> PolicyConfigError:
    """The error for a document that cannot be read, to be raised by the caller."""
    return PolicyConfigError(f"{path}: {problem}")


def mismatch(path: str, expected: str, value: object) -> PolicyConfigError:
    """The error for a value of the wrong type."""
    return malformed(path, f"expected {expected}, got {_name(value)}")


def unknown_word(path: str, what: str, word: str, known: Iterable[str], hint: str = "") -> PolicyConfigError:
    """The error for a misspelt key, tag or choice: the likely word, if there is one, and all known ones."""
    from difflib import get_close_matches  # only a failing document pays for the import

    choices = list(known)
    close = get_close_matches(word.lower(), choices, n=1, cutoff=0.6)
    likely = f"; did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(choices) if choices else "none"
    return malformed(path, f"unknown {what} {word!r}{likely} (known: {listed}){hint}")


def _name(value: object) -> str:
    """What a value is called in a document."""
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case int() | float():
            return f"the number {value!r}"
        case str():
            return f"the string {value!r}"
        case dict() | list() | tuple():
            return "an object" if isinstance(value, dict) else "a list"
        case _:
            return f"{value!r} of type {type(value).__name__}"
