"""Putting the answer together while its later parts are still being made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cupel._files import move
from cupel.batch._job import Job
from cupel.batch._jsonl import LineFile
from cupel.batch._shard import Shard, ShardResult


class Assembly:
    """The output file and the errors file as drafts, which grow part by part in the order of the input.

    The drafts are no state: an interrupted run leaves the parts, and the next one assembles them again.
    """

    def __init__(self, job: Job, shards: Sequence[Shard]) -> None:
        self._job = job
        self._drafts = (job.parts / "output.draft", job.parts / "errors.draft")
        self._output = job.output(self._drafts[0])
        self._errors = LineFile(self._drafts[1])
        self._ready: dict[int, ShardResult] = {}
        self._next = 0
        self._shards = len(shards)
        self.written = 0
        self.errors = 0

    def add(self, result: ShardResult) -> None:
        """Learn that a shard is done."""
        self._ready[result.index] = result
        self.written += result.written
        self.errors += result.errors

    def advance(self, most: int | None = None) -> None:
        """Append the parts whose turn has come; no more than `most`, so that nobody waits long for this process."""
        while self._next in self._ready and (most is None or most > 0):
            result = self._ready.pop(self._next)
            self._output.add(self._job.part(self._next))
            if result.errors:
                self._errors.add(self._job.faults(self._next))
            self._next += 1
            most = None if most is None else most - 1

    def close(self) -> None:
        """Close the drafts."""
        try:
            self._output.close()
        finally:
            self._errors.close()

    def finish(self, output: Path, errors_file: Path) -> None:
        """Put both files in their places, the output last; without errors there is no file of them."""
        assert self._next == self._shards  # noqa: S101  (every shard has been added)
        if self.errors:
            move(self._drafts[1], errors_file)
        else:
            errors_file.unlink(missing_ok=True)
        move(self._drafts[0], output)
