"""Stage 4: highest score first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel._columns import descending

if TYPE_CHECKING:
    from cupel._columns import Candidates


def sort(candidates: Candidates) -> Candidates:
    """Order candidates by score; equal scores keep their input order."""
    return candidates.at(descending(candidates.scores))
