"""The part of a history that every request contains: which segments it holds, and in which forms."""

from typing import Any

import pytest

from cupel.messages._history import Options, read_history
from cupel.messages._present import Present
from cupel.messages._segments import WHOLE, Segments
from tests.messages.chat import COUNTER, assistant, calling, result, use, used, user

OUTPUT = "word " * 80
"""A hundred tokens."""


def present(history: list[Any], room: int, *, excess: int = 10**6, **options: Any) -> Present:
    read = read_history(history, Options(counter=COUNTER))
    source = Segments(None)
    segments = source.split(read, range(len(history)))
    return Present(history=read, source=source, segments=segments, room=room, excess=excess, **options)


def step(key: str, output: str = OUTPUT) -> list[Any]:
    return [calling(key), result(key, output)]


FIVE = [user("Look."), *(message for key in "abcde" for message in step(key))]
"""A question is the first segment, the steps are the next five."""


def test_the_newest_three_steps_and_the_words_of_the_user_are_wanted() -> None:
    assert present(FIVE, 10_000).wanted() == {0, 3, 4, 5}


@pytest.mark.parametrize(("room", "wanted"), [(900, {0, 3, 4, 5}), (700, {0, 4, 5}), (100, {0, 4, 5})])
def test_three_steps_that_take_more_than_two_fifths_of_the_room_are_two(room: int, wanted: set[int]) -> None:
    assert present(FIVE, room, excess=0).wanted() == wanted


def test_new_words_of_the_assistant_are_wanted() -> None:
    history = [*FIVE, assistant("Seen."), user("And?"), assistant("Now."), user("Go on.")]
    assert present(history, 10_000).wanted() == {0, 3, 4, 5, 7, 9}
    assert present(history, 10_000, new=range(8, 10)).wanted() == {0, 3, 4, 5, 7, 8, 9}


def test_without_gaps_the_newest_segment_is_wanted_but_not_the_older_words_of_the_user() -> None:
    history = [*FIVE, assistant("Seen."), user("And?")]
    assert present(history, 10_000, gaps=False, new=range(6, 8)).wanted() == {3, 4, 5, 7}


def test_a_form_that_the_request_keeps_stays_as_it_was() -> None:
    at = present(FIVE, 10_000)
    assert at.form(5) == WHOLE
    assert present(FIVE, 10_000, sent={at.segments[5].key: "20"}).form(5) == "20"


def test_a_single_output_takes_a_quarter_of_the_room() -> None:
    assert present(FIVE, 400).form(5) == WHOLE
    assert present(FIVE, 200).form(5) == "50"


def test_fewer_steps_are_held_the_less_room_there_is() -> None:
    def steps(room: int) -> list[int]:
        return [at for at in next(present(FIVE, room).levels()) if at]

    assert [steps(room) for room in (1200, 130, 70, 40)] == [[3, 4, 5], [4, 5], [4, 5], [5]]


WORDS = {"type": "text", "text": "Stop, use the other file."}


def three_steps(question: str, spoken: str) -> list[Any]:
    """A question and the steps a, b and c, some of them with words of the user beside their results."""
    history = [user(question)]
    for key in "abc":
        history += [assistant([use(key)]), user([used(key, OUTPUT), *([WORDS] if key in spoken else [])])]
    return history


def test_a_step_with_words_of_the_user_is_held_longer_than_newer_ones() -> None:
    assert [at for at in next(present(three_steps("Look.", "a"), 120).levels()) if at] == [1, 3]


def test_of_several_steps_with_words_of_the_user_the_newer_ones_are_held() -> None:
    one = present(three_steps("Look at everything. " * 10, "abc"), 180)
    assert [at for at in next(one.levels()) if at] == [2, 3]


@pytest.mark.parametrize("room", [200, 220, 240, 260])
def test_words_and_outputs_that_must_be_sent_are_both_cut_where_that_is_the_last_resort(room: int) -> None:
    one = present(three_steps("Look at everything there is to see. " * 20, "b"), room)
    assert list(one.levels()) == []
    (held,) = one.least()
    assert [at for at, form in held.items() if form] == [0, 2, 3]
    assert sum(one.tokens(at, form) for at, form in held.items()) <= room


def test_new_words_of_the_user_are_stronger_than_old_ones_and_the_newest_are_strongest() -> None:
    history = [user(text) for text in ("One.", "Two, which is longer.", "Three.", "Four.", "Five.")]
    users = [*range(5)]
    assert present(history, 100)._weakest_first(users) == [1, 2, 3, 0, 4]
    assert present(history, 100, new=range(2, 5))._weakest_first(users) == [1, 0, 2, 3, 4]


def test_a_form_becomes_whole_where_the_room_suffices() -> None:
    one = present(FIVE, 200)
    short = one.source.shortened(one.segments[5], one.history, 20)
    missing = one.tokens(5, WHOLE) - one.tokens(5, short)
    assert one.lengthened(5, short, missing) == WHOLE
    longer = one.lengthened(5, short, missing // 2)
    assert 0 < one.tokens(5, longer) - one.tokens(5, short) <= missing // 2
    assert one.lengthened(5, short, 19) == short


def test_words_of_the_user_that_were_cut_become_whole_where_the_room_suffices() -> None:
    one = present([user("word " * 400), *FIVE[1:]], 300)
    short = one.source.shortened(one.segments[0], one.history, 100)
    assert one.tokens(0, short) < one.segments[0].tokens
    assert one.lengthened(0, short, 1000) == WHOLE
    assert one.lengthened(0, short, 100) == short


def test_an_output_that_was_cut_before_is_not_lengthened_to_be_cut() -> None:
    plain = present(FIVE, 160)
    short = plain.source.shortened(plain.segments[4], plain.history, 10)
    one = Present(
        history=plain.history,
        source=plain.source,
        segments=plain.segments,
        room=110,
        excess=10**6,
        sent={plain.segments[4].key: short, plain.segments[5].key: WHOLE},
    )
    held = one.held({4, 5}, cut=True)
    assert held is not None
    assert held[4] == short
    assert held[5] != WHOLE
