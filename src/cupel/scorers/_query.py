"""The query of a run, for the scorers that need one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel._checks import as_text, shown
from cupel.errors import ScorerConfigError

if TYPE_CHECKING:
    from cupel.scorers._base import Scorer


def checked_query(query: object) -> str:
    """Return a query that says something."""
    text = as_text("query", query)
    if not text.strip():
        msg = f"query must not be empty, got {shown(query)}"
        raise ScorerConfigError(msg)
    return text


def required_query(scorer: Scorer, query: str | None) -> str:
    """Return the query a scorer is bound to, or say how to give it one."""
    if query is None:
        msg = f"{type(scorer).__name__} needs a query: pass query=... to the run, or --query to the command"
        raise ScorerConfigError(msg)
    return query
