"""Gaps in a request: which steps are omitted, which note covers them, and where it goes."""

import json
from typing import Any

import pytest

from cupel._planning import Answer, Entry
from cupel.messages._gaps import Gaps, PlacedNote, clipped
from cupel.messages._history import Options, read_history
from cupel.messages._notes import Slot, note_of, note_text
from cupel.messages._segments import Segment, Segments
from cupel.tokens import CharacterEstimate
from tests.messages.chat import assistant, result, user

COUNTER = CharacterEstimate()


def segments(*, results: bool = True) -> list[Segment]:
    """A question and eleven steps: calls with their results, or words of the assistant."""
    history: list[Any] = [user("Go on.")]
    for number in range(11):
        function = {"name": "look", "arguments": json.dumps({"at": number})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        step = [assistant("So.", tool_calls=[call]), result(f"c{number}")]
        history += step if results else [assistant(str(number))]
    read = read_history(history, Options(provider="openai"))
    return Segments(None).split(read, range(len(history)))


def gaps_of(*, results: bool = True, **options: Any) -> Gaps:
    return Gaps(segments=segments(results=results), counter=COUNTER, **options)


def noted(
    order: list[int], kept: int = 0, prefix: Any = None, *, results: bool = True, **options: Any
) -> dict[int, list[int]]:
    """Return the gaps of a request that sends some of the segments, by the segment that the note precedes."""
    gaps = gaps_of(results=results, **options).between(order, kept, prefix)
    return {at: [int(one.lines[0].split()[-1]) + 1 for one in gap] for at, gap in gaps.items()}


def test_a_note_goes_into_the_next_tool_result_that_is_sent() -> None:
    assert noted([0, 5, 8, 11]) == {5: [1, 2, 3, 4], 8: [6, 7], 11: [9, 10]}


def test_without_a_result_to_come_a_note_goes_before_the_next_message() -> None:
    assert noted([0, 5, 6, 11], results=False) == {5: [1, 2, 3, 4, 7, 8, 9, 10]}
    assert noted([0, 1, 2], results=False) == {}


def test_a_prefix_that_is_kept_gets_no_new_note() -> None:
    assert noted([0, 5, 8, 11], kept=3) == {11: [1, 2, 3, 4, 6, 7, 9, 10]}
    assert noted([0, 5, 8, 11], kept=4) == {}
    assert noted([0, 5, 6, 11], kept=3, results=False) == {11: [1, 2, 3, 4, 7, 8, 9, 10]}
    assert noted([0, 5, 6, 11], kept=4, results=False) == {}


def test_steps_that_a_note_of_the_prefix_covers_are_not_noted_again() -> None:
    assert noted([0, 5, 8, 11], kept=3, prefix={5: None}) == {11: [6, 7, 9, 10]}


def test_a_note_is_no_message_where_none_may_be() -> None:
    assert noted([0, 5, 6, 11], results=False, separate=False) == {}


def test_archived_steps_are_omitted_before_the_segment_that_they_precede() -> None:
    gaps = gaps_of()
    archive = [one.trace for one in gaps.segments[1:3]]
    with_archive = Gaps(segments=gaps.segments, counter=COUNTER, archived={5: archive})
    assert with_archive.omitted(4, 5) == archive
    assert with_archive.omitted(3, 5) == [gaps.segments[4].trace, *archive]
    assert with_archive.omitted(5, 6) == []


def test_a_system_message_is_no_step() -> None:
    history = [user("Go on."), assistant("1"), {"role": "system", "content": "Be brief."}, assistant("2"), user("And?")]
    read = read_history(history, Options(provider="openai"))
    split = Segments(None).split(read, range(len(history)))
    assert "system" in {one.role for one in split}
    lines = [one.lines[0] for one in Gaps(segments=split, counter=COUNTER).omitted(0, len(split) - 1)]
    assert lines == ["assistant: 1", "assistant: 2"]


@pytest.fixture
def gap() -> Any:
    return tuple(one.trace for one in segments()[1:5])


def entry(gap: Any, **fields: int) -> Entry:
    noted = COUNTER.count(note_of(gap, 2) + "\n")
    return Entry("k", "", 10, **{"noted": noted, "steps": 4, "lines": 2, **fields})


def test_the_note_of_the_last_request_is_written_again(gap: Any) -> None:
    recalled = gaps_of().recalled(5, gap, entry(gap))
    assert recalled is not None
    assert (recalled.text, recalled.lines, recalled.gap) == (note_of(gap, 2), 2, gap)


@pytest.mark.parametrize("fields", [{"steps": 5}, {"steps": 3}, {"noted": 7}, {"lines": 5}])
def test_a_note_on_other_steps_is_not_recalled(gap: Any, fields: dict[str, int]) -> None:
    assert gaps_of().recalled(5, gap, entry(gap, **fields)) is None


def test_the_callers_words_are_recalled(gap: Any) -> None:
    text = note_text(4, "three modules were read")
    answers = (Answer(gap[0].key, gap[-1].key, "three modules were read"),)
    found = gaps_of(answers=answers).recalled(5, gap, entry(gap, noted=COUNTER.count(text + "\n")))
    assert found is not None
    assert found.text == text


def test_steps_that_an_earlier_answer_covers_are_not_given_to_the_caller_again(gap: Any) -> None:
    keys = [one.key for one in gap]
    outside = segments()[7].key
    answers = (Answer(keys[0], keys[2], "the first three"), Answer(keys[3], outside, "others"))
    assert gaps_of(answers=answers).previous(gap) == ([4], ["the first three"])


def test_the_tokens_of_a_note_are_those_that_it_adds(gap: Any) -> None:
    note = "[cupel: x" + 18 * "y" + "]"
    assert COUNTER.count(note) == 7
    assert COUNTER.count(f"{note}\n") == 8
    for in_result, tokens in ((True, 8), (False, 7 + 4)):
        assert gaps_of().tokens(PlacedNote(note, 0, Slot(3, in_result), gap)) == tokens


@pytest.mark.parametrize(("limit", "text"), [(100, "a b c d e"), (2, "a b c…"), (0, "…")])
def test_words_are_clipped_to_a_limit(limit: int, text: str) -> None:
    assert clipped("a  b\nc d e", limit, COUNTER) == text
