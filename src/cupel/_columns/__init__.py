"""Columns of candidates, and the orders that scoring, slicing, placing and reporting share."""

from cupel._columns._candidates import Candidates, Items, Picked
from cupel._columns._identity import positions_of
from cupel._columns._order import ascending, descending

__all__ = [
    "Candidates",
    "Items",
    "Picked",
    "ascending",
    "descending",
    "positions_of",
]
