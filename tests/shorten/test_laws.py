"""Properties of all shorteners, on texts nobody would write."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cupel.shorten import (
    arguments,
    escape_markers,
    head_tail,
    key_lines,
    matching,
    names,
    outline,
    shorten,
    stub,
    table,
    values,
)
from cupel.tokens import CharacterEstimate, default_counter

SHORTENERS = {
    "arguments": arguments,
    "head_tail": head_tail,
    "head_only": partial(head_tail, head=1.0),
    "tail_only": partial(head_tail, head=0.0),
    "key_lines": key_lines,
    "key_lines_known": partial(key_lines, known={"error": 3, "a": 1}),
    "matching": matching,
    "matching_words": partial(matching, query="error a 0", context=1),
    "names": names,
    "outline": outline,
    "shorten": shorten,
    "shorten_query": partial(shorten, query="parse_header id_17 error, please"),
    "stub": partial(stub, tool="read_file"),
    "table": table,
    "values": values,
}
LINEWISE = [name for name in SHORTENERS if name.startswith(("head", "tail", "key", "matching", "outline", "shorten"))]
REWRITING = ["arguments", "table", "values"]
MARKER = re.compile(r"\[cupel: [^\]\n]*omitted[^\]\n]*\]\r?\n?")


class Bytes:
    """A counter for which every byte is a token: markers are dear, and limits are tight."""

    def count(self, text: str) -> int:
        return len(text.encode("utf-8", "surrogatepass"))


class Envelope:
    """A counter that charges for every text, the empty one too."""

    def count(self, text: str) -> int:
        return 3 + len(text.split())


COUNTERS = st.sampled_from([Bytes(), CharacterEstimate(), default_counter(), Envelope()])
LIMITS = st.one_of(st.integers(0, 40), st.integers(0, 400))
SOURCES = [
    "error: no such file\n",
    "def parse_header(line):\n",
    "    return 0\n",
    "# Title\n",
    "id_17 /a/b.py\n",
    "[cupel: lines 2–9 omitted]\n",
    "[INFO] ok\n",
    "x" * 90,
]
CONTROLS = ["\n", "\r\n", "\r", "\0", "\u2028", "\x85", "\x0c", "{", "]"]
CLUSTERS = ["e\u0301\u0302", "\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "日本語テキスト\n"]
HALVES = [chr(0xD83D), chr(0xDC4D)]  # of a surrogate pair, as broken escapes leave them
FRAGMENTS = st.sampled_from([*SOURCES, *CONTROLS, *CLUSTERS, *HALVES])
NOISE = st.binary(max_size=300).map(lambda raw: raw.decode("latin-1"))
TEXTS = st.one_of(
    st.lists(st.one_of(FRAGMENTS, st.text(max_size=20)), max_size=60).map("".join),
    st.lists(st.text(max_size=30), max_size=40).map("\r\n".join),
    NOISE,
    st.text(alphabet="ab \n", max_size=500),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
DOCUMENTS = st.recursive(
    st.one_of(st.lists(SCALARS), st.dictionaries(st.text(max_size=8), SCALARS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.lists(st.fixed_dictionaries({"id": SCALARS, "name": inner}), max_size=6),
        st.dictionaries(st.text(max_size=8), inner, max_size=6),
        inner.map(json.dumps).map(lambda text: {"type": "text", "text": text * 3}),
    ),
    max_leaves=30,
)
ROWS = st.lists(
    st.fixed_dictionaries({"id": st.integers(0, 99), "status": st.sampled_from(["ok", "failed"]), "note": st.text()}),
    min_size=1,
    max_size=30,
)


@pytest.mark.parametrize("name", SHORTENERS)
@given(text=st.one_of(TEXTS, DOCUMENTS.map(json.dumps)), limit=LIMITS, counter=COUNTERS)
@example(text="one giant line " * 400, limit=30, counter=Bytes())
@example(text="a\n" * 3000, limit=30, counter=Bytes())
@example(text="[" * 5000, limit=50, counter=Bytes())
@example(text="", limit=0, counter=Envelope())
def test_a_form_is_within_the_limit_and_not_longer(name, text, limit, counter):
    shorter = SHORTENERS[name](text, limit, counter=counter)
    assert len(shorter) <= len(text)
    assert shorter == "" or counter.count(shorter) <= min(limit, counter.count(text))


@pytest.mark.parametrize("name", SHORTENERS)
@given(text=st.one_of(TEXTS, DOCUMENTS.map(json.dumps)), limit=LIMITS, counter=COUNTERS)
def test_a_text_within_the_limit_stays_as_it_is(name, text, limit, counter):
    shorter = SHORTENERS[name](text, limit, counter=counter)
    if text and counter.count(text) <= limit:
        assert shorter == text
    assert SHORTENERS[name](shorter, limit, counter=counter) == shorter


@pytest.mark.parametrize("name", LINEWISE)
@given(text=TEXTS, limit=LIMITS, counter=COUNTERS)
@example(text="one giant line " * 400, limit=90, counter=Bytes())
def test_lines_are_verbatim_and_in_order_except_for_markers(name, text, limit, counter):
    shorter = SHORTENERS[name](text, limit, counter=counter)
    if shorter == text:
        return
    place = 0
    plain = re.sub(r"\[cupel: (?=lines 2)", "[cupel : ", text)
    for piece in MARKER.sub("\n", shorter).split("\n"):
        found = plain.find(piece, place)
        found = text.find(piece, place) if found < 0 else found
        assert found >= 0, piece
        place = found + len(piece) - piece.count("cupel :")


@given(text=TEXTS, limit=LIMITS, counter=COUNTERS)
def test_the_end_of_a_text_is_kept(text, limit, counter):
    shorter = shorten(text, limit, counter=counter)
    if MARKER.sub("", shorter):
        assert shorter[-1] == text[-1]


@given(text=TEXTS, limits=st.tuples(LIMITS, LIMITS), counter=COUNTERS)
def test_a_larger_limit_keeps_at_least_as_much(text, limits, counter):
    small, large = (MARKER.sub("", shorten(text, limit, counter=counter)) for limit in sorted(limits))
    assert len(small) <= len(large)


@given(rows=ROWS, limits=st.tuples(LIMITS, LIMITS), indent=st.sampled_from([None, 2]))
def test_a_larger_limit_keeps_at_least_as_many_rows(rows, limits, indent):
    text = json.dumps(rows, indent=indent)
    kept = [shorten(text, limit, counter=CharacterEstimate()).count('"status"') for limit in sorted(limits)]
    assert kept == sorted(kept)


@given(rows=ROWS, limit=LIMITS, counter=COUNTERS, indent=st.sampled_from([None, 2]))
def test_rows_of_json_are_rows_of_the_original(rows, limit, counter, indent):
    short = MARKER.sub("", shorten(json.dumps({"rows": rows, "errors": []}, indent=indent), limit, counter=counter))
    if short[:1] == "{":
        document = json.loads(short)
        whole = [row for row in document.get("rows", []) if len(row) == 3]
        assert all(row in rows for row in whole)
        assert document.get("errors", []) == []


def strings_in(value: object) -> list[str]:
    """All strings of a JSON value, also those of JSON in its strings."""
    if isinstance(value, str):
        try:
            inner = json.loads(value)
        except ValueError:
            return [value]
        return [value, *strings_in(inner)] if isinstance(inner, (dict, list)) else [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in strings_in(one)]


@given(document=DOCUMENTS, limit=LIMITS, counter=COUNTERS, indent=st.sampled_from([None, 2]))
@example(document={"type": "text", "text": '{"a": 1}' * 9}, limit=26, counter=CharacterEstimate(), indent=None)
def test_json_is_still_json_without_the_markers_or_a_string_that_it_wraps(document, limit, counter, indent):
    form = shorten(json.dumps(document, indent=indent), limit, counter=counter)
    short = MARKER.sub("", form)
    if short and short[:1] in "{[":
        try:
            json.loads(short)
        except ValueError:
            pieces = [piece.strip("\n") for piece in MARKER.split(form)]
            assert any(all(piece in escape_markers(text) for piece in pieces) for text in strings_in(document))


@pytest.mark.parametrize("name", REWRITING)
@given(document=DOCUMENTS, limit=LIMITS, counter=COUNTERS, indent=st.sampled_from([None, 2]))
def test_rewritten_json_still_parses(name, document, limit, counter, indent):
    shorter = SHORTENERS[name](json.dumps(document, indent=indent), limit, counter=counter)
    if shorter:
        json.loads(shorter)


@pytest.mark.parametrize("form", [table, values])
@given(document=DOCUMENTS)
def test_a_json_form_in_full_is_idempotent_and_not_longer(form, document):
    text = json.dumps(document)
    shorter = form(text, None)
    json.loads(shorter)
    assert len(shorter) <= len(text)
    assert form(shorter, None) == shorter


@pytest.mark.parametrize("name", SHORTENERS)
def test_a_megabyte_takes_few_counts(name):
    class Counted(CharacterEstimate):
        calls = 0

        def count(self, text: str) -> int:
            type(self).calls += 1
            return super().count(text)

    SHORTENERS[name](
        "".join(f"line {number} of many, none alike\n" for number in range(30_000)), 400, counter=Counted()
    )
    assert Counted.calls <= 15


@pytest.mark.parametrize("name", SHORTENERS)
def test_arguments_of_the_wrong_type_are_named(name):
    form = SHORTENERS[name]
    with pytest.raises(TypeError, match="text must be a string, got bytes"):
        form(b"text", 10)
    with pytest.raises(TypeError, match=r"limit must be a number of tokens, got float: 1\.5"):
        form("text", 1.5)
    with pytest.raises(TypeError, match="limit must be a number of tokens, got bool: True"):
        form("text", True)
    with pytest.raises(ValueError, match="limit must be >= 0, got -1"):
        form("text", -1)
    with pytest.raises(TypeError, match="counter must be a TokenCounter, an object with a method count"):
        form("text", 1, counter=len)


@pytest.mark.parametrize("name", [name for name in SHORTENERS if name not in {"table", "values", "stub"}])
def test_only_forms_with_an_end_of_their_own_go_without_a_limit(name):
    with pytest.raises(TypeError, match="limit must be a number of tokens, got NoneType: None"):
        SHORTENERS[name]("text", None)
