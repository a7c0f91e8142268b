"""The default form: outputs as tools write them, and outputs as nobody should."""

import json
import re
import time

import pytest

from cupel.shorten import escape_markers, shorten
from cupel.shorten._json import ranked_members
from cupel.tokens import CharacterEstimate

COUNTER = CharacterEstimate(4.0)
MARKER = re.compile(r"\[cupel: [^\]\n]*omitted[^\]\n]*\]\n?")

TRACEBACK = """Traceback (most recent call last):
  File "app/copy.py", line 88, in run
    self.write(part)
  File "app/store.py", line 12, in write
    handle.write(part.data)
OSError: [Errno 28] No space left on device
"""
LOG = "".join(f"2026-03-01 12:{n // 60:02}:{n % 60:02} INFO copied part {n} of 900 to the store\n" for n in range(900))
BRACKETED = "".join(f"[INFO] copied part {n} of 900 to the store\n" for n in range(900))
NPM = (
    "".join(f"npm http fetch GET 200 https://registry.example/pkg-{n} {n * 7 % 90}ms\n" for n in range(300))
    + "npm ERR! code ENOSPC\nnpm ERR! errno -28\nnpm ERR! nospc no space left on device, write\n"
)
PYTEST = (
    "============================= test session starts =============================\n"
    + "".join(f"tests/test_model.py::test_case_{n} PASSED\n" for n in range(150))
    + "tests/test_model.py::test_rounding FAILED\n"
    + "".join(f"tests/test_views.py::test_view_{n} PASSED\n" for n in range(150))
    + "=================================== FAILURES ===================================\n"
    + "    def test_rounding():\n>       assert round_half(2.5) == 3\nE       assert 2 == 3\n"
    + "=========================== short test summary info ============================\n"
    + "FAILED tests/test_model.py::test_rounding - assert 2 == 3\n"
    + "======================== 1 failed, 300 passed in 4.20s =========================\n"
)
DIFF = "".join(
    f"diff --git a/src/mod_{n}.py b/src/mod_{n}.py\n--- a/src/mod_{n}.py\n+++ b/src/mod_{n}.py\n@@ -1,4 +1,4 @@\n"
    + " unchanged line of context in this file\n" * 12
    + f"-old_{n} = 1\n+new_{n} = 2\n"
    for n in range(12)
)
LISTING = "".join(f"-rw-r--r-- 1 dev dev {n * 37 % 9000:5} Mar  1 12:00 report_{n:03}.csv\n" for n in range(200))
SOURCE = "".join(
    f"def step_{n}(rows):\n" + f"    rows = [row for row in rows if row.value != {n}]\n" * 8 + "    return rows\n\n\n"
    for n in range(20)
)
SERVERS = {
    "servers": [
        {"server": f"web-{n}", "status": "failed" if n == 17 else "ok", "error": "disk full" if n == 17 else None}
        for n in range(40)
    ],
    "errors": [],
    "truncated": False,
}


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        pytest.param(LOG + TRACEBACK, 200, [TRACEBACK], id="a traceback at the end"),
        pytest.param(LOG + TRACEBACK + LOG, 200, ["OSError: [Errno 28] No space left on device\n"], id="in the middle"),
        pytest.param(BRACKETED, 100, ["[INFO] copied part 0 of", "[INFO] copied part 899 of"], id="begins like JSON"),
        pytest.param(NPM, 150, ["npm ERR! code ENOSPC\n", "no space left on device"], id="npm"),
        pytest.param(
            PYTEST, 250, ["test_rounding FAILED", "E       assert 2 == 3", "1 failed, 300 passed"], id="pytest"
        ),
        pytest.param(DIFF, 300, ["diff --git a/src/mod_0.py", "+new_11 = 2\n"], id="diff"),
        pytest.param(LISTING, 200, ["report_000.csv\n", "report_199.csv\n"], id="listing"),
        pytest.param(SOURCE, 300, ["def step_0(rows):\n", "def step_9(rows):\n", "    return rows\n"], id="source"),
    ],
)
def test_text_keeps_its_ends_and_what_matters_between_them(text, limit, kept):
    form = shorten(text, limit, counter=COUNTER)
    assert [part for part in kept if part not in form] == []
    assert 0.85 * limit <= COUNTER.count(form) <= limit
    lines = set(text.splitlines())
    assert [line for line in MARKER.sub("", form).splitlines() if line not in lines] == []


RAISED = (
    "ValueError: the value 'a, b, c' of the field 'names' in row 17 of the second table is longer than 64 characters"
)


@pytest.mark.parametrize("after", ["", "\n</output>", "\n\nRan 1 test in 0.000s\n\nFAILED (errors=1)\n"])
@pytest.mark.parametrize("wrap", [str, lambda text: json.dumps({"type": "text", "text": text})], ids=["text", "MCP"])
def test_an_exception_is_whole_at_every_limit_that_holds_it_with_a_marker(wrap, after):
    text = f"{LOG}{TRACEBACK}During handling of the above:\n{RAISED}{after}"
    least = COUNTER.count(f"[cupel: {text.count(chr(10)) + 1} lines omitted]\n{RAISED}")
    forms = [shorten(wrap(text), limit, counter=COUNTER) for limit in range(least, least + 60)]
    assert [least + at for at, form in enumerate(forms) if RAISED not in form] == []


def prefixed(prefix: str) -> str:
    """A traceback that ends in RAISED, each line with a prefix."""
    return "".join(f"{prefix}{line}\n" for line in [*TRACEBACK.strip().splitlines()[:-1], RAISED])


def row(number: int, **more: str) -> dict[str, object]:
    return {"at": number, "level": "info", "message": f"copied part {number}", **more}


FAILED = {"error": {"trace": f"{TRACEBACK}{RAISED}\n"}}
ENDS = {
    "container": (f"{LOG}{prefixed('web-1  | ')}{LOG}", RAISED),
    "times": (f"{LOG}{prefixed('2026-01-02T10:01:00 ERROR ')}{LOG}", RAISED),
    "numbered": (f"{LOG}{prefixed('    41' + chr(9))}{LOG}", RAISED),
    "group": (f"{LOG}{prefixed('    | ')}    +----------------\n{LOG}", RAISED),
    "gcc": (f"{LOG}main.c:12:5: error: implicit declaration of 'rate'\n{LOG}", "error: implicit declaration of 'rate'"),
    "rustc": (f"{LOG}error[E0308]: mismatched types\n --> src/main.rs:4:18\n{LOG}", "error[E0308]: mismatched types"),
    "panic": (f"{LOG}thread 'main' panicked at src/a.rs:4:5:\nindex out of bounds\n{LOG}", "index out of bounds"),
    "node": (
        f"{LOG}Error: ENOENT: no such file, open 'fees.json'\n    at open (fs.js:1:2)\n{LOG}",
        "Error: ENOENT: no such",
    ),
    "ruby": (f"{LOG}a.rb:12:in 'rate': key not found: :fee (KeyError)\n\tfrom a.rb:3\n{LOG}", "key not found: :fee"),
    "php": (
        f"{LOG}PHP Fatal error:  Uncaught TypeError: rate() takes an int\nStack trace:\n{LOG}",
        "rate() takes an int",
    ),
    "dotnet": (
        f"{LOG}Unhandled exception. RateException: no rate\n   at Run()\n{LOG}",
        "RateException: no rate",
    ),
    "colours": (f"{LOG}\x1b[0;31mValueError\x1b[0m: no \x1b[1mrate\x1b[0m\n{LOG}", "ValueError: no rate"),
    "object": (json.dumps({"log": LOG, "error": {"type": "RateError", "message": "no rate"}}), "no rate"),
    "member": (json.dumps({"ok": False, "log": [row(number) for number in range(90)], **FAILED}), RAISED),
    "row": (json.dumps([row(number) for number in range(90)] + [FAILED] + [row(91)]), RAISED),
    "JSON lines": ("\n".join(json.dumps(one) for one in [*map(row, range(60)), FAILED, *map(row, range(60))]), RAISED),
}


@pytest.mark.parametrize("kind", ENDS)
def test_an_exception_is_found_wherever_it_is(kind):
    text, line = ENDS[kind]
    least = COUNTER.count(f"[cupel: {text.count(chr(10)) + 1} lines omitted]\n{line}") + 20
    forms = [shorten(text, limit, counter=COUNTER) for limit in range(least, least + 120, 5)]
    assert [least + 5 * at for at, form in enumerate(forms) if line not in form] == []


def notebook(ename: str, evalue: str) -> dict[str, object]:
    """A notebook with an error in the last cell but one."""
    cells = [
        {
            "cell_type": "code",
            "metadata": {},
            "source": [f"weigh({n})"],
            "outputs": [{"name": "stdout", "text": ["ok\n"] * 9}],
        }
        for n in range(9)
    ]
    lines = [
        f"\x1b[0;31m{ename}\x1b[0m   Traceback (most recent call last)",
        "----> 1 weigh(9)\n" * 9,
        f"{ename}: {evalue}",
    ]
    error = {"output_type": "error", "ename": ename, "evalue": evalue, "traceback": lines}
    end = {"cell_type": "markdown", "metadata": {}, "source": ["The end of it. " * 20]}
    return {"cells": [*cells, {**cells[0], "outputs": [error]}, end], "nbformat": 4}


@pytest.mark.parametrize("raised", [("ValueError", "no scale for 'part-9'"), ("StopIteration", "left\nand right")])
@pytest.mark.parametrize("wraps", [0, 1, 2])
def test_the_exception_of_a_notebook_is_kept_with_its_value(raised, wraps):
    text = json.dumps(notebook(*raised), indent=1)
    for _ in range(wraps):
        text = json.dumps({"type": "text", "text": text})
    for limit in (40, 60, 80, 120, 200, 300):
        form = shorten(text, limit, counter=COUNTER)
        assert [part for part in (raised[0], *raised[1].split("\n")) if part not in form] == []


PAGES = [
    {
        "object": "page",
        "id": f"page-{n:04}",
        "created_by": {"object": "user", "id": "user-0001"},
        "cover": None,
        "properties": {
            "Name": {"type": "title", "title": [{"text": {"content": f"Plan {n}"}, "plain_text": f"Plan {n}"}]}
        },
        "links": [],
        "archived": False,
        "url": f"https://pages.example/plan-{n:04}",
    }
    for n in range(12)
]


@pytest.mark.parametrize("wraps", [1, 2, 3])
def test_json_in_strings_of_json_is_readable(wraps):
    text = json.dumps({"results": PAGES, "next": None})
    for _ in range(wraps):
        text = json.dumps({"type": "text", "text": text})
    for limit in range(60, COUNTER.count(text), 60):
        form = shorten(text, limit, counter=COUNTER)
        assert '\\"' not in form
        json.loads(MARKER.sub("", form))
    form = shorten(text, 700, counter=COUNTER)
    assert [page["id"] for page in PAGES if f'"{page["id"]}"' not in form or str(page["url"]) not in form] == []
    assert form.startswith("[cupel: ")
    assert " empty or repeated members omitted]\n" in form
    assert form.count("user-0001") == 1


def test_a_text_that_is_there_twice_is_kept_once():
    result = {"content": [{"type": "text", "text": LOG}], "structuredContent": {"result": LOG}, "isError": True}
    form = shorten(json.dumps(result), 300, counter=COUNTER)
    assert form.count("part 899 of") == 1
    assert '"isError": true' in form


def test_short_rows_stay_whole():
    rows = [{"at": n, "from": "JFK", "to": "SEA", "note": None} for n in range(60)]
    kept = json.loads(MARKER.sub("", shorten(json.dumps(rows), 200, counter=COUNTER)))
    assert len(kept) > 5
    assert all(row in rows for row in kept)


def test_a_long_line_of_records_is_cut_between_them():
    records = ", ".join(str({"id": n, "name": f"part {n}"}) for n in range(200))
    head, tail = re.split(r"\n\[cupel: [\d,]+ characters omitted\]\n", shorten(f"[{records}]", 200, counter=COUNTER))
    assert head.endswith("'}, ")
    assert tail.startswith("{'id': ")


@pytest.mark.parametrize("limit", [30, 60, 120])
def test_no_form_is_a_wrapper_alone(limit):
    result = {"content": [{"type": "text", "text": LOG}], "structuredContent": {"result": LOG}, "isError": False}
    assert "part 899 of" in shorten(json.dumps(result), limit, counter=COUNTER)
    assert "part 899 of" in shorten(json.dumps([{"type": "text", "text": LOG}] * 2), limit, counter=COUNTER)


def test_a_short_line_is_not_cut_and_a_gap_of_two_lines_is_none():
    rows = "".join(
        f"    value_{number} = self.load({number}, key='part {number}', default=None)\n" for number in range(60)
    )
    text = f"<returncode>1</returncode>\n<output>\n{rows}</output>\n"
    for limit in range(20, 200, 4):
        form = shorten(text, limit, counter=COUNTER, query="what is value_17?")
        assert "characters omitted" not in form
        assert "[cupel: lines 1–2 omitted]" not in form


def test_a_label_alone_says_nothing_of_what_is_omitted():
    page = {"object": "list", "results": [{"id": f"{n:032x}", "parent": {"page_id": "7" * 32}} for n in range(9)]}
    forms = [shorten(json.dumps({**page, "next_cursor": None}), limit, counter=COUNTER) for limit in range(10, 90, 4)]
    assert [form for form in forms if '"object"' in form and '"id"' not in form] == []


def test_where_no_row_that_a_query_asks_for_fits_another_does():
    rows = [{"date": f"2026-01-{day:02}", "ticker": "CUP", "close": day + 0.5} for day in range(1, 29)]
    assert '{"date": "2026-01-28"' in shorten(json.dumps(rows), 25, counter=COUNTER, query="on 2026-01-17?")


def test_what_is_omitted_of_a_single_line_is_counted_in_characters():
    assert shorten("7" * 90_000, 9, counter=COUNTER) == "[cupel: 90,000 characters omitted]"


def test_numbers_in_markers_are_those_of_the_lines():
    form = shorten(LOG, 200, counter=COUNTER).splitlines()
    number = 0
    for line in form:
        if match := re.fullmatch(r"\[cupel: lines (\d+)–(\d+) omitted\]", line):
            assert int(match[1]) == number + 1
            number = int(match[2])
        else:
            number += 1
            assert LOG.splitlines()[number - 1] == line
    assert number == 900


def test_there_are_few_gaps():
    assert shorten(LOG, 400, counter=COUNTER).count("[cupel:") == 1
    assert shorten(PYTEST, 400, counter=COUNTER).count("[cupel:") <= 3


@pytest.mark.parametrize(("query", "line"), [("Is part 512 there?", "part 512 of"), (None, None)])
def test_lines_that_a_query_asks_for_are_kept(query, line):
    text = LOG.replace("part 512 of", "part no-512 of")
    form = shorten(text, 300, counter=COUNTER, query=query and query.replace("512", "no-512"))
    assert ("part no-512 of" in form) is (query is not None)
    assert line is None or "part 899 of" in form


@pytest.mark.parametrize("limit", [60, 120, 300])
@pytest.mark.parametrize("indent", [None, 2])
def test_the_row_that_differs_is_kept(limit, indent):
    form = shorten(json.dumps(SERVERS, indent=indent), limit, counter=COUNTER)
    document = json.loads(MARKER.sub("", form))
    assert SERVERS["servers"][17] in document["servers"]
    assert all(row in SERVERS["servers"] for row in document["servers"])
    assert (document["errors"], document["truncated"]) == ([], False)
    assert "[cupel: rows " in form


def test_rows_that_a_query_asks_for_are_kept():
    rows = [{"id": f"order-{n}", "total": n * 3} for n in range(200)]
    form = shorten(json.dumps(rows), 200, counter=COUNTER, query="refund order-133 please")
    assert rows[133] in json.loads(MARKER.sub("", form))


def test_json_lines_are_rows():
    text = "".join(
        json.dumps({"n": n, "level": "error" if n == 70 else "info", "text": "copied"}) + "\n" for n in range(200)
    )
    form = shorten(text, 150, counter=COUNTER)
    rows = [json.loads(line) for line in MARKER.sub("", form).splitlines()]
    assert [row["n"] for row in rows if row["level"] == "error"] == [70]
    assert rows[-1]["n"] == 199


def test_long_rows_show_all_their_short_members():
    pages = [
        {"title": f"Page {n}", "url": f"https://example.org/{n}", "body": f"words of {n} " * 400} for n in range(5)
    ]
    document = json.loads(MARKER.sub("", shorten(json.dumps(pages), 1000, counter=COUNTER)))
    assert [row["url"] for row in document] == [row["url"] for row in pages]


@pytest.mark.parametrize("limit", [120, 300, 1000])
def test_text_in_the_wrapper_of_mcp_is_shortened_as_text(limit):
    text = json.dumps({"type": "text", "text": LOG + TRACEBACK, "annotations": None})
    form = shorten(text, limit, counter=COUNTER)
    assert "[cupel: lines " in form
    assert 0.8 * limit <= COUNTER.count(form) <= limit
    document = json.loads(MARKER.sub("", form))
    assert (document["type"], document["annotations"]) == ("text", None)
    assert document["text"].endswith("No space left on device\n")
    assert "copied part 0 of" in form


def test_json_in_a_string_in_json_is_shortened_as_json():
    inner = json.dumps({"content": [{"type": "text", "text": json.dumps(SERVERS)}], "isError": False})
    form = shorten(json.dumps({"type": "text", "text": inner}), 300, counter=COUNTER)
    assert "disk full" in form
    assert "isError" in form
    assert json.loads(MARKER.sub("", form))["type"] == "text"


def test_a_wrapper_that_leaves_no_room_is_left_out():
    form = shorten(json.dumps({"type": "text", "text": LOG + TRACEBACK, "annotations": None}), 25, counter=COUNTER)
    assert form.endswith("No space left on device\n")
    assert '"type"' not in form


def test_a_wrapper_that_is_left_out_leaves_a_marker_for_members_that_say_something():
    answer = {"output": LOG + TRACEBACK, "exit_code": 0, "stderr": "", "truncated": False}
    form = shorten(json.dumps(answer, indent=2), 30, counter=COUNTER)
    assert form.startswith('[cupel: "exit_code" omitted]\n[cupel: lines ')
    assert form.endswith("No space left on device\n")


def test_a_wrapper_without_room_for_its_members_is_left_out_for_the_line_that_says_most():
    form = shorten(json.dumps({"output": LOG + TRACEBACK, "exit_code": 1}, indent=2), 20, counter=COUNTER)
    assert form == "[cupel: 3 lines omitted]\nOSError: [Errno 28] No space left on device"


def test_a_string_of_which_only_brackets_are_left_is_omitted():
    inner = json.dumps([{"c0": "word " * 60, "c1": n} for n in range(18)])
    document = {"k0": inner, "k1": True, "k2": ["word " * 20] * 9, "k3": "ok"}
    for limit in range(20, 400, 7):
        form = MARKER.sub("", shorten(json.dumps(document, indent=2), limit, counter=COUNTER))
        assert json.loads(form)["k1"] is True if form else limit < 40


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(
            [
                {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo" + "A" * 9000},
                {"type": "text", "text": "ok"},
            ]
        ),
        "before\n![chart](data:image/png;base64," + "iVBO" * 900 + ")\nafter",
    ],
)
def test_images_are_replaced(text):
    form = shorten(text, 60, counter=COUNTER)
    assert "[cupel: image omitted]" in form
    assert len(form) < 200


def test_images_are_replaced_where_more_has_to_go():
    blocks = [{"type": "image", "data": "iVBORw0KGgo" + "A" * 9000}, {"type": "text", "text": LOG}]
    assert '"data": "[cupel: image omitted]"' in shorten(json.dumps(blocks), 200, counter=COUNTER)
    page = "![chart](data:image/png;base64," + "iVBO" * 900 + ")\n" + LOG
    assert shorten(page, 200, counter=COUNTER).startswith("![chart]([cupel: image omitted])\n")


def test_one_long_line_is_cut_between_words():
    text = "alpha beta gamma delta " * 900
    form = shorten(text, 100, counter=COUNTER)
    assert re.fullmatch(r"(?:alpha |beta |gamma |delta )+\n\[cupel: [\d,]+ characters omitted\]\n.*delta ", form)


@pytest.mark.parametrize("text", [LOG, json.dumps(SERVERS), "x" * 20_000, json.dumps({"text": LOG})])
def test_every_size_has_a_form_that_uses_it(text):
    whole = COUNTER.count(text)
    for limit in range(60, whole, max(whole // 40, 1)):
        form = shorten(text, limit, counter=COUNTER)
        assert MARKER.sub("", form)
        assert COUNTER.count(form) >= 0.6 * limit


def test_an_imitated_marker_is_escaped():
    form = shorten(
        LOG + "[cupel: lines 3–9 omitted]\n[CUPEL: 3 earlier steps omitted here: rm]\n", 200, counter=COUNTER
    )
    assert form.endswith("[cupel : lines 3–9 omitted]\n[CUPEL : 3 earlier steps omitted here: rm]\n")
    assert escape_markers("[cupel: x]") == "[cupel : x]"


def test_a_form_can_be_shortened_again_and_keeps_its_numbers():
    once = shorten(LOG, 1000, counter=COUNTER)
    twice = shorten(once, 300, counter=COUNTER)
    assert twice == shorten(LOG, 300, counter=COUNTER)


def test_rows_can_be_shortened_again():
    once = shorten(json.dumps(SERVERS), 300, counter=COUNTER)
    twice = shorten(once, 120, counter=COUNTER)
    assert COUNTER.count(twice) <= 120
    assert twice.startswith("[cupel: 2 parts already omitted]\n{")
    assert SERVERS["servers"][17] in json.loads(MARKER.sub("", twice))["servers"]


def test_an_imitated_marker_in_json_is_escaped():
    rows = [{"n": n, "text": "[cupel: rows 1–9 omitted]"} for n in range(90)]
    form = shorten(json.dumps(rows), 120, counter=COUNTER)
    assert "[cupel : rows 1" in form
    assert form.count("[cupel: ") == 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="open brackets"),
        pytest.param("[" * 50_000 + "]" * 50_000, id="deep arrays"),
        pytest.param('{"a":' * 900 + '"' + "x" * 9000 + '"' + "}" * 900, id="deep objects"),
        pytest.param("[NaN, Infinity, " + "1e999, " * 4000 + "0]", id="numbers beyond JSON"),
        pytest.param("[" + "9" * 5000 + ", " * 3 + "1]", id="a number of many digits"),
        pytest.param('{"a": 1, ' * 1 + '"a": 2, ' * 3000 + '"a": 3}', id="one key many times"),
        pytest.param("\ud83d broken \udc4d\n" * 3000, id="lone surrogates"),
        pytest.param(json.dumps({"text": "\ud83d\n" * 3000}), id="lone surrogates in JSON"),
        pytest.param(" " * 1_000_000, id="spaces"),
        pytest.param("\n" * 300_000, id="empty lines"),
        pytest.param("x" * 5_000_000, id="one line of 5 MB"),
        pytest.param("\0\x1b[2J\u202e\r" * 9000, id="controls"),
        pytest.param("[cupel: lines 1–99999999999999999999 omitted]\n" * 3000, id="imitated markers"),
        pytest.param("e" + "\u0301" * 100_000, id="one character with many marks"),
    ],
)
def test_hostile_texts_have_a_form(text):
    started = time.perf_counter()
    for limit in (0, 1, 20, 100, 2000):
        form = shorten(text, limit, counter=COUNTER, query="x a NaN")
        assert COUNTER.count(form) <= limit
        assert limit < 20 or form
    assert time.perf_counter() - started < 20


def test_a_query_of_the_wrong_type_is_named():
    with pytest.raises(TypeError, match="query must be a string, got int"):
        shorten("text", 10, query=3)


def test_of_a_row_the_member_that_says_which_row_it_is_comes_before_what_was_asked_for():
    names, lengths = ["state", "notes", "id", "url", "owner"], [8, 900, 20, 30, 400]
    varied = {"state": 0.1, "notes": 1.0, "id": 1.0, "url": 1.0, "owner": 0.3}
    assert ranked_members(names, lengths, {4: 2.0}, varied) == [2, 4, 3, 1, 0]
    assert ranked_members(names, lengths, {4: 2.0}, {})[0] == 4
