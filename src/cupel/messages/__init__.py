"""Provider chat histories in, a request that the provider accepts out.

`fit` selects messages of a history for a token budget. It never separates a tool call from its result, reasoning from
the call it led to, or the conversation from its system prompt. `to_items` and `from_items` are its two halves.
`MessageSession` fits a history turn after turn and preserves the provider's prompt cache.
"""

from cupel.messages._fit import fit
from cupel.messages._formats import Provider, has_all_pairs, provider_of, read_message
from cupel.messages._framework import FitOptions, Framework
from cupel.messages._history import POSITIONS_KEY, opening_tokens
from cupel.messages._ids import RECALL_TOOL
from cupel.messages._items import from_items, to_items
from cupel.messages._notes import NOTES_PROMPT
from cupel.messages._prices import Action, Bill, Change, Prices
from cupel.messages._reading import Thinking
from cupel.messages._recall import recall, recall_tool, within_reach
from cupel.messages._results import Dropped, Fitted, PinnedMessagesExceedBudgetError, Turn
from cupel.messages._rules import SystemMessages
from cupel.messages._session import MessageSession, default_prices
from cupel.messages._units import Message

__all__ = [
    "NOTES_PROMPT",
    "POSITIONS_KEY",
    "RECALL_TOOL",
    "Action",
    "Bill",
    "Change",
    "Dropped",
    "FitOptions",
    "Fitted",
    "Framework",
    "Message",
    "MessageSession",
    "PinnedMessagesExceedBudgetError",
    "Prices",
    "Provider",
    "SystemMessages",
    "Thinking",
    "Turn",
    "default_prices",
    "fit",
    "from_items",
    "has_all_pairs",
    "opening_tokens",
    "provider_of",
    "read_message",
    "recall",
    "recall_tool",
    "to_items",
    "within_reach",
]
