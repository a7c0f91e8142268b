"""The shorteners that keep lines."""

import re
from random import Random

import pytest

from cupel.shorten import head_tail, key_lines, matching, outline, shorten
from cupel.shorten._select import token_weights
from cupel.shorten._text import boundary
from cupel.tokens import CharacterEstimate

COUNTER = CharacterEstimate(4.0)
LOG = "".join(f"{number:04} all is well in this part of the log\n" for number in range(1000))


def test_the_end_gets_two_thirds():
    head, tail = head_tail(LOG, 500, counter=COUNTER).split("[cupel", 1)
    assert 0.25 < len(head) / (len(head) + len(tail)) < 0.4


def test_the_numbers_add_up():
    lines = head_tail(LOG, 300, counter=COUNTER).splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("[cupel:"))
    assert lines[at] == f"[cupel: lines {at + 1}–{1000 - (len(lines) - at - 1)} omitted]"
    assert lines[:at] + lines[at + 1 :] == LOG.splitlines()[:at] + LOG.splitlines()[at + 1 - len(lines) :]


def test_most_of_the_limit_is_used():
    for limit in (50, 200, 1000, 9000):
        assert 0.8 * limit <= COUNTER.count(head_tail(LOG, limit, counter=COUNTER)) <= limit


def test_line_ends_of_the_text_are_those_of_the_marker():
    shorter = head_tail(LOG.replace("\n", "\r\n"), 100, counter=COUNTER)
    assert "omitted]\r\n" in shorter
    assert shorter.count("\n") == shorter.count("\r\n")


def test_one_giant_line_is_cut_inside():
    shorter = head_tail("a" * 10_000 + "z" * 10_000, 100, counter=COUNTER)
    assert re.fullmatch(r"a+\n\[cupel: [\d,]+ characters omitted\]\nz+", shorter)


def test_a_giant_line_between_short_ones_is_cut_too():
    shorter = head_tail(f"code 0\n{'x' * 9000}\ndone\n", 100, counter=COUNTER)
    assert shorter.startswith("code 0\nx")
    assert shorter.endswith("x\ndone\n")
    assert " characters omitted]" in shorter


@pytest.mark.parametrize(
    ("limit", "form"), [(0, ""), (5, ""), (6, "[cupel: text omitted]"), (7, "[cupel: 1,000 lines omitted]")]
)
def test_a_limit_for_little_leaves_a_marker_or_nothing(limit, form):
    assert head_tail(LOG, limit, counter=COUNTER) == form


def test_a_gap_no_longer_than_its_marker_is_filled():
    text = "def first_function():\n    pass\ndef second_function():\n" + "    call()\n" * 20
    assert "    pass\n" in outline(text, 40, counter=COUNTER)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_outside_0_to_1_is_refused(share):
    with pytest.raises(ValueError, match="head must be from 0 to 1"):
        head_tail("text", 1, head=share)


@pytest.mark.parametrize("option", [{"head": "1"}, {"head": True}])
def test_a_share_of_the_wrong_type_is_named(option):
    with pytest.raises(TypeError, match="head must be a number"):
        head_tail("text", 1, **option)


def test_errors_are_found_with_their_surroundings():
    text = LOG[: 41 * 500] + "reading b.toml\nValueError: no value\nstopped\n" + LOG[41 * 500 :]
    shorter = matching(text, 200, counter=COUNTER, context=1)
    assert "\nreading b.toml\nValueError: no value\nstopped\n" in shorter


def test_a_summary_without_errors_is_no_match():
    text = LOG + "0 errors, no warnings\n" + LOG
    assert matching(text, 100, counter=COUNTER) == head_tail(text, 100, counter=COUNTER)


def test_lines_with_most_words_of_the_query_come_first():
    text = LOG + "the parser reads headers\n" + LOG + "the parser is here\n" + LOG
    shorter = matching(text, 30, counter=COUNTER, query="parser READS header", context=0)
    assert "the parser reads headers\n" in shorter
    assert "the parser is here\n" not in shorter


def test_repeated_matches_come_last():
    text = "error: once again\n" * 500 + "error: the only one\n" + "fine\n" * 100
    assert "error: the only one\n" in matching(text, 40, counter=COUNTER, context=0)


def test_a_pattern_is_matched_line_by_line():
    shorter = matching(LOG, 100, counter=COUNTER, query=re.compile(r"^0500"), context=0)
    assert [line for line in shorter.splitlines() if not line.startswith("[cupel:")] == [LOG.splitlines()[500]]


@pytest.mark.parametrize(
    ("option", "error"), [({"query": 3}, TypeError), ({"context": 1.5}, TypeError), ({"context": -1}, ValueError)]
)
def test_options_of_matching_are_checked(option, error):
    with pytest.raises(error, match=next(iter(option))):
        matching("text", 10, **option)


def test_rare_names_are_worth_more_than_common_ones():
    filler = "".join(f"nothing special here, number_{number} was copied\n" for number in range(50))
    text = filler + "wrote config_a.json and config_b.json\n" + filler + "wrote report.html and summary.html\n"
    known = {"config_a.json": 80, "config_b.json": 80} | {f"number_{number}": 40 for number in range(50)}
    assert "report.html" in key_lines(text, 25, counter=COUNTER, known=known)
    assert "config_a" not in key_lines(text, 25, counter=COUNTER, known=known)


def test_a_line_that_repeats_what_is_covered_is_not_kept():
    text = "alpha_1 beta_2 gamma_3\n" * 100 + "delta_4 epsilon_5\n" + "alpha_1 beta_2 gamma_3 \n" * 100
    shorter = key_lines(text, 40, counter=COUNTER)
    assert shorter.count("alpha_1") == 1
    assert "delta_4" in shorter


SOURCES = {
    "python": ("class Store:", "    async def get(self):", "        return await self.rows()"),
    "typescript": (
        "export default class Store {",
        "  private async get(key: string): Promise<Row> {",
        "    if (key) {",
    ),
    "javascript": ("function* rows() {", "const get = async (key) => {", "  for (const row of rows) {"),
    "go": (
        "type Store struct {",
        "func (s *Store) Get(key string) (Row, error) {",
        "\tif row, ok := s.rows[key]; ok {",
    ),
    "rust": ("pub struct Store {", "    pub(crate) fn get(&self) -> Row {", "        match self.rows.get(key) {"),
    "java": (
        "public final class Store {",
        "    public Row get(String key) throws IOException {",
        "        while (true) {",
    ),
    "c": ("struct store {", "static int store_get(struct store *s, const char *key) {", "    switch (key[0]) {"),
    "ruby": ("module Store", "  def get(key)", "    @rows.fetch(key)"),
    "sql": ("CREATE TABLE rows (", "create or replace view latest as", "  select * from rows"),
}


@pytest.mark.parametrize("language", SOURCES)
def test_definitions_are_found_and_bodies_are_not(language):
    outer, inner, body = SOURCES[language]
    filling = "".join(f"        {body.strip()}\n" for _ in range(40))
    shorter = outline(f"{outer}\n{filling}{inner}\n{filling}", 80, counter=COUNTER)
    assert outer in shorter
    assert inner in shorter
    assert body.strip() not in shorter


def test_inner_definitions_go_first():
    text = "".join(
        f"class Name{number}:\n    def method(self):\n        pass = {number}{'0' * 60}\n" for number in range(8)
    )
    shorter = outline(text, 100, counter=COUNTER)
    assert shorter.count("class") == 8
    assert shorter.count("def") < 8


def test_markdown_keeps_headings_but_not_comments_in_code():
    section = "\n## Part\n\nwords " + "words " * 50 + "\n\n```sh\n\n# no heading\n\nmake\n```\n"
    shorter = outline("# Title\n" + section * 4, 60, counter=COUNTER)
    assert "# Title\n" in shorter
    assert shorter.count("## Part\n") == 4
    assert "no heading" not in shorter


def test_text_without_structure_is_shortened_at_its_middle():
    assert outline(LOG, 100, counter=COUNTER) == head_tail(LOG, 100, counter=COUNTER)


@pytest.mark.parametrize(
    ("text", "at", "place"),
    [
        ("abc", 2, 2),
        ("ae\u0301b", 2, 1),
        ("a\r\nb", 2, 1),
        ("x\U0001f44d\U0001f3fd", 2, 1),
        ("abc", 9, 3),
        ("abc", -1, 0),
        ("x\U0001f469\u200d\U0001f467y", 2, 1),
        ("x\U0001f469\u200d\U0001f467y", 3, 1),
        ("a" + "\u0301" * 99, 90, 58),
    ],
)
def test_characters_are_not_parted_from_their_marks(text, at, place):
    assert boundary(text, at) == place


def test_the_telling_lines_of_a_very_long_text_are_found():
    """Of a text far longer than the limit, lines are compared only if they bring something new."""
    copied = [f"copied part_{number % 7}.bin of archive_{number % 5}.tar to the store" for number in range(20_000)]
    copied[13_579] = "checksum of part_6.bin differs: 9f3a77, see verify_run_8.log"
    copied[17] = copied[18_000] = "renamed find_row to locate_row in src/index.py"
    kept = key_lines("\n".join(copied), 120)
    assert copied[13_579] in kept
    assert kept.count(copied[17]) == 1
    assert kept.index(copied[17]) < kept.index(copied[13_579])


def test_weights_add_up_to_the_same_in_any_order():
    """Names are held in sets, whose order differs between processes."""
    names = [f"name_{number}" for number in range(50)]
    weights = token_weights(names, {name: number for number, name in enumerate(names)})
    shuffled = Random(1)
    orders = [shuffled.sample(names, len(names)) for _ in range(50)]
    assert len({sum(weights[name] for name in order) for order in orders}) == 1


def test_a_form_that_is_only_a_marker_is_a_plain_text() -> None:
    rows = "\n".join(f'{{"id": {number}, "status": "ok"}}' for number in range(12))
    assert type(shorten(rows, 8, counter=CharacterEstimate(4.0))) is str
