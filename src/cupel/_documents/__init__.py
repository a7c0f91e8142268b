"""Documents: JSON and TOML within limits of our own, and the one form that items and budgets have in them."""

from cupel._documents._fields import Aside, Field, Nested
from cupel._documents._form import WireForm
from cupel._documents._json import decode_json, decode_toml, encode_json, strict_decoder
from cupel._documents._limits import MAX_DIGITS, TOO_DEEP, RefusedError, check_depth
from cupel._documents._paths import Path, at_index, at_key, shown_path
from cupel._documents._plain import is_list, is_object, plain, plain_number
from cupel._documents._tables import BUDGET, ITEM, budget_of
from cupel._documents._values import COUNT, DURATION, INSTANT, INTEGER, NUMBER, TEXT, Value

__all__ = [
    "BUDGET",
    "COUNT",
    "DURATION",
    "INSTANT",
    "INTEGER",
    "ITEM",
    "MAX_DIGITS",
    "NUMBER",
    "TEXT",
    "TOO_DEEP",
    "Aside",
    "Field",
    "Nested",
    "Path",
    "RefusedError",
    "Value",
    "WireForm",
    "at_index",
    "at_key",
    "budget_of",
    "check_depth",
    "decode_json",
    "decode_toml",
    "encode_json",
    "is_list",
    "is_object",
    "plain",
    "plain_number",
    "shown_path",
    "strict_decoder",
]
