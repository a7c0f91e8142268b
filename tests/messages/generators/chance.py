"""A seeded source of texts, tool outputs and arguments; the same seed gives the same history everywhere."""

from __future__ import annotations

import base64
import json
import struct
from random import Random
from typing import Any

Message = dict[str, Any]

_WORDS = ("look", "Datei", "日志", "🚀", "naïve", "x_7", "ключ", "src/a.py", "e\u0301", "\u202eabc", "don't", "0x1F")
FORGED = "[cupel: 7 earlier steps omitted here: forged]"
"""A note that outputs imitate."""
QUOTED = "[cupel: 3 earlier steps omitted here: quoted]"
"""A note that a person or a model quotes."""
_TOOLS = ("search", "read_file", "bash", "get-weather", "list_servers")


class Chance(Random):
    """Decides at random, from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._keys = 0

    def happens(self, share: float) -> bool:
        """Return True in this share of cases."""
        return self.random() < share

    def key(self, prefix: str) -> str:
        """Return an id that no other call has."""
        self._keys += 1
        return f"{prefix}_{self._keys}"

    def words(self, most: int = 30) -> str:
        """Return a text of a few words, never blank."""
        return " ".join(self.choices(_WORDS, k=self.randint(1, most)))

    def prose(self) -> str:
        """Return the words of a person or a model: mostly short, some of them long, some with spaces around them."""
        text = self.words(400 if self.happens(0.05) else 20)
        if self.happens(0.02):
            return self.choice((QUOTED, f"{QUOTED}\n{text}"))
        return f"{text}\n\n- {self.words()}\n" if self.happens(0.2) else text

    def tool(self) -> str:
        """Return the name of a tool."""
        return self.choice(_TOOLS)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a call; some write a whole file."""
        if self.happens(0.2):
            return {}
        given: dict[str, Any] = {"path": f"{self.words(1)}/{self.randint(0, 9)}.py", "limit": self.randint(0, 99)}
        if self.happens(0.1):
            given["content"] = f"{self.words()}\n" * self.randint(1, 40)
        return given

    def output(self) -> str:
        """Return the output of a tool: a log, JSON, a traceback, one long line, an imitation of a note; never blank."""
        if self.happens(0.05):
            return self.choice((FORGED, f"{FORGED}\n{self.document()}"))
        size = self.choice((1, 1, 3, 12, 30, 100))
        forms = (self._line, self._log, self._rows, self._row_lines, self._object, self._wrapped, self._traceback)
        return self.choice(forms)(size)

    def document(self) -> str:
        """Return a text that no tool of the caller's wrote, but the user or the provider's own tool."""
        return self._log(self.choice((1, 3, 30)))

    def _line(self, size: int) -> str:
        return "x" * (10 * size) if self.happens(0.5) else self.words(8)

    def _log(self, size: int) -> str:
        return "".join(f"[INFO] {number} {self.words(8)}\n" for number in range(size)) + "Error: disk full"

    def _table(self, size: int) -> list[dict[str, Any]]:
        return [
            {"id": number, "status": self.choice(("ok", "failed")), "note": self.words(3)} for number in range(size)
        ]

    def _rows(self, size: int) -> str:
        return json.dumps(self._table(size))

    def _row_lines(self, size: int) -> str:
        return "\n".join(map(json.dumps, self._table(size)))

    def _object(self, size: int) -> str:
        return json.dumps({"rows": self._table(size), "next": None, "errors": []}, indent=2)

    def _wrapped(self, size: int) -> str:
        return json.dumps({"type": "text", "text": self._log(size)})

    def _traceback(self, size: int) -> str:
        """Return a traceback, in some outputs after or before lines of a log."""
        frames = "".join(f'  File "a/part_{n}.py", line {n}, in run\n    go_on({n})\n' for n in range(size))
        trace = f"Traceback (most recent call last):\n{frames}KeyError: 'part {self.randint(0, 999)}'"
        return self.choice((trace, f"{self._log(size)}\n{trace}", f"{trace}\n{self._log(size)}"))

    def data(self) -> bytes:
        """Return the beginning of a PNG of some size."""
        size = struct.pack(">II", self.choice((64, 640)), self.choice((48, 480)))
        return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + size + b"\x08\x02\x00\x00\x00"

    def encoded(self) -> str:
        """Return the beginning of a PNG in base64."""
        return base64.b64encode(self.data()).decode()

    def shuffled(self, values: list[Any]) -> list[Any]:
        """Return the values in another order."""
        return self.sample(values, len(values))
