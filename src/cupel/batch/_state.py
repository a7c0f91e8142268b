"""What a job leaves on disk while it runs, so that it can be interrupted at any moment and taken up again."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from cupel.batch._errors import BatchError
from cupel.batch._files import sync_directory, whole
from cupel.batch._job import Form, Job
from cupel.batch._shard import Shard, ShardResult
from cupel.model import ContextBudget

_EDGE: Final = 1 << 16


class Manifest(msgspec.Struct, frozen=True):
    """What a job was asked to do; a run may only go on with parts whose manifest says the same."""

    id: str
    """Part of the names of the job's files: a straggler of a discarded job cannot write into its successor's parts."""
    input: dict[str, Any]
    policy: dict[str, Any]
    budget: dict[str, Any] | None
    report: bool
    output_form: Form
    now: str
    shards: list[Shard]

    def differences(self, other: Manifest) -> list[str]:
        """Name what the two jobs do not have in common."""
        return [name for name in ("input", "policy", "budget", "report") if getattr(self, name) != getattr(other, name)]


def fingerprint(path: Path) -> dict[str, Any]:
    """Tell one state of a file from another without reading it all: size, time of change, and both ends."""
    status = path.stat()
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as stream:
        digest.update(stream.read(_EDGE))
        stream.seek(max(0, status.st_size - _EDGE))
        digest.update(stream.read(_EDGE))
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "ends": digest.hexdigest()}


def with_clock(document: dict[str, Any] | list[Any] | str | float | None, now: str) -> Any:
    """Give a policy document in which every decay measures from the same moment, also after an interruption."""
    if isinstance(document, list):
        return [with_clock(entry, now) for entry in document]
    if not isinstance(document, dict):
        return document
    settled = {key: with_clock(value, now) for key, value in document.items()}
    return {"now": now, **settled} if settled.get("type") == "decay" else settled


def current_instant() -> str:
    """Give the moment a job begins, as policies write moments."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def budget_document(budget: ContextBudget | None) -> dict[str, Any] | None:
    """Give a budget as plain values."""
    if budget is None:
        return None
    slots = {str(kind): tokens for kind, tokens in budget.reserved_slots.items()}
    return {**msgspec.structs.asdict(budget), "reserved_slots": slots}


class Parts:
    """The directory beside the output that holds the manifest and the finished shards."""

    def __init__(self, output: Path) -> None:
        self.path = output.with_name(f"{output.name}.parts")
        self._manifest = self.path / "job.json"

    def take_up(self, asked: Manifest, *, resume: bool, restart: bool) -> Manifest | None:
        """Give the manifest of an interrupted run to go on with; None to start afresh."""
        if restart or not self._manifest.exists() or not any(self.path.glob("*.done.json")):
            return None
        if not resume:
            msg = f"{self.path} holds an interrupted run: go on with it (--resume) or discard it (--restart)"
            raise BatchError(msg)
        try:
            found = msgspec.json.decode(self._manifest.read_bytes(), type=Manifest)
        except msgspec.MsgspecError as error:
            msg = f"{self._manifest} cannot be read: {error}; discard the run (--restart)"
            raise BatchError(msg) from None
        differences = asked.differences(found)
        if differences:
            msg = (
                f"{self.path} holds a run that cannot be resumed, since this differs: {', '.join(differences)}; "
                "ask for the same again, or discard it (--restart)"
            )
            raise BatchError(msg)
        return found

    def begin(self, manifest: Manifest) -> None:
        """Make an empty directory with a manifest in it."""
        self._check_ours()
        self.remove()
        self.path.mkdir(exist_ok=True)
        with whole(self._manifest) as draft:
            draft.write_bytes(msgspec.json.encode(manifest))
        sync_directory(self.path)

    def accounts(self, job: Job, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        """Give the accounts of the shards that are complete, one at a time, in order."""
        for shard in shards:
            try:
                yield msgspec.json.decode(job.account(shard.index).read_bytes(), type=ShardResult)
            except FileNotFoundError:
                continue

    def remove(self) -> None:
        """Delete the directory, as far as no straggler is writing into it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _check_ours(self) -> None:
        """Never delete a directory that some other program made."""
        if self._manifest.exists() or not self.path.exists():
            return
        if any(not entry.name.startswith(f".{self._manifest.name}.") for entry in self.path.iterdir()):
            msg = f"{self.path} is in the way: it is not the directory of an interrupted run"
            raise BatchError(msg)
