"""What a session returns for one request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from cupel._planning import Action, Bill, Change, turn_html
from cupel.integrations.messages._fit import Fitted
from cupel.integrations.messages._marks import marked

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Turn(Fitted[M]):
    """A request of a conversation: a `Fitted` with what changed since the last one, and what it costs."""

    action: Action = "append"
    """`"append"` where this request begins with the whole of the last one, else `"repack"`."""
    reason: str = ""
    """The numbers that decided, in one line."""
    changes: tuple[Change, ...] = ()
    """What was evicted, shortened, restored or recalled, with its positions in the history."""
    marks: tuple[int, ...] = ()
    """Positions in `messages` behind which a cache mark belongs; none where the provider finds beginnings itself."""
    bill: Bill = field(default_factory=Bill)
    """What the request costs: an estimate, until `observe` settles it in the session's `total`."""

    def _repr_html_(self) -> str:
        return turn_html(self.bill, self.reason, self.changes) + super(Turn, self)._repr_html_()

    def marked(self) -> list[Any]:
        """Return the messages with Anthropic's cache marks set, in copies; for other formats, the messages.

        Marks that the messages brought along are taken off: a request may carry only so many. One of them is left for
        the caller where `tools` or `system` were given to the session: it belongs behind those.
        """
        if self.provider != "anthropic":
            return list(self.messages)
        return [marked(message, at in self.marks) for at, message in enumerate(self.messages)]
