"""Policy documents: pipelines as JSON and TOML, read strictly, with a tag for each strategy.

The functions are those of `json`: `load` and `dump` for files, `loads` and `dumps` for text, `from_dict` and `to_dict`
for plain values.
"""

from cupel.policy._document import DocumentFormat, dump, dumps, from_dict, json_schema, load, loads, to_dict
from cupel.policy._registry import (
    register_placer,
    register_scorer,
    register_slicer,
    registered,
)

__all__ = [
    "DocumentFormat",
    "dump",
    "dumps",
    "from_dict",
    "json_schema",
    "load",
    "loads",
    "register_placer",
    "register_scorer",
    "register_slicer",
    "registered",
    "to_dict",
]
