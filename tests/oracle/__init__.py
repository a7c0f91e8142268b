"""A slow, literal transcription of the specification's pseudocode, as its rulings amend it.

The law tests compare the library with this package, so nothing here may import `cupel`: strategies are the plain
mappings that `cupel.policy.to_dict` writes, items and budgets are the small records of `records`, and every loop is the
loop of the specification, quadratic or worse.
"""

from tests.oracle.pipeline import Outcome, run
from tests.oracle.placers import place
from tests.oracle.records import Budget, Item, OracleError
from tests.oracle.scorers import score, score_all
from tests.oracle.slicers import Choice, choose

__all__ = ["Budget", "Choice", "Item", "OracleError", "Outcome", "choose", "place", "run", "score", "score_all"]
