"""The files of a job beside its output: the lock, the manifest and its parts, the record of a finished job."""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec

import cupel.policy
from cupel._internal.checks import shown
from cupel._internal.documents import BUDGET
from cupel._internal.files import move, sync_directory, whole
from cupel._version import __version__
from cupel.batch._selector import BatchSelector
from cupel.batch._source import BatchError, FileFormat, Fingerprint, Shard, Source
from cupel.errors import MissingExtraError

_NOTE: Final = "cupel-batch: "
_PATIENCE: Final = 0.2
"""Seconds to wait for a lock, so that a run that is just ending does not refuse the next."""


@contextmanager
def locked(target: Path) -> Generator[None, None, None]:
    """Keep other runs, of any process, from writing to `target`; the kernel releases the lock of a killed process."""
    try:
        from filelock import FileLock, Timeout
    except ImportError:
        raise MissingExtraError("filelock", "batch") from None
    path = target.with_name(f"{target.name}.lock")
    holder = _holder(path)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=_PATIENCE)
    except Timeout:
        holder = holder or _holder(path) or "it has just begun"
        raise BatchError(f"{target} is being written by another run: {holder}") from None
    except OSError as error:
        raise BatchError(f"{target}: cannot be written there: {error.strerror or error}") from None
    try:
        with suppress(OSError):  # on a full disk the lock holds without a note
            since = datetime.now(UTC).isoformat(timespec="seconds")
            path.write_text(f"{_NOTE}process {os.getpid()} on {socket.gethostname()}, since {since}", encoding="utf-8")
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file; the next run takes it over
            path.unlink()
        lock.release()


def _holder(path: Path) -> str:
    """Return the note of the run that holds a lock; refuse a file that is not a lock of a run."""
    try:
        is_file = stat.S_ISREG(path.lstat().st_mode)
        note = path.read_bytes()[:1000].decode(errors="replace") if is_file else ""
    except OSError:  # absent, or locked against reading
        return ""
    if not is_file or (note and not note.startswith(_NOTE)):
        raise BatchError(f"{path} is in the way: it is not the lock of a run; move it elsewhere")
    return note.removeprefix(_NOTE)


_OUR_FILES: Final = re.compile(
    r"\.?(job\.json|input\.jsonl|done\.jsonl|output|errors|record|\d{6,}-[0-9a-f]{32}\.(arrow|jsonl|errors\.jsonl))"
    r"(\.\d+-[0-9a-f]{8})?|\.nfs\w+"
)


class Manifest(msgspec.Struct, frozen=True, tag_field="job", tag="cupel-batch"):
    """The question that a job answers; a run continues only with parts whose manifest asks the same."""

    id: str
    """Part of the names of the job's files: a straggler of a discarded job cannot write into the parts of the next."""
    cupel: str
    """The version that began the job."""
    input: Fingerprint
    policy: dict[str, Any]
    budget: dict[str, Any] | None
    report: bool
    max_row_bytes: int
    output_format: FileFormat
    now: str
    """The moment the job began, as policies write moments."""
    shards: list[Shard]
    seal: str = ""
    """The digest of all other fields, to recognise a manifest that was edited or damaged."""

    @classmethod
    def asking(cls, selector: BatchSelector, output_format: FileFormat, max_row_bytes: int) -> Manifest:
        """Describe a job whose input has not been read yet."""
        return cls(
            id=uuid4().hex,
            cupel=__version__,
            input=Fingerprint(0, ""),
            policy=cupel.policy.to_dict(selector.policy),
            budget=None if selector.budget is None else BUDGET.write(selector.budget),
            report=selector.report,
            max_row_bytes=max_row_bytes,
            output_format=output_format,
            now=datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            shards=[],
        )

    def selector(self) -> BatchSelector:
        """Return the selector that the job began with, at the moment it began."""
        budget = None if self.budget is None else BUDGET.read(self.budget)
        return BatchSelector(cupel.policy.from_dict(_with_clock(self.policy, self.now)), budget, self.report)

    def differences(self, other: Manifest) -> list[str]:
        """Name the fields in which two jobs differ."""
        names = ("input", "policy", "budget", "report", "max_row_bytes", "cupel")
        return [name for name in names if getattr(self, name) != getattr(other, name)]

    def check_same(self, other: Manifest, parts: Path) -> None:
        """Refuse to continue a job with another one's parts."""
        names = [f"cupel ({other.cupel} began it)" if name == "cupel" else name for name in self.differences(other)]
        if names:
            raise BatchError(
                f"{parts} holds a run that cannot be resumed, since this differs: {', '.join(names)}; "
                "repeat the same command, or discard the run (--restart)"
            )


def _seal(record: Manifest | Finished) -> str:
    return sha256(msgspec.json.encode(msgspec.structs.replace(record, seal=""))).hexdigest()


def _with_clock(document: dict[str, Any] | list[Any] | str | float | None, now: str) -> Any:
    """Return a policy document in which every decay measures from `now`, also after an interruption."""
    if isinstance(document, list):
        return [_with_clock(entry, now) for entry in document]
    if not isinstance(document, dict):
        return document
    fields = {key: _with_clock(value, now) for key, value in document.items()}
    return {"now": now, **fields} if fields.get("type") == "decay" else fields


class Parts:
    """The directory beside the output that holds the manifest, the finished shards and the journal that lists them.

    The manifest is written last and deleted first: a directory without one was left by a killed run and is emptied by
    the next. A directory with files that no job has made is refused.
    """

    def __init__(self, outputs: Outputs) -> None:
        self.path = outputs.output.with_name(f"{outputs.output.name}.parts")
        self.journal = self.path / "done.jsonl"
        self._manifest = self.path / "job.json"

    def take_up(self, *, resume: bool, restart: bool) -> Manifest | None:
        """Return the manifest of an interrupted run to continue; None, with an empty directory, to start a new one."""
        self._refuse_strangers()
        if restart or not self._manifest.exists() or not self._has_results():
            self.remove()
            self.path.mkdir()
            return None
        if not resume:
            raise BatchError(f"{self.path} holds an interrupted run: continue it (--resume) or discard it (--restart)")
        try:
            found = msgspec.json.decode(self._manifest.read_bytes(), type=Manifest)
        except msgspec.MsgspecError as error:
            raise BatchError(f"{self._manifest} cannot be read: {error}; discard the run (--restart)") from None
        if found.seal != _seal(found):
            raise BatchError(f"{self._manifest} was edited or is damaged; discard the run (--restart)")
        return found

    def begin(self, manifest: Manifest) -> None:
        """Write the manifest, when everything else that the job needs is in place."""
        with whole(self._manifest) as file:
            file.write_bytes(msgspec.json.encode(msgspec.structs.replace(manifest, seal=_seal(manifest))))
        sync_directory(self.path)

    def remove(self) -> None:
        """Delete the directory, unless a straggler is still writing into it."""
        self._manifest.unlink(missing_ok=True)
        sync_directory(self.path)
        with suppress(OSError):
            for file in self.path.iterdir():
                if _OUR_FILES.fullmatch(file.name):
                    file.unlink(missing_ok=True)
            self.path.rmdir()

    @contextmanager
    def removed_without_manifest(self) -> Generator[None, None, None]:
        """Delete the directory at the end of the block, unless there is a job in it."""
        try:
            yield
        finally:
            if not self._manifest.exists():
                self.remove()

    def _has_results(self) -> bool:
        return self.journal.exists() and self.journal.stat().st_size > 0

    def _refuse_strangers(self) -> None:
        if not os.path.lexists(self.path):
            return
        reason = "no run has made it"
        if self.path.is_dir() and not self.path.is_symlink():
            strangers = sorted(path.name for path in self.path.iterdir() if not _OUR_FILES.fullmatch(path.name))
            if not strangers:
                return
            reason = f"it holds {shown(strangers[0])}, which no run has made"
        raise BatchError(f"{self.path} is in the way: {reason}; move it elsewhere")


class Finished(msgspec.Struct, frozen=True, tag_field="job", tag="cupel-batch-finished"):
    """The record beside an output of the job that made it, so that the same job is not run again."""

    asked: Manifest
    written: int
    errors: int
    size: int
    mtime_ns: int
    seal: str = ""


@dataclass(frozen=True, slots=True)
class Outputs:
    """The files that a job writes, with links resolved, so that one file has one name."""

    output: Path

    @classmethod
    def named(cls, output: str | Path) -> Outputs:
        """Resolve the path of an output."""
        return cls(Path(os.path.realpath(output)))

    @property
    def errors(self) -> Path:
        """The path of the list of bad rows."""
        return self.output.with_name(f"{self.output.name}.errors.jsonl")

    @property
    def record(self) -> Path:
        """The path of the record of the job that made the output."""
        return self.output.with_name(f"{self.output.name}.job.json")

    def check(self, source: Source) -> None:
        """Refuse to overwrite the input, or a file that another program made."""
        if self.output.is_dir():
            raise BatchError(f"{self.output} is a directory; name a file in it")
        if not self.output.parent.is_dir():
            raise BatchError(f"{self.output}: the directory {self.output.parent} does not exist")
        if self.output.exists() and not self.output.is_file():
            raise BatchError(
                f"{self.output} is not a file; a job moves its output into place as a whole, which needs a regular file"
            )
        for path in (self.output, self.errors, self.record):
            if source.is_at(path):
                name = "the input itself" if path == self.output else f"the input, and {path.name} is written too"
                raise BatchError(f"{path} is {name}")
        for path, start in ((self.errors, b'{"row":'), (self.record, b'{"job":"cupel-batch')):
            if not _begins_with(path, start):
                raise BatchError(f"{path} is in the way: no job has written it; move it elsewhere")

    def finished(self, asked: Manifest) -> Finished | None:
        """Return the record of the same job, if the output has not changed since."""
        try:
            found = msgspec.json.decode(self.record.read_bytes(), type=Finished)
            status = self.output.stat()
        except (FileNotFoundError, msgspec.MsgspecError):
            return None
        unchanged = (status.st_size, status.st_mtime_ns) == (found.size, found.mtime_ns) and found.seal == _seal(found)
        return found if unchanged and not asked.differences(found.asked) else None

    def keep_record(self, asked: Manifest, written: int, errors: int, draft: Path) -> Finished:
        """Write the record of the job that made the output, which is in place, through a draft."""
        status = self.output.stat()
        record = Finished(
            msgspec.structs.replace(asked, shards=[]), written, errors, status.st_size, status.st_mtime_ns
        )
        record = msgspec.structs.replace(record, seal=_seal(record))
        draft.write_bytes(msgspec.json.encode(record))
        move(draft, self.record)
        return record


def _begins_with(path: Path, start: bytes) -> bool:
    """Return whether a file is absent, empty, or begins as a job's file does."""
    if not path.exists():
        return True
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        found = stream.read(len(start))
    return not found or found == start
