"""Shorter forms of a text, within a limit of tokens.

Every shortener is a pure function of a text and a limit: `shorten(text, 400)`. Its form is never longer than the text,
in tokens or characters, and never over the limit; a text within the limit is returned unchanged. A marker such as
`[cupel: lines 6–135 omitted]` says what is missing. Where not even a marker fits, the form is empty. `counter` says how
tokens are counted, by default as `cupel.tokens.default_counter()` does.

`shorten` is the default, also of `cupel.fit` and `cupel.MessageSession`. `try_forms` and `atry_forms` try functions of
yours, such as a summary made by a model, and fall back to it.
"""

from cupel.shorten._forms import FormFailure, Shortened, ShorterForm, atry_forms, forms, try_forms
from cupel.shorten._pieces import escape_markers
from cupel.shorten._reduce import arguments, names, stub, table, values
from cupel.shorten._request import AsyncShortener, Shortener
from cupel.shorten._select import Rarity, Shortening, head_tail, key_lines, matching, outline, shorten

__all__ = [
    "AsyncShortener",
    "FormFailure",
    "Rarity",
    "Shortened",
    "Shortener",
    "Shortening",
    "ShorterForm",
    "arguments",
    "atry_forms",
    "escape_markers",
    "forms",
    "head_tail",
    "key_lines",
    "matching",
    "names",
    "outline",
    "shorten",
    "stub",
    "table",
    "try_forms",
    "values",
]
