"""splintr makes the tokens that tiktoken makes."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from cupel.tokens import TiktokenCounter
from cupel.tokens import _tiktoken as encodings

pytest.importorskip("splintr")

SCRIPTS = ((32, 126), (0, 32), (160, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0x97F))
SCRIPTS += ((0x2000, 0x206F), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1FAFF), (1, 0xD7FF))


def mixed_texts() -> Iterator[str]:
    """Yield 5 MB: this project's code and pages, a recorded conversation, and every mixture of scripts and spaces."""
    root = Path(__file__).parents[2]
    for folder in ("src", "tests", "docs", "conformance"):
        for file in sorted((root / folder).rglob("*.*")):
            if file.suffix in {".py", ".md", ".toml", ".js", ".json", ".jsonl"}:
                yield file.read_text(encoding="utf-8")
    draw = Random(0)
    for _ in range(20_000):
        scripts = draw.sample(SCRIPTS, 3)
        text = "".join(chr(draw.randint(*draw.choice(scripts))) for _ in range(draw.randint(1, 60)))
        yield text.replace(
            draw.choice("etaoin"), draw.choice(["'s", "'LL", "  ", "\r\n", "\n\n ", "<|endoftext|>", "\ud83d"])
        )
    yield from (character * 20_000 for character in ("a", "\n", "=", "7", "é", "\u3000"))


@pytest.mark.parametrize("name", encodings.NAMES)
def test_splintr_makes_the_tokens_of_tiktoken(name: str):
    fast, exact = encodings.encode(name), encodings.encoding(name).encode_ordinary
    assert fast != exact
    size = 0
    for text in mixed_texts():
        assert [*fast(text)] == exact(text)
        size += len(text.encode("utf-8", "replace"))
    assert size > 5_000_000


def test_a_run_of_spaces_on_which_tiktoken_panics_is_counted():
    assert TiktokenCounter().count(" " * 1_000_000) > 1000
