"""The one optional dependency of this package."""

from __future__ import annotations

from importlib.util import find_spec

from cupel.errors import MissingExtraError


def require_hypothesis() -> None:
    """Raise if Hypothesis is not installed, saying which extra brings it."""
    try:
        found = find_spec("hypothesis")
    except ValueError:  # a module that stands in for it and has no spec
        found = None
    if found is None:
        raise MissingExtraError("hypothesis", "testing")
