"""A window that remembers the last request, and what it costs.

Providers charge a tenth for a prompt prefix that they have seen before. A window that is selected from scratch on every
turn loses that; a session makes only changes that pay, and says what each request costs. `Session` does so for items,
`cupel.messages.MessageSession` for chat histories.
"""

from cupel._planning import Bill, Change, Prices
from cupel.sessions._session import Session
from cupel.sessions._turn import SessionResult

__all__ = ["Bill", "Change", "Prices", "Session", "SessionResult"]
