"""The page of a replay: each request is there as it was sent, and its tokens add up."""

import json
from itertools import pairwise

import pytest

from cupel import Prices
from cupel.demo import conversation
from cupel.evaluation import (
    EvaluationError,
    EverythingStrategy,
    FitStrategy,
    Recording,
    Replay,
    SessionStrategy,
    TailStrategy,
    replay,
)
from cupel.page._texts import runs
from tests.evaluation import recordings

BUDGET = 3000
STRATEGIES = {
    "everything": EverythingStrategy(),
    "tail": TailStrategy(),
    "fit": FitStrategy(),
    "session": SessionStrategy(),
}


def expanded(numbers):
    return [first + step for first, count in zip(numbers[::2], numbers[1::2], strict=True) for step in range(count)]


@pytest.fixture(scope="module")
def replayed():
    known = [Recording(conversation()[:80], system="Be brief."), Recording(recordings.chat(), system="Be quick.")]
    return replay(known, STRATEGIES, BUDGET, prices=Prices.marked())


@pytest.fixture(scope="module")
def payload(replayed):
    return replayed.page_payload()


def test_every_request_is_there_as_it_was_sent(replayed, payload):
    for number, name in enumerate(STRATEGIES):
        sent = [turn.request for turn in replayed.strategies[name]]
        shown = [(talk, turn) for talk in payload["conversations"] for turn in talk["strategies"][number]]
        assert len(sent) == len(shown)
        for request, (talk, turn) in zip(sent, shown, strict=True):
            texts = [talk["texts"][number]["text"] for number in expanded(turn["request"])]
            assert len(texts) == len(request.messages)
            for message, text in zip(request.messages, texts, strict=True):
                assert (message["content"] or "") in text


def test_tokens_add_up(payload):
    for talk in payload["conversations"]:
        opening = sum(text["tokens"] for text in talk["opening"])
        for turns in talk["strategies"]:
            for turn in turns:
                assert turn["sent"] == opening + sum(talk["texts"][n]["tokens"] for n in expanded(turn["request"]))
                assert 0 <= turn["read"] <= turn["sent"] - turn["new"]
            assert turns[0]["new"] == turns[0]["sent"]


def test_appending_writes_nothing_again(payload):
    for talk in payload["conversations"]:
        for before, turn in pairwise(talk["strategies"][0]):
            assert turn["read"] == before["sent"]
            assert turn["new"] == turn["sent"] - turn["read"]


def test_what_leaves_has_a_reason(payload):
    """Those of a session are its own numbers, those of a fit the reason of the selection."""
    talk = payload["conversations"][0]
    for strategy, word in (("fit", "needs"), ("session", "evicted")):
        left = 0
        for before, turn in pairwise(talk["strategies"][list(STRATEGIES).index(strategy)]):
            explained = {at: note["words"] for note in turn.get("notes", ()) for at in note["at"]}
            places = [
                {number if number < talk["messages"] else talk["texts"][number]["of"] for number in expanded(runs)}
                for runs in (before["request"], turn["request"])
            ]
            for gone in places[0] - places[1] - {None}:
                assert word in explained[gone]
                left += 1
        assert left > 0


def test_forms_name_the_message_they_replace(payload):
    talk = payload["conversations"][0]
    forms = [form for form in talk["texts"][talk["messages"] :] if form["of"] is not None]
    assert forms
    for form in forms:
        whole = talk["texts"][form["of"]]
        assert form["tokens"] < whole["tokens"] or "omitted here:" in form["text"]


def test_a_turn_without_a_request_says_why():
    told = replay(Recording(conversation()[:20]), {"session": SessionStrategy()}, 40).page_payload()
    turn = told["conversations"][0]["strategies"][0][-1]
    assert "request" not in turn
    assert "tokens" in turn["failure"]


def test_runs():
    assert runs([]) == []
    assert runs([3, 4, 5, 1, 2, 9]) == [3, 3, 1, 2, 9, 1]


def test_the_page_is_written_and_small(replayed, tmp_path):
    replayed.save_page(tmp_path / "turns.html", title="<Two>")
    html = (tmp_path / "turns.html").read_text(encoding="utf-8")
    assert "&lt;Two&gt;" in html
    assert len(html) < 400_000
    with pytest.raises(TypeError, match="title"):
        replayed.save_page(tmp_path / "turns.html", title=3)
    with pytest.raises(TypeError, match="path"):
        replayed.save_page(3)


def test_a_replay_without_recordings_has_no_page(replayed, tmp_path):
    with pytest.raises(EvaluationError, match="recordings"):
        Replay(BUDGET, replayed.prices, replayed.strategies).save_page(tmp_path / "turns.html")


def test_figures_for_json_carry_no_messages(replayed):
    document = replayed.to_dict()
    assert "request" not in document["strategies"][0]["each_turn"][0]
    assert len(json.dumps(document)) < 300_000


def test_a_notebook_shows_the_strategies():
    told = replay(Recording(conversation()[:60]), {"<b>": EverythingStrategy(), "session": SessionStrategy()}, 1500)
    html = told._repr_html_()
    assert "&lt;b&gt;" in html
    assert f"{told.figures['session'].price:,.0f}" in html
