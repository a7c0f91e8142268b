"""What the assertions accept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cupel._checks import shown
from cupel.diagnostics import ExclusionReason
from cupel.model import ContextKind

if TYPE_CHECKING:
    from collections.abc import Callable


def require_kind(kind: ContextKind | str) -> ContextKind:
    """Return the kind; the spelling is kept for the message."""
    return ContextKind.of(kind)


def require_reason(reason: Any) -> tuple[str, Callable[[ExclusionReason], bool]]:
    """Return the reason's name and a test for it, which ignores the reason's fields (ruling 12.5)."""
    given: object = reason
    if isinstance(reason, type) and issubclass(reason, ExclusionReason) and reason is not ExclusionReason:
        wanted = reason
        return wanted.__name__, lambda found: isinstance(found, wanted)
    if isinstance(reason, ExclusionReason):
        variant, label = type(reason), reason.name
        return label, lambda found: type(found) is variant and found.name == label
    if isinstance(reason, str) and reason:
        return reason, lambda found: found.name == reason
    raise TypeError(f"reason must be a class of ExclusionReason, an instance or a name, got {shown(given)}")
