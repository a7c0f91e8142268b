"""Text that is safe to show: nothing in it can move a cursor, reorder a line or hide."""

from __future__ import annotations

import re
from typing import Final

_UNSEEN: Final = re.compile(
    r"[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff]"
)
"""The characters that `words.js` makes visible on the page, and lone surrogates, which no terminal can print."""
_NOT_ASCII: Final = re.compile(r"[^\u0000-\u007e]")
CONTENT_LIMIT: Final = 20_000
"""How many characters of an item or a message a page carries."""


def visible(text: str) -> str:
    r"""Write control, bidirectional and invisible characters as code points; keep tabs and line ends.

    >>> visible("pay\u202etxt.exe\x1b[2J")
    'pay<U+202E>txt.exe<U+001B>[2J'
    """
    return _UNSEEN.sub(lambda match: f"<U+{ord(match[0]):04X}>", text)


def escape_json(text: str, *, ascii_only: bool = False) -> str:
    r"""Return the same JSON with unseen characters as escapes, or with `ascii_only` all characters outside ASCII.

    >>> escape_json('{"name": "pay\u202etxt"}'), escape_json('"é😀"', ascii_only=True)
    ('{"name": "pay\\u202etxt"}', '"\\u00e9\\ud83d\\ude00"')
    """
    return (_NOT_ASCII if ascii_only else _UNSEEN).sub(_escaped, text)


def escape_toml(text: str, *, ascii_only: bool = False) -> str:
    r"""Return the same TOML, whose strings are in double quotes, with escapes as `escape_json` makes them.

    >>> escape_toml('name = "é😀"', ascii_only=True)
    'name = "\\u00e9\\U0001f600"'
    """
    return (_NOT_ASCII if ascii_only else _UNSEEN).sub(
        lambda match: f"\\u{ord(match[0]):04x}" if match[0] <= "\uffff" else f"\\U{ord(match[0]):08x}", text
    )


def _escaped(match: re.Match[str]) -> str:
    char = match[0]
    if char < " ":  # JSON text has no others than the spaces of its layout
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def preview(text: str, width: int = 72) -> str:
    r"""Return the start of a text on one line.

    >>> preview("first line\nsecond line", 16)
    'first line seco…'
    """
    line = visible(" ".join(text[: width * 4].split()))
    return line if len(line) <= width else line[: width - 1] + "…"


def plural(count: int, word: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "item"), plural(1200, "item")
    ('1 item', '1,200 items')
    """
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def percent(part: int, whole: int) -> str:
    """Return a share, rounded down: only a full window is called 100 %.

    >>> percent(3999, 4000)
    '99.9 %'
    """
    return f"{1000 * part // whole / 10:.1f} %" if whole else "–"
