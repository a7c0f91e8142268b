"""The page's account of a conversation under node: what changed from request to request, and the bill."""

import pytest

from cupel.demo import conversation
from cupel.evaluation import EverythingStrategy, FitStrategy, Recording, SessionStrategy, TailStrategy, replay

STRATEGIES = {
    "everything": EverythingStrategy(),
    "tail": TailStrategy(),
    "fit": FitStrategy(),
    "session": SessionStrategy(),
}


@pytest.fixture(scope="module")
def replayed():
    return replay(Recording(conversation()[:120]), STRATEGIES, 3000)


@pytest.fixture(scope="module")
def talk(replayed):
    return replayed.page_payload()["conversations"][0]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_changes_are_those_between_the_messages(scripts, replayed, talk, strategy):
    told = scripts.ask("requests", talk=talk, strategy=list(STRATEGIES).index(strategy))
    recorded = conversation()[:120]
    before, last, seen = {}, [], 0
    moved = set()
    for turn, row in zip(replayed.strategies[strategy], told, strict=True):
        sent = list(zip(turn.request.positions, turn.request.messages, strict=True))
        now = {at: message for at, message in sent if at is not None}  # without notes of their own

        def places(name, row=row):
            found = [n if n < talk["messages"] else talk["texts"][n]["of"] for n in row[name]]
            return [at for at in found if at is not None]

        assert places("now") == list(now)
        assert places("entered") == [at for at in now if at >= seen]
        assert places("returned") == [at for at in now if at < seen and at not in before]
        assert places("left") == [at for at in before if at not in now]
        changed = [at for at in now if at in before and now[at] != before[at]]
        assert sorted(places("shortened") + places("restored")) == changed
        assert all(now[at] != recorded[at] for at in places("shortened"))
        same = 0
        for one, other in zip(last, sent, strict=False):
            if one != other:
                break
            same += 1
        assert row["same"] == same
        moved.update(name for name in ("returned", "left", "shortened", "restored") if row[name])
        before, last, seen = now, sent, turn.at
    expected = {"everything": set(), "tail": {"left"}, "fit": {"left"}, "session": {"left", "shortened"}}
    assert expected[strategy] <= moved


def test_the_bill_is_the_sum_of_the_turns(scripts, replayed, talk):
    for number, turns in enumerate(replayed.strategies.values()):
        bill = scripts.ask("bill", turns=talk["strategies"][number])
        assert bill["sent"] == sum(turn.sent for turn in turns)
        assert bill["price"] == pytest.approx(sum(turn.price for turn in turns))
        assert bill["read"] + bill["rewritten"] + bill["new"] == bill["sent"]
        assert bill["over"] == sum(turn.over for turn in turns)


def test_a_turn_on_which_nothing_was_sent(scripts):
    """The next request is compared with the last one that was sent."""
    texts = [{"text": f"{n}", "role": "user", "tokens": 5} for n in range(6)]
    sent = {"sent": 10, "read": 0, "new": 10, "price": 12.5}
    turns = [{**sent, "request": [0, 2]}, {"failure": "too long"}, {**sent, "request": [1, 3]}]
    talk = {"messages": 6, "texts": texts, "steps": [2, 3, 4], "strategies": [turns]}
    _, failed, last = scripts.ask("requests", talk=talk, strategy=0)
    assert failed["now"] is None
    assert (last["entered"], last["left"], last["returned"]) == ([2, 3], [0], [])
    assert scripts.ask("bill", turns=turns)["failed"] == 1
