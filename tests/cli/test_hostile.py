"""No file and no option makes a command fail with anything but exit code 2 and a clear, short message."""

from __future__ import annotations

import io
import json
import os
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cupel.cli import main

DEEP = "[" * 100_000
CLOSED = "[" * 300 + "]" * 300
DIGITS = "9" * 5000
HUGE = "1" + "0" * 400


def line(**fields: str) -> str:
    members = {"content": '"a"', "tokens": "1", **fields}
    return "{" + ",".join(f'"{key}":{value}' for key, value in members.items()) + "}\n"


GOOD = line() + line(content='"b"', tokens="5")
UNREADABLE = {
    "digits.jsonl": line(tokens=DIGITS),
    "digits.json": f"[{line(tokens=DIGITS)}]",
    "digits.csv": f"content,tokens\na,{DIGITS}\n",
    "hint.jsonl": line(futureRelevanceHint=HUGE),
    "huge.jsonl": line(tokens=HUGE),
    "hint.csv": "content,tokens,future_relevance_hint\na,1,high\n",
    "deep.jsonl": DEEP,
    "deep.json": DEEP,
    "wrapped.json": f'{{"items":{DEEP}',
    "metadata.jsonl": line(metadata=f'{{"a":{CLOSED}}}'),
    "metadata.csv": f'content,tokens,metadata\na,1,"{DEEP}"\n',
    "tags.csv": f'content,tokens,tags\na,1,"{DEEP}"\n',
    "nan.jsonl": line(tokens="NaN"),
    "infinite.jsonl": line(tokens="1e400"),
    "twice.jsonl": '{"content":"a","content":"b","tokens":1}\n',
    "instant.jsonl": line(timestamp='"0001-01-01T00:00:00+14:00"'),
    "surrogate.jsonl": line(timestamp='"\\ud800"'),
    "values.jsonl": 'null\n1\n"x"\n[]\n{}\n',
    "object.json": '{"items":{}}',
    "zeros.jsonl": "\0\0\0",
    "long.csv": f"content,tokens\n{'x' * 200_000},1\n",
    "binary.jsonl": bytes(range(256)),
    "binary.json": b"\xff\xfe\x00",
    "utf16.jsonl": GOOD.encode("utf-16"),
    "empty.jsonl": "",
}
READABLE = {
    "negative.jsonl": line(tokens="-" + HUGE) + line(tokens="5"),
    "priority.jsonl": line(priority=HUGE) + line(priority="3", content='"b"'),
    "not a number.jsonl": line(futureRelevanceHint='"NaN"'),
    "halves.jsonl": line(content='"\\ud800"', kind='"\\udfff"', tags='["\\ud800"]', metadata='{"\\ud800":"\\udc00"}'),
    "whole.jsonl": line(tokens="1.0"),
    "control.jsonl": line(content='"\\u001b[31m"'),
    "bom.jsonl": "\ufeff" + GOOD,
}
POLICIES = {
    "deep.toml": f"scorer = {DEEP}",
    "key.toml": ".".join(["a"] * 20_000) + " = 1\n",
    "digits.toml": f'scorer = "recency"\nslicer = {{type = "knapsack", bucket_size = {DIGITS}}}\n',
    "now.toml": """
        scorer = {type = "decay", curve = {type = "exponential", half_life = 9}, now = 0001-01-01T00:00:00+14:00}
    """,
    "infinite.toml": 'scorer = {type = "kind", weights = {A = inf}}',
    "deep.json": f'{{"scorer":{DEEP}',
    "digits.json": f'{{"scorer":"recency","slicer":{{"type":"knapsack","bucket_size":{DIGITS}}}}}',
    "nan.json": '{"scorer":{"type":"kind","weights":{"A":NaN}}}',
    "list.json": "[]",
    "twice.json": '{"scorer":"recency","scorer":"kind"}',
    "schema.json": '{"$schema":5,"scorer":"recency"}',
    "half.json": '{"scorer":"\\ud800"}',
    "binary.toml": b"\xff\xff",
}
COMMANDS = [
    "select FILE --budget 100",
    "select FILE --budget 100 --format json",
    "select FILE --budget 100 --format jsonl",
    "select FILE --budget 100 --set slicer.type=knapsack --set slicer.bucket_size=auto",
    "explain FILE --budget 4",
    "explain FILE --budget 4 --format json",
    "compare FILE --budget 100 --policy chat --policy document-qa",
    "simulate FILE --budget 100",
    "inspect FILE --budget 100 -o page.html",
    "inspect FILE --budget 100 --margin 5 --format json",
    "conformance FILE",
]
POLICY_COMMANDS = [
    "select good.jsonl --budget 100 --policy FILE",
    "inspect good.jsonl --budget 100 --policy FILE -o page.html",
    "policy show FILE",
    "policy describe FILE",
    "conformance FILE",
]
VALUES = [DEEP, DIGITS, "NaN", "1e999", '{"a":1,"a":2}', '"\\ud800"', HUGE, CLOSED]
SETTINGS = [
    *(f"slicer={value}" for value in VALUES),
    *(f"slicer.bucket_size={value}" for value in VALUES),
    "a." * 20_000 + "b=1",
    "=1",
    "scorer.scorers.99999999999999999999=1",
    f"scorer.scorers.{DIGITS}=1",
    "scorer.type.x=3",
    "deduplication.x=1",
]


def run(arguments: list[str]) -> tuple[int, str]:
    """Run a command as a process would, with strict streams; give its exit code and what it complains."""
    kept = sys.stdout, sys.stderr
    sys.stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    try:
        try:
            code = main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
        sys.stdout.flush()
        sys.stderr.flush()
        return code, sys.stderr.buffer.getvalue().decode()
    finally:
        sys.stdout, sys.stderr = kept


def write(name: str, content: str | bytes) -> None:
    with open(name, "wb") as file:  # noqa: PTH123
        file.write(content if isinstance(content, bytes) else content.encode())


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("good.jsonl", GOOD)


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_cannot_be_read(command, name) -> None:
    write(name, UNREADABLE[name])
    code, message = run([part.replace("FILE", name) for part in command.split()])
    assert code == 2
    assert name.rpartition(".")[0] in message
    assert len(message) < 3000


@pytest.mark.parametrize("name", READABLE)
@pytest.mark.parametrize("command", COMMANDS[:-1])
def test_files_that_are_only_strange(command, name) -> None:
    write(name, READABLE[name])
    code, message = run([part.replace("FILE", name) for part in command.split()])
    assert (code, "error:" in message) == (0, False), message


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("command", POLICY_COMMANDS)
def test_policies_that_cannot_be_read(command, name) -> None:
    write(name, POLICIES[name])
    code, message = run([part.replace("FILE", name) for part in command.split()])
    assert code == 2
    assert name in message
    assert len(message) < 3000


@pytest.mark.parametrize("setting", SETTINGS, ids=range(len(SETTINGS)))
def test_settings_that_make_no_sense(setting) -> None:
    code, message = run(["select", "good.jsonl", "--budget", "100", "--set", setting])
    if setting != f"slicer.bucket_size={HUGE}":
        assert code == 2
    assert len(message) < 3000


@pytest.mark.parametrize("value", [DIGITS, "-5", "nan", "", "\udcff"])
@pytest.mark.parametrize("option", ["--budget", "--reserve"])
def test_numbers_that_are_none(option, value) -> None:
    code, message = run(["select", "good.jsonl", "--budget", "100", option, value])
    assert code == 2
    assert len(message) < 3000


@pytest.mark.parametrize("command", ["select", "explain", "simulate"])
def test_a_budget_beyond_2_to_the_53rd_is_refused(command) -> None:
    code, message = run([command, "good.jsonl", "--budget", HUGE])
    assert code == 2
    assert len(message) < 3000


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no text")
def test_names_and_titles_that_are_no_text() -> None:
    os.mkdir("folder")  # noqa: PTH102
    write(os.fsdecode(b"folder/n\xff.txt"), b"hello")
    write(os.fsdecode(b"n\xff.jsonl"), GOOD)
    for arguments in (
        ["inspect", "folder", "--budget", "100", "-o", "page.html"],
        ["inspect", os.fsdecode(b"n\xff.jsonl"), "--budget", "100", "-o", "page.html"],
        ["inspect", "good.jsonl", "--budget", "100", "--title", "\udcff", "-o", "page.html"],
        ["inspect", "folder", "--budget", "100", "--format", "json"],
        ["select", "folder", "--budget", "100", "--format", "json"],
        ["select", "good.jsonl", "--budget", "100", "-o", os.fsdecode(b"n\xff.txt")],
    ):
        assert run(arguments)[0] == 0, arguments
    for arguments in (
        ["select", "\udcff", "--budget", "3"],
        ["select", "no\0file", "--budget", "3"],
        ["select", "good.jsonl", "--budget", "100", "-o", "a\0b"],
    ):
        assert run(arguments)[0] == 2, arguments


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([HUGE, DIGITS, "NaN", '"\\ud800"', "1e999", '"x"']),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(["content", "tokens", "a"]), each),
    max_leaves=8,
)
FIELDS = ["content", "tokens", "kind", "tags", "metadata", "timestamp", "futureRelevanceHint", "pinned", "priority"]


def text_of(value) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f'"{key}":{text_of(entry)}' for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text_of, value)) + "]"
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5), max_size=3), st.sampled_from(COMMANDS[:6]))
def test_random_records(records, command) -> None:
    write("random.jsonl", "".join(text_of({"content": '"a"', "tokens": 1, **record}) + "\n" for record in records))
    code, message = run([part.replace("FILE", "random.jsonl") for part in command.split()])
    assert code in {0, 1, 2}
    assert len(message) < 5000
