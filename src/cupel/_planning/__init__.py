"""Plan each request of a session from the last one, and compute its cost.

Both kinds of session share it: items (`cupel.sessions`) and chat histories (`cupel.messages`) become candidates, and
decisions become selections and requests.
"""

from cupel._planning._base import BaseSession
from cupel._planning._decision import Action, Decision, Opening, TurnStart, conclude, decide
from cupel._planning._planner import Candidate, Change, Entry, FormOption, Plan, Planner, TurnTerms
from cupel._planning._prices import Bill, Prices, estimated, turn_html
from cupel._planning._state import Answer, State, settle

__all__ = [
    "Action",
    "Answer",
    "BaseSession",
    "Bill",
    "Candidate",
    "Change",
    "Decision",
    "Entry",
    "FormOption",
    "Opening",
    "Plan",
    "Planner",
    "Prices",
    "State",
    "TurnStart",
    "TurnTerms",
    "conclude",
    "decide",
    "estimated",
    "settle",
    "turn_html",
]
