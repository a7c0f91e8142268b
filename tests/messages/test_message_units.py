"""What stays together in a history, and what no provider would take."""

from typing import Any

import pytest

from cupel.errors import InvalidItemError
from cupel.messages import (
    Message,
    MessageSession,
    PinnedMessagesExceedBudgetError,
    Provider,
    fit,
    has_all_pairs,
    to_items,
)
from tests.messages.chat import COUNTER, LARGE, assistant, calling, kept, result, rules, units, use, used, user
from tests.messages.histories import THINKING
from tests.messages.provider_rules import violations


def test_parallel_calls_and_their_results_are_one_unit():
    history = [user("Hi"), calling("a", "b"), result("b"), result("a"), assistant("Done.")]
    assert units(history) == [(0,), (1, 2, 3), (4,)]


def test_an_exchange_is_a_tool_output_tagged_with_its_tools():
    exchange = to_items([user("Hi"), calling("a", "b"), result("a"), result("b")], COUNTER)[1]
    assert (str(exchange.kind), str(exchange.source)) == ("ToolOutput", "Tool")
    assert exchange.tags == ("tool_a", "tool_b")
    assert exchange.content.splitlines() == ["assistant: tool_a {} tool_b {}", "tool: fine", "tool: fine"]


def test_legacy_functions_are_calls_too():
    call = assistant(None, function_call={"name": "f", "arguments": "{}"})
    assert units([user("Hi"), call, {"role": "function", "name": "f", "content": "1"}]) == [(0,), (1, 2)]


def test_anthropic_results_split_over_messages_are_one_unit():
    history = [user("Hi"), assistant([use("a"), use("b")]), user([used("a")]), user([used("b")]), user("And?")]
    assert units(history) == [(0,), (1, 2, 3), (4,)]


def test_thinking_in_a_message_of_its_own_stays_with_the_call():
    history = [user("Hi"), assistant([THINKING]), assistant([use("a")]), user([used("a")])]
    assert units(history) == [(0,), (1, 2, 3)]


def thinking_loop(steps: int, size: int = 40) -> list[dict[str, Any]]:
    """A question and tool steps of which only the first begins with thinking."""
    history = [user("Look at everything.")]
    for step in range(steps):
        said = [*([THINKING] if step == 0 else []), use(f"c{step}")]
        history += [assistant(said), user([used(f"c{step}", "x" * size)])]
    return history


def test_a_thinking_loop_keeps_its_first_step_and_its_newest():
    history = thinking_loop(50)
    budget = fit(history, LARGE, counter=COUNTER).total_tokens * 99 // 100
    assert kept(history, budget, thinking="loop")[:3] == [0, 1, 2]
    assert kept(history, 200, thinking="loop")[:3] == [0, 1, 2]
    fitted = fit(history, 200, counter=COUNTER, thinking="loop")
    assert fitted.messages[1] == history[1]
    assert fitted.positions[-4:] == (97, 98, 99, 100)
    assert violations("anthropic", fitted.messages, history, "loop") == []


def test_thinking_that_is_bound_does_not_hold_its_step():
    fitted = fit(thinking_loop(50), 200, counter=COUNTER)
    assert 1 not in fitted.positions
    assert "thinking" not in str(fitted.messages)


def test_an_older_loop_may_lose_its_thinking():
    """Only the running loop must begin with thinking; what the user says next closes a loop."""
    history = [*thinking_loop(5), assistant("Done."), user("And now?")]
    assert kept(history, 100) == [0, 9, 10, 11, 12]


def test_leaving_out_what_closes_a_loop_makes_it_run_again():
    history = [*thinking_loop(5), assistant("Done. " * 400), user("And now?")]
    assert kept(history, 170, thinking="loop")[:3] == [0, 1, 2]
    assert kept(history, 170)[:2] == [0, 7], "thinking that is bound is gone anyway"


def test_neighbours_that_a_cut_joins_do_not_push_text_before_thinking():
    history = [
        user("Hi"),
        assistant("Hello."),
        user("long " * 400),
        assistant([THINKING, use("a")]),
        user([used("a")]),
        user("And?"),
    ]
    assert kept(history, thinking="loop") == [0, 1, 2, 3, 4, 5]
    assert kept(history, 100, thinking="loop") == [0, 3, 4, 5]
    assert kept(history, 100) == [0, 1, 3, 4, 5]
    with pytest.raises(
        PinnedMessagesExceedBudgetError, match=r"messages\[2\] \(needed beside another pinned message\)"
    ):
        fit(history, 100, counter=COUNTER, thinking="loop", pin=lambda message: message["content"] == "Hello.")


def test_turns_with_and_without_thinking_do_not_run_into_each_other():
    """The empty message is dropped; with it would go the border that keeps the first step out of the running turn."""
    before = [assistant([use("a")]), user([used("a")]), assistant("Fine.")]
    running = [assistant([THINKING, use("b")]), user([used("b")])]
    history = [user("Hi"), *before, user(""), *running]
    assert kept(history) == [0, 1, 2, 3, 5, 6]
    assert kept(history, thinking="loop") == [0, 5, 6]
    assert rules(history, thinking="loop")[1, 2] == "the running tool loop would not begin with its thinking"


def test_reasoning_stays_with_what_it_led_to():
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    calls = [{"type": "function_call", "call_id": key, "name": "f", "arguments": "{}"} for key in "ab"]
    outputs = [{"type": "function_call_output", "call_id": key, "output": "1"} for key in "ba"]
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
    assert units([user("Hi"), reasoning, *calls, *outputs, said]) == [(0,), (1, 2, 3, 4, 5), (6,)]


def test_a_system_message_in_an_anthropic_history_stays_between_its_neighbours():
    history = [
        user("Hi"),
        {"role": "system", "content": "Be brief."},
        assistant("Yes."),
        user("Go on."),
        assistant("No."),
    ]
    assert units(history, provider="anthropic") == [(0,), (1,), (2,), (3,), (4,)]
    assert kept(history, 30, provider="anthropic", notes=False) == [0, 1, 2, 3]
    with pytest.raises(
        PinnedMessagesExceedBudgetError, match=r"messages\[2\] \(needed beside another pinned message\)"
    ):
        fit(history, 20, counter=COUNTER, provider="anthropic", notes=False)


@pytest.mark.parametrize(
    ("call", "output"),
    [
        ("custom_tool_call", "custom_tool_call_output"),
        ("computer_call", "computer_call_output"),
        ("shell_call", "shell_call_output"),
        ("local_shell_call", "local_shell_call_output"),
        ("apply_patch_call", "apply_patch_call_output"),
        ("program", "program_output"),
    ],
)
def test_every_kind_of_call_is_paired(call: str, output: str):
    answer = {"type": output, ("id" if call == "local_shell_call" else "call_id"): "a", "output": "1"}
    history = [user("Hi"), {"type": call, "call_id": "a", "input": "x"}, answer]
    assert units(history) == [(0,), (1, 2)]
    assert rules(history[:2]) == {(1,): "call without its result"}
    assert rules([history[0], history[2]]) == {(1,): "result without its call"}


def test_an_approval_stays_with_its_request():
    asked = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "arguments": "{}", "server_label": "s"}
    given = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    assert units([user("Hi"), asked, given]) == [(0,), (1, 2)]


def test_compaction_stays_as_a_system_prompt_does():
    compaction = {"type": "compaction", "id": "cmp_1", "encrypted_content": "A" * 160}
    history = [compaction, user("long ago " * 50), {"type": "message", "role": "user", "content": "Now?"}]
    assert kept(history, 60) == [0, 2]


def test_hosted_calls_need_no_output():
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    assert kept([user("Hi"), search]) == [0, 1]


# --- what cannot be sent -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([user("Hi"), result("a")], {(1,): "result without its call"}),
        ([user("Hi"), calling("a")], {(1,): "call without its result"}),
        ([user("Hi"), calling("a", "b"), result("a")], {(1, 2): "call without its result"}),
        (
            [user("Hi"), calling("a"), result("a"), result("x")],
            {(3,): "result without its call"},
        ),
        (
            [user("Hi"), calling("a"), result("a"), result("a")],
            {(3,): "result without its call"},
        ),
        (
            [calling("a"), user("in between"), result("a")],
            {(0,): "call without its result", (2,): "result without its call"},
        ),
        ([user("Hi"), calling("a", "a"), result("a")], {(1, 2): "two calls with one id"}),
        ([user(""), user("Hi"), result("x")], {(0,): "empty content", (2,): "result without its call"}),
        (
            [user([]), user([{"type": "text", "text": ""}]), calling("a"), result("a")],
            {(0,): "empty content", (1,): "empty content"},
        ),
    ],
)
def test_openai_orphans_and_empty_messages_are_left_out_with_the_rule(history: list[Any], expected: dict[Any, str]):
    assert rules(history) == expected


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([user("Hi"), user([used("a")])], {(1,): "result without its call"}),
        ([user("Hi"), assistant([use("a")]), user("Well?")], {(1,): "call without its result"}),
        ([user("Hi"), assistant([use("a")]), user([used("a"), used("b")])], {(1, 2): "result without its call"}),
        (
            [user("Hi"), assistant([use("a")]), user([{"type": "text", "text": "Here:"}, used("a")])],
            {(1, 2): "a tool result after other content"},
        ),
        (
            [user("Hi"), assistant([use("a")]), user([used("a")]), assistant([use("a")]), user([used("a")])],
            {(1, 2): "two calls with one id"},
        ),
        ([user("Hi"), assistant([use("a")]), user([used("a"), used("a")])], {(1, 2): "two results for one call"}),
        ([user("Hi"), user([use("a")])], {(1,): "a tool call in a message of role user"}),
        ([user("Hi"), assistant([used("a")]), user("Go")], {(1,): "a tool result in a message of role assistant"}),
        (
            [user(" \n"), user("Hi"), assistant([THINKING])],
            {(0,): "empty content", (2,): "thinking without the block that must follow it"},
        ),
        (
            [assistant("Welcome!"), user("Hi"), user([use("x")])],
            {(0,): "nothing the user said comes before it", (2,): "a tool call in a message of role user"},
        ),
        ([user("Hi"), assistant("The answer is ")], {(1,): "a final assistant text that ends in white space"}),
        (
            [
                user("Hi"),
                assistant([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."}]),
                user("Go"),
            ],
            {(1,): "a thinking block without its signature"},
        ),
    ],
)
def test_anthropic_rules_are_named(history: list[Any], expected: dict[Any, str]):
    assert rules(history) == expected


def test_pinning_protects_from_the_budget_not_from_the_rules():
    assert kept([user("Hi"), result("a")], pin=lambda message: message["role"] == "tool") == [0]


@pytest.mark.parametrize(
    ("history", "why"),
    [([], "the history is empty"), ([result("a")], r"messages\[0\]: result without its call"), ([user("")], "empty")],
)
def test_an_empty_request_is_refused(history: list[Any], why: str):
    with pytest.raises(InvalidItemError, match=f"messages must hold something to send.*: {why}"):
        fit(history, LARGE)
    with pytest.raises(InvalidItemError, match="an empty request is refused"):
        MessageSession(LARGE).fit(history)


def test_words_between_the_results_of_one_turn_cannot_be_sent():
    first = user([used("a"), {"type": "text", "text": "Hurry."}])
    history = [user("Go."), assistant([use("a"), use("b")]), first, user([used("b")]), user("So?")]
    assert rules(history, provider="anthropic") == {(1, 2, 3): "words between the results of one turn"}


CALL, USER = Message("assistant", calls=["1"]), Message("user")
ANSWER, SECOND = Message("tool", results=["1"]), Message("tool", results=["2"])
TWO = Message("assistant", calls=["1", "2"])


@pytest.mark.parametrize(
    ("messages", "provider", "valid"),
    [
        ([USER, CALL, ANSWER], "openai", True),
        ([USER, CALL], "openai", False),
        ([USER, ANSWER], "openai", False),
        ([CALL, USER, ANSWER], "openai", False),
        ([CALL, USER, ANSWER], "openai-responses", True),
        ([TWO, ANSWER, SECOND], "openai", True),
        ([TWO, ANSWER, SECOND], "anthropic", True),
        ([TWO, ANSWER, USER], "anthropic", False),
        ([TWO, Message("tool", results=["2", "1"])], "anthropic", True),
    ],
)
def test_pairs_are_judged_as_each_format_wants_them(messages: list[Message], provider: Provider, valid: bool):
    assert has_all_pairs(messages, provider) is valid
