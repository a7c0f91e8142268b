"""The judge is asked about the same turns every time, and its answers are averaged as the page says."""

import gzip
import json
from itertools import pairwise

import pytest

from benchmarks import recordings, surprise
from benchmarks.language_model import BYTE, NORMAL, USER_DEFINED, Vocabulary
from benchmarks.recordings import Kind, generated, head_of, tokens
from benchmarks.ruler import answers
from benchmarks.surprise import JUDGED, differences, interval, measure_surprise, sentence, table, told, turns_to_judge


class Lookup:
    """Finds an action the less surprising the more of its words were told before."""

    def __init__(self):
        self.asked = []

    def surprise(self, before, text):
        self.asked.append((before, text))
        words = text.split()
        return sum(word not in before for word in words) / len(words), len(words)


def kind():
    return Kind("generated", 4_000, sessions=[generated(seed) for seed in range(3)])


def test_a_turn_that_is_judged_has_enough_before_it_and_a_window_for_a_part_of_that():
    turns = turns_to_judge(kind(), 5)
    assert [turn.conversation for turn in turns] == [0, 1, 2, 0, 1]
    assert turns == turns_to_judge(kind(), 5)
    for turn in turns:
        sizes = list(map(tokens, turn.messages))
        head = sum(sizes[: head_of(turn.messages)])
        rest = sum(sizes[: turn.at]) - head
        assert surprise.SHORTEST <= rest <= surprise.LONGEST
        assert turn.budget == head + int(surprise.SHARE * rest)
        assert turn.at in answers(turn.messages)


def test_the_action_is_what_the_model_wrote_and_the_request_does_not_hold_it():
    (turn,) = turns_to_judge(kind(), 1)
    assert json.loads(turn.action.removeprefix("look "))["names"]
    everything = turn.request(JUDGED["everything"])
    assert everything == turn.messages[: turn.at]
    assert turn.request(JUDGED["task and newest message"]) == [*everything[:2], everything[-1]]
    assert told(everything).endswith("\n\nassistant:\n")
    for name in ("session", "tail", "fit every turn"):
        assert sum(map(tokens, turn.request(JUDGED[name]))) <= turn.budget


@pytest.fixture
def folder(tmp_path, monkeypatch):
    items = [
        {"id": f"D{n}", "content": f"Ada: The {word} was lost in {n}.", "timestamp": f"2025-01-{n:02}T12:00:00Z"}
        for n, word in enumerate(["kettle", "violin", *["weather"] * 20], start=1)
    ]
    questions = [{"query": "Who lost the violin?", "needed": ["D2"]}, {"query": "And the kettle?", "needed": ["D1"]}]
    path = tmp_path / recordings.EVIDENCE
    path.parent.mkdir()
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(json.dumps({"conversation": 1, "items": items, "questions": questions}) + "\n")
    monkeypatch.setattr(surprise, "kinds", lambda *_: [kind()])
    return tmp_path


def test_two_runs_ask_and_say_the_same(folder):
    first, second = Lookup(), Lookup()
    found = measure_surprise(first, 2, 2, folder=folder)
    again = measure_surprise(second, 2, 2, folder=folder)
    assert first.asked == second.asked
    assert found["turns"] == again["turns"]
    assert found["questions"] == again["questions"]
    assert len(first.asked) == 2 * len(JUDGED) + 2 * (len(surprise.WAYS) + 1)
    for row in found["turns"]:
        assert row["everything"] <= row["session"] <= row["task and newest message"]
    alone = [before for before, text in first.asked if text == "Who lost the violin?"][-1]
    assert alone == "Ada: The violin was lost in 2.\n\nQuestion:\n"


ROWS = [
    {"kind": "a", "conversation": 0, "tokens": 9, **dict.fromkeys(JUDGED, 2.0), "session": 1.5},
    {"kind": "a", "conversation": 0, "tokens": 9, **dict.fromkeys(JUDGED, 2.0), "session": 1.0},
    {"kind": "b", "conversation": 0, "tokens": 9, **dict.fromkeys(JUDGED, 4.0), "session": 4.0},
]


def test_differences_are_paired_by_turn_and_drawn_by_conversation():
    found = differences(ROWS, "session", "tail")
    assert found == {("a", 0): [-0.5, -1.0], ("b", 0): [0.0]}
    mean, low, high = interval(found)
    assert mean == -0.5
    assert (low, high) == (-0.75, 0.0)  # both conversations drawn are the first, or both the second
    assert interval(found) == (mean, low, high)


def test_the_tables_show_means_and_differences():
    shown = table({"turns": ROWS, "questions": []})
    assert "| turns, of conversations | 2, 1 | 1, 1 | 3, 2 |" in shown
    assert "| session | 1.25 | 4.00 | 2.17 |" in shown
    assert "| session − tail | −0.500 | −0.750 to +0.000 |" in shown
    said = " ".join(sentence({"turns": ROWS, "questions": []}).split())
    assert "2.17 nats a token after a session's request, by 2.67 after everything" in said


def vocabulary():
    """Return a vocabulary with two ways to join `abc`, and no token for most characters."""
    known = [("▁", -1.0), ("a", -2.0), ("b", -2.0), ("c", -2.0), ("ab", -5.0), ("bc", -3.0), ("abc", -9.0)]
    tokens = [token for token, _ in known]
    types = [NORMAL] * len(known)
    tokens += ["\n\n", "\n", *(f"<0x{byte:02X}>" for byte in range(256))]
    types += [USER_DEFINED] * 2 + [BYTE] * 256
    return Vocabulary(tokens, [score for _, score in known] + [0.0] * 258, types), tokens


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("abc", ["abc"]),  # "bc" is better than "ab", and then "a" joins it
        ("ab", ["ab"]),
        ("bcb", ["bc", "b"]),
        ("a b", ["a", "▁", "b"]),
        ("a\n\n\nb", ["a", "\n\n", "\n", "b"]),
        ("é", ["<0xC3>", "<0xA9>"]),
        ("", []),
    ],
)
def test_text_is_split_by_the_scores_of_its_pieces(text, pieces):
    made, tokens = vocabulary()
    assert [tokens[number] for number in made.encode(text)] == pieces


def test_every_character_of_a_text_is_in_one_piece():
    made, tokens = vocabulary()
    text = "abcabbca cab" * 20
    ids = made.encode(text)
    assert "".join(tokens[number] for number in ids) == text.replace(" ", "▁")
    assert not any((tokens[one], tokens[other]) == ("b", "c") for one, other in pairwise(ids))


def test_the_model_reads_a_beginning_once_and_says_the_same():
    torch = pytest.importorskip("torch")
    from benchmarks.language_model import HEADS, NAMES, WIDTH, LanguageModel

    torch.manual_seed(3)
    made, tokens = vocabulary()
    size = 8
    shapes = {
        "attn_q": (HEADS * WIDTH, size),
        "attn_k": (WIDTH, size),
        "attn_v": (WIDTH, size),
        "attn_output": (size, HEADS * WIDTH),
        "attn_q_norm": (WIDTH,),
        "attn_k_norm": (WIDTH,),
        "ffn_gate": (16, size),
        "ffn_up": (16, size),
        "ffn_down": (size, 16),
    }
    weights = {f"blk.{n}.{name}.weight": torch.randn(shapes.get(name, (size,))) for n in range(6) for name in NAMES}
    weights |= {"token_embd.weight": torch.randn(len(tokens), size), "output_norm.weight": torch.ones(size)}
    begun = LanguageModel(weights, made, 6)
    begun.surprise("abc " * 200 + "bca", "cab")
    for before in ("abc " * 200 + "cab", "abc " * 20, "b"):
        fresh = LanguageModel(weights, made, 6)
        assert begun.surprise(before, "bb") == pytest.approx(fresh.surprise(before, "bb"), abs=1e-4)
    with pytest.raises(ValueError, match="nothing to be surprised at"):
        fresh.surprise("abc", "")


@pytest.mark.usefixtures("folder")
def test_what_peers_send_is_judged_by_the_same_actions():
    judge = Lookup()
    rows = surprise.measure_peers_surprise(judge, {"nothing at all": ["", ""]}, 2)
    assert [row["nothing at all"] for row in rows] == [1.0, 1.0]
    assert all(row["everything"] <= row["session"] < 1 for row in rows)
    actions = [text for _, text in judge.asked]
    assert len(set(actions)) == 2
    assert len(actions) == 8
    assert "| nothing at all | 1.00 | +" in surprise.peers_table(rows)
    assert "| session | " in surprise.peers_table(rows)
