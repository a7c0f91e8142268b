"""Provider chat histories in, a request that the provider accepts out.

`fit` keeps what matters most of a history within a token budget, without ever separating a tool call from its result,
reasoning from what it led to, or the conversation from its system prompt. `to_items` and `from_items` are its two
halves. `MessageSession` does so turn by turn, and keeps the provider's prompt cache.
"""

from cupel.integrations.messages._dialect import Provider, provider_of
from cupel.integrations.messages._fit import fit
from cupel.integrations.messages._framework import FitOptions, Framework
from cupel.integrations.messages._history import POSITIONS_KEY
from cupel.integrations.messages._items import from_items, to_items
from cupel.integrations.messages._parts import Part
from cupel.integrations.messages._pins import SystemMessages
from cupel.integrations.messages._policy import newest_first
from cupel.integrations.messages._results import Dropped, Fitted, Turn
from cupel.integrations.messages._selection import PinnedMessagesExceedBudgetError
from cupel.integrations.messages._session import MessageSession
from cupel.slicers import BestFirstSlice

__all__ = [
    "POSITIONS_KEY",
    "BestFirstSlice",
    "Dropped",
    "FitOptions",
    "Fitted",
    "Framework",
    "MessageSession",
    "Part",
    "PinnedMessagesExceedBudgetError",
    "Provider",
    "SystemMessages",
    "Turn",
    "fit",
    "from_items",
    "newest_first",
    "provider_of",
    "to_items",
]
