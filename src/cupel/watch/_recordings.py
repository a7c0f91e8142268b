"""Recordings: a file for each branch, which `cupel replay` reads and from which a watcher continues."""

from __future__ import annotations

import json
import logging
import os
import secrets as random
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import msgspec

from cupel.errors import ConfigurationError
from cupel.sessions import Bill
from cupel.watch._govern import Ledger, Thread
from cupel.watch._reading import digests_of, opening_of
from cupel.watch._store import Branch, Conversation, WatchedTurn

MOST_BYTES: Final = 1_000_000_000
"""Bytes that all recordings may take; the oldest are deleted first."""
_MOST_FILE: Final = 100_000_000
_MOST_SECRETS: Final = 200
_KEPT: Final = ("number", "at", "model", "count", "action", "seconds", "status", "tokens", "usage", "explain", "notes")
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

    def write(self, conversation: Conversation, branch: Branch, secrets: Iterable[str]) -> None:
        """Write the recording of a branch, whole or not at all, without the secrets of any request so far."""
        text = json.dumps(_document(conversation, branch), ensure_ascii=False, default=str)
        self._secrets.extend(secret for secret in secrets if secret not in self._secrets)
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(json.dumps(secret, ensure_ascii=False)[1:-1], "[secret]")
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > _MOST_FILE:
            _log.warning("%s.%s is not recorded: it has %d bytes", conversation.name, branch.name, len(data))
            return
        path = self.folder / f"{conversation.name}.{branch.name}.json"
        draft = path.with_name(f".{path.name}.{random.token_hex(4)}")
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        self._rotate(path)

    def _rotate(self, newest: Path) -> None:
        """Delete the oldest recordings until the rest is small enough."""
        sizes = {path: path.stat().st_size for path in self._files()}
        total = sum(sizes.values())
        for path, size in sizes.items():
            if total > self._most and path != newest:
                path.unlink(missing_ok=True)
                total -= size

    def _files(self) -> list[Path]:
        """Return the recordings, the oldest first."""
        return sorted(self.folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))

    def load(self, memory: int) -> Iterator[tuple[Conversation, Branch]]:
        """Yield the newest branches that fit into memory, the oldest of them first."""
        chosen: list[Path] = []
        for path in reversed(self._files()):
            memory -= path.stat().st_size
            if memory < 0:
                break
            chosen.append(path)
        for path in reversed(chosen):
            try:
                yield _branch(path.name.removesuffix(".json"), msgspec.json.decode(path.read_bytes()))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                _log.warning("%s is not continued: %r", path, error)


def _document(conversation: Conversation, branch: Branch) -> dict[str, Any]:
    ledger = branch.ledger or Ledger.of()
    return {
        "session": f"{conversation.name}.{branch.name}",
        "title": conversation.title,
        "provider": branch.provider,
        "parent": branch.parent,
        "forked": branch.forked,
        "system": branch.system,
        "tools": branch.tools,
        "messages": [*branch.messages, *branch.answer],
        "answered": len(branch.answer),
        "parameters": branch.parameters,
        "turns": [_row(turn) for turn in list(branch.turns)],
        "states": {"governed": ledger.governed.state, "everything": ledger.everything.state},
    }


def _row(turn: WatchedTurn) -> dict[str, Any]:
    bills = {name: bill and asdict(bill) for name, bill in (("bill", turn.bill), ("appended", turn.appended))}
    return {**{name: getattr(turn, name) for name in _KEPT}, "headers": turn.headers, **bills}


def _branch(name: str, document: dict[str, Any]) -> tuple[Conversation, Branch]:
    conversation, _, number = name.rpartition(".")
    messages = document["messages"]
    asked = len(messages) - document["answered"]
    branch = Branch(
        str(int(number)),
        document["provider"],
        document["parent"],
        document["forked"],
        messages[:asked],
        messages[asked:],
        document["system"],
        document["tools"],
        document["parameters"],
    )
    branch.digests = digests_of(branch.messages)
    branch.opening = opening_of(branch.system, branch.tools)
    branch.size = len(msgspec.json.encode(branch.messages))
    states = document["states"]
    branch.ledger = Ledger(Thread(states["governed"]), Thread(states["everything"]))
    for row in document["turns"]:
        values: dict[str, Any] = {**row, **{one: row[one] and Bill(**row[one]) for one in ("bill", "appended")}}
        branch.add(WatchedTurn(**values))
    return Conversation(conversation, document["title"]), branch
