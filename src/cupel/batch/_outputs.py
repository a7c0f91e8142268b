"""The files that a job may write: the output, and what lies beside it under names made from its name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cupel._files import whole
from cupel.batch._errors import BatchError
from cupel.batch._source import Source
from cupel.batch._state import Manifest


class Finished(msgspec.Struct, frozen=True, tag_field="job", tag="cupel-batch-finished"):
    """What made an output: left beside it, so that the same job need not be done again."""

    asked: Manifest
    written: int
    errors: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where a job writes to; links have been followed, so that one file has one name."""

    output: Path

    @classmethod
    def named(cls, output: str | Path) -> Outputs:
        """Find out where a path leads."""
        return cls(Path(os.path.realpath(output)))

    @property
    def errors(self) -> Path:
        """The list of bad rows."""
        return self.output.with_name(f"{self.output.name}.errors.jsonl")

    @property
    def record(self) -> Path:
        """What made the output."""
        return self.output.with_name(f"{self.output.name}.job.json")

    def check(self, source: Source) -> None:
        """Refuse to write over the input, or over what some other program has made."""
        if self.output.is_dir():
            raise BatchError(f"{self.output} is a directory; name a file in it")
        if not self.output.parent.is_dir():
            raise BatchError(f"{self.output}: the directory {self.output.parent} does not exist")
        if self.output.exists() and not self.output.is_file():
            raise BatchError(
                f"{self.output} is not a file; a job's output is put in place whole, which a pipe or a device cannot be"
            )
        for path in (self.output, self.errors, self.record):
            if source.is_at(path):
                name = "the input itself" if path == self.output else f"the input, and {path.name} is written too"
                raise BatchError(f"{path} is {name}")
        for path, start in ((self.errors, b'{"row":'), (self.record, b'{"job":"cupel-batch')):
            if not _begins_with(path, start):
                raise BatchError(f"{path} is in the way: no job has written it; move it elsewhere")

    def finished(self, asked: Manifest) -> Finished | None:
        """Return the record of the same job, if the output is still what it made."""
        try:
            found = msgspec.json.decode(self.record.read_bytes(), type=Finished)
            status = self.output.stat()
        except (FileNotFoundError, msgspec.MsgspecError):
            return None
        same = not asked.differences(found.asked) and (status.st_size, status.st_mtime_ns) == (
            found.size,
            found.mtime_ns,
        )
        return found if same else None

    def keep_record(self, asked: Manifest, written: int, errors: int) -> Finished:
        """Note what made the output that is now in place."""
        status = self.output.stat()
        record = Finished(
            msgspec.structs.replace(asked, shards=[]), written, errors, status.st_size, status.st_mtime_ns
        )
        with whole(self.record) as draft:
            draft.write_bytes(msgspec.json.encode(record))
        return record


def _begins_with(path: Path, start: bytes) -> bool:
    """Say whether a file, if there is one, begins as ours do."""
    if not path.exists():
        return True
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        found = stream.read(len(start))
    return not found or found == start
