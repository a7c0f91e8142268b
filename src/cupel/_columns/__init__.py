"""Columns of candidates, and the orders that scoring, slicing, placing and reporting share."""

from cupel._columns._candidates import Candidates, Items, Picked
from cupel._columns._identity import positions_of
from cupel._columns._order import LARGE, ascending, descending

__all__ = [
    "LARGE",
    "Candidates",
    "Items",
    "Picked",
    "ascending",
    "descending",
    "positions_of",
]
