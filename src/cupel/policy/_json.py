"""JSON in and out: strict about what JSON is, and about keys that occur twice."""

from __future__ import annotations

from typing import Any, NoReturn

from cupel.errors import PolicyConfigError
from cupel.policy._forms import DuplicateKey, Json


def parse_json(text: str | bytes) -> Any:
    """The text's value; an object that names a key twice becomes a DuplicateKey for the reader to complain about."""
    import json  # msgspec would let the last of two equal keys win in silence

    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise PolicyConfigError(f"$: not valid JSON: {error}") from error
    except RecursionError:
        raise PolicyConfigError("$: the document is nested too deeply") from None


def format_json(document: dict[str, Json], indent: int | None) -> str:
    """The document as JSON text; numbers that JSON cannot express are refused."""
    import json

    try:
        return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise PolicyConfigError(f"$: cannot be written as JSON: {error}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | DuplicateKey:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            return DuplicateKey(key)
        members[key] = value
    return members


def _no_constant(name: str) -> NoReturn:
    raise PolicyConfigError(f"$: not valid JSON: {name} is not a JSON number")
