"""Histories of Bedrock's Converse API: `{"role": …, "content": [{"text": …}, {"toolUse": …}, …]}`."""

import json
from base64 import b64decode
from typing import Any

import pytest

from cupel import InvalidItemError
from cupel.errors import ConfigurationError
from cupel.messages import MessageSession, fit, from_items, provider_of, read_message, to_items
from cupel.messages._formats import FORMATS
from cupel.messages._notes import cleaned, with_note
from tests.messages.chat import COUNTER, EVERYTHING
from tests.messages.histories import IMAGE
from tests.messages.provider_rules import violations

TOOLS = [{"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}]
OPTIONS: dict[str, Any] = {"counter": COUNTER, "tools": TOOLS}
POINT = {"cachePoint": {"type": "default"}}
NOTE = "[cupel: 2 earlier steps omitted here: look log; bash ls]"
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "x"}}}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": one} if isinstance(one, str) else one for one in content]}


def assistant(*content: Any) -> dict[str, Any]:
    return {**user(*content), "role": "assistant"}


def use(call: str, **given: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": call, "name": "look", "input": given or {"page": call}}}


def result(call: str, *content: Any) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": call, "content": user(*content)["content"], "status": "success"}}


def steps(count: int, lines: int = 30) -> list[dict[str, Any]]:
    """A question, and steps with long outputs: texts and objects by turns."""
    history = [user("What is in the log?")]
    for at in range(count):
        text = "".join(f"line {line} of page {at} says little\n" for line in range(lines))
        output: Any = {"json": {"rows": text.splitlines()}} if at % 2 else text
        history += [assistant(f"I look at page {at}.", use(f"c{at}")), user(result(f"c{at}", output))]
    return history


def test_a_history_is_recognised_and_returned_whole_while_it_fits() -> None:
    history = steps(3)
    fitted = fit(history, 10**6, **OPTIONS)
    assert provider_of(history) == fitted.provider == "bedrock"
    assert all(one is other for one, other in zip(fitted.messages, history, strict=True))


@pytest.mark.parametrize("budget", [700, 1000, 1500, 2000])
def test_a_request_that_was_cut_is_valid_and_says_what_it_omits(budget: int) -> None:
    history = steps(20)
    fitted = fit(history, budget, **OPTIONS)
    assert fitted.total_tokens <= budget
    assert violations("bedrock", fitted.messages, history) == []
    assert fitted.notes
    for note in fitted.notes:
        holder = next(message for message in fitted.messages if note in json.dumps(message, ensure_ascii=False))
        assert holder["content"][0]["toolResult"]["content"][0]["text"].startswith(note)


def test_a_session_keeps_its_state_and_its_requests_valid() -> None:
    history, session = steps(20), MessageSession[Any](1500, **OPTIONS)
    for end in range(1, len(history) + 1, 2):
        turn = session.fit(history[:end])
        assert turn.total_tokens <= 1500
        assert violations("bedrock", turn.marked(), history[:end]) == []
        session.observe({"inputTokens": 10, "cacheReadInputTokens": turn.total_tokens, "cacheWriteInputTokens": 0})
        session = MessageSession[Any].from_json(session.to_json(), 1500, **OPTIONS)
    assert turn.notes
    assert session.total.read > 0


def test_an_object_that_is_shortened_becomes_a_text() -> None:
    history = steps(4, lines=100)
    fitted = fit(history, 1200, **OPTIONS)
    at = fitted.shortened[-1]
    assert "json" in history[at]["content"][0]["toolResult"]["content"][0]
    sent = fitted.messages[fitted.positions.index(at)]["content"][0]["toolResult"]["content"]
    assert "[cupel: " in sent[0]["text"]
    assert "line 0 of page" in sent[0]["text"]


@pytest.mark.parametrize("output", ["fine", {"json": {"rows": [1, 2]}}])
def test_a_note_is_the_first_text_of_a_result_and_comes_off_again(output: Any) -> None:
    message = user(result("a", output), "And?")
    noted = with_note(message, NOTE, FORMATS["bedrock"])
    assert noted["content"][0]["toolResult"]["content"][0]["text"].startswith(NOTE)
    assert read_message(noted, "bedrock").rejection is None
    assert cleaned(noted, FORMATS["bedrock"], EVERYTHING) == message


def test_neighbours_of_one_role_are_joined() -> None:
    history = [user("One."), user("Two."), assistant("A."), assistant("B."), user("Three.")]
    fitted = fit(history, 10**6, counter=COUNTER)
    assert fitted.messages == [user("One.", "Two."), assistant("A.", "B."), user("Three.")]
    assert fitted.positions == (0, 2, 4)


def test_breakpoints_are_blocks_at_the_end_of_messages() -> None:
    session = MessageSession[Any](10**6, **OPTIONS)
    history = [user("Hi", POINT), assistant(use("a")), user(result("a", "fine"))]
    session.fit(history[:1])
    turn = session.fit([user("Hi"), *history[1:]])
    assert turn.action == "append", "a breakpoint that moved is no change"
    assert turn.marks == (0, 2)
    assert turn.marked() == [user("Hi", POINT), assistant(use("a")), user(result("a", "fine"), POINT)]


def test_a_breakpoint_follows_words_that_are_joined_to_a_result() -> None:
    turn = MessageSession[Any](10**6, **OPTIONS).fit(
        [user("Hi"), assistant(use("a")), user(result("a", "fine")), user("And?")]
    )
    assert turn.marked()[-1] == user(result("a", "fine"), "And?", POINT)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (user(), "empty content"),
        (user(" "), "empty content"),
        (user(POINT, "Hi"), "a cachePoint that follows no other block"),
        (user("Hi", POINT, POINT), "a cachePoint that follows no other block"),
        (user({"document": {"name": "a", "source": {"text": "b"}}}), "a document without a text block in its message"),
        (user("Hi", result("a", "fine")), "a tool result after other content"),
        (user(result("a")), "empty content"),
        (user(use("a")), "a tool call in a message of role user"),
    ],
)
def test_a_message_that_bedrock_refuses_is_rejected(message: Any, reason: str) -> None:
    assert read_message(message, "bedrock").rejection == reason


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ([assistant(use("a")), user("Never mind.")], "call without its result"),
        ([user("Hm."), user(result("a", "fine"))], "result without its call"),
        ([assistant(use("a"), use("b")), user(result("a", "x")), assistant("Hm.")], "call without its result"),
        ([assistant("Hm.", THOUGHT)], "thinking without the block that must follow it"),
    ],
)
def test_a_broken_step_is_left_out_with_its_reason(broken: list[Any], reason: str) -> None:
    history = [user("Hi"), *broken, user("Now?")]
    fitted = fit(history, 10**6, **OPTIONS)
    assert violations("bedrock", fitted.messages, history) == []
    assert reason in str(fitted.dropped[0].reason)


def test_thinking_stays_with_the_calls_that_follow_it() -> None:
    history = [user("Hi"), assistant(THOUGHT, use("a")), user(result("a", "x " * 300)), assistant(use("b"))]
    history.append(user(result("b", "fine")))
    sent = fit(history, 420 + 60, **OPTIONS).messages
    assert violations("bedrock", sent, history) == []
    assert sent[1]["content"][0] == THOUGHT


def test_tool_blocks_need_tools() -> None:
    history = steps(1)
    for call in (lambda: fit(history, 1000), lambda: MessageSession[Any](1000).fit(history)):
        with pytest.raises(ConfigurationError, match="tools must be given: messages hold tool calls"):
            call()
    assert from_items(to_items(history), history) == history


@pytest.mark.parametrize(
    ("history", "error", "words"),
    [
        ([user("Hi", {"type": "text", "text": "a"})], InvalidItemError, "one key that names its kind"),
        ([user("Hi"), {"role": "tool", "content": "x"}], ConfigurationError, "mix the formats bedrock and openai"),
        ([{"role": "user", "content": "Hi"}, assistant("Yes.")], TypeError, r"content must be a list of blocks"),
        ([user("Hi", {"text": "a", "image": {}})], InvalidItemError, "one key that names its kind"),
        ([{"role": "system", "content": "Be kind."}, user("Hi")], InvalidItemError, "pass the prompt as system="),
        ([user("Hi"), {"role": "system", "content": [{"text": "a"}]}], InvalidItemError, "pass the prompt as system="),
        ([{"role": "model", "content": [{"text": "a"}]}], InvalidItemError, "role must be one of user, assistant"),
    ],
)
def test_a_history_in_the_wrong_shape_is_an_error(history: Any, error: Any, words: Any) -> None:
    with pytest.raises(error, match=words):
        fit(history, 1000)


def test_images_and_files_are_bytes() -> None:
    image = {"image": {"format": "png", "source": {"bytes": b64decode(IMAGE)}}}
    assert read_message(user(image), "bedrock").extra - read_message(user("Hi"), "bedrock").extra == -(
        -640 * 480 // 750
    )
    history = [user("Hi", image), assistant("Nice.")]
    assert fit([*history, user("Yes.")], 10**6).messages[0]["content"][1] is image
    with pytest.raises(TypeError, match="plain data"):
        fit([{"role": "user", "content": [{"type": "image", "source": {"data": b"x"}}]}], 1000)


def test_the_words_of_redacted_thinking_are_counted_by_their_bytes() -> None:
    redacted = {"reasoningContent": {"redactedContent": b"x" * 400}}
    plain = read_message(assistant(use("a")), "bedrock").extra
    assert read_message(assistant(redacted, use("a")), "bedrock").extra == plain + 100


@pytest.mark.parametrize(
    ("message", "opens", "ends"),
    [
        (assistant(THOUGHT, use("a")), True, False),
        (assistant(THOUGHT, "Yes.", POINT), True, False),
        (assistant("Hm.", THOUGHT), False, True),
        (assistant("Hm.", THOUGHT, POINT), False, True),
        (assistant("Yes."), False, False),
    ],
)
def test_thinking_at_either_end_of_a_message_is_known(message: Any, opens: bool, ends: bool) -> None:
    info = read_message(message, "bedrock")
    assert (info.opens_thinking, info.ends_thinking) == (opens, ends)


def test_a_loop_keeps_the_thinking_that_it_began_with() -> None:
    history = [user("Hi"), assistant(THOUGHT, use("a")), user(result("a", "x " * 300))]
    for key in "bcdefg":
        history += [assistant(use(key)), user(result(key, "x " * 300))]
    fitted = fit(history, 1000, forms=False, notes=False, **OPTIONS)
    assert fitted.positions[:3] == (0, 1, 2)
    assert len(fitted.positions) < len(history)


def test_only_a_text_at_the_end_can_end_in_white_space() -> None:
    assert read_message(assistant("Yes. "), "bedrock").ends_blank
    assert not read_message(assistant("Yes. ", use("a")), "bedrock").ends_blank


def test_a_breakpoint_says_nothing() -> None:
    assert not read_message(user(result("a", "fine"), POINT), "bedrock").speaks
    assert read_message(user(result("a", "fine"), "And?"), "bedrock").speaks


def test_a_document_counts_with_its_name_context_and_content() -> None:
    document = {"name": "report", "context": "of 2026", "source": {"bytes": b"x" * 3000}}
    info = read_message(user("Hi", {"document": document}), "bedrock")
    assert info.texts == ["Hi", "report", "of 2026"]
    assert info.extra > read_message(user("Hi"), "bedrock").extra + 500
    text = {"name": "report", "source": {"text": "all is well"}}
    assert read_message(user("Hi", {"document": text}), "bedrock").texts == ["Hi", "report", "all is well"]


@pytest.mark.parametrize(
    ("parts", "changed"),
    [
        (("outputs",), [user(result("a", "FINE"), "And?"), assistant("Yes.", use("a", at="log"))]),
        (("prose",), [user(result("a", "fine"), "AND?"), assistant("YES.", use("a", at="log"))]),
    ],
)
def test_only_texts_of_the_named_parts_are_changed(parts: tuple[str, ...], changed: list[Any]) -> None:
    history = [user(result("a", "fine"), "And?"), assistant("Yes.", use("a", at="log"))]
    assert [FORMATS["bedrock"].change_texts(one, parts, str.upper) for one in history] == changed


def test_no_breakpoint_follows_thinking() -> None:
    mark = FORMATS["bedrock"].mark
    assert mark is not None
    assert mark.marked(assistant("Hm.", THOUGHT), here=True) == assistant("Hm.", THOUGHT)
    assert mark.marked(assistant(THOUGHT, "Hm."), here=True) == assistant(THOUGHT, "Hm.", POINT)


def test_blocks_with_a_type_are_of_another_format() -> None:
    assert FORMATS["bedrock"].recognises(user("Hi"))
    assert not FORMATS["bedrock"].recognises(user({"type": "text", "text": "Hi"}))


def test_objects_of_an_sdk_are_sent_as_plain_data() -> None:
    class Block:
        def model_dump(self, **_options: Any) -> dict[str, Any]:
            return {"text": "Hi"}

    fitted = fit([{"role": "user", "content": [Block()]}], 10**6, provider="bedrock")
    assert fitted.messages == [user("Hi")]
