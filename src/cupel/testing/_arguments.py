"""What the assertions accept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel.diagnostics import ExclusionReason
from cupel.model import ContextKind

if TYPE_CHECKING:
    from collections.abc import Callable


def require_kind(kind: ContextKind | str) -> ContextKind:
    """Give the kind; the spelling is kept for the message."""
    return ContextKind.of(kind)


def require_type(name: str, value: object, expected: type) -> None:
    """Refuse a value of another type."""
    if not isinstance(value, expected):
        raise TypeError(f"{name} must be a {expected.__name__}, got {type(value).__name__}: {value!r}")


def require_count(n: object, name: str = "n", *, least: int | None = 0) -> int:
    """Give the number if it is an integer, not under `least`."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"{name} must be an integer, got {type(n).__name__}: {n!r}")
    if least is not None and n < least:
        raise ValueError(f"{name} must be at least {least}, got {n}")
    return n


def require_threshold(threshold: object) -> float:
    """Give the threshold as a float."""
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)):
        raise TypeError(f"threshold must be a number, got {type(threshold).__name__}: {threshold!r}")
    return float(threshold)


def require_predicate(predicate: object) -> None:
    """Refuse what cannot be called."""
    if not callable(predicate):
        raise TypeError(f"predicate must be callable, got {type(predicate).__name__}: {predicate!r}")


def require_reason(reason: object) -> tuple[str, Callable[[ExclusionReason], bool]]:
    """Give the reason's name and a test for it, which ignores the reason's fields (ruling 12.5)."""
    if isinstance(reason, type) and issubclass(reason, ExclusionReason) and reason is not ExclusionReason:
        wanted = reason
        return wanted.__name__, lambda found: isinstance(found, wanted)
    if isinstance(reason, ExclusionReason):
        variant, label = type(reason), reason.name
        return label, lambda found: type(found) is variant and found.name == label
    if isinstance(reason, str) and reason:
        return reason, lambda found: found.name == reason
    raise TypeError(f"reason must be a class of ExclusionReason, an instance or a name, got {reason!r}")
