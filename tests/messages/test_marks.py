"""Cache breakpoints on messages of each format."""

from typing import Any

import pytest

from cupel import Prices
from cupel.messages import MessageSession
from cupel.messages._formats import FORMATS
from cupel.messages._formats.marks import unmarked
from tests.messages.chat import COUNTER, assistant, calling, result, use, used, user

EPHEMERAL = {"cache_control": {"type": "ephemeral"}}
EXPLICIT = {"prompt_cache_breakpoint": {"mode": "explicit"}}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "fine"}


def mark(provider: str, message: Any, here: bool = True) -> Any:
    format_mark = FORMATS[provider].mark
    assert format_mark is not None
    return format_mark.marked(message, here=here)


@pytest.mark.parametrize(
    ("provider", "message", "expected"),
    [
        ("anthropic", user("Hi"), user([{"type": "text", "text": "Hi", **EPHEMERAL}])),
        ("anthropic", user([used("a")]), user([{**used("a"), **EPHEMERAL}])),
        ("openai", user("Hi"), user([{"type": "text", "text": "Hi", **EXPLICIT}])),
        ("openai", result("a"), {**result("a"), "content": [{"type": "text", "text": "fine", **EXPLICIT}]}),
        ("openai", calling("a"), calling("a")),
        ("openai-responses", user("Hi"), user([{"type": "input_text", "text": "Hi", **EXPLICIT}])),
        ("openai-responses", OUTPUT, {**OUTPUT, "output": [{"type": "input_text", "text": "fine", **EXPLICIT}]}),
        ("openai-responses", assistant("Yes."), assistant("Yes.")),
    ],
)
def test_the_last_block_that_can_carry_a_breakpoint_does(provider: str, message: Any, expected: Any) -> None:
    assert mark(provider, message) == expected
    assert mark(provider, expected, here=False) == unmarked(expected)


def test_thinking_carries_no_breakpoint() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
    assert mark("anthropic", assistant([use("a"), thinking])) == assistant([{**use("a"), **EPHEMERAL}, thinking])


def test_a_message_without_breakpoints_stays_itself() -> None:
    message = user([{"type": "text", "text": "Hi"}])
    assert mark("openai", message, here=False) is message


@pytest.mark.parametrize("provider", ["openai", "openai-responses"])
def test_openais_breakpoints_are_set_where_the_prices_ask_for_them(provider: Any) -> None:
    history = [user("What is in the log?"), assistant("Nothing."), user("And now?")]
    plain = MessageSession[Any](1000, provider=provider, counter=COUNTER).fit(history)
    assert plain.marked() == history
    asked = MessageSession[Any](1000, provider=provider, counter=COUNTER, prices=Prices.marked()).fit(history)
    assert asked.marked()[-1] == mark(provider, history[-1])
