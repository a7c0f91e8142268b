"""Fitting histories: units, pins, errors, counting, formats."""

import pickle
from typing import Any

import pytest

from cupel import ConfigurationError, ContextBudget, InvalidItemError, Policy, RecencyScorer, UShapedPlacer, presets
from cupel.diagnostics import Filtered
from cupel.integrations.messages import (
    POSITIONS_KEY,
    PinnedMessagesExceedBudgetError,
    fit,
    from_items,
    newest_first,
    to_items,
)
from cupel.tokens import CalibratedCounter, CharacterEstimate, TiktokenCounter
from tests.integrations.histories import IMAGE, THINKING
from tests.integrations.provider_rules import violations

COUNTER = CharacterEstimate()
LARGE = 100_000


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


def calling(*ids: str, content: str | None = None) -> dict[str, Any]:
    calls = [{"id": key, "type": "function", "function": {"name": f"tool_{key}", "arguments": "{}"}} for key in ids]
    return assistant(content, tool_calls=calls)


def result(key: str, text: str = "fine") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": key, "content": text}


def use(key: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": key, "name": "look", "input": {"at": "log"}}


def used(key: str, text: str = "fine") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": key, "content": text}


def kept(messages: list[Any], budget: int | ContextBudget = LARGE, **options: Any) -> list[int]:
    """The positions that a fit keeps."""
    fitted = fit(messages, budget, counter=COUNTER, **options)
    return [next(at for at, one in enumerate(messages) if one is message) for message in fitted.messages]


def rules(messages: list[Any], budget: int = LARGE, **options: Any) -> dict[tuple[int, ...], str]:
    """The units that a provider's rule excludes, with the rule."""
    fitted = fit(messages, budget, counter=COUNTER, **options)
    return {unit.positions: unit.reason.filter_name for unit in fitted.dropped if isinstance(unit.reason, Filtered)}


# --- units -------------------------------------------------------------------------------------------------
def units(messages: list[Any], **options: Any) -> list[tuple[int, ...]]:
    return [tuple(item.metadata[POSITIONS_KEY]) for item in to_items(messages, COUNTER, **options)]


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
    assert kept(history, budget) == [0, 1, 2, *range(5, 101)]
    assert kept(history, 200) == [0, 1, 2, *range(95, 101)]
    assert violations("anthropic", fit(history, 200, counter=COUNTER).messages, history) == []


def test_an_older_loop_may_lose_its_thinking():
    """Only the running loop must begin with thinking; what the user says next closes a loop."""
    history = [*thinking_loop(5), assistant("Done."), user("And now?")]
    assert kept(history, 100) == [0, 9, 10, 11, 12]


def test_leaving_out_what_closes_a_loop_makes_it_run_again():
    history = [*thinking_loop(5), assistant("Done. " * 400), user("And now?")]
    assert kept(history, 170) == [0, 1, 2, 7, 8, 9, 10, 12]
    shorter = [*history[:5], *history[-2:]]
    assert kept(shorter, 60) == [0, 6], "neither the answer nor the thinking fits"
    assert rules(shorter, budget=60)[3, 4] == "nothing the user said comes before it"


def test_neighbours_that_a_cut_joins_do_not_push_text_before_thinking():
    history = [
        user("Hi"),
        assistant("Hello."),
        user("long " * 400),
        assistant([THINKING, use("a")]),
        user([used("a")]),
        user("And?"),
    ]
    assert kept(history) == [0, 1, 2, 3, 4, 5]
    assert kept(history, 100) == [0, 3, 4, 5]
    with pytest.raises(
        PinnedMessagesExceedBudgetError, match=r"messages\[2\] \(needed beside another pinned message\)"
    ):
        fit(history, 100, counter=COUNTER, pin=lambda message: message["content"] == "Hello.")


def test_turns_with_and_without_thinking_do_not_run_into_each_other():
    """The empty message is dropped; with it would go the border that keeps the first step out of the running turn."""
    before = [assistant([use("a")]), user([used("a")]), assistant("Fine.")]
    running = [assistant([THINKING, use("b")]), user([used("b")])]
    history = [user("Hi"), *before, user(""), *running]
    assert kept(history) == [0, 5, 6]
    assert rules(history)[1, 2] == "the running tool loop would not begin with its thinking"


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
    assert kept(history, 30, provider="anthropic") == [0, 1, 2, 3]
    with pytest.raises(
        PinnedMessagesExceedBudgetError, match=r"messages\[2\] \(needed beside another pinned message\)"
    ):
        fit(history, 20, counter=COUNTER, provider="anthropic")


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


@pytest.mark.parametrize(
    ("call", "output"),
    [
        ("function_call", [{"type": "input_text", "text": "All is well. " * 9}]),
        ("local_shell_call", "All is well. " * 9),
        ("shell_call", "All is well. " * 9),
    ],
)
def test_an_output_costs_what_its_text_costs(call: str, output: Any):
    def cost(call: str, output: Any) -> int:
        answer = {"type": f"{call}_output", "call_id": "a", "output": output}
        history = [user("Hi"), {"type": call, "call_id": "a", "arguments": "{}"}, answer]
        return fit(history, LARGE, counter=COUNTER).total_tokens

    assert cost(call, output) - cost(call, "") == 30


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
            {(1, 2): "a tool result behind other content"},
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


def test_nothing_sendable_gives_nothing():
    fitted = fit([result("a")], LARGE)
    assert (fitted.messages, len(fitted.dropped)) == ([], 1)
    assert fit([], 10).messages == []


# --- pins and ends -----------------------------------------------------------------------------------------
CHAT = [
    {"role": "system", "content": "Be brief."},
    user("first " * 40),
    assistant("second " * 40),
    user("third " * 40),
    assistant("fourth"),
    user("fifth"),
]


def test_system_prompts_and_the_newest_user_message_stay_whatever_the_budget():
    least = fit(CHAT, LARGE, counter=COUNTER).total_tokens - sum(
        unit.item.tokens for unit in fit(CHAT, 17, counter=COUNTER).dropped
    )
    assert kept(CHAT, least) == [0, 5]
    with pytest.raises(PinnedMessagesExceedBudgetError):
        fit(CHAT, least - 1, counter=COUNTER)


def test_a_predicate_pins_more():
    assert kept(CHAT, 100, pin=lambda message: message["content"].startswith("first")) == [0, 1, 4, 5]


def test_the_error_says_which_messages_and_by_how_much():
    with pytest.raises(PinnedMessagesExceedBudgetError) as caught:
        fit(CHAT, 10, counter=COUNTER, tools=[{"name": "f"}])
    error = caught.value
    assert str(error) == (
        "the pinned messages need 36 tokens, 26 more than the 10 available "
        "(request: 3; tools: 20; messages[0] (system): 7; messages[5] (the newest user message): 6)"
    )
    assert (error.pinned_tokens, error.available_tokens, error.excess_tokens) == (36, 10, 26)
    assert pickle.loads(pickle.dumps(error)).parts == error.parts


def test_for_anthropic_the_user_speaks_first():
    history = CHAT[1:]
    assert fit(history, LARGE).provider == "anthropic"
    assert kept(history, 20) == [4], "the assistant's reply would be first, and its question does not fit"
    assert kept(history, 100) == [2, 3, 4], "the question fits too"


def test_in_openais_format_the_assistant_speaks_first_only_if_it_did():
    greeting = [assistant("Welcome! " * 10), user("Hi"), calling("a"), result("a"), user("And?")]
    assert kept(greeting) == [0, 1, 2, 3, 4]
    assert kept(greeting, 40) == [1, 2, 3, 4], "the calls need their question, not the greeting"
    history = [user("long ago " * 50), calling("a"), result("a"), assistant("Done."), user("And?")]
    assert kept(history, 80) == [4], "calls and answer would come first, and the question does not fit"


def test_a_pinned_assistant_message_brings_the_question_before_it():
    history = CHAT[1:]
    assert kept(history, 200, pin=lambda message: message["content"].startswith("second")) == [0, 1, 3, 4]


def test_an_assistant_message_becomes_last_only_if_it_was():
    huge = [assistant([use("a")]), user([used("a", "x" * 4000)])]
    assert kept([user("Hi"), assistant("Let me look."), user("")], 100) == [0]
    assert kept([user("Hi"), *huge, assistant("It begins with")], 100) == [0, 3]


def test_messages_come_back_in_order_whatever_the_placer():
    policy = Policy(RecencyScorer(), placer=UShapedPlacer())
    assert kept(CHAT, LARGE, policy=policy) == [0, 1, 2, 3, 4, 5]


def test_the_newest_come_first_and_what_does_not_fit_is_skipped():
    history = [user("a"), calling("a"), result("a", "x" * 4000), assistant("b"), user("c")]
    assert kept(history, 50) == [0, 3, 4]


def test_saying_the_same_thing_twice_is_not_a_duplicate():
    history = [user("yes"), assistant("ok"), user("yes"), assistant("ok"), user("go")]
    assert kept(history) == [0, 1, 2, 3, 4]
    assert kept(history, policy=presets.chat()) != [0, 1, 2, 3, 4], "a policy that deduplicates is obeyed"


def test_one_object_twice_is_two_messages():
    twice = user("again")
    history = [twice, assistant("ok"), twice]
    assert fit(history, LARGE).messages == history


def test_a_pipeline_is_taken_as_well_as_a_policy():
    assert kept(CHAT, LARGE, policy=newest_first().pipeline()) == kept(CHAT, LARGE)
    with pytest.raises(TypeError, match="policy must be a Policy or a Pipeline, got str"):
        fit(CHAT, LARGE, "chat")  # type: ignore[arg-type]


def test_the_default_policy_can_be_written_down():
    assert Policy.from_json(newest_first().to_json()) == newest_first()


def test_a_reserve_and_a_margin_leave_room():
    window = ContextBudget(160, 160, output_reserve=40, estimation_safety_margin_percent=20.0)
    assert fit(CHAT, window, counter=COUNTER).total_tokens <= 96


# --- the report --------------------------------------------------------------------------------------------
def test_the_report_accounts_for_every_unit():
    history = [*CHAT, result("orphan")]
    fitted = fit(history, 110, counter=COUNTER, tools=[{"name": "f"}])
    reasons = {entry.item.metadata.get(POSITIONS_KEY): entry.reason.name for entry in fitted.report.excluded}
    assert reasons == {(1,): "BudgetExceeded", (2,): "BudgetExceeded", (6,): "Filtered"}
    pinned = sorted(str(entry.item.kind) for entry in fitted.report.included if entry.item.pinned)
    assert pinned == ["Message", "Request", "SystemPrompt", "ToolSchema"]
    assert fitted.report.total_candidates == 9
    assert type(fitted.report).from_json(fitted.report.to_json()).total_candidates == 9


def test_the_report_still_knows_which_budget_would_do():
    fitted = fit([*CHAT, result("orphan")], 100, counter=COUNTER)
    left_out = fitted.dropped[0]
    extra = fitted.report.counterfactual(left_out.item).extra_tokens
    assert left_out.positions == (1,)
    assert 1 in kept([*CHAT, result("orphan")], 100 + extra)
    assert 1 not in kept([*CHAT, result("orphan")], 99 + extra)
    assert "result without its call" in fitted.report.explain(fitted.dropped[-1].item)


# --- counting ----------------------------------------------------------------------------------------------
def total(messages: list[Any], **options: Any) -> int:
    return fit(messages, LARGE, counter=COUNTER, **options).total_tokens


def test_every_message_has_a_frame():
    assert total([{"role": "system", "content": "four"}]) == 3 + 4 + 1
    assert total([user("four")], provider="openai") == 3 + 4 + 1
    assert total([user("four")], provider="anthropic") == 3 + 4 + 1
    assert total([{**user("four"), "name": "anna"}], provider="openai") == 3 + 4 + 1 + 1 + 1


def test_calls_are_counted():
    plain = [user("Hi"), calling("a"), result("a", "")]
    longer = [user("Hi"), calling("a"), result("a", "")]
    longer[1]["tool_calls"][0]["function"]["arguments"] = "x" * 400
    assert total(longer) - total(plain) == 99


def test_tools_and_the_system_parameter_are_counted():
    tools = [{"name": "look", "description": "x" * 400}]
    assert 100 < total([user("Hi")], tools=tools, provider="openai") - total([user("Hi")], provider="openai") < 150
    assert total([user("Hi")], system="x" * 400) - total([user("Hi")]) == 100
    assert total([user("Hi")], system=[{"type": "text", "text": "x" * 400}]) - total([user("Hi")]) > 100


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        ({"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}}, 85),
        ({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}, 85 + 8 * 170),
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}, 85 + 2 * 170),
        ({"type": "input_audio", "input_audio": {"data": "A" * 64_000, "format": "wav"}}, 10),
        ({"type": "input_audio", "input_audio": {"data": "A" * 64_000, "format": "mp3"}}, 60),
        ({"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0xLjQ="}}, 3000),
        ({"type": "file", "file": {"file_data": "dGV4dCB0ZXh0IHRleHQgdGV4dA=="}}, 5),
    ],
)
def test_openai_media_are_counted(part: dict[str, Any], tokens: int):
    assert total([user([part])], provider="openai") == 3 + 4 + tokens


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}, 410),
        ({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}, 1600),
        ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x" * 400}}, 100),
        ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}, 3000),
        ({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x" * 40}]}}, 10),
        (
            {
                "type": "search_result",
                "source": "four",
                "title": "four",
                "content": [{"type": "text", "text": "x" * 40}],
            },
            12,
        ),
    ],
)
def test_anthropic_media_are_counted(block: dict[str, Any], tokens: int):
    assert total([user([block])], provider="anthropic") == 3 + 4 + tokens


def test_images_can_be_counted_flat():
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    assert total([user([image])], image_tokens=7) == 3 + 4 + 7
    assert total([user([image])], image_tokens=lambda size: 11 if size is None else 0) == 3 + 4 + 11
    known = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}
    assert total([user([known])], image_tokens=lambda size: sum(size or ())) == 3 + 4 + 640 + 480
    with pytest.raises(TypeError, match="image_tokens must be an integer"):
        fit([user("Hi")], 10, image_tokens="7")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="image_tokens must not be negative, got -1"):
        fit([user("Hi")], 10, image_tokens=-1)


def test_a_calibrated_counter_narrows_the_fit():
    counter = CalibratedCounter(COUNTER)
    before = len(fit(CHAT, 150, counter=counter).messages)
    counter.observe(100, 200)
    assert len(fit(CHAT, 150, counter=counter).messages) < before


# --- formats -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("history", "provider"),
    [
        ([user("Hi"), calling("a"), result("a")], "openai"),
        ([{"role": "developer", "content": "Be brief."}, user("Hi")], "openai"),
        ([user([{"type": "image_url", "image_url": {"url": ""}}])], "openai"),
        ([user("Hi"), assistant("Hm."), {"role": "system", "content": "Be brief."}], "openai"),
        ([user([{"type": "input_text", "text": "Hi"}])], "openai-responses"),
        (
            [{"role": "developer", "content": "x"}, {"type": "message", "role": "user", "content": "Hi"}],
            "openai-responses",
        ),
        ([user([used("a")])], "anthropic"),
        ([user("Hi"), assistant("Yes?")], "anthropic"),
        ([user("Hi"), {"role": "system", "content": "Be brief."}, assistant([THINKING, use("a")])], "anthropic"),
    ],
)
def test_the_format_is_recognised(history: list[Any], provider: str):
    assert fit(history, LARGE).provider == provider


@pytest.mark.parametrize(
    "history",
    [
        [user([used("a")]), result("b")],
        [{"role": "system", "content": "Be brief."}, user([used("a")])],
        [{"type": "reasoning", "id": "rs_1", "summary": []}, result("a")],
    ],
)
def test_mixed_formats_are_refused(history: list[Any]):
    with pytest.raises(ConfigurationError, match=r"messages mix the formats .* provider="):
        fit(history, LARGE)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("hello", 10), TypeError, "messages must be a list of messages, got str"),
        ((iter([]), 10), TypeError, "messages must be a list of messages"),
        ((["hello"], 10), TypeError, r"messages\[0\] must be a message, got str: 'hello'"),
        (([{"role": "user", "content": object()}], 10), TypeError, r"messages\[0\].content must be plain data"),
        (([user(5), calling("a")], 10), TypeError, r"messages\[0\].content must be a list of objects, got int: 5"),
        (
            ([user("Hi"), assistant("", tool_calls=["a"])], 10),
            TypeError,
            r"messages\[1\].tool_calls\[0\] must be an object",
        ),
        (
            ([user([{"kind": "x"}])], 10),
            InvalidItemError,
            r"messages\[0\].content\[0\].type must name a kind of content",
        ),
        (
            ([user([{**used("a"), "content": ["text"]}])], 10),
            TypeError,
            r"messages\[0\].content\[0\].content\[0\] must be an object, got str: 'text'",
        ),
        (([{"role": "owner", "content": "Hi"}], 10), InvalidItemError, r"messages\[0\].role must be one of .*'owner'"),
        (([user([5])], 10), TypeError, r"messages\[0\].content\[0\] must be an object, got int: 5"),
        (([user("Hi")], "10"), TypeError, "budget must be a ContextBudget or an integer, got str: '10'"),
    ],
)
def test_bad_input_is_named(arguments: tuple[Any, ...], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        fit(*arguments)


def test_an_unknown_provider_is_refused():
    with pytest.raises(
        ConfigurationError, match="provider must be one of anthropic, openai, openai-responses, got 'x'"
    ):
        fit([user("Hi")], 10, provider="x")  # type: ignore[arg-type]


# --- the two steps -----------------------------------------------------------------------------------------
def test_items_go_out_and_come_back():
    history = [user("Hi"), calling("a"), result("a"), assistant("Done."), result("orphan")]
    items = to_items(history, COUNTER)
    assert from_items(reversed(items), history) == history[:4]
    assert from_items(items[:2], history) == history[:3]


def test_from_items_keeps_the_ends_legal():
    history = CHAT[1:]
    items = to_items(history, COUNTER)
    assert from_items(items[1:], history) == history[2:]
    assert violations("anthropic", from_items(items[1:], history), history) == []


def test_items_of_another_history_are_refused():
    items = to_items([user("Hi"), calling("a"), result("a")], COUNTER)
    with pytest.raises(InvalidItemError, match=r"items must come from to_items\(messages\), got one whose metadata"):
        from_items(items, [user("Hi")])


# --- size --------------------------------------------------------------------------------------------------
def test_a_thousand_messages_are_fitted_exactly_to_the_token():
    """The history of the side-by-side comparison: 1,000 messages; what it costs is measured by the benchmark."""
    history: list[Any] = [{"role": "system", "content": "Be brief."}]
    for step in range(333):
        history += [user(f"question {step} " * 20), calling(f"c{step}"), result(f"c{step}", f"line {step} " * 40)]
    fitted = fit(history, 30_000, counter=TiktokenCounter())
    assert violations("openai", fitted.messages, history) == []
    assert 29_000 < fitted.total_tokens <= 30_000
