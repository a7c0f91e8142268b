"""ITEMS in every form, and everything that can be wrong with it."""

import io
import json
import sys
from pathlib import Path

import pytest

from cupel import ConfigurationError, ContextItem
from cupel.cli import main
from cupel.cli._reading import InputError, read_items
from cupel.demo import session_items

ROWS = [
    {"content": "first", "tokens": 3, "kind": "Document", "tags": ["a", "b"], "pinned": True},
    {"content": "second\nline", "tokens": 4, "futureRelevanceHint": 0.5, "timestamp": "2026-03-12T09:00:00+01:00"},
    {"content": 'third, "quoted"', "tokens": 0, "priority": -2, "metadata": {"path": "x.md"}, "original_tokens": 9},
]
ITEMS = [
    ContextItem("first", 3, kind="Document", tags=["a", "b"], pinned=True),
    ContextItem(
        "second\nline",
        4,
        future_relevance_hint=0.5,
        timestamp=session_items()[0].timestamp.fromisoformat("2026-03-12T08:00:00+00:00"),
    ),
    ContextItem('third, "quoted"', 0, priority=-2, metadata={"path": "x.md"}, original_tokens=9),
]
CSV = '''\
content,tokens,kind,tags,pinned,future_relevance_hint,timestamp,priority,metadata.path,originalTokens
first,3,Document,a; b,TRUE,,,,,
"second
line",4,,,,0.5,2026-03-12T09:00:00+01:00,,,
"third, ""quoted""",0,,,no,,,-2,x.md,9
'''


class Words:
    def count(self, text: str, /) -> int:
        return len(text.split())


class Hundred:
    def count(self, text: str, /) -> int:
        return 100


def read(*sources, **options):
    return read_items([str(source) for source in sources], Words(), **options)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps(ROWS)),
        ("b.json", json.dumps({"items": ROWS, "total_tokens": 7})),
        ("c.jsonl", "\n".join(json.dumps(row) for row in ROWS) + "\n\n"),
        ("d.ndjson", "\r\n".join(json.dumps(row) for row in ROWS)),
        ("e.csv", CSV),
        ("f.csv", "\ufeff" + CSV),
    ],
)
def test_each_format_gives_the_same_items(folder, name, text):
    (folder / name).write_bytes(text.encode())
    assert read(name).items == ITEMS


def test_parquet(folder):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    columns = {"content": ["first", "second"], "tokens": [3, None], "tags": [["a"], None], "priority": [None, 2]}
    pq.write_table(pa.table(columns), folder / "items.parquet")
    found = read("items.parquet")
    assert found.items == [ContextItem("first", 3, tags=["a"]), ContextItem("second", 1, priority=2)]
    assert found.counted == 1


def test_a_directory_is_a_document_a_file(folder):
    (folder / "docs/deep").mkdir(parents=True)
    (folder / "docs/.git").mkdir()
    (folder / "docs/b.md").write_text("two words")
    (folder / "docs/deep/a.json").write_text('{"not": "items"}')
    (folder / "docs/.git/config").write_text("hidden")
    (folder / "docs/empty.txt").write_text("")
    found = read("docs")
    assert [(item.content, item.tokens, str(item.kind), item.metadata["path"]) for item in found.items] == [
        ("two words", 2, "Document", "docs/b.md"),
        ('{"not": "items"}', 2, "Document", "docs/deep/a.json"),
    ]


def test_globs_and_single_text_files(folder):
    for name in ("a.md", "b.md", "c.txt"):
        (folder / name).write_text(name)
    assert [item.content for item in read("*.md", "c.txt").items] == ["a.md", "b.md", "c.txt"]


def test_a_file_whose_name_looks_like_a_glob_is_read_as_it_is(folder):
    (folder / "a[1].txt").write_text("here")
    assert [item.content for item in read("a[1].txt").items] == ["here"]


def test_missing_counts_are_counted_and_given_ones_kept(folder):
    (folder / "a.jsonl").write_text('{"content": "one two three"}\n{"content": "one two", "tokens": 77}\n')
    found = read("a.jsonl")
    assert [item.tokens for item in found.items] == [3, 77]
    assert found.counted == 1


def test_nothing_is_counted_that_brings_its_count(folder):
    (folder / "a.jsonl").write_text('{"content": "x", "tokens": 1}\n')
    assert read("a.jsonl").counted == 0


BAD = """\
{"content": "fine", "tokens": 1}
{"content": "", "tokens": 1}
not json
{"content": "x", "tokens": "3"}
{"content": "x", "tokns": 3}
{"tokens": 3}
[1, 2]
{"content": "x", "tokens": 1, "timestamp": "yesterday"}
{"content": "x", "tokens": 1, "timestamp": "2026-03-12T09:00:00"}
{"content": "x", "tokens": 1, "kind": "  "}
{"content": "x", "tokens": 1, "originalTokens": 3, "original_tokens": 4}
{"content": "also fine", "tokens": 1}
"""


def test_all_bad_lines_are_reported_with_file_and_line(folder):
    (folder / "bad.jsonl").write_text(BAD)
    with pytest.raises(InputError) as caught:
        read("bad.jsonl")
    faults = {fault.where: fault.message for fault in caught.value.faults}
    assert list(faults) == [f"bad.jsonl:{line}" for line in range(2, 12)]
    assert faults["bad.jsonl:2"] == "content must not be empty, got ''"
    assert faults["bad.jsonl:3"].startswith("not JSON: ")
    assert faults["bad.jsonl:4"] == "tokens must be an integer, got str: '3'"
    assert faults["bad.jsonl:5"] == "unknown key 'tokns'; did you mean 'tokens'?"
    assert faults["bad.jsonl:6"] == "content is missing"
    assert faults["bad.jsonl:7"] == "an item must be an object, got list: [1, 2]"
    assert "RFC 3339" in faults["bad.jsonl:8"]
    assert "time zone" in faults["bad.jsonl:9"]
    assert "in both spellings" in faults["bad.jsonl:11"]
    message = str(caught.value)
    assert message.startswith("10 bad records; nothing was written.")
    assert message.count("\n") == 10


def test_skip_bad_keeps_the_rest_and_counts(folder):
    (folder / "bad.jsonl").write_text(BAD)
    found = read("bad.jsonl", skip_bad=True)
    assert [item.content for item in found.items] == ["fine", "also fine"]
    assert found.skipped == 10


def test_a_json_list_names_the_place_of_an_item(folder):
    (folder / "a.json").write_text(
        '[\n  {"content": "x", "tokens": 1},\n\n  {"content": "",\n   "tokens": 2},\n  7\n]\n'
    )
    with pytest.raises(InputError) as caught:
        read("a.json")
    assert [fault.where for fault in caught.value.faults] == ["a.json: [1]", "a.json: [2]"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.json", b'[{"content": "x"} {"content": "y"}]', "Expecting ',' delimiter"),
        ("a.json", b'[{"content": "x"}', "Expecting ',' delimiter"),
        ("a.json", b"[] trailing", "Extra data"),
        ("a.json", b'"text"', "expected a list of items"),
        ("a.json", b'{"elements": []}', "under 'items'"),
        ("a.json", b"[" * 100_000, "not JSON"),
        ("a.jsonl", b"[" * 100_000, "nested too deeply"),
        ("a.jsonl", b'{"content": "\xff"}\n', "not UTF-8"),
        ("a.csv", b"content,tokens\nx,1,2\n", "3 cells, but the header has 2"),
        ("a.csv", b"content,tokens\nx,many\n", "tokens must be an integer, got 'many'"),
        ("a.csv", b"content,tokens,pinned\nx,1,maybe\n", "pinned must be true or false"),
        ("a.csv", b'content,tokens\n"x"y,1\n', "not CSV"),
        ("a.txt", b"\xff\xfe\x00", "not UTF-8"),
        ("a.parquet", b"nope", "not Parquet"),
    ],
)
def test_files_that_are_not_what_they_say(folder, name, data, message):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (folder / name).write_bytes(data)
    with pytest.raises(InputError, match=r".*") as caught:
        read(name)
    assert message in str(caught.value)


EMPTY = {"a.json": "[]", "b.jsonl": "", "c.csv": "", "d.csv": "content,tokens\n", "e.csv": "\n\ncontent,tokens\n"}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("command", ["select", "explain", "compare", "simulate", "inspect"])
def test_a_file_without_items_is_an_error(cupel, folder, command, name):
    (folder / name).write_text(EMPTY[name])
    assert read(name).items == []
    outcome = cupel(command, name, "--budget", "9")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"cupel {command}: error: ITEMS has no items: {name}\n"


def test_standard_input_without_items_is_an_error(cupel):
    for nothing in (b"[]", b"", b"\n \n"):
        outcome = cupel("select", "-", "--budget", "9", stdin=nothing)
        assert (outcome.code, outcome.err) == (2, "cupel select: error: ITEMS has no items: -\n")


def test_an_empty_json_file_says_that_nothing_is_in_it(cupel, folder):
    (folder / "cut.json").write_text("\n")
    outcome = cupel("select", "cut.json", "--budget", "9")
    assert outcome.code == 2
    assert "cut.json:2: not JSON: there is nothing in it" in outcome.err


def test_line_separators_inside_a_string_do_not_end_a_line(cupel, folder):
    line = '{"content": "a\u2028b\u0085c", "tokens": 1}\n'
    (folder / "a.jsonl").write_text(line, encoding="utf-8")
    assert [item.content for item in read("a.jsonl").items] == ["a\u2028b\u0085c"]
    assert (
        cupel("select", "-", "--budget", "9", "--format", "json", stdin=line.encode()).json["items"][0]["tokens"] == 1
    )


@pytest.mark.parametrize(
    ("stdin", "count"),
    [
        (b'[{"content": "x", "tokens": 1}]', 1),
        (b'{"items": [{"content": "x", "tokens": 1}, {"content": "y", "tokens": 1}]}', 2),
        (b'{\n "items": [{"content": "x", "tokens": 1}]\n}', 1),
        (b'{"content": "x", "tokens": 1}\n{"content": "y", "tokens": 1}\n', 2),
        (b'{"content": "x", "tokens": 1}', 1),
    ],
)
def test_standard_input_is_recognised(cupel, stdin, count):
    outcome = cupel("select", "-", "--budget", "10", "--format", "json", stdin=stdin)
    assert outcome.code == 0
    assert len(outcome.json["items"]) == count


def test_standard_input_as_something_else(cupel):
    outcome = cupel(
        "select", "-", "--budget", "10", "--format", "jsonl", "--input-format", "csv", stdin=b"content,tokens\nx,1\n"
    )
    assert json.loads(outcome.out) == {"content": "x", "tokens": 1, "kind": "Message"}
    assert cupel("select", "-", "--budget", "10", "--input-format", "parquet").code == 2


def _written(folder, name, history):
    lines = "".join(json.dumps(message) + "\n" for message in history)
    texts = {"list.json": json.dumps(history), "under.json": json.dumps({"messages": history}), "lines.jsonl": lines}
    path = folder / name
    path.write_text(texts[name], encoding="utf-8")
    return str(path)


HISTORIES = {
    "openai": [
        {"role": "user", "content": "Look."},
        {
            "role": "assistant",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "seen"},
    ],
    "anthropic": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "seen"}]},
    ],
    "openai-responses": [
        {"type": "message", "role": "user", "content": "Look."},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "seen"},
    ],
    "gemini": [
        {"parts": [{"text": "Look."}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "seen"}}}]},
    ],
    "bedrock": [
        {"role": "user", "content": [{"text": "Look."}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "f", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "seen"}]}}]},
    ],
}


def test_input_of_responses_under_its_own_name(tmp_path):
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"input": HISTORIES["openai-responses"], "instructions": "Be brief."}))
    found = read_items([str(path)], Words())
    assert found.request == (HISTORIES["openai-responses"], "Be brief.", None)
    assert found.items


def test_contents_of_gemini_under_their_own_name(tmp_path):
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"contents": HISTORIES["gemini"], "systemInstruction": {"parts": [{"text": "Hi"}]}}))
    assert read_items([str(path)], Words()).request.messages == HISTORIES["gemini"]


@pytest.mark.parametrize("name", ["list.json", "under.json", "lines.jsonl"])
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_messages_of_every_format(tmp_path, name, history):
    """A call and its result are one item; the counter of the command counts."""
    found = read_items([_written(tmp_path, name, history)], Hundred())
    assert [item.content.split(":")[0] for item in found.items] == ["user", "assistant"]
    assert "seen" in found.items[1].content
    assert all(item.tokens > 100 for item in found.items)
    assert found.counted == 2


def test_a_history_with_something_else_in_it(tmp_path):
    path = _written(tmp_path, "lines.jsonl", [*HISTORIES["openai"], ROWS[0]])
    with pytest.raises(InputError) as caught:
        read_items([path], Words())
    assert [fault.message for fault in caught.value.faults] == ["expected a message"]


def test_a_message_that_no_provider_knows(tmp_path):
    path = _written(tmp_path, "list.json", [{"role": "user", "content": "a"}, {"role": "narrator", "content": "b"}])
    with pytest.raises(InputError, match="narrator"):
        read_items([path], Words())


def test_items_are_pinned_by_number(cupel, session):
    """Counted from 1 in the order they are read; `--unpin` takes back what the item says itself."""
    found = cupel("select", session, "--budget", "900", "--pin", "30", "--unpin", "1", "--format", "json").json
    plain = cupel("select", session, "--budget", "900", "--format", "json").json
    items = session_items()
    assert items[29].content in [item["content"] for item in found["items"]]
    assert items[29].content not in [item["content"] for item in plain["items"]]
    for flag in ("--pin", "--unpin"):
        for number in ("0", "121"):
            refused = cupel("select", session, "--budget", "900", flag, number)
            assert refused.code == 2
            assert f"{flag} {number}: there are 120 items" in refused.err


CHATS = [{"id": name, "messages": history} for name, history in HISTORIES.items()]


@pytest.mark.parametrize("name", ["list.json", "lines.jsonl"])
@pytest.mark.parametrize(("wanted", "expected"), [("1", 0), ("3", 2), ("anthropic", 1)])
def test_one_of_many_conversations(tmp_path, name, wanted, expected):
    path = _written(tmp_path, name, CHATS)
    found = read_items([path], Words(), conversation=wanted)
    assert found.request.messages == CHATS[expected]["messages"]
    if wanted.isdigit():
        bare = _written(tmp_path, name, list(HISTORIES.values()))
        assert read_items([bare], Words(), conversation=wanted).items == found.items


@pytest.mark.parametrize("rows", [CHATS, list(HISTORIES.values())], ids=["objects", "lists"])
def test_conversations_from_standard_input(monkeypatch, rows):
    text = "".join(json.dumps(row) + "\n" for row in rows)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert read_items(["-"], Words(), conversation="2").request.messages == HISTORIES["anthropic"]


def test_the_only_conversation_need_not_be_chosen(tmp_path):
    path = _written(tmp_path, "lines.jsonl", CHATS[:1])
    assert read_items([path], Words()).request.messages == CHATS[0]["messages"]


@pytest.mark.parametrize(
    ("rows", "wanted", "message"),
    [
        (CHATS, None, "ITEMS has 5 conversations: choose one with --conversation"),
        (CHATS, "6", "neither an id nor a number from 1 to 5"),
        (CHATS, "0", "neither an id nor a number from 1 to 5"),
        (CHATS, "9" * 5000, "neither an id nor a number from 1 to 5"),
        ([*CHATS, CHATS[0]], "openai", "2 conversations have this id"),
        (HISTORIES["openai"], "1", "ITEMS has one conversation"),
        (ROWS[:1], "1", "ITEMS has no conversations"),
    ],
)
def test_a_choice_that_cannot_be_made(tmp_path, rows, wanted, message):
    path = _written(tmp_path, "lines.jsonl", rows)
    with pytest.raises(ConfigurationError, match=message) as caught:
        read_items([path], Words(), conversation=wanted)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("rows", [HISTORIES["openai"], CHATS], ids=["messages", "conversations"])
def test_bad_records_among_messages_are_skipped_if_asked(tmp_path, rows):
    path = Path(_written(tmp_path, "lines.jsonl", rows))
    path.write_text(path.read_text() + "{not json\n7\n")
    with pytest.raises(InputError, match=r"2 bad records; nothing was written\. Leave them out with --skip-bad"):
        read_items([str(path)], Words(), conversation="1" if rows is CHATS else None)
    found = read_items([str(path)], Words(), skip_bad=True, conversation="1" if rows is CHATS else None)
    assert found.skipped == 2
    assert found.items


def test_a_history_that_cannot_be_read_is_not_skipped(tmp_path):
    path = _written(tmp_path, "list.json", [{"role": "user", "content": "a"}, {"role": "narrator", "content": "b"}])
    with pytest.raises(InputError, match="narrator") as caught:
        read_items([path], Words(), skip_bad=True)
    assert "--skip-bad" not in str(caught.value)


@pytest.mark.parametrize("command", ["select", "explain", "compare", "simulate", "inspect"])
def test_every_command_takes_one_of_many_conversations(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    path = _written(tmp_path, "lines.jsonl", CHATS)
    options = ["--budget", "100"]
    assert main([command, path, *options]) == 2
    assert "--conversation" in capsys.readouterr().err
    assert main([command, path, *options, "--conversation", "anthropic"]) == 0


def test_of_pinning_and_unpinning_the_last_counts(cupel, session):
    both = cupel("select", session, "--budget", "900", "--unpin", "30", "--pin", "30", "--format", "json").json
    assert session_items()[29].content in [item["content"] for item in both["items"]]


def test_the_page_names_how_its_items_were_read(cupel, folder):
    """The command under its slider is the whole of it."""
    rows = [{"id": name, "messages": [{"role": "user", "content": f"hello {name}"}]} for name in ("one", "two")]
    folder.joinpath("chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = ["--tokens", "chars", "--conversation", "two", "--unpin", "1", "--query", "a word"]
    page = cupel("inspect", "chats.jsonl", "--budget", "90", *flags, "--format", "json").json
    assert page["source"] == "chats.jsonl --tokens chars --conversation two --unpin 1 --query 'a word'"


@pytest.mark.parametrize("first", ["garbage", '{"role": "user", "content": "cut', '{"foo": 1}', "null"])
@pytest.mark.parametrize("name", ["chat.jsonl", "-"])
def test_a_bad_first_record_is_skipped_like_any_other(cupel, folder, first, name):
    text = f'{first}\n{{"role": "user", "content": "hello"}}\n'
    (folder / "chat.jsonl").write_text(text)
    outcome = cupel("select", name, "--budget", "99", "--skip-bad", stdin=text.encode())
    assert (outcome.code, outcome.out) == (0, "user: hello\n")
    assert "skipped 1 bad record" in outcome.err


def test_a_bad_first_record_is_reported_like_any_other(cupel, folder):
    (folder / "chat.jsonl").write_text('garbage\n{"role": "user", "content": "hello"}\n')
    outcome = cupel("select", "chat.jsonl", "--budget", "99", "--conversation", "c2")
    assert outcome.code == 2
    assert "chat.jsonl:1: not JSON" in outcome.err


def test_a_conversation_is_chosen_although_the_first_record_is_bad(cupel, folder):
    rows = [{"id": name, "messages": [{"role": "user", "content": name}]} for name in ("c1", "c2")]
    (folder / "chats.jsonl").write_text("garbage\n" + "".join(json.dumps(row) + "\n" for row in rows))
    outcome = cupel("select", "chats.jsonl", "--budget", "99", "--skip-bad", "--conversation", "c2")
    assert (outcome.code, outcome.out) == (0, "user: c2\n")


def test_a_broken_document_is_one_fault_and_not_one_for_each_line(cupel):
    text = '[\n  {\n    "content": "a",\n    "tokens": 1\n  },\n  {"content": "b", "tokens": 2}\n'
    outcome = cupel("select", "-", "--budget", "9", stdin=text.encode())
    assert outcome.code == 2
    assert "1 bad record" in outcome.err


@pytest.mark.parametrize("source", ["", " "])
def test_an_empty_name_is_no_folder(cupel, folder, source):
    (folder / "secret.txt").write_text("secret")
    outcome = cupel("select", source, "--budget", "99")
    assert outcome.code == 2
    assert "ITEMS is empty" in outcome.err


def test_blank_lines_before_the_header_of_a_csv_file_are_skipped(cupel, folder):
    (folder / "a.csv").write_text("\n\ncontent,tokens\nfine,1\n")
    assert cupel("select", "a.csv", "--budget", "9", "-q").out == "fine\n"


@pytest.mark.parametrize(
    "message", [{"role": "assistant", "content": None}, {"role": "tool", "tool_call_id": "x", "content": "orphan"}]
)
def test_a_history_of_which_nothing_can_be_sent_is_an_error(cupel, folder, message):
    (folder / "chat.json").write_text(json.dumps([message]))
    outcome = cupel("select", "chat.json", "--budget", "99")
    assert outcome.code == 2
    assert "chat.json: 1 message, none of which can be sent" in outcome.err
