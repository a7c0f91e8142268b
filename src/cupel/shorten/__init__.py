"""Shorter forms of a text, within a limit of tokens.

Every shortener is a pure function of a text and a limit: `head_tail(text, 400)`. What it returns is never longer than
the text, in tokens or characters, and never over the limit; a text within the limit comes back unchanged. Lines are
kept whole and verbatim, and a marker says with numbers what is missing. Where not even the marker fits, what is left
is an ellipsis, or nothing. `counter` says how tokens are counted, by default as `cupel.tokens.default_counter()` does.

`shorten` chooses a form by what the text is. `try_forms` and `atry_forms` try functions of yours, such as a summary
made by a model, before the forms that cannot fail.
"""

from cupel.shorten._arguments import arguments
from cupel.shorten._forms import Form, forms
from cupel.shorten._head_tail import head_tail
from cupel.shorten._key_lines import key_lines
from cupel.shorten._matching import matching
from cupel.shorten._names import names
from cupel.shorten._outline import outline
from cupel.shorten._rarity import Rarity
from cupel.shorten._shorten import shorten
from cupel.shorten._shortener import AsyncShortener, Shortener
from cupel.shorten._stub import stub
from cupel.shorten._table import table
from cupel.shorten._try_forms import FormFailure, Shortened, atry_forms, try_forms
from cupel.shorten._values import values

__all__ = [
    "AsyncShortener",
    "Form",
    "FormFailure",
    "Rarity",
    "Shortened",
    "Shortener",
    "arguments",
    "atry_forms",
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
