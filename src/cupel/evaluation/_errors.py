"""What can be wrong with a measurement."""

from __future__ import annotations

from cupel.errors import CupelError


class EvaluationError(CupelError, ValueError):
    """Cases, recordings or the questions asked of them cannot be used; the message says which and why."""
