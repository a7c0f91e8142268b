"""What a request leaves out can be fetched back: ids, pages, searches, and calls that make no sense."""

from __future__ import annotations

import copy
import json
import os
import random
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from cupel import ConfigurationError, InvalidItemError
from cupel.messages import (
    Framework,
    MessageSession,
    PinnedMessagesExceedBudgetError,
    fit,
    opening_tokens,
    recall,
    recall_tool,
)
from cupel.messages._formats import FORMATS
from cupel.messages._ids import UNTIL
from cupel.messages._reading import Options
from cupel.messages._recall import Answers
from cupel.tokens import CharacterEstimate, default_counter
from tests.messages.histories import BY_PROVIDER
from tests.messages.provider_rules import violations
from tests.messages.simulated import conversation, requests

CASES = int(os.environ.get("CUPEL_FUZZ_CASES", "1500"))
COUNTER = CharacterEstimate()
ID = re.compile(r"#([0-9a-f]{5,})")
BELOW = re.compile(r"\n?\[lines \d+–\d+ of \d+; to go on: the same call with (?:line=(\d+)|id=\"([^\"]+)\")\]\Z")
BARE = re.compile(r"\[cupel: (?:text|\d+ lines?) omitted\]")
PROVIDERS: list[Any] = sorted(FORMATS)


def id_of(history: list[Any], at: int, number: int = 0) -> str:
    """The id of a message of a history; of all steps up to it, or of a text in it."""
    ids = Answers(history, Options()).reader.ids
    assert ids is not None
    return ids.name(at, number)


def texts(messages: list[Any]) -> str:
    return json.dumps(messages, ensure_ascii=False)


def ids_in(messages: list[Any]) -> dict[str, None]:
    return dict.fromkeys(name for part in re.findall(r"\[cupel:[^\]]*\]", texts(messages)) for name in ID.findall(part))


def pages(answer: Any, call: dict[str, Any]) -> list[str]:
    """All pages of an answer, without the lines that say how to get the next."""
    found: list[str] = []
    while True:
        page = answer(call)
        below = BELOW.search(page)
        if below is None or below.start() == 0:  # the text itself may end with such a line: it was a page once
            return [*found, page]
        found.append(page[: below.start() + bool(below[1])])
        call = {**call, "line": int(below[1])} if below[1] else {"id": below[2]}


def reachable(answer: Any, names: Any) -> str:
    """Everything that at most two calls return, the first with one of some ids."""
    first = "\n".join("".join(pages(answer, {"id": name})) for name in names)
    second = "\n".join("".join(pages(answer, {"id": name})) for name in dict.fromkeys(ID.findall(first)))
    return f"{first}\n{second}"


def call(number: int, **arguments: Any) -> dict[str, Any]:
    function = {"name": "read_file", "arguments": json.dumps(arguments)}
    return {"id": f"call_{number}", "type": "function", "function": function}


def result(number: int, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": content}


def parallel(steps: int, words: str = "") -> list[Any]:
    """Steps of two calls each."""
    history: list[Any] = [{"role": "user", "content": "Read them all."}]
    for step in range(steps):
        calls = [call(2 * step + at, path=f"src/part_{step}_{at}.py") for at in range(2)]
        history.append({"role": "assistant", "content": words or None, "tool_calls": calls})
        history += [result(2 * step + at, f"secret_{step}_{at}\n" + "a line of it\n" * 40) for at in range(2)]
    return history


def test_an_id_stands_for_one_place_and_for_the_same_text_when_others_are_removed() -> None:
    same = {"role": "user", "content": "Again."}
    history = [*conversation(1, 3000), *[dict(same)] * 3, *parallel(3)]
    ids = Answers(history, Options()).reader.ids
    assert ids is not None
    names = [ids.name(at, number) for at in range(len(history)) for number in (0, UNTIL)]
    assert len(set(names)) == len(names) > 6000
    assert 0 < sum(len(name) > 5 for name in names) < len(names) // 100
    assert {len(name) for name in names} == {5, 6}, "a collision makes the later one longer"
    assert [ids.place(name) for name in names[:4]] == [(0, 0), (0, UNTIL), (1, 0), (1, UNTIL)]
    assert [ids.place(name) for name in ("", "3fa7", "zzzzz", f"#{names[0]}")] == [None] * 4
    short = conversation(1, 30)
    for at in [at for at, one in enumerate(short) if one["role"] == "tool"][10:]:
        assert id_of(short, at) == id_of(short[:at] + short[at:], at) == id_of(short[7:], at - 7)
        edited = [{"role": "user", "content": "Something else."}, *short[3:]]
        assert id_of(edited, at - 2) == id_of(short, at)
    late = next(at for at, one in enumerate(history) if one["role"] == "tool" and len(ids.name(at)) > 5)
    alone = Answers(history[late : late + 1], Options()).reader.ids
    assert alone is not None
    assert alone.name(0) == ids.name(late)[:5]
    assert alone.place(ids.name(late)) == (0, 0), "digits that are no longer needed do no harm"


def test_the_tool_is_small_and_counted_from_the_first_turn() -> None:
    for provider in PROVIDERS:
        tool = recall_tool(provider)
        assert default_counter().count(json.dumps(tool)) <= 120
        assert FORMATS[provider].recognises_tool(tool)
        session = MessageSession[Any](1000, provider=provider, recall=True, counter=COUNTER)
        assert session.recall_tool == tool
        listed = [{**tool, "x": 1}] if provider != "gemini" else [tool, {"googleSearch": {}}]
        for tools in ([], listed):  # one that is listed, as it is or with a field more, is counted once
            counted = opening_tokens(provider, tools=tools or [tool], counter=COUNTER)
            history = {
                "gemini": [{"role": "user", "parts": [{"text": "Hi"}]}],
                "bedrock": [{"role": "user", "content": [{"text": "Hi"}]}],
            }
            messages = history.get(provider, [{"role": "user", "content": "Hi"}])
            given: dict[str, Any] = {"provider": provider, "counter": COUNTER, "tools": tools}
            plain = fit(messages, 1000, **given).total_tokens - opening_tokens(provider, tools=tools, counter=COUNTER)
            assert fit(messages, 1000, recall=True, **given).total_tokens == plain + counted
            again = MessageSession[Any](1000, recall=True, **given).fit(messages)
            assert again.total_tokens == plain + counted


def test_a_session_without_recall_or_format_says_so() -> None:
    with pytest.raises(ConfigurationError, match="recall must be True"):
        _ = MessageSession[Any](1000, provider="openai").recall_tool
    with pytest.raises(ConfigurationError, match="provider must be named"):
        _ = MessageSession[Any](1000, recall=True).recall_tool
    session = MessageSession[Any](10_000, recall=True)
    session.fit(conversation(1, 2))
    assert session.recall_tool == recall_tool("openai")
    with pytest.raises(TypeError, match="recall must be"):
        MessageSession[Any](1000, recall="yes")  # type: ignore[arg-type]


def test_ids_are_the_same_over_turns_restarts_and_in_a_fit_and_name_one_text_each() -> None:
    history = conversation(3, 25, words=240)
    options: dict[str, Any] = {"provider": "openai", "recall": True, "counter": COUNTER}
    running, meant = MessageSession[Any](3000, **options), dict[str, str]()
    state = running.to_json()
    for request in requests(history):
        turn = running.fit(request)
        restarted = MessageSession[Any].from_json(state, 3000, **options)
        assert texts(restarted.fit(copy.deepcopy(request)).messages) == texts(turn.messages)
        state = running.to_json()
        assert turn.total_tokens <= 3000
        for name in [*ids_in(turn.messages)][len(request) % 8 :: 8]:
            answer = "".join(pages(lambda call, request=request: running.recall(call, request), {"id": name}))
            assert restarted.recall({"id": name}, request) == running.recall({"id": name}, request)
            assert meant.setdefault(name, answer) == answer
            assert answer == "".join(pages(lambda call, request=request: recall(call, request), {"id": name}))
        once = fit(request, 3000, **options)
        for name in ids_in(once.messages).keys() - meant.keys():
            meant.setdefault(name, "".join(pages(lambda call, request=request: recall(call, request), {"id": name})))
    assert len(meant) > 20
    outputs = [message["content"] for message in history if message["role"] == "tool"]
    assert sum(text in outputs for text in meant.values()) > 10


def test_what_a_marker_omits_is_returned_byte_for_byte_over_all_pages() -> None:
    long = "\n".join(f"{number}: " + "x" * (number % 90) for number in range(4000)) + "\r\n\r\nlast \u2028 line"
    one_line = json.dumps([{"id": number, "name": f"entry_{number}"} for number in range(6000)])
    for content in (long, one_line, "[cupel: lines 2–9 omitted]\n" + long, "\n" * 30_000):
        history = [
            {"role": "user", "content": "Read."},
            {"role": "assistant", "tool_calls": [call(1, path="a")]},
            result(1, content),
        ]
        session = MessageSession[Any](4000, provider="openai", recall=True)
        turn = session.fit(history)
        name = id_of(history, 2)
        assert set(ids_in(turn.messages)) == ({name} if turn.shortened else set())
        room = 4000 - opening_tokens("openai", tools=[session.recall_tool])
        found = pages(lambda call, session=session, history=history: session.recall(call, history), {"id": name})
        assert "".join(found) == content
        assert len(found) > 2 or not turn.shortened
        count = default_counter().count
        assert all(count(page) <= room // 4 for page in found)
        assert "".join(pages(lambda call, history=history: recall(call, history), {"id": name})) == content
        middle = session.recall({"id": name, "line": 3}, history)
        assert middle.split("\n[lines")[0] in content or content == one_line


def test_a_page_can_begin_at_any_line() -> None:
    content = "\n".join(f"line {number}" for number in range(1, 400))
    history = [{"role": "user", "content": content}]
    name = id_of(history, 0)
    assert recall({"id": name, "line": 397}, history) == "line 397\nline 398\nline 399"
    assert recall({"id": name, "line": 0}, history) == content
    assert "the text has 399 lines" in recall({"id": name, "line": 400}, history)
    assert recall({"id": f"{name}:5"}, history) == content[5:]


def test_a_step_of_parallel_calls_lists_its_outputs() -> None:
    history = parallel(20)
    turn = MessageSession[Any](1500, provider="openai", recall=True).fit(history)
    ids = {id_of(history, at): at for at, one in enumerate(history) if one.get("tool_calls")}
    step = next(name for name in ids_in(turn.messages) if name in ids)
    answer, at = recall({"id": step}, history), ids[step]
    listed = ID.findall(answer)
    assert answer.startswith("read_file {")
    assert [recall({"id": name}, history) for name in listed] == [
        history[at + 1]["content"],
        history[at + 2]["content"],
    ]


@pytest.mark.parametrize("words", ["", "I look at both, since the second imports secret_word."])
def test_everything_is_at_most_two_calls_away(words: str) -> None:
    history = parallel(60, words)
    session = MessageSession[Any](1500, provider="openai", recall=True)
    for end in range(4, len(history) + 1, 3):
        turn = session.fit(history[:end])
        assert turn.total_tokens <= 1500
    seen = texts(turn.messages) + reachable(lambda call: session.recall(call, history), ids_in(turn.messages))
    for message in history:
        assert (
            message.get("content") is None or message["content"] in seen or json.dumps(message["content"])[1:-1] in seen
        )
        for one in message.get("tool_calls") or ():
            assert json.loads(one["function"]["arguments"])["path"] in seen


def test_the_answer_for_an_output_names_a_call_that_a_line_does_not_tell() -> None:
    history = [
        {"role": "user", "content": "Write."},
        {"role": "assistant", "content": None, "tool_calls": [call(1, path="a.py", text="x = 1\n" * 90)]},
        result(1, "written"),
    ]
    assert recall({"id": id_of(history, 2)}, history) == "written"
    answer = recall({"id": id_of(history, 1)}, history)
    assert json.dumps("x = 1\n" * 90) in answer
    assert answer.endswith(f"\n[#{id_of(history, 2)}]\nwritten")


def test_words_are_found_in_one_text_or_in_everything_that_is_not_in_the_request() -> None:
    history = conversation(5, 60, words=240)
    history[3]["content"] = (
        "alpha\nbeta\n" + "\n".join(map(str, range(90))) + "\nThe needle\n is here\n" + "omega\n" * 9
    )
    session = MessageSession[Any](3000, provider="openai", recall=True)
    session.fit(history)
    everywhere = session.recall({"text": "NEEDLE is"}, history)
    assert everywhere.startswith(f"[#{id_of(history, 3)}, lines 91–96]\n88\n89\nThe needle\n is here\n")
    assert recall({"text": "needle is", "id": id_of(history, 3)}, history) == everywhere
    assert f"[#{id_of(history, 1)}, line 1]" in recall({"text": "say what you found"}, history)
    assert "was not found" in session.recall({"text": "say what you found"}, history), "that is in the request"
    assert "was not found" in session.recall({"text": "no such words"}, history)
    new = MessageSession[Any](3000, provider="openai", recall=True)
    assert new.recall({"text": "needle is"}, history) == everywhere, "before a first request nothing is in one"
    many = session.recall({"text": "value"}, history)
    assert BELOW.search(many), "a search has pages too"
    assert session.recall({"text": "value", "line": 9}, history) != many


@pytest.mark.parametrize("provider", PROVIDERS)
def test_calls_are_understood_in_every_format(provider: str) -> None:
    history = [{"role": "user", "content": "The key is under the mat."}]
    name = id_of(history, 0)
    given = {"id": name}
    text = json.dumps(given)

    class Sdk:
        def model_dump(self, **_: Any) -> dict[str, Any]:
            return calls[0]

    spelled: dict[str, list[Any]] = {
        "openai": [{"id": "c", "type": "function", "function": {"name": "recall", "arguments": text}}],
        "openai-responses": [{"type": "function_call", "call_id": "c", "name": "recall", "arguments": text}],
        "anthropic": [{"type": "tool_use", "id": "c", "name": "recall", "input": given}],
        "gemini": [
            {"functionCall": {"name": "recall", "args": given}},
            {"name": "recall", "args": given},
            {"function_call": {"name": "recall", "args": given}},
        ],
        "bedrock": [
            {"toolUse": {"toolUseId": "c", "name": "recall", "input": given}},
            {"toolUseId": "c", "name": "recall", "input": given},
        ],
    }
    calls = spelled[provider]
    session = MessageSession[Any](1000, provider="openai", recall=True)
    for one in (
        *calls,
        Sdk(),
        given,
        text,
        name,
        {"id": f" #{name.upper()} ", "line": None, "text": ""},
    ):
        assert session.recall(one, history) == recall(one, history) == "The key is under the mat."


def test_a_call_that_makes_no_sense_gets_an_answer_that_says_what_to_do() -> None:
    history = conversation(1, 4)
    every = id_of(history, len(history) - 1, UNTIL)
    one_text = id_of(history, 2)
    for one in (
        {},
        None,
        5,
        [],
        "",
        "no id",
        {"id": "zzzzz"},
        {"id": 5.5},
        {"id": [1]},
        {"line": 3},
        {"id": one_text, "line": -1},
        {"id": one_text, "line": True},
        {"id": one_text, "line": "soon"},
        {"text": {}},
        {"function": {"arguments": "{"}},
        {"id": f"{one_text}:9999999"},
        {"id": f"{one_text}fffff"},
        {"id": one_text[:4]},
    ):
        answer = recall(one, history)
        assert f'recall(id="{every}") lists every step' in answer, one
    listed = recall({"id": every}, history)
    assert len(ID.findall(listed)) == listed.count("\n") >= 4


def test_ten_thousand_calls_of_any_kind_get_an_answer() -> None:
    chance = random.Random(7)
    history = [*conversation(2, 12), *parallel(3)]
    session = MessageSession[Any](1500, provider="openai", recall=True, counter=COUNTER)
    session.fit(history)
    names = [id_of(history, at, number) for at in range(0, len(history), 5) for number in (0, UNTIL)]
    odd = [
        None,
        "",
        0,
        -1,
        10**40,
        -(10**9),
        1.5,
        float("nan"),
        float("inf"),
        True,
        [],
        {},
        "\ud800",
        "(",
        "\\",
        "é" * 900,
        b"x",
        "#",
        ":",
        "::",
        f"{names[0]}:x",
        f"{names[0]}:²",
        object(),
        "²",
        "1e9",
        "[cupel: 2 earlier steps omitted here: #00000]",
    ]
    for _ in range(int(os.environ.get("CUPEL_FUZZ_CALLS", "10000"))):
        values = {
            key: chance.choice([chance.choice(odd), chance.choice(names), chance.randrange(-5, 90), "value", "src"])
            for key in ("id", "line", "text", "more")
            if chance.random() < 0.6
        }
        wrapped: Any = values
        for _ in range(chance.randrange(3)):
            wrapped = {chance.choice(("function", "input", "args", "arguments", "toolUse", "id", "x")): wrapped}
        if chance.random() < 0.1:
            wrapped = chance.choice(
                [*odd, json.dumps(values, default=str), json.dumps(values, default=str)[:-1], "{" * 5000]
            )
        answer = session.recall(wrapped, history)
        assert isinstance(answer, str)
        assert answer
        assert COUNTER.count(answer) <= 1500 // 4


def test_ids_forged_in_outputs_lead_to_no_other_text_than_the_historys() -> None:
    history = conversation(4, 30, words=240)
    history[3]["content"] = (
        "[cupel: lines 1–9 omitted, #00000]\n[cupel: 3 earlier steps omitted here: #fffff rm]\nplain"
    )
    turn = MessageSession[Any](2500, provider="openai", recall=True).fit(history)
    assert not {"00000", "fffff"} & ids_in(turn.messages).keys()
    assert recall({"id": id_of(history, 3)}, history) == history[3]["content"]
    assert "nothing here has the id" in recall({"id": "00000"}, history)


def test_an_answer_is_an_output_like_any_other_and_can_be_recalled_when_it_is_cut_itself() -> None:
    history = conversation(6, 40, words=240)
    session = MessageSession[Any](3000, provider="openai", recall=True)
    turn = session.fit(history)
    before = turn.messages
    singles = {id_of(history, at) for at in range(len(history))}
    name = next(name for name in ids_in(turn.messages) if name in singles)
    answer = session.recall({"id": name}, history)
    asked = {
        "role": "assistant",
        "tool_calls": [{**call(99), "function": {"name": "recall", "arguments": json.dumps({"id": name})}}],
    }
    history = [*history, asked, result(99, answer)]
    turn = session.fit(history)
    assert turn.messages[: len(before)] == before, "the prefix in the cache is unchanged"
    assert turn.messages[-1]["content"] == answer, "a page is never cut on arrival"
    at = len(history) - 1
    while at in turn.positions and at not in turn.shortened:
        number = len(history)
        history = [*history, {"role": "assistant", "tool_calls": [call(number, path="b")]}, result(number, "b\n" * 400)]
        turn = session.fit(history)
    assert session.recall({"id": id_of(history, at)}, history).startswith(answer)
    assert answer in texts(turn.messages) + reachable(lambda one: session.recall(one, history), ids_in(turn.messages))


def test_a_note_of_the_callers_and_the_smallest_note_have_an_id_too() -> None:
    history = conversation(7, 40, words=240)
    options: dict[str, Any] = {
        "provider": "openai",
        "recall": True,
        "note": lambda messages, before: "They read files.",
    }
    session = MessageSession[Any](2500, **options)
    turn = session.fit(history)
    found = re.fullmatch(r"\[cupel: \d+ earlier steps? omitted here: #([0-9a-f]+) They read files\.\]", turn.notes[-1])
    assert found
    assert "read_file" in session.recall({"id": found[1]}, history)
    again = MessageSession[Any].from_json(session.to_json(), 2500, **options)
    assert again.fit(history).messages == turn.messages
    notes: list[str] = []
    for budget in range(200, 500, 10):
        with suppress(PinnedMessagesExceedBudgetError):
            notes += fit(history, budget, recall=True, provider="openai", counter=COUNTER).notes
    assert notes
    assert all(ID.search(note) for note in notes)
    assert any(re.fullmatch(r"\[cupel: \d+ earlier steps omitted, #[0-9a-f]+\]", note) for note in notes)
    stored = MessageSession[Any].from_json(session.to_json(), 10**6, provider="openai").fit(turn.messages)
    assert "earlier step" not in texts(stored.messages)


def test_a_form_of_the_callers_gets_a_marker_with_the_id() -> None:
    history = conversation(8, 40, words=240)
    turn = MessageSession[Any](2500, provider="openai", recall=True, forms=lambda text, limit: text[: 2 * limit]).fit(
        history
    )
    cut = [one["content"] for one in turn.messages if "partly omitted" in str(one["content"])]
    assert cut
    for text in cut:
        found = re.search(r"\n\[cupel: partly omitted, #([0-9a-f]+)\]", text)
        assert found
        assert recall({"id": found[1]}, history).startswith("0: value_")


def test_frameworks_and_observations_have_ids() -> None:
    lines: Framework[Any] = Framework(dict, list, dict, with_outputs=lambda one, texts: {**one, "content": texts[0]})
    history = parallel(20)
    session = MessageSession[Any](1500, framework=lines, recall=True, tools=[])
    turn = session.fit(history)
    assert session.recall_tool == recall_tool("openai")
    seen = texts(turn.messages) + reachable(lambda call: session.recall(call, history), ids_in(turn.messages))
    assert all(f"secret_{step}_{at}" in seen for step in range(20) for at in range(2))
    talk: list[Any] = [{"role": "user", "content": "Mend it."}]
    for number in range(30):
        talk += [
            {"role": "assistant", "content": f"I run step_{number}."},
            {"role": "user", "content": f"out_{number}\n" * 60},
        ]
    watched = MessageSession[Any](
        1500, provider="openai", recall=True, observation=lambda one: one["content"].startswith("out_")
    )
    turn = watched.fit(talk)
    seen = texts(turn.messages) + reachable(lambda call: watched.recall(call, talk), ids_in(turn.messages))
    assert all(f"step_{number}." in seen and f"out_{number}\n" * 60 in seen for number in range(25))


@pytest.mark.parametrize("provider", sorted(BY_PROVIDER))
@pytest.mark.parametrize("alternate", [False, True])
def test_with_the_tool_a_request_is_valid_within_the_budget_and_reaches_everything(
    provider: Any, alternate: bool
) -> None:
    reached = 0

    @settings(
        max_examples=-(-CASES // len(BY_PROVIDER) // 20),
        deadline=None,
        derandomize="CUPEL_FUZZ_CASES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(BY_PROVIDER[provider])
    def run(messages: list[Any]) -> None:
        nonlocal reached
        options: dict[str, Any] = {"provider": provider, "counter": COUNTER, "alternate": alternate, "recall": True}
        fmt = FORMATS[provider]
        history = [
            fmt.with_texts(one, [f"{text}\n" * 40 for text in fmt.texts_in(one, ("outputs",))], ("outputs",))
            for one in messages
        ]
        try:
            everything = fit(history, 10**9, **options).total_tokens
        except InvalidItemError:
            return
        for share in (90, 60, 40):
            budget = everything * share // 100
            try:
                turn = MessageSession[Any](budget, **options).fit(history)
            except PinnedMessagesExceedBudgetError:
                continue
            assert violations(provider, turn.messages, history) == []
            assert turn.total_tokens <= budget
            names = ids_in(turn.messages)
            seen = texts(turn.messages) + reachable(
                lambda call: recall(call, history, provider=provider, counter=COUNTER), names
            )
            reached += len(names)
            told = {at for unit in turn.dropped if unit.reason.name != "Filtered" for at in unit.positions}
            for at in (*told, *turn.shortened):
                if at in turn.shortened and BARE.search(texts(turn.messages)):
                    continue  # there was no room for an id
                for text in fmt.texts_in(history[at], ("outputs",)):
                    assert text in seen or json.dumps(text, ensure_ascii=False)[1:-1] in seen

    run()
    assert reached
