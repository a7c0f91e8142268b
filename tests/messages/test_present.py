"""The part of a history that every cut request contains: which units it holds, and in which forms."""

from typing import Any

import pytest

from cupel.messages._forms import Forms
from cupel.messages._history import read_history
from cupel.messages._present import MESSAGE_FRAME, SHORTEST_USER, Held, Present
from cupel.messages._reading import Options
from tests.messages.chat import COUNTER, assistant, calling, result, use, used, user

OUTPUT = "word " * 80
"""A hundred tokens."""


def present(history: list[Any], room: int, *, excess: int = 10**6, **options: Any) -> Present:
    read = read_history(history, Options(counter=COUNTER))
    return Present(history=read, forms=Forms(read, None), room=room, excess=excess, **options)


def step(key: str, output: str = OUTPUT) -> list[Any]:
    return [calling(key), result(key, output)]


FIVE = [user("Look."), *(message for key in "abcde" for message in step(key))]
"""A question is the first unit, the steps are the next five."""


def first(one: Present) -> Held:
    return next(one.levels())


def test_the_newest_three_steps_and_the_words_of_the_user_are_held() -> None:
    assert first(present(FIVE, 10_000)) == {0: None, 3: None, 4: None, 5: None}


@pytest.mark.parametrize(("room", "held"), [(900, {0, 3, 4, 5}), (700, {0, 4, 5}), (300, {0, 4, 5})])
def test_three_steps_that_take_more_than_two_fifths_of_the_room_are_two(room: int, held: set[int]) -> None:
    assert set(first(present(FIVE, room, excess=0))) == held


def test_words_of_the_assistant_compete() -> None:
    history = [*FIVE, assistant("Seen."), user("And?"), assistant("Now."), user("Go on.")]
    assert set(first(present(history, 10_000))) == {0, 3, 4, 5, 7, 9}


def test_without_gaps_older_words_of_the_user_are_not_held() -> None:
    history = [user("Look."), assistant("Where?"), user("There."), *FIVE[5:], assistant("Seen."), user("And?")]
    assert set(first(present(history, 10_000))) == {0, 2, 3, 4, 5, 7}
    assert set(first(present(history, 10_000, gaps=False))) == {2, 3, 4, 5, 7}, "the steps need a question before them"


def test_a_single_output_takes_a_quarter_of_the_room_or_what_fills_the_share_that_is_kept() -> None:
    assert present(FIVE, 400).base(5) is None
    assert present(FIVE, 200).base(5) == 50
    assert present(FIVE, 200, excess=30).base(5) == 70
    assert present(FIVE, 200, excess=0).base(5) is None


def test_the_outputs_of_one_step_share_two_fifths_of_the_room() -> None:
    history = [user("Look."), calling("a", "b"), result("a", OUTPUT), result("b", OUTPUT)]
    one = present(history, 300)
    assert one.base(1) == 60
    assert one.tokens(1, 60) < one.tokens(1, None)


def test_words_of_the_user_are_not_cut_on_arrival() -> None:
    assert present([user("word " * 800), *FIVE], 300).base(0) is None


def test_fewer_steps_are_held_the_less_room_there_is() -> None:
    def steps(room: int) -> list[int]:
        return [at for at in first(present(FIVE, room)) if at]

    assert [steps(room) for room in (1200, 130, 70, 40)] == [[3, 4, 5], [4, 5], [4, 5], [5]]


WORDS = {"type": "text", "text": "Stop, use the other file."}


def three_steps(question: str, spoken: str) -> list[Any]:
    """A question and the steps a, b and c, some of them with words of the user beside their results."""
    history = [user(question)]
    for key in "abc":
        history += [assistant([use(key)]), user([used(key, OUTPUT), *([WORDS] if key in spoken else [])])]
    return history


@pytest.mark.parametrize("room", [200, 220, 240, 260])
def test_words_and_outputs_that_must_be_sent_are_both_cut_where_that_is_the_last_resort(room: int) -> None:
    one = present(three_steps("Look at everything there is to see. " * 20, "b"), room)
    assert list(one.levels()) == []
    held = next(one.least())
    assert [at for at, limit in held.items() if limit] == [0, 2, 3]
    assert sum(one.tokens(at, limit) for at, limit in held.items()) <= room


def test_words_of_the_user_are_cut_to_less_than_a_hundred_tokens_before_they_leave() -> None:
    one = present([user("Begin."), user("Look at everything there is to see. " * 20), user("Go on.")], 80)
    held = first(one)
    assert 0 < (held[1] or 0) < SHORTEST_USER - MESSAGE_FRAME
    assert sum(one.tokens(at, limit) for at, limit in held.items()) <= 80


def test_the_newest_words_of_the_user_are_strongest_then_the_next_two_then_the_first() -> None:
    history = [user(text) for text in ("One.", "Two, which is longer.", "Three.", "Four.", "Five.")]
    assert present(history, 100)._weakest_first([*range(5)]) == [1, 0, 2, 3, 4]


def test_the_oldest_words_leave_where_the_user_takes_more_than_two_fifths_but_the_first_and_newest_stay() -> None:
    history = [message for number in range(20) for message in (user(f"{number} " * 90), assistant("Fine."))]
    words = [2 * number for number in range(20)]
    one = present([*history, user("Go on.")], 1000)
    held = [at for at in first(one) if one.forms.has_words(at)]
    assert held[0] == 0
    assert held[-3:] == [36, 38, 40]
    assert set(held) < {*words, 40}
    assert held[1:] == [at for at in [*words, 40] if at >= held[1]], "the oldest leave first"


def test_a_form_becomes_whole_where_the_room_suffices() -> None:
    one = present(FIVE, 200)
    missing = one.tokens(5, None) - one.tokens(5, 20)
    assert one.lengthened(5, 20, missing) is None
    longer = one.lengthened(5, 20, missing // 2)
    assert longer is not None
    assert 0 < one.tokens(5, longer) - one.tokens(5, 20) <= missing // 2
    assert one.lengthened(5, 20, 19) == 20
    assert one.lengthened(5, None, 10**6) is None


def test_words_of_the_user_that_were_cut_become_whole_where_the_room_suffices() -> None:
    one = present([user("word " * 400), *FIVE[1:]], 300)
    assert one.tokens(0, 100) < one.tokens(0, None)
    assert one.lengthened(0, 100, 1000) is None


def test_a_form_is_the_same_whatever_came_after_the_message() -> None:
    history = [user("Where is value_7?"), calling("a"), result("a", "\n".join(f"value_{n} = {n}" for n in range(200)))]
    alone = present(history, 300)
    later = present([*history, user("And value_150?"), *step("b")], 300)
    assert alone.forms.messages(1, 60)[1].view == later.forms.messages(1, 60)[1].view
