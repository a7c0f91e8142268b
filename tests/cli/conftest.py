"""Running the command as a person in an empty folder does."""

import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from cupel.cli import main
from cupel.demo import session_text


@dataclass
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cupel(folder, capsys, monkeypatch):
    """Run `cupel ...` in an empty folder; `stdin` is what it can read from `-`."""

    def run(*arguments: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def session(folder) -> str:
    (folder / "session.jsonl").write_text(session_text(), encoding="utf-8")
    return "session.jsonl"
