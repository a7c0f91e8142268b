"""Recordings: a file for each branch, which `cupel replay` reads and from which a watcher continues."""

from __future__ import annotations

import json
import logging
import os
import secrets as random
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from cupel.errors import ConfigurationError
from cupel.watch._branches import Branch
from cupel.watch._govern import LiveBranch

MOST_BYTES: Final = 1_000_000_000
"""Bytes that all recordings may take; the oldest are deleted first."""
_MOST_FILE: Final = 100_000_000
_MOST_SECRETS: Final = 200
_log = logging.getLogger("cupel.watch")


class Recordings:
    """A folder of recordings that only its owner can read."""

    def __init__(self, folder: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder
        self._most = most_bytes
        self._secrets: deque[str] = deque(maxlen=_MOST_SECRETS)
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True)
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
        elif os.name == "posix" and folder.stat().st_mode & 0o077:
            msg = f"{folder} is open to other users: run chmod 700 {folder}, or record to another folder"
            raise ConfigurationError(msg)
        self._sizes = {path: path.stat().st_size for path in self._files()}
        self._lock = _locked(folder)

    def hide(self, secrets: Iterable[str]) -> None:
        """Remember texts that must not be written."""
        self._secrets.extend(secret for secret in secrets if secret not in self._secrets)

    def write(self, branch: Branch) -> None:
        """Write the recording of a branch, whole or not at all, without any secret."""
        try:
            data = msgspec.json.encode(branch)
        except (UnicodeEncodeError, OverflowError):  # lone surrogates, large integers
            data = json.dumps(msgspec.to_builtins(branch), ensure_ascii=False).encode("utf-8", "replace")
        for secret in sorted(self._secrets, key=len, reverse=True):
            data = data.replace(json.dumps(secret, ensure_ascii=False)[1:-1].encode(), b"[secret]")
        if len(data) > _MOST_FILE:
            _log.warning("%s is not recorded: it has %d bytes", branch.session, len(data))
            return
        path = self.folder / f"{branch.session}.json"
        draft = path.with_name(f".{path.name}.{random.token_hex(4)}")
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        self._sizes.pop(path, None)
        self._sizes[path] = len(data)
        self._rotate(path)

    def _rotate(self, newest: Path) -> None:
        """Delete the oldest recordings until the rest is small enough."""
        total = sum(self._sizes.values())
        for path, size in list(self._sizes.items()):
            if total > self._most and path != newest:
                path.unlink(missing_ok=True)
                total -= self._sizes.pop(path, size)

    def _files(self) -> list[Path]:
        """Return the recordings, the oldest first."""
        return sorted(self.folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))

    def load(self, memory: int) -> Iterator[LiveBranch]:
        """Yield the newest branches that fit into memory, the oldest of them first.

        A watcher beside another one that records to the same folder continues none of them, but begins its own.
        """
        chosen: list[Path] = []
        for path in reversed(self._sizes if self._lock is not None else ()):
            memory -= self._sizes[path]
            if memory < 0:
                break
            chosen.append(path)
        for path in reversed(chosen):
            try:
                branch = msgspec.json.decode(path.read_bytes(), type=Branch)
                if branch.session == path.stem and branch.name.isdigit():
                    yield LiveBranch.restored(branch)
            except (ValueError, LookupError, TypeError) as error:
                _log.warning("%s is not continued: %r", path, error)

    def close(self) -> None:
        """Let another watcher continue the recordings."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _locked(folder: Path) -> int | None:
    """Lock a folder until it is closed or the process ends; return None if another process has locked it."""
    try:
        import fcntl
    except ImportError:  # Windows, where folders cannot be opened
        return os.open(os.devnull, os.O_RDONLY)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError:
        pass  # a file system without locks
    return lock
