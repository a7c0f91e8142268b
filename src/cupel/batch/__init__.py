"""Many selections at once: over files, on one machine or on a cluster."""

from cupel.batch._course import BatchProgress
from cupel.batch._errors import BatchError, BatchFailedError
from cupel.batch._run import BatchSummary, run_batch
from cupel.batch._selector import BatchSelector

__all__ = ["BatchError", "BatchFailedError", "BatchProgress", "BatchSelector", "BatchSummary", "run_batch"]
