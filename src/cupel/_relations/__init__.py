"""Relations between items, read from their metadata: forms of one thing, groups, requirements and exclusive sets."""

from cupel._relations._lawful import closure, comparable, lawful
from cupel._relations._marks import Marks, are_related, check_batch, marks_of
from cupel._relations._read import read_relations
from cupel._relations._relations import Form, Pins, Relations, Thing, Unit

__all__ = [
    "Form",
    "Marks",
    "Pins",
    "Relations",
    "Thing",
    "Unit",
    "are_related",
    "check_batch",
    "closure",
    "comparable",
    "lawful",
    "marks_of",
    "read_relations",
]
