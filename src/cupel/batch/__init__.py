"""Selections for files and tables of requests, on one machine or on a cluster."""

from cupel.batch._run import BatchProgress, BatchSummary, run_batch
from cupel.batch._selector import BatchSelector
from cupel.batch._source import BatchError, BatchFailedError

__all__ = ["BatchError", "BatchFailedError", "BatchProgress", "BatchSelector", "BatchSummary", "run_batch"]
