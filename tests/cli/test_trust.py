"""Input and output that nobody vouches for: escapes, encodings, panics, closed streams, decompression bombs."""

import gzip
import io
import json
import os
import subprocess
import sys

import pytest

from cupel import policy as policies
from cupel.cli import main
from tests.evaluation import recordings

EVIL = "a\x1b[2Jb\x9bc\u202ed\u2066e"
SEEN = ("\x1b[2J", "\x9b", "\u202e", "\u2066")
"""Nothing of this may reach a terminal."""
UNCOUNTABLE = "a text on which the tokeniser panics"
COMMAND = [sys.executable, "-c", "import sys; from cupel.cli import main; sys.exit(main())"]


def write(folder, name, *rows):
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return name


@pytest.fixture
def evil(folder):
    """Files in which every name and every text is hostile."""
    item = {"content": EVIL, "tokens": 3, "kind": f"K{EVIL}", "tags": [EVIL, f"2{EVIL}"], "metadata": {"id": EVIL}}
    write(folder, "items.jsonl", item, {**item, "content": f"2{EVIL}", "kind": "L"})
    write(
        folder,
        "cases.jsonl",
        *({"items": [item, {**item, "content": "x"}], "needed": [0], "budget": 3, "id": EVIL},) * 3,
    )
    write(folder, "sessions.jsonl", {"session": EVIL, "messages": recordings.chat()})
    write(folder, "policy.json", {"scorer": "recency", "name": EVIL, "description": EVIL})
    write(folder, f"{EVIL}.json", {"scorer": EVIL})
    (folder / "folder").mkdir()
    write(folder, f"folder/{EVIL}.txt", EVIL)
    return folder


LINES = [
    "explain items.jsonl --budget 4",
    "explain items.jsonl --budget 4 --breakdown --counterfactual",
    "explain folder --budget 100",
    "explain items.jsonl --budget 4 --policy policy.json --format json",
    "compare items.jsonl --budget 4 --policy policy.json --policy chat",
    "compare items.jsonl --budget 4 --policy policy.json --policy chat --format json",
    "simulate items.jsonl --budget 4 --item a",
    "simulate items.jsonl --budget 4 --format json",
    "evaluate cases.jsonl --policy policy.json --policy chat --fail-below 1",
    "evaluate cases.jsonl --policy policy.json --format json",
    "replay sessions.jsonl --budget 100 --policy policy.json --fail-below 1",
    "replay sessions.jsonl --budget 900 --format json",
    "tune cases.jsonl --policy policy.json",
    "policy describe policy.json",
    "policy describe policy.json --format json",
    "policy show policy.json",
    "policy show policy.json --format toml",
    "select items.jsonl --budget 4 --policy policy.json --format json",
    "select items.jsonl --budget 4 --policy policy.json --format jsonl",
    f"select {EVIL} --budget 4",
    f"select items.jsonl --budget {EVIL}",
    f"select items.jsonl --budget 4 --policy {EVIL}",
    f"select items.jsonl --budget 4 --{EVIL}",
    f"policy validate {EVIL}.json",
    f"{EVIL}",
    f"inspect items.jsonl --budget 4 -o out-{EVIL}.html",
    f"batch items.jsonl -o out-{EVIL}.jsonl --budget 4",
]


@pytest.mark.parametrize("line", LINES)
def test_no_escape_sequence_is_printed(cupel, evil, line):
    outcome = cupel(*line.split(" "))
    assert not [text for text in SEEN if text in outcome.out + outcome.err]


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal")
@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_terminal_gets_code_points(evil, form):
    import pty

    seen = []

    def keep(descriptor):
        seen.append(os.read(descriptor, 4096))
        return b""

    pty.spawn([*COMMAND, "select", "items.jsonl", "--budget", "9", "--format", form], keep)
    text = b"".join(seen).decode()
    assert "a<U+001B>[2Jb<U+009B>c<U+202E>d<U+2066>e" in text
    assert not [part for part in SEEN if part in text]


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_pipe_gets_the_text_unchanged(cupel, evil, form):
    assert EVIL in cupel("select", "items.jsonl", "--budget", "9", "--format", form).out


def test_a_file_gets_the_text_unchanged_though_the_output_is_a_terminal(cupel, evil, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    cupel("select", "items.jsonl", "--budget", "9", "-o", "out.txt")
    assert EVIL in (evil / "out.txt").read_text(encoding="utf-8")


@pytest.fixture
def encoded(folder, monkeypatch):
    """Run `cupel ...` with a standard output of another encoding and return the bytes that it wrote."""

    def run(encoding, *arguments):
        written = io.BytesIO()
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding=encoding))
        assert main(arguments) == 0
        return written.getvalue()

    return run


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-16", "utf-8"])
@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_json_is_json_whatever_the_encoding(folder, encoded, encoding, form):
    write(folder, "u.jsonl", {"content": "é 日本 😀 \u202e", "tokens": 4})
    document = json.loads(
        encoded(encoding, "select", "u.jsonl", "--budget", "9", "--format", form, "-q").decode(encoding)
    )
    assert (document["items"][0] if form == "json" else document)["content"] == "é 日本 😀 \u202e"


@pytest.mark.parametrize("form", ["json", "toml"])
@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_a_policy_is_shown_whatever_the_encoding(folder, encoded, encoding, form):
    write(folder, "policy.json", {"scorer": "recency", "name": "é 日本 😀 \u202e"})
    shown = encoded(encoding, "policy", "show", "policy.json", "--format", form).decode()
    assert policies.loads(shown, format=form).name == "é 日本 😀 \u202e"


def run(*arguments, stdin=None, **environment):
    return subprocess.run(
        [*COMMAND, *arguments], input=stdin, capture_output=True, check=False, env={**os.environ, **environment}
    )


def test_json_of_another_encoding_can_be_read_back(folder):
    write(folder, "u.jsonl", {"content": "é", "tokens": 4})
    first = run("select", "u.jsonl", "--budget", "9", "--format", "jsonl", "-q", PYTHONIOENCODING="cp1252")
    second = run("select", "-", "--budget", "9", "-q", stdin=first.stdout, PYTHONIOENCODING="utf-8")
    assert second.stdout.decode() == "é\n"


@pytest.mark.parametrize(
    "arguments", ["select - --budget 9", "evaluate -", "replay - --budget 9", "batch - -o out.jsonl --budget 9"]
)
def test_a_closed_standard_input_is_named(folder, capsys, monkeypatch, arguments):
    monkeypatch.setattr("sys.stdin", None)  # as `<&-` leaves it
    assert main(arguments.split()) == 2
    assert "standard input is closed" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")  # noqa: PTH110
@pytest.mark.parametrize("arguments", ["--version", "presets", "select items.jsonl --budget 9", "completion bash"])
def test_a_full_disk_is_named(folder, capsys, monkeypatch, arguments):
    write(folder, "items.jsonl", {"content": "x", "tokens": 1})
    with open("/dev/full", "w") as full:  # noqa: PTH123
        monkeypatch.setattr("sys.stdout", full)
        assert main(arguments.split()) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("error: No space left on device")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")  # noqa: PTH110
def test_a_full_disk_is_named_once(folder):
    """The interpreter flushes again when it ends."""
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run([*COMMAND, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "cupel: error: No space left on device\n")


@pytest.fixture
def panicking(monkeypatch):
    """A tokeniser that panics on one text, as extensions written in Rust do."""

    class Panic(BaseException):
        pass

    def count(self, text):
        if UNCOUNTABLE in text:
            raise Panic("stack overflow")
        return len(text.split())

    monkeypatch.setattr("cupel.tokens._tiktoken._Tokeniser.count", count)


@pytest.mark.usefixtures("panicking")
@pytest.mark.parametrize("command", ["select", "explain", "compare", "simulate", "inspect"])
def test_an_item_that_cannot_be_counted_is_a_bad_record(cupel, folder, command):
    write(folder, "items.jsonl", {"content": "fine"}, {"content": UNCOUNTABLE})
    outcome = cupel(command, "items.jsonl", "--budget", "99")
    assert outcome.code == 2
    assert "items.jsonl:2: a text of 36 characters cannot be counted" in outcome.err


@pytest.mark.usefixtures("panicking")
def test_an_item_that_cannot_be_counted_can_be_skipped(cupel, folder):
    write(folder, "items.jsonl", {"content": UNCOUNTABLE}, {"content": "fine"})
    outcome = cupel("select", "items.jsonl", "--budget", "99", "--skip-bad")
    assert (outcome.code, outcome.out) == (0, "fine\n")


@pytest.mark.usefixtures("panicking")
def test_a_message_that_cannot_be_counted_is_named(cupel, folder):
    write(folder, "chat.jsonl", {"role": "user", "content": "hi"}, {"role": "user", "content": UNCOUNTABLE})
    outcome = cupel("select", "chat.jsonl", "--budget", "99")
    assert outcome.code == 2
    assert "chat.jsonl: messages[1]: a text of 36 characters cannot be counted" in outcome.err


@pytest.mark.usefixtures("panicking")
def test_a_conversation_that_cannot_be_counted_is_named_by_replay(cupel, folder):
    messages = recordings.chat()
    messages[1:1] = [{"role": "user", "content": UNCOUNTABLE}]
    write(folder, "sessions.jsonl", {"session": "monday", "messages": messages})
    outcome = cupel("replay", "sessions.jsonl", "--budget", "900")
    assert outcome.code == 2
    assert "sessions.jsonl:1, monday: a text of" in outcome.err


@pytest.mark.usefixtures("panicking")
def test_a_case_that_cannot_be_counted_is_named_by_evaluate(cupel, folder):
    write(folder, "cases.jsonl", {"items": [{"content": UNCOUNTABLE}], "needed": [0], "budget": 9})
    outcome = cupel("evaluate", "cases.jsonl")
    assert outcome.code == 2
    assert "cases.jsonl:1: items[0]: a text of 36 characters cannot be counted" in outcome.err


@pytest.fixture
def bomb(folder):
    with gzip.open(folder / "bomb.jsonl.gz", "wb") as stream:
        for _ in range(30):
            stream.write(b" " * 100_000)
    return "bomb.jsonl.gz"


@pytest.mark.parametrize("command", ["select", "replay", "evaluate", "tune", "explain", "inspect"])
def test_a_decompression_bomb_is_refused_with_the_option_that_allows_it(cupel, bomb, command):
    outcome = cupel(command, bomb, "--budget", "9", "--max-unpacked", "2m")
    assert outcome.code == 2
    assert "bomb.jsonl.gz: unpacks to more than 2,000,000 bytes; allow more with --max-unpacked" in outcome.err


def test_a_compressed_file_within_the_limit_is_read(cupel, folder):
    with gzip.open(folder / "items.jsonl.gz", "wt") as stream:
        stream.write('{"content": "packed", "tokens": 1}\n')
    assert cupel("select", "items.jsonl.gz", "--budget", "9", "-q").out == "packed\n"


@pytest.mark.parametrize("content", [b"not gzip", gzip.compress(b"x" * 1000)[:-9]], ids=["other", "truncated"])
def test_a_file_that_is_not_compressed_is_named(cupel, folder, content):
    (folder / "items.jsonl.gz").write_bytes(content)
    outcome = cupel("select", "items.jsonl.gz", "--budget", "9")
    assert outcome.code == 2
    assert "items.jsonl.gz: cannot be unpacked" in outcome.err
