"""Sessions: windows that remember the last request, and bills for each request.

Providers charge a tenth for a prompt prefix that they have seen before. A window that is selected from scratch on every
turn loses that. A session makes only changes that pay, and reports the cost of each request: `Session` for items,
`cupel.messages.MessageSession` for chat histories.
"""

from cupel._planning import Bill, Change, Prices
from cupel.sessions._session import Session, SessionResult

__all__ = ["Bill", "Change", "Prices", "Session", "SessionResult"]
