"""Deciding, turn by turn, what a window that remembers its last request keeps, and what that costs.

Both kinds of session share it: items (`cupel.sessions`) and chat histories (`cupel.messages`) are turned
into candidates, and what is decided is turned back.
"""

from cupel._planning._bill import Bill
from cupel._planning._notebook import turn_html
from cupel._planning._pool import Candidate, Entry, FormOption, Pool, TurnTerms
from cupel._planning._prices import Prices
from cupel._planning._remembering import Remembering
from cupel._planning._state import State
from cupel._planning._turn import Action, Change, Decision, Opening, decide
from cupel._planning._usage import MOST_TOKENS

__all__ = [
    "MOST_TOKENS",
    "Action",
    "Bill",
    "Candidate",
    "Change",
    "Decision",
    "Entry",
    "FormOption",
    "Opening",
    "Pool",
    "Prices",
    "Remembering",
    "State",
    "TurnTerms",
    "decide",
    "turn_html",
]
