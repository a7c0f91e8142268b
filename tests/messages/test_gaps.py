"""Gaps in a request: which steps are omitted, which note tells of them, and where it goes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from cupel.messages import MessageSession
from cupel.messages._gaps import Gap, Last, Note, clipped, find_gaps, note_tokens, placed_again, write_notes
from cupel.messages._history import History, read_history
from cupel.messages._notes import OmittedStep, step_of
from cupel.messages._reading import Options
from tests.messages.chat import COUNTER, assistant, format_of, result, user

Message = dict[str, Any]


def call(name: str, key: str = "1", **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return assistant("So.", tool_calls=[{"id": key, "type": "function", "function": function}])


def talk(*, results: bool = True) -> History:
    """A question and eleven steps: calls with their results, or words of the assistant."""
    messages: list[Any] = [user("Go on.")]
    for number in range(11):
        step = [call("look", f"c{number}", at=number), result(f"c{number}")]
        messages += step if results else [assistant(str(number))]
    return read_history(messages, Options(provider="openai", counter=COUNTER))


def gaps_of(order: list[int], *, results: bool = True, separate: bool = True, **options: Any) -> list[Gap]:
    history = talk(results=results)
    sent = {index: history.of(index) for index in order}
    return find_gaps(history, sent, options.pop("last", Last()), separate=separate, **options)


def noted(order: list[int], *, results: bool = True, **options: Any) -> dict[int, list[int]]:
    """Return the numbers of the omitted steps, from 1, by the unit that their note is in, or precedes."""
    found = gaps_of(order, results=results, **options)
    return {
        gap.holder // 2 if results else gap.holder: [int(step.lines[0].split()[-1]) + 1 for step in gap.steps]
        for gap in found
    }


def test_a_note_goes_into_the_next_tool_result_that_is_sent() -> None:
    assert noted([0, 5, 8, 11]) == {5: [1, 2, 3, 4], 8: [6, 7], 11: [9, 10]}
    assert all(gap.in_result for gap in gaps_of([0, 5, 8, 11]))


def test_without_a_result_to_come_a_note_goes_before_the_next_message() -> None:
    assert noted([0, 5, 6, 11], results=False) == {11: [1, 2, 3, 4, 7, 8, 9, 10]}
    (gap,) = gaps_of([0, 5, 6, 11], results=False)
    assert not gap.in_result


def test_a_note_is_no_message_where_none_may_be() -> None:
    assert noted([0, 5, 6, 11], results=False, separate=False) == {}


def test_only_steps_from_a_position_on_are_told_of() -> None:
    assert noted([0, 5, 8, 11], start=11) == {8: [6, 7], 11: [9, 10]}


def test_what_earlier_notes_told_of_and_was_not_read_is_counted() -> None:
    note = Note(9, 6, {"look": 4, "bash": 2}, (), 7, in_result=True)
    gaps = gaps_of([0, 5, 8, 11], last=Last({0: None, 9: None, 10: None}, {10: note}))
    assert [(gap.count, gap.older) for gap in gaps] == [(6, 2), (2, 0), (2, 0)]
    assert gaps[0].names == Counter(bash=2)
    assert gaps[0].before == (note,)


def test_an_earlier_note_whose_steps_are_all_read_leaves_no_gap() -> None:
    note = Note(9, 4, {"look": 4}, (), 7, in_result=True)
    order = [*range(12)]
    limits = dict.fromkeys([0, *range(9, 23)])
    assert gaps_of(order, last=Last(limits, {10: note})) == []


def test_a_system_message_is_no_step() -> None:
    messages = [user("Go on."), assistant("1"), {"role": "system", "content": "x"}, assistant("2"), user("And?")]
    history = read_history(messages, Options(provider="openai", counter=COUNTER, system_messages="compete"))
    (gap,) = find_gaps(history, {0: history.of(0), 4: history.of(4)}, Last(), separate=True)
    assert [step.lines[0] for step in gap.steps] == ["assistant: 1", "assistant: 2"]


def made(*calls: dict[str, Any]) -> tuple[OmittedStep, ...]:
    return tuple(step_of((2 * at,), [one], format_of(one), COUNTER) for at, one in enumerate(calls))


def test_notes_name_every_step_where_there_is_room() -> None:
    gap = Gap(holder=9, steps=made(call("look", at="log"), call("bash", command="ls")))
    text = "[cupel: 2 earlier steps omitted here: look log; bash ls]"
    assert write_notes([gap], COUNTER, 1000) == {9: gap.noted(text, 2, COUNTER)}


def test_older_steps_are_counted_where_notes_would_be_too_long() -> None:
    steps = made(*(call("read", path=f"src/module_{n}.py") for n in range(40)), call("bash", command="make"))
    note = write_notes([Gap(holder=99, steps=steps)], COUNTER, 60)[99].text
    assert COUNTER.count(note) <= 60
    assert note.startswith("[cupel: 41 earlier steps omitted here: read ×")
    assert note.endswith("read src/module_39.py; bash make]")


def test_the_newest_gap_has_lines_before_older_ones() -> None:
    steps = made(*(call("read", path=f"src/some_module_{n}.py") for n in range(6)))
    notes = write_notes([Gap(holder=3, steps=steps[:3]), Gap(holder=9, steps=steps[3:])], COUNTER, 48)
    assert [len(placed.note.lines) for placed in notes.values()] == [0, 3]


def test_notes_keep_to_their_limit_and_tell_of_every_step() -> None:
    steps = made(*(call(f"tool_{n}", path="x" * 50) for n in range(12)))
    gaps = [Gap(holder=at, steps=steps[at : at + 3], older=at) for at in range(0, 12, 3)]
    for limit in range(10, 300, 7):
        notes = write_notes(gaps, COUNTER, limit)
        texts = [placed.text for placed in notes.values()]
        assert sum(map(COUNTER.count, texts)) <= limit
        assert sum(int(text.split()[1]) for text in texts) == 12 + 3 + 6 + 9
        assert max(notes) == 9, "the oldest share the note of the next"


def test_the_last_note_that_is_left_gives_a_number() -> None:
    placed = write_notes([Gap(holder=3, steps=made(call("look")), older=11)], COUNTER, 0)[3]
    assert (placed.text, placed.note.lines) == ("[cupel: 12 earlier steps omitted]", ())


@pytest.mark.parametrize("lines", [0, 1, 2])
def test_a_note_is_written_again_from_the_steps_with_a_line(lines: int) -> None:
    gap = Gap(holder=9, steps=made(call("look", at="log"), call("bash", command="ls")), older=3, names=Counter(look=3))
    text = gap.text(lines)
    placed = gap.noted(text, lines, COUNTER)
    assert placed.note.steps == 5
    assert placed.note.names == {"bash": 1, "look": 4}
    assert placed.note.lines == ((0,), (2,))[2 - lines :]
    assert placed_again(text, placed.note, COUNTER) == placed
    assert placed_again(text + " and more words", placed.note, COUNTER) is None


def test_the_tokens_of_a_note_are_those_that_it_adds() -> None:
    note = "[cupel: x" + 18 * "y" + "]"
    assert COUNTER.count(note) == 7
    assert note_tokens(note, COUNTER, in_result=True) == COUNTER.count(f"{note}\n") == 8
    assert note_tokens(note, COUNTER, in_result=False) == 7 + 4


@pytest.mark.parametrize(("limit", "text"), [(100, "a b c d e"), (2, "a b c…"), (0, "…")])
def test_words_are_clipped_to_a_limit(limit: int, text: str) -> None:
    assert clipped("a  b\nc d e", limit, COUNTER) == text


def chat(provider: str, turns: int) -> list[Message]:
    """A conversation without tools: notes are in messages of their own."""
    words = "the town at the river was founded by people from the coast " * 12
    texts = [f"{kind} {turn}: {words}" for turn in range(turns) for kind in ("Question", "Answer")]
    return [spoken(provider, text, by_user=at % 2 == 0) for at, text in enumerate(texts)][:-1]


def spoken(provider: str, text: str, *, by_user: bool = True) -> Message:
    if provider == "gemini":
        return {"role": "user" if by_user else "model", "parts": [{"text": text}]}
    kind = {"text": text} if provider == "bedrock" else {"type": "text", "text": text}
    return {"role": "user" if by_user else "assistant", "content": [kind]}


@pytest.mark.parametrize("alternate", [False, True])
@pytest.mark.parametrize("provider", ["anthropic", "bedrock", "gemini", "openai"])
def test_a_note_is_removed_from_a_stored_request_and_kept_where_the_user_quotes_it(
    provider: Any, alternate: bool
) -> None:
    options: dict[str, Any] = {"provider": provider, "counter": COUNTER, "alternate": alternate}
    history = chat(provider, 20)
    session = MessageSession[Any](2000, **options)
    turn = session.fit(history)
    (note,) = turn.notes
    stored = MessageSession[Any].from_json(session.to_json(), 10**6, **options).fit(turn.messages)
    assert "earlier steps" not in str(stored.messages)

    quoting = [*history, spoken(provider, "Sure.", by_user=False), spoken(provider, note)]
    assert note in str(session.fit(quoting).messages[-1])
    longer = [*quoting, spoken(provider, "It is a note.", by_user=False), spoken(provider, "Thanks.")]
    restored = MessageSession[Any].from_json(session.to_json(), 2000, **options)
    for one in (session, restored):
        assert note in str(one.fit(longer).messages[-3])


def test_what_is_read_again_is_told_of_once_whichever_note_told_of_it() -> None:
    """The later of two notes told of the older steps, which were not read then."""
    history = talk()
    last = Last(
        {0: None, 19: None, 20: None, 21: None, 22: None},
        {20: note(steps=1, newest=17), 22: note(steps=8, newest=18)},
    )
    sent = {index: history.of(index) for index in range(len(history.units)) if history.places(index)[0] in (0, 19, 21)}
    gaps = find_gaps(history, sent, last, separate=True)
    assert sum(gap.count for gap in gaps) == sum(index not in sent for index in range(len(history.units))) == 9


def note(steps: int, newest: int) -> Note:
    return Note(9, steps, {"look": steps}, (), newest, in_result=True)
