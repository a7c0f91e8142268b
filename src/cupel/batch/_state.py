"""Files of a job: its state, its shards, its output."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec

from cupel._checks import shown
from cupel._documents import BUDGET
from cupel._files import sync_directory, whole
from cupel._version import __version__
from cupel.batch._selector import BatchSelector
from cupel.batch._source import BatchError, FileFormat, Mark, Shard, Source
from cupel.policy import Policy

_ID: Final = r"[0-9a-f]{32}"
_OUR_FILES: Final = re.compile(
    rf"\.?(job\.json|input\.jsonl|output\.draft|errors\.draft|\d{{6,}}-{_ID}\.(arrow|jsonl|errors\.jsonl|done\.json))"
    r"(\.\d+-[0-9a-f]{8})?|\.nfs\w+"
)


class _Header(msgspec.Struct, frozen=True, tag_field="job", tag="cupel-batch"):
    """What every version writes into a manifest: enough to know the directory for ours."""

    id: str
    """Part of the names of the job's files: a straggler of a discarded job cannot write into its successor's parts."""
    cupel: str
    """The version that began the job."""


class Manifest(_Header, frozen=True, tag="cupel-batch"):
    """What a job was asked to do; a run may only go on with parts whose manifest says the same."""

    input: Mark
    policy: dict[str, Any]
    budget: dict[str, Any] | None
    report: bool
    output_form: FileFormat
    now: str
    """The moment the job began, as policies write moments."""
    shards: list[Shard]

    @classmethod
    def asking(cls, selector: BatchSelector, output_form: FileFormat) -> Manifest:
        """Describe a job whose input has not been read yet."""
        return cls(
            id=uuid4().hex,
            cupel=__version__,
            input=Mark(0, ""),
            policy=selector.policy.to_dict(),
            budget=None if selector.budget is None else BUDGET.write(selector.budget),
            report=selector.report,
            output_form=output_form,
            now=datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            shards=[],
        )

    def selector(self) -> BatchSelector:
        """Return the selector that the job began with, at the moment it began."""
        budget = None if self.budget is None else BUDGET.read(self.budget)
        return BatchSelector(Policy.from_dict(_with_clock(self.policy, self.now)), budget, self.report)

    def differences(self, other: Manifest) -> list[str]:
        """Name what the two jobs do not have in common."""
        names = ("input", "policy", "budget", "report", "cupel")
        return [name for name in names if getattr(self, name) != getattr(other, name)]


def _with_clock(document: dict[str, Any] | list[Any] | str | float | None, now: str) -> Any:
    """Return a policy document in which every decay measures from the same moment, also after an interruption."""
    if isinstance(document, list):
        return [_with_clock(entry, now) for entry in document]
    if not isinstance(document, dict):
        return document
    settled = {key: _with_clock(value, now) for key, value in document.items()}
    return {"now": now, **settled} if settled.get("type") == "decay" else settled


class Parts:
    """The directory beside the output that holds the manifest and the finished shards.

    It appears with its manifest and disappears by being renamed; what a kill leaves under other names is swept later.
    Nothing is deleted that is not known, by its manifest and the names in it, for a directory of ours.
    """

    def __init__(self, output: Path) -> None:
        self.path = output.with_name(f"{output.name}.parts")
        self._manifest = self.path / "job.json"

    def take_up(self, asked: Manifest, *, resume: bool, restart: bool) -> Manifest | None:
        """Return the manifest of an interrupted run to go on with; None to start afresh."""
        header = self._header()
        if header is None or restart or not any(self.path.glob("*.done.json")):
            return None
        if not resume:
            raise BatchError(
                f"{self.path} holds an interrupted run: go on with it (--resume) or discard it (--restart)"
            )
        try:
            found = msgspec.json.decode(self._manifest.read_bytes(), type=Manifest)
        except msgspec.MsgspecError as error:
            raise BatchError(f"{self._manifest} cannot be read: {error}; discard the run (--restart)") from None
        differences = asked.differences(found)
        if differences:
            names = [f"cupel ({found.cupel} began it)" if name == "cupel" else name for name in differences]
            raise BatchError(
                f"{self.path} holds a run that cannot be resumed, since this differs: {', '.join(names)}; "
                "ask for the same again, or discard it (--restart)"
            )
        return found

    @contextmanager
    def draft(self, job_id: str) -> Generator[Path, None, None]:
        """Make a directory that may become this one, and remove it if it does not."""
        self._header()
        self._sweep()
        path = self._aside(job_id)
        path.mkdir()
        try:
            yield path
        finally:
            _delete(path)

    def begin(self, draft: Path, manifest: Manifest) -> None:
        """Put a prepared directory in this place, with a manifest in it from the first moment."""
        with whole(draft / self._manifest.name) as file:
            file.write_bytes(msgspec.json.encode(manifest))
        sync_directory(draft)
        self.remove()
        draft.rename(self.path)
        sync_directory(self.path.parent)

    def remove(self) -> None:
        """Delete the directory: at one moment it is all there, at the next it is gone."""
        header = self._header()
        if header is not None:
            aside = self._aside(header.id)
            self.path.rename(aside)
            sync_directory(self.path.parent)
            _delete(aside)

    def _header(self) -> _Header | None:
        """Return who the directory belongs to; never touch one that some other program made."""
        if not os.path.lexists(self.path):
            return None
        reason = "no run has made it"
        try:
            header = msgspec.json.decode(self._manifest.read_bytes(), type=_Header)
        except (OSError, msgspec.MsgspecError):
            header = None
        if header is not None and not self.path.is_symlink():
            strangers = sorted(path.name for path in self.path.iterdir() if not _OUR_FILES.fullmatch(path.name))
            if not strangers:
                return header
            reason = f"it holds {shown(strangers[0])}, which no run has made"
        raise BatchError(f"{self.path} is in the way: {reason}; move it elsewhere")

    def _aside(self, job_id: str) -> Path:
        return self.path.with_name(f".{self.path.name}.{job_id}")

    def _sweep(self) -> None:
        """Finish the deletions that runs before this one were killed in."""
        aside = re.compile(re.escape(self._aside("").name) + _ID)
        for path in self.path.parent.iterdir():
            if aside.fullmatch(path.name):
                _delete(path)


def _delete(path: Path) -> None:
    """Delete a directory with the files of a job, as far as no straggler is writing into it."""
    with suppress(OSError):
        for file in path.iterdir():
            if _OUR_FILES.fullmatch(file.name):
                file.unlink(missing_ok=True)
        path.rmdir()


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
