"""Documents: JSON and TOML within limits of our own, and the one form that items and budgets have in them."""

from cupel._wire._fields import Aside, Field, Nested
from cupel._wire._form import WireForm
from cupel._wire._json import decode_json, decode_toml, encode_json, strict_decoder
from cupel._wire._limits import MAX_DIGITS, TOO_DEEP, RefusedError, check_depth
from cupel._wire._paths import Path, at_index, at_key, shown_path
from cupel._wire._plain import is_list, is_object, plain, plain_number
from cupel._wire._tables import BUDGET, ITEM, budget_of
from cupel._wire._values import COUNT, DURATION, INSTANT, INTEGER, NUMBER, TEXT, Value

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
