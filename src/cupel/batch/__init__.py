"""Many selections at once: over files, on one machine or on a cluster."""

from cupel.batch._errors import BatchError
from cupel.batch._run import BatchProgress, BatchSummary, run_batch
from cupel.batch._selector import BatchSelector

__all__ = ["BatchError", "BatchProgress", "BatchSelector", "BatchSummary", "run_batch"]
