"""What a session selects."""

from __future__ import annotations

from dataclasses import dataclass, field

from cupel._planning import Action, Bill, Change, turn_html
from cupel.pipeline import ContextResult


@dataclass(frozen=True, slots=True, repr=False)
class SessionResult(ContextResult):
    """A `ContextResult` with what changed since the last one, and what it costs; the items are in order of sending."""

    action: Action = "append"
    """`"append"` where the items begin with the whole of the last selection, else `"repack"`."""
    reason: str = ""
    """The numbers that decided, in one line."""
    changes: tuple[Change, ...] = ()
    """What was evicted, shortened, restored or recalled."""
    marks: tuple[int, ...] = ()
    """Positions in `items` behind which a cache mark belongs; none where the provider finds beginnings itself."""
    bill: Bill = field(default_factory=Bill)
    """What sending the items costs: an estimate, until `observe` settles it in the session's `total`."""

    def _repr_html_(self) -> str:
        return turn_html(self.bill, self.reason, self.changes) + ContextResult._repr_html_(self)
