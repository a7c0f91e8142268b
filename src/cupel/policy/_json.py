"""JSON out: numbers that JSON cannot express are refused."""

from __future__ import annotations

from cupel._checks import as_integer
from cupel.errors import PolicyConfigError
from cupel.policy._forms import Json


def format_json(document: dict[str, Json], indent: int | None) -> str:
    """The document as JSON text; numbers that JSON cannot express are refused."""
    import json

    if indent is not None:
        indent = as_integer("indent", indent, least=0, expected="an integer or None")
    try:
        return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise PolicyConfigError(f"$: cannot be written as JSON: {error}") from error
