"""A branch that goes on: which session governs, what it continues from, and when it is not asked."""

import json

import pytest

from cupel.watch._govern import Task, chosen_by
from cupel.watch._reading import call_of, read_request
from tests.watch.agent import PATHS, body, history, step
from tests.watch.test_conversations import Seen

BUDGET = 3000
MARK = {"cache_control": {"type": "ephemeral"}}
LARGE_TOOL = {"name": "read", "input_schema": {"type": "object", "description": "word " * 400}}


class Governed:
    """Governs one request after the other."""

    def __init__(self, provider="openai"):
        self.provider = provider
        self.seen = Seen()

    def read(self, messages, **more):
        return read_request(
            call_of("POST", PATHS[self.provider]), json.dumps(body(self.provider, messages, **more)).encode()
        )

    def place(self, messages, idle=None, **more):
        """Return where a request belongs, and the request."""
        self.seen.clock += idle or 0
        read = self.read(messages, **more)
        place = self.seen(messages, self.provider, **more)
        live = place.live
        task = live.task(place.turn, read, Task(BUDGET, idle=place.idle))
        choice = None if task is None else chosen_by(live.governed.of(read, task), read, place.idle)
        self.body = live.govern(place.turn, read, choice)
        return place, read

    def __call__(self, messages, usage=None, idle=None, **more):
        """Return the turn of a request that was sent, and answered with this usage."""
        place, read = self.place(messages, idle, **more)
        place.turn.usage = usage
        if place.live.active:
            place.live.observe(place.turn, read, Task(BUDGET))
        place.live.settle(place.turn, read, place.idle, None)
        return place.turn

    def refuse(self, count, *, refused=True):
        """Withdraw a request, because the provider refused it or it could not be made."""
        place, _ = self.place(history("openai", count))
        place.live.withdraw(place.turn, "not sent", refused=refused)
        return place.live


def test_other_tools_count_from_the_request_on_that_has_them():
    governed = Governed("anthropic")
    plain = governed(history("anthropic", 1))
    with_tool = governed(history("anthropic", 2), tools=[LARGE_TOOL])
    assert with_tool.tokens - plain.tokens > 500


def test_a_client_that_begins_to_set_cache_marks_gets_them():
    governed, bodies = Governed("anthropic"), []
    for count in (14, 15):
        messages = history("anthropic", count)
        if count == 15:
            messages[-1] = {**messages[-1], "content": [{**messages[-1]["content"][0], **MARK}]}
        governed.place(messages)
        bodies.append(governed.body)
    assert [b"cache_control" in body for body in bodies] == [False, True]


def test_a_new_branch_continues_from_the_one_it_was_forked_from():
    governed = Governed()
    governed(history("openai", 12))
    forked = [*history("openai", 11), *step("openai", 20), *step("openai", 21)]
    turn = governed(forked)
    assert [len(branch.turns) for branch in governed.seen.branches] == [1, 1]
    assert turn.bill.rewritten > 0, "not all of it is new"
    assert turn.appended.read > 0
    alone = Governed()(forked)
    assert (alone.bill.rewritten, alone.appended.read) == (0, 0)


def test_after_two_refusals_in_a_row_nothing_is_governed():
    governed = Governed()
    governed.refuse(14)
    assert governed.refuse(15).choice is None
    assert governed(history("openai", 16)).notes == ["not governed: two requests in a row were refused"]


def test_an_answer_ends_a_row_of_refusals():
    governed = Governed()
    governed.refuse(14)
    governed(history("openai", 15))
    governed.refuse(16)
    assert governed(history("openai", 17)).notes == []


def test_a_failure_is_no_refusal():
    governed = Governed()
    for count in (14, 15, 16):
        governed.refuse(count, refused=False)
    assert governed(history("openai", 17)).notes == []


def test_a_request_that_was_not_sent_is_forgotten():
    governed = Governed()
    governed(history("openai", 14))
    (branch,) = governed.seen.branches
    state = branch.state
    assert governed.refuse(15).branch.state == state


def test_the_cost_of_sending_everything_is_in_the_providers_tokens():
    plain = Governed()(history("openai", 14))
    twice = Governed()(history("openai", 14), usage={"prompt_tokens": 2 * plain.tokens})
    assert twice.bill.sent == 2 * plain.tokens
    assert twice.appended.sent == pytest.approx(2 * plain.appended.sent, abs=2)
    assert twice.appended.price == pytest.approx(2 * plain.appended.price)


def test_all_of_a_first_request_is_new():
    bill = Governed()(history("openai", 14)).appended
    assert (bill.read, bill.rewritten, bill.new) == (0, 0, bill.sent)


@pytest.mark.parametrize(("idle", "is_read"), [(10, True), (10**6, False)])
def test_a_cache_that_has_expired_is_not_read(idle, is_read):
    governed = Governed()
    governed(history("openai", 14))
    assert (governed(history("openai", 15), idle=idle).appended.read > 0) is is_read


def test_a_retry_of_a_request_that_was_not_governed_is_not_governed():
    governed = Governed("openai-responses")
    governed.place(history("openai-responses", 14))
    assert governed.body is not None
    for _ in range(2):
        place, _ = governed.place(history("openai-responses", 15), previous_response_id="resp_1")
        assert governed.body is None
    assert place.turn.action == "retry"


def test_windows_of_earlier_turns_are_forgotten_where_there_are_too_many_forms(monkeypatch):
    monkeypatch.setattr("cupel.watch._govern._MOST_FORMS", 4)
    governed = Governed()
    turns = [governed(history("openai", count)) for count in range(1, 30)]
    (branch,) = governed.seen.branches
    assert len(branch.forms) < 40
    assert turns[0].window is None, "the client's own request was sent"
    assert [] in [turn.window for turn in turns]
    assert turns[-1].window
