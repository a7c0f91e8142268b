"""What the next request must contain, what stays whole, and what is never sent on."""

from typing import Any

import pytest

from cupel import ConfigurationError, InvalidItemError
from cupel.messages import Framework, MessageSession, PinnedMessagesExceedBudgetError, fit, from_items, to_items
from tests.messages.chat import COUNTER, LARGE, assistant, calling, kept, result, rules, units, use, used, user
from tests.messages.histories import THINKING
from tests.messages.provider_rules import alternation, violations

BIG = "x" * 36_000
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": BIG}
TEXT = {"type": "text", "text": "STOP, use the other file."}


# --- what the model has yet to see -------------------------------------------------------------------------
@pytest.mark.parametrize(
    "history",
    [
        [user("Look."), calling("c"), result("c", BIG)],
        [user("Look."), CALL, OUTPUT],
        [user("Look."), assistant([use("c")]), user([used("c", BIG)])],
    ],
    ids=["openai", "openai-responses", "anthropic"],
)
def test_the_running_result_is_cut_to_fit(history: list[Any]):
    fitted = fit(history, 500, counter=COUNTER)
    assert fitted.shortened == (2,)
    assert 400 < fitted.total_tokens <= 500, "the room is used"


@pytest.mark.parametrize(
    "history",
    [
        [user("Look."), calling("c"), result("c", BIG)],
        [user("Look."), CALL, OUTPUT],
        [user("Look."), assistant([use("c")]), user([used("c", BIG)])],
    ],
    ids=["openai", "openai-responses", "anthropic"],
)
def test_the_running_result_is_kept_or_the_error_names_it(history: list[Any]):
    assert kept(history, 10_000) == [0, 1, 2]
    with pytest.raises(PinnedMessagesExceedBudgetError) as caught:
        fit(history, 500, counter=COUNTER, forms=False)
    named = [description for description, _ in caught.value.parts]
    assert "messages[1:3] (results that the model has yet to see)" in named


def test_results_that_the_model_has_seen_can_go():
    history = [user("Look."), calling("c"), result("c", BIG), calling("d"), result("d")]
    assert kept(history, 500, forms=False) == [0, 3, 4]
    seen = [user("Look."), calling("c"), result("c", BIG), assistant("Fine."), user("Go on.")]
    assert kept(seen, 500, forms=False) == [0, 3, 4]


def test_the_newest_steps_are_held_with_outputs_that_share_the_room():
    history = [user("Look."), *(m for n in "abcde" for m in (calling(n), result(n, "word " * 2000)))]
    fitted = fit(history, 1000, counter=COUNTER)
    assert fitted.positions == tuple(range(11))
    assert fitted.shortened == (2, 4, 6, 8, 10)
    sizes = [len(message["content"]) for message in fitted.messages[2::2]]
    assert sizes == sorted(sizes), "the newest are longest"
    assert sum(sizes[-2:]) > 3 * sum(sizes[:3])


@pytest.mark.parametrize("budget", range(980, 1040, 4))
def test_outputs_that_were_cut_fill_the_room_at_every_budget(budget: int):
    history = [user("Look."), *(m for n in "abcde" for m in (calling(n), result(n, "word " * 2000)))]
    assert 0.9 * budget < fit(history, budget, counter=COUNTER).total_tokens <= budget


def test_the_users_words_beside_a_result_are_the_newest_message():
    history = [user("Look."), assistant([use("c")]), user([used("c"), TEXT]), assistant([use("d")]), user([used("d")])]
    long = [*history[:3], assistant([use("e")]), user([used("e", BIG)]), *history[3:]]
    assert kept(long, 150, forms=False) == [0, 1, 2, 5, 6]
    with pytest.raises(PinnedMessagesExceedBudgetError, match=r"messages\[1:3\] \(the newest user message\)"):
        fit([history[0], history[1], user([used("c", BIG), TEXT])], 500, counter=COUNTER, forms=False)


def test_words_after_a_result_do_not_replace_it():
    history = [user("Look."), assistant([use("c")]), user([used("c", BIG)]), user("Hurry.")]
    with pytest.raises(PinnedMessagesExceedBudgetError, match=r"messages\[1:3\] .*messages\[3\]"):
        fit(history, 500, counter=COUNTER, forms=False)


def test_an_opening_that_does_not_fit_gives_way_to_one_that_does():
    history = [user("Hi"), assistant("Hello."), user(BIG), assistant([use("c")]), user([used("c", "fine")]), user("Go")]
    assert kept(history, 200, forms=False) == [0, 1, 3, 4, 5]


def test_long_words_of_the_user_are_cut_rather_than_left_out():
    history = [user("Hi"), assistant("Hello."), user("word " * 4000), assistant("Well."), user("Go")]
    fitted = fit(history, 300, counter=COUNTER)
    assert fitted.shortened == (2,)
    assert {0, 2, 4} <= {*kept(history, 300)}


@pytest.mark.parametrize("budget", [210, 240])
def test_words_and_outputs_are_both_cut_before_a_request_is_refused(budget: int):
    history = [user("Look at everything there is to see. " * 20)]
    for key in "abc":
        history += [assistant([use(key)]), user([used(key, "word " * 80), *([TEXT] if key == "b" else [])])]
    for fitted in (fit(history, budget, counter=COUNTER), MessageSession(budget, counter=COUNTER).fit(history)):
        assert fitted.shortened == (0, 4, 6)
        assert 0.9 * budget < fitted.total_tokens <= budget
        assert violations("anthropic", fitted.messages, history) == []


def test_framework_histories_keep_the_running_result_too():
    thought = {"role": "assistant", "content": None, "reasoning": "Hm.", "tool_calls": calling("a")["tool_calls"]}
    history = [user("Hi"), thought, result("a"), calling("b"), result("b", "x" * 400), calling("c"), result("c")]
    fitted = Framework(dict, list, dict).fit(history, 100, counter=COUNTER)
    assert [history.index(message) for message in fitted.messages] == [0, 1, 2, 5, 6]


# --- programs, code, server tools --------------------------------------------------------------------------
PROGRAM = {"type": "program", "id": "prg_1", "call_id": "p1", "code": "run()", "fingerprint": "f"}
BY_PROGRAM = {**CALL, "caller": {"type": "program", "caller_id": "p1"}}
TO_PROGRAM = {**OUTPUT, "output": "1", "caller": {"type": "program", "caller_id": "p1"}}
PROGRAM_OUTPUT = {"type": "program_output", "id": "po_1", "call_id": "p1", "result": "2", "status": "completed"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}


@pytest.mark.parametrize("before", [[], [REASONING]])
def test_a_waiting_program_is_kept(before: list[Any]):
    history = [user("Go"), *before, PROGRAM, BY_PROGRAM, TO_PROGRAM]
    assert fit(history, LARGE).messages == history
    assert rules([*history, user("Well?")])[tuple(range(1, len(history)))] == "call without its result"


def test_a_program_stays_with_every_call_it_made():
    second = [{**BY_PROGRAM, "call_id": "d"}, {**TO_PROGRAM, "call_id": "d"}]
    history = [user("Go"), PROGRAM, BY_PROGRAM, TO_PROGRAM, *second, PROGRAM_OUTPUT, user("And?")]
    assert units(history) == [(0,), (1, 2, 3, 4, 5, 6), (7,)]
    assert rules([history[0], BY_PROGRAM, TO_PROGRAM]) == {(1, 2): "a call by a program that is missing"}


SERVER = {"type": "server_tool_use", "id": "srv", "name": "code_execution", "input": {"code": "run()"}}
BY_CODE = {**use("a"), "caller": {"type": "code_execution_20260120", "tool_id": "srv"}}
DONE = {"type": "code_execution_tool_result", "tool_use_id": "srv", "content": {"type": "code_execution_result"}}
SEARCHED = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []}


@pytest.mark.parametrize(("in_result", "in_output"), [(2000, 1), (1, 2000)])
def test_calls_by_code_stay_whole(in_result: int, in_output: int):
    history = [
        user("Go"),
        assistant([SERVER, BY_CODE]),
        user([used("a", "x" * in_result)]),
        assistant([{**DONE, "content": {"stdout": "x" * in_output}}, {"type": "text", "text": "Done."}]),
        user("And?"),
    ]
    assert kept(history) == [0, 1, 2, 3, 4]
    assert kept(history, 120, forms=False) == [0, 4]
    assert kept(history[:3], 1000) == [0, 1, 2], "the code goes on with the next request"


def test_code_that_repeats_an_id_is_not_sent():
    again = [assistant([BY_CODE]), user([used("a")])]
    assert rules([user("Go"), assistant([SERVER, BY_CODE]), user([used("a")]), *again]) == {
        (1, 2, 3, 4): "two calls with one id"
    }


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([user("Go"), assistant([SEARCHED]), user("And?")], {(1,): "a server tool result without its call"}),
        ([user("Go"), assistant([SERVER]), user("And?")], {(1,): "a server tool call without its result"}),
        ([user("Go"), assistant([BY_CODE]), user([used("a")])], {(1, 2): "a call by code that is missing"}),
        (
            [user("Go"), assistant([SERVER, BY_CODE]), user([used("a"), TEXT])],
            {(1, 2): "the user's words where only results may be, while code or a server tool is at work"},
        ),
        ([user("Go"), user([SEARCHED]), user("And?")], {(1,): "a server tool result in a message of role user"}),
        ([user("Go"), user([SERVER]), user("And?")], {(1,): "a server tool call in a message of role user"}),
        ([user("Go"), assistant([SERVER, SERVER, SEARCHED]), user("And?")], {(1,): "two calls with one id"}),
    ],
)
def test_broken_work_of_server_tools_is_not_sent(history: list[Any], expected: dict[Any, str]):
    assert rules(history) == expected
    assert violations("anthropic", history) != []


def test_a_paused_turn_is_one_unit_and_goes_on():
    paused = [user("Go"), assistant([SERVER])]
    assert kept(paused) == [0, 1]
    assert units([*paused, assistant([SEARCHED]), user("And?")]) == [(0,), (1, 2), (3,)]
    with pytest.raises(PinnedMessagesExceedBudgetError, match="work that goes on with this request"):
        fit(paused, 10, counter=COUNTER)


# --- ids ---------------------------------------------------------------------------------------------------
def test_responses_are_paired_by_type_and_id():
    custom = [{"type": "custom_tool_call", "call_id": "c", "name": "g", "input": "x"}]
    answer = [{"type": "custom_tool_call_output", "call_id": "c", "output": "1"}]
    history = [user("Go"), CALL, *custom, {**OUTPUT, "output": "2"}, *answer]
    assert fit(history, LARGE).messages == history
    screen = {"type": "computer_call", "call_id": "c", "action": {}}
    assert rules([user("Go"), screen, OUTPUT]) == {(1,): "call without its result", (2,): "result without its call"}


def test_of_items_with_one_id_the_newest_stays():
    said = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}
    history = [user("Hi"), said, user("Again?"), dict(said), user("Go")]
    assert kept(history) == [0, 2, 3, 4]
    assert rules(history) == {(1,): "a newer item has the same id"}
    twice = [user("Go"), CALL, OUTPUT, dict(CALL), {**OUTPUT, "output": "new"}]
    assert kept(twice) == [0, 3, 4]


def test_an_empty_list_of_calls_is_not_sent():
    said = assistant("Hello.", tool_calls=[])
    fitted = fit([user("Hi"), said, user("Go")], LARGE)
    assert fitted.messages == [user("Hi"), assistant("Hello."), user("Go")]
    assert said["tool_calls"] == [], "the caller's own is left as it is"


def test_a_dumped_response_is_sent_without_what_only_responses_hold():
    response = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Hello."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    fitted = fit([user("Hi"), response, user("Go")], LARGE)
    assert fitted.messages == [user("Hi"), assistant(response["content"]), user("Go")]
    assert violations("anthropic", fitted.messages) == []
    assert "id" in response, "the caller's own is left as it is"


# --- formats -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("history", "provider"),
    [
        (
            [
                user("Hi"),
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "content": [{"type": "refusal", "refusal": "No."}],
                },
            ],
            "openai-responses",
        ),
        (
            [
                user([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]),
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
            ],
            "openai-responses",
        ),
        ([user([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}])], "openai"),
        ([user("Hi"), assistant(None, refusal="I cannot."), user("Why?")], "openai"),
        ([user("Hi"), assistant(None, audio={"id": "audio_1"}), user("Why?")], "openai"),
        ([user("Hi"), assistant([{"type": "refusal", "refusal": "No."}]), user("Why?")], "openai"),
        ([user("Hi"), assistant([SERVER, SEARCHED])], "anthropic"),
    ],
)
def test_formats_are_recognised_with_refusals_and_sound(history: list[Any], provider: str):
    fitted = fit(history, LARGE)
    assert (fitted.provider, fitted.messages) == (provider, history)


# --- options -----------------------------------------------------------------------------------------------
def test_alternation_merges_questions_and_lets_answers_go():
    history = [
        user("first " * 20),
        assistant("answer one " * 3),
        user("second"),
        calling("a"),
        result("a", "x" * 400),
        assistant("answer two"),
        user("third"),
        user("fourth"),
        calling("b"),
        result("b"),
    ]
    assert kept(history, alternate=True) == list(range(10))
    assert fit(history, LARGE, alternate=True).messages[6] == user("third\n\nfourth")
    assert kept(history, 120, alternate=True, forms=False) == [0, 1, 2, 5, 6, 7, 8, 9], "calls may go"
    for budget in (LARGE, 150, 120, 70, 50):
        sent = fit(history, budget, counter=COUNTER, alternate=True).messages
        assert alternation("openai", sent) == []
    assert alternation("openai", fit(history, LARGE).messages) != []


def test_what_cannot_alternate_is_named():
    said = "alternation: another assistant message follows"
    history = [user("one"), user("two"), assistant("a"), calling("c"), result("c"), assistant("b"), user("three")]
    assert rules(history, alternate=True) == {(2,): said}
    row = "alternation: messages of one side in a row that cannot be parted"
    split = [user("Hi"), assistant("Well."), assistant([use("a")]), user([used("a")])]
    assert rules(split, alternate=True) == {(1, 2, 3): row}


def test_questions_with_steps_between_them_are_merged_as_well():
    history = [user("one"), calling("c"), result("c"), user("two"), assistant("a")]
    merged = [user("one\n\ntwo"), *history[1:3], history[4]]
    assert fit(history, LARGE, counter=COUNTER, alternate=True).messages == merged


def test_a_question_that_is_typed_while_a_tool_runs_alternates():
    call = {"type": "function_call", "call_id": "1", "name": "read", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "1", "output": "fine"}
    history = [user("Go."), call, {**call, "call_id": "2"}, user("How long?"), output]
    for made in (
        fit(history, LARGE, counter=COUNTER, alternate=True),
        MessageSession[Any](LARGE, counter=COUNTER, alternate=True).fit(history),
    ):
        note = "[cupel: 1 earlier step omitted here: read]"  # the call that cannot be sent
        assert made.messages == [user(f"Go.\n\n{note}\n\nHow long?"), call, output]


def test_questions_with_a_system_message_between_them_are_merged():
    history = [user("one"), {"role": "system", "content": "Be brief."}, user("two")]
    merged = [user("one\n\ntwo"), history[1]]
    assert fit(history, LARGE, counter=COUNTER, provider="openai", alternate=True).messages == merged


def test_frameworks_whose_messages_cannot_be_merged_leave_unanswered_questions_out():
    history = [user("one"), user("two"), assistant("a"), user("three")]
    fitted = Framework(dict, list, dict).fit(history, LARGE, counter=COUNTER, alternate=True)
    assert fitted.messages == history[1:]


def test_the_two_steps_alternate_as_well():
    history = [user("one"), assistant("a"), user("two"), calling("c"), result("c"), assistant("b"), user("three")]
    items = to_items(history, COUNTER, alternate=True)
    assert [item.metadata["cupel:positions"] for item in items] == [(0,), (1,), (2,), (3, 4), (5,), (6,)]
    assert from_items([items[3], items[5]], history, alternate=True) == [history[6]]
    assert from_items([items[0], items[2]], history, alternate=True) == [user("one\n\ntwo")]


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def test_later_system_messages_can_expire_or_compete():
    history = [system("Be brief.")]
    for turn in range(10):
        history += [user(f"question {turn}"), system(f"note {turn} " * 10), assistant(f"answer {turn}")]
    history.append(user("Go on."))
    with pytest.raises(PinnedMessagesExceedBudgetError):
        fit(history, 150, counter=COUNTER)
    competing = kept(history, 150, system_messages="compete")
    assert (competing[0], competing[-1]) == (0, 31)
    assert len([at for at in competing if history[at]["role"] == "system"]) < 11
    newest = kept(history, 150, system_messages=2)
    assert [at for at in newest if history[at]["role"] == "system"] == [0, 26, 29]
    assert rules(history, system_messages=0)[29,] == "a system message that newer ones have replaced"


def test_a_system_message_per_turn_no_longer_pins_an_anthropic_history():
    history = []
    for turn in range(10):
        history += [user(f"question {turn}"), system(f"note {turn} " * 10), assistant(f"answer {turn}")]
    history.append(user("Go on."))
    for option in ("compete", 1, 0):
        fitted = fit(history, 120, counter=COUNTER, provider="anthropic", system_messages=option)
        assert violations("anthropic", fitted.messages, history) == []
        assert len(fitted.messages) > 4


def test_what_holds_for_the_conversation_does_not_expire():
    compaction = {"type": "compaction", "id": "cmp_1", "encrypted_content": "A" * 160}
    assert kept([user("Hi"), compaction, user("Now?")], system_messages=0) == [0, 1, 2]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("drop", ConfigurationError, "system_messages must be 'keep', 'compete' or an integer, got 'drop'"),
        (-1, ConfigurationError, "system_messages must not be negative, got -1"),
        (None, TypeError, "system_messages must be 'keep', 'compete' or an integer, got NoneType: None"),
        (True, TypeError, "got bool: True"),
    ],
)
def test_system_messages_are_kept_compete_or_are_counted(value: Any, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        fit([user("Hi")], 10, system_messages=value)


# --- errors ------------------------------------------------------------------------------------------------
def nested(depth: int) -> list[Any]:
    content: list[Any] = []
    for _ in range(depth):
        content = [{"type": "tool_result", "tool_use_id": "a", "content": content}]
    return content


def cyclic() -> list[Any]:
    content: list[Any] = []
    content.append({"type": "tool_result", "tool_use_id": "a", "content": content})
    return content


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        (
            assistant(None, function_call="auto"),
            TypeError,
            r"messages\[0\].function_call must be an object, got str: 'auto'",
        ),
        ({"role": ["user"], "content": "Hi"}, TypeError, r"messages\[0\].role must be a string, got list"),
        (user(cyclic()), InvalidItemError, "nested more than 250 levels deep, or contains itself"),
        (user(nested(5000)), InvalidItemError, "nested more than 250 levels deep, or contains itself"),
        (
            user([{"type": "x", 5: 1}]),
            TypeError,
            r"every key of messages\[0\].content\[0\] must be a string, got int: 5",
        ),
        ({"role": "x" * 10_000_000, "content": "Hi"}, InvalidItemError, r"messages\[0\].role must be one of"),
        (assistant("", tool_calls="x" * 10_000_000), TypeError, r"messages\[0\].tool_calls must be a list of objects"),
        ({"type": ["a"] * 1_000_000}, InvalidItemError, r"messages\[0\].type must name an item type"),
        (
            user([{"type": "x" * 10_000_000, "y": b"z" * 10_000_000}]),
            TypeError,
            r"messages\[0\].content\[0\].y must be",
        ),
    ],
)
def test_input_of_the_wrong_shape_is_named_shortly(message: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text) as caught:
        fit([message], 10)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pin": "user"}, "pin must be a function of a message, got str: 'user'"),
        ({"counter": len}, r"counter must be a TokenCounter, an object with a method count\(text\), got"),
        ({"tools": "search"}, "tools must be a list of tools, got str: 'search'"),
        ({"provider": ["openai"]}, "provider must be a string, got list"),
        ({"budget": True}, "budget must be a ContextBudget or an integer, got bool: True"),
    ],
)
def test_options_of_the_wrong_type_are_named(options: dict[str, Any], message: str):
    with pytest.raises(TypeError, match=message):
        fit(**{"messages": [user("Hi")], "budget": 10, **options})


def test_odd_but_valid_json_is_counted():
    odd = {**use("a"), "input": {"big": 2**70, "half": "\ud800"}}
    assert kept([user("Hi"), assistant([THINKING, odd]), user([used("a")])]) == [0, 1, 2]


def test_the_step_that_the_newest_one_needs_is_the_one_that_fits():
    """A loop must begin with thinking: where the nearest step that thinks is too long, an older one does as well."""

    def step(key: str, output: str, *blocks: Any) -> list[Any]:
        return [assistant([*blocks, use(key)]), user([used(key, output)])]

    steps = [*step("a", "fine", THINKING), *step("b", "long " * 200, THINKING), *step("c", "fine")]
    history = [user("Please " * 50), assistant("Yes?"), user("Look " * 50), *steps]
    fitted = fit(history, 400, counter=COUNTER, forms=False)
    assert fitted.positions[-4:] == (3, 4, 7, 8)
    assert violations("anthropic", fitted.messages, history) == []
