"""Compare the estimate with o200k_base on texts of many kinds: generated ones, this project's own, and prose.

The estimate was calibrated on other seeds, on other pages and modules, and on the paragraphs named `calibration`.
"""

from __future__ import annotations

import base64
import json
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.tables import markdown
from cupel.tokens import CharacterEstimate, TiktokenCounter

HERE = Path(__file__).parent
ROOT = HERE.parent
WORDS = """
    account active archive branch cache client created customer deleted disk email error failed index invoice item
    latency memory message name node order owner parent payment pending price queue region request retry server
    shipped size status storage tags task timeout title token total type updated user version warning worker
""".split()  # noqa: SIM905


def texts(seed: int, paragraphs: str = "held out") -> Iterator[tuple[str, str]]:
    """Each kind of text, from a seed."""
    choose = random.Random(seed)
    records = [_record(choose) for _ in range(150)]
    yield "JSON", json.dumps(records)
    yield "JSON without spaces", json.dumps(records, separators=(",", ":"))
    yield "JSON, indented", json.dumps(records, indent=2)
    inside = json.dumps({"type": "text", "text": json.dumps(records[:50])})
    yield "JSON inside JSON", inside
    yield "JSON inside JSON, twice", json.dumps({"type": "text", "text": inside})
    yield "logs", "\n".join(_log_line(choose) for _ in range(200))
    yield "HTML", _html(choose)
    yield "CSV of numbers", "\n".join(",".join(f"{choose.random() * 999:.3f}" for _ in range(6)) for _ in range(150))
    yield "UUIDs", "\n".join(str(_uuid(choose)) for _ in range(200))
    yield "base64", base64.b64encode(choose.randbytes(6_000)).decode()
    yield "hexadecimal", choose.randbytes(4_000).hex()
    yield "Python", _files("src/cupel", "*.py", choose)
    yield "Markdown", _files("docs", "*.md", choose)
    for language, written in json.loads((HERE / "languages.json").read_text("utf-8"))[paragraphs].items():
        yield language, "\n".join(written)


def _record(choose: random.Random) -> dict[str, Any]:
    first, second, third = choose.sample(WORDS, 3)
    return {
        "id": choose.randrange(10**6),
        first: f"{second}-{choose.randrange(99)}",
        "details": {second: choose.choice(WORDS), third: round(choose.random(), 4), "ok": choose.random() < 0.5},
        "tags": choose.sample(WORDS, 2),
        "created_at": _time(choose),
    }


def _time(choose: random.Random) -> str:
    day = f"2026-{choose.randint(1, 12):02}-{choose.randint(1, 28):02}"
    return f"{day}T{choose.randrange(24):02}:{choose.randrange(60):02}:07Z"


def _log_line(choose: random.Random) -> str:
    level, one, other = choose.choice(("INFO", "WARN", "DEBUG", "ERROR")), *choose.sample(WORDS, 2)
    return (
        f"{_time(choose)} {level} [{one}-{choose.randrange(9)}] {other} {choose.choice(WORDS)} in "
        f"{choose.randrange(900)} ms, id={_uuid(choose)} path=/api/v2/{one}s/{choose.randrange(10**5)}"
    )


def _html(choose: random.Random) -> str:
    rows = (
        f'<tr class="{one}"><td><a href="/{one}/{choose.randrange(10**4)}">{one.title()} {other}</a></td>'
        f'<td class="number">{choose.randrange(10**4) / 100}</td></tr>\n'
        for one, other in (choose.sample(WORDS, 2) for _ in range(120))
    )
    return f"<html>\n<body>\n<table>\n{''.join(rows)}</table>\n</body>\n</html>\n"


def _uuid(choose: random.Random) -> uuid.UUID:
    return uuid.UUID(int=choose.getrandbits(128), version=4)


def _files(folder: str, pattern: str, choose: random.Random) -> str:
    return "\n".join(path.read_text("utf-8") for path in choose.sample(sorted((ROOT / folder).rglob(pattern)), 6))


def measure_estimate(seed: int = 2026) -> list[dict[str, Any]]:
    """Tokens of each kind: counted, estimated, and at four bytes to the token."""
    counters = {
        "o200k_base": TiktokenCounter("o200k_base"),
        "estimate": CharacterEstimate(),
        "bytes": CharacterEstimate(bytes_per_token=4.0),
    }
    return [
        {"text": kind, **{name: counter.count(text) for name, counter in counters.items()}}
        for kind, text in texts(seed)
    ]


def table(rows: list[dict[str, Any]]) -> str:
    """Both estimates, as shares of the tokens counted."""
    return markdown(
        ["text", "o200k_base", "`CharacterEstimate()`", "four bytes a token"],
        (
            [
                row["text"],
                f"{row['o200k_base']:,}",
                *(f"{row[name] / row['o200k_base']:.2f}" for name in ("estimate", "bytes")),
            ]
            for row in rows
        ),
    )
