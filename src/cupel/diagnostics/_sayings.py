"""How a reason is put into words, from its fields."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {"<": operator.lt, ">=": operator.ge}
_FIELD: Final = re.compile(r"\{(-?)(\w+)\}")
_SHOWN: Final = 24


class Saying(NamedTuple):
    """A short account of an exclusion, for as long as `when` holds: two fields, or a field and a number, compared.

    Fields go by their names on the wire, since whoever says them elsewhere has only these.
    """

    text: str
    """Fields stand in braces; a minus before one turns its sign."""
    when: tuple[str, str, str | int] | None = None

    def holds(self, fields: Mapping[str, Any]) -> bool:
        """Whether this is what to say."""
        if self.when is None:
            return True
        field, comparison, other = self.when
        return _COMPARISONS[comparison](fields[field], fields[other] if isinstance(other, str) else other)

    def said(self, fields: Mapping[str, Any]) -> str:
        """Return the text with the fields in it."""
        return _FIELD.sub(lambda found: _shown(fields[found[2]], found[1]), self.text)


def _shown(value: object, sign: str) -> str:
    """Write a field: numbers in groups, contents on one short line."""
    if isinstance(value, int):
        return f"{-value if sign else value:,}"
    if isinstance(value, float):
        return f"{-value if sign else value:.4g}"
    return one_line(str(value), _SHOWN)


def one_line(text: str, most: int) -> str:
    """Return the beginning of a text as one line of at most so many characters."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
