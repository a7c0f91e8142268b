"""How the policy reader complains: always with the place in the document, and a likely correction."""

from __future__ import annotations

from collections.abc import Iterable

from cupel._checks import did_you_mean, shown
from cupel.errors import ConfigurationError, PolicyConfigError


def malformed(path: str, problem: str) -> PolicyConfigError:
    """The error for a document that cannot be read, to be raised by the caller."""
    return PolicyConfigError(f"{path}: {problem}")


def placed(error: ConfigurationError, where: str) -> ConfigurationError:
    """The error with a place in front; a class that cannot be rebuilt from a message keeps it as a note."""
    if type(error).__init__ is ConfigurationError.__init__:
        return type(error)(f"{where}: {error}")
    error.add_note(where)
    return error


def mismatch(path: str, expected: str, value: object) -> PolicyConfigError:
    """The error for a value of the wrong type."""
    return malformed(path, f"expected {expected}, got {_name(value)}")


def unknown_word(path: str, what: str, word: str, known: Iterable[str], hint: str = "") -> PolicyConfigError:
    """The error for a misspelt key, tag or choice: the likely word, if there is one, and all known ones."""
    choices = list(known)
    likely = did_you_mean(word, choices)
    return malformed(path, f"unknown {what} {shown(word)}{likely} (known: {', '.join(choices) or 'none'}){hint}")


def _name(value: object) -> str:
    """What a value is called in a document."""
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case int() | float():
            return f"the number {shown(value)}"
        case str():
            return f"the string {shown(value)}"
        case dict() | list() | tuple():
            return "an object" if isinstance(value, dict) else "a list"
        case _:
            return f"{shown(value)} of type {type(value).__name__}"
