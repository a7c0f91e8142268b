"""The best total value under forms, groups, requirements, exclusive sets and limits per kind, with a proven bound."""

from cupel._optimum._highs import check_solver
from cupel._optimum._problem import Block, Cap, Floor, Member, Option, Problem
from cupel._optimum._solve import Answer, Effort, solve

__all__ = [
    "Answer",
    "Block",
    "Cap",
    "Effort",
    "Floor",
    "Member",
    "Option",
    "Problem",
    "check_solver",
    "solve",
]
