"""Fitting histories: pins and ends, reports, formats, the two steps."""

import pickle
from typing import Any

import pytest

import cupel.policy
from cupel import ConfigurationError, ContextBudget, InvalidItemError, Pipeline, RecencyScorer, UShapedPlacer, presets
from cupel.messages import (
    POSITIONS_KEY,
    PinnedMessagesExceedBudgetError,
    fit,
    from_items,
    to_items,
)
from cupel.tokens import CalibratedCounter, TiktokenCounter
from tests.messages.chat import COUNTER, LARGE, assistant, calling, kept, result, use, used, user
from tests.messages.histories import THINKING
from tests.messages.provider_rules import violations

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
    least = fit([CHAT[0], CHAT[5]], LARGE, counter=COUNTER).total_tokens
    assert kept(CHAT, least, notes=False) == [0, 5]
    with pytest.raises(PinnedMessagesExceedBudgetError):
        fit(CHAT, least - 1, counter=COUNTER, notes=False)


def test_a_budget_without_room_for_the_smallest_note_is_too_small():
    least = fit([CHAT[0], CHAT[5]], LARGE, counter=COUNTER).total_tokens
    with pytest.raises(PinnedMessagesExceedBudgetError, match="a note on what is omitted: 13"):
        fit(CHAT, least + 12, counter=COUNTER)
    fitted = fit(CHAT, least + 13, counter=COUNTER)
    assert fitted.notes == ("[cupel: 4 earlier steps omitted]",)
    assert fitted.positions == (0, None, 5)
    assert fitted.total_tokens <= least + 13


def test_a_predicate_pins_more():
    assert kept(CHAT, 100, pin=lambda message: message["content"].startswith("first")) == [0, 1, 4, 5]


def test_the_error_says_which_messages_and_by_how_much():
    with pytest.raises(PinnedMessagesExceedBudgetError) as caught:
        fit(CHAT, 10, counter=COUNTER, tools=[{"name": "f"}])
    error = caught.value
    assert str(error) == (
        "the pinned messages need 49 tokens, 39 more than the 10 available "
        "(request: 3; tools: 20; messages[0] (system): 7; messages[5] (the newest user message): 6; "
        "a note on what is omitted: 13)"
    )
    assert (error.pinned_tokens, error.available_tokens, error.excess_tokens) == (49, 10, 39)
    assert pickle.loads(pickle.dumps(error)).parts == error.parts


def test_for_anthropic_the_user_speaks_first():
    history = CHAT[1:]
    assert fit(history, LARGE).provider == "anthropic"
    assert kept(history, 20, notes=False) == [4], "the assistant's reply would be first, and its question does not fit"
    assert kept(history, 100)[-1] == 4
    assert fit(history, 100, counter=COUNTER).messages[0]["role"] == "user"


def test_in_openais_format_the_assistant_speaks_first_only_if_it_did():
    greeting = [assistant("Welcome! " * 10), user("Hi"), calling("a"), result("a"), user("And?")]
    assert kept(greeting) == [0, 1, 2, 3, 4]
    assert kept(greeting, 40, notes=False) == [1, 2, 3, 4], "the calls need their question, not the greeting"
    history = [user("long ago " * 50), calling("a"), result("a"), assistant("Done."), user("And?")]
    assert kept(history, 80, notes=False, forms=False) == [4], "calls and answer would come first"


def test_a_pinned_assistant_message_brings_the_question_before_it():
    history = CHAT[1:]
    assert kept(history, 200, pin=lambda message: message["content"].startswith("second")) == [0, 1, 3, 4]


def test_an_assistant_message_becomes_last_only_if_it_was():
    huge = [assistant([use("a")]), user([used("a", "x" * 4000)])]
    assert kept([user("Hi"), assistant("Let me look."), user("")], 100) == [0]
    assert kept([user("Hi"), *huge, assistant("It begins with")], 100, forms=False) == [0, 3]


def test_messages_come_back_in_order_whatever_the_placer():
    policy = Pipeline(scorer=RecencyScorer(), placer=UShapedPlacer())
    assert kept(CHAT, LARGE, policy=policy) == [0, 1, 2, 3, 4, 5]


def test_the_newest_come_first_and_what_does_not_fit_is_skipped():
    history = [user("a"), calling("a"), result("a", "x" * 4000), assistant("b"), user("c")]
    assert kept(history, 50, forms=False) == [0, 3, 4]


def test_saying_the_same_thing_twice_is_not_a_duplicate():
    history = [user("yes"), assistant("ok"), user("yes"), assistant("ok"), user("go")]
    assert kept(history) == [0, 1, 2, 3, 4]
    assert kept(history, policy=presets.chat()) == [0, 1, 2, 3, 4], "what fits is sent, whatever the policy"


def test_one_object_twice_is_two_messages():
    twice = user("again")
    history = [twice, assistant("ok"), twice]
    assert fit(history, LARGE).messages == history


def test_the_name_of_a_preset_is_no_policy():
    with pytest.raises(TypeError, match=r"policy must be a Pipeline, got str: 'chat'; pass a preset such as "):
        fit(CHAT, LARGE, "chat")  # type: ignore[arg-type]


def test_the_default_policy_can_be_written_down():
    assert cupel.policy.loads(cupel.policy.dumps(cupel.presets.conversation())) == cupel.presets.conversation()


def test_a_reserve_and_a_margin_leave_room():
    window = ContextBudget(160, 160, output_reserve=40, estimation_safety_margin_percent=20.0)
    assert fit(CHAT, window, counter=COUNTER).total_tokens <= 96


def test_a_calibrated_counter_narrows_the_fit():
    counter = CalibratedCounter(COUNTER)
    before = fit(CHAT, 120, counter=counter)
    counter.observe(100, 200)
    after = fit(CHAT, 120, counter=counter)
    assert sum(len(message["content"]) for message in after.messages) < before.total_tokens * 4
    assert after.omitted + len(after.shortened) > before.omitted + len(before.shortened)


# --- the report --------------------------------------------------------------------------------------------
def test_the_report_accounts_for_every_unit():
    history = [*CHAT, result("orphan")]
    fitted = fit(history, 120, counter=COUNTER, tools=[{"name": "f"}])
    reasons = {entry.item.metadata.get(POSITIONS_KEY): entry.reason.name for entry in fitted.report.excluded}
    assert reasons == dict.fromkeys([(1,), (2,)], "BudgetExceeded") | {(6,): "Filtered"}
    pinned = sorted(str(entry.item.kind) for entry in fitted.report.included if entry.item.pinned)
    assert pinned == ["Message", "Note", "Request", "SystemPrompt", "ToolSchema"]
    assert sum(int(note.split()[1]) for note in fitted.notes) == 3
    assert fitted.report.total_candidates == 10
    assert type(fitted.report).from_json(fitted.report.to_json()).total_candidates == 10


def test_the_report_still_knows_which_budget_would_do():
    history = [user("Go."), *(assistant("word " * size) for size in (40, 60, 20)), user("And?"), result("orphan")]
    fitted = fit(history, 100, counter=COUNTER, provider="openai")
    assert fitted.report.counterfactual(fitted.dropped[0].item).extra_tokens > 0
    assert "result without its call" in fitted.report.explain(fitted.dropped[-1].item)


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
        ([user("Hi"), assistant([use("a")]), user([used("a")])], "anthropic"),
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
        ConfigurationError,
        match="provider must be one of anthropic, bedrock, gemini, openai, openai-responses, got 'x'",
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
    assert 28_900 < fitted.total_tokens <= 30_000
