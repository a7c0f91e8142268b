"""Relations between items, read from their metadata: forms of one thing, groups, requirements and exclusive sets."""

from cupel._relations._lawful import closure, lawful
from cupel._relations._marks import Marks, are_related, check_batch, marks_of
from cupel._relations._read import read_relations
from cupel._relations._relations import Form, Relations

__all__ = [
    "Form",
    "Marks",
    "Relations",
    "are_related",
    "check_batch",
    "closure",
    "lawful",
    "marks_of",
    "read_relations",
]
