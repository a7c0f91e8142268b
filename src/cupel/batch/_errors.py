"""What stops a whole job."""

from __future__ import annotations

from cupel.errors import CupelError


class BatchError(CupelError):
    """A job cannot start or go on: its input, output or state is not what it must be."""


class BatchFailedError(BatchError):
    """A job stopped on the way; the shards it has finished are kept, and `resume=True` goes on with them."""


def explained(error: BaseException) -> str:
    """Say what is wrong in one line; only errors nobody expected need their class."""
    if isinstance(error, (CupelError, TypeError, ValueError)):
        return str(error)
    return f"{type(error).__name__}: {error}"
