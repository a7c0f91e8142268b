"""Histories of Gemini's generateContent: `{"role": "user" or "model", "parts": [{"text": …}, {"functionCall": …}]}`."""

import json
from base64 import b64decode
from typing import Any

import pytest

from cupel import InvalidItemError
from cupel.errors import ConfigurationError
from cupel.messages import MessageSession, default_prices, fit, provider_of, read_message
from cupel.messages._formats import FORMATS
from cupel.messages._notes import NOTE_KEY, cleaned, with_note
from tests.messages.chat import COUNTER, EVERYTHING
from tests.messages.histories import IMAGE
from tests.messages.provider_rules import violations

NOTE = "[cupel: 2 earlier steps omitted here: look log; bash ls]"
OPTIONS: dict[str, Any] = {"counter": COUNTER, "tools": [{"functionDeclarations": [{"name": "look"}]}]}
GEMINI = FORMATS["gemini"]


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": one} if isinstance(one, str) else one for one in parts]}


def model(*parts: Any) -> dict[str, Any]:
    return {**user(*parts), "role": "model"}


def call(page: int, name: str = "look", *, signed: bool = True, **fields: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": name, "args": {"page": page}, **fields}}
    return {**part, "thoughtSignature": "c2ln"} if signed else part


def response(output: Any, name: str = "look", **fields: Any) -> dict[str, Any]:
    answer = output if isinstance(output, dict) else {"output": output}
    return {"functionResponse": {"name": name, "response": answer, **fields}}


def steps(count: int, lines: int = 30) -> list[dict[str, Any]]:
    """A question, and steps with long outputs: texts and objects by turns."""
    history = [user("What is in the log?")]
    for at in range(count):
        text = "".join(f"line {line} of page {at} says little\n" for line in range(lines))
        output = {"rows": text.splitlines(), "page": at} if at % 2 else text
        history += [model(f"I look at page {at}.", call(at)), user(response(output))]
    return history


def test_a_history_is_recognised_and_returned_whole_while_it_fits() -> None:
    history = steps(3)
    fitted = fit(history, 10**6, **OPTIONS)
    assert provider_of(history) == fitted.provider == "gemini"
    assert all(one is other for one, other in zip(fitted.messages, history, strict=True))


@pytest.mark.parametrize("budget", [500, 800, 1500, 3000])
def test_a_request_that_was_cut_is_valid_and_says_what_it_omits(budget: int) -> None:
    history = steps(20)
    fitted = fit(history, budget, **OPTIONS)
    assert fitted.total_tokens <= budget
    assert violations("gemini", fitted.messages, history) == []
    assert fitted.notes or (fitted.shortened and fitted.dropped == [])
    for note in fitted.notes:
        holder = next(message for message in fitted.messages if note in json.dumps(message, ensure_ascii=False))
        answer = holder["parts"][0]["functionResponse"]["response"]
        assert answer[NOTE_KEY] == note
        assert len(answer) > 1, "the note is beside the output"


def test_a_session_keeps_its_state_and_its_requests_valid() -> None:
    history, session = steps(20), MessageSession[Any](1500, **OPTIONS)
    for end in range(1, len(history) + 1, 2):
        turn = session.fit(history[:end])
        assert turn.total_tokens <= 1500
        assert violations("gemini", turn.messages, history[:end]) == []
        assert turn.marked() == turn.messages, "prefixes are cached without breakpoints"
        session.observe({"promptTokenCount": turn.total_tokens, "cachedContentTokenCount": turn.total_tokens // 2})
        session = MessageSession[Any].from_json(session.to_json(), 1500, **OPTIONS)
    assert turn.notes
    assert session.total.read > 0


def test_prices_are_those_of_implicit_caching() -> None:
    prices = default_prices("gemini")
    assert (prices.marks, prices.write, prices.cached(4095), prices.cached(5000)) == (0, 1.0, 0, 5000)


def test_an_answer_that_is_more_than_a_text_becomes_one_if_it_is_shortened() -> None:
    history = steps(4, lines=100)
    fitted = fit(history, 900, **OPTIONS)
    for at in fitted.shortened:
        answer = dict(fitted.messages[fitted.positions.index(at)]["parts"][0]["functionResponse"]["response"])
        answer.pop(NOTE_KEY, None)
        assert [*answer] == ["output"]
        assert "[cupel: " in answer["output"]
    assert any(at % 4 == 0 for at in fitted.shortened), "an object is among them"


@pytest.mark.parametrize("output", ["fine", {"rows": [1, 2]}, {"error": "no such page"}])
def test_a_note_is_a_key_of_the_response_and_comes_off_again(output: Any) -> None:
    message = user(response(output))
    noted = with_note(message, NOTE, GEMINI)
    answer = noted["parts"][0]["functionResponse"]["response"]
    assert (next(iter(answer)), answer[NOTE_KEY]) == (NOTE_KEY, NOTE), "the model reads it first"
    assert cleaned(noted, GEMINI, EVERYTHING) == message


def test_a_key_of_the_same_name_that_is_no_note_stays() -> None:
    message = user(response({NOTE_KEY: "of silver", "output": "fine"}))
    assert cleaned(message, GEMINI) is message


def test_a_note_that_is_a_message_comes_off_again() -> None:
    assert cleaned(GEMINI.user_message(NOTE), GEMINI, EVERYTHING) is None
    assert cleaned(user(NOTE, "Hi"), GEMINI, EVERYTHING) == user("Hi")


def test_neighbours_that_must_be_one_content_are_joined() -> None:
    history = [user("One."), user("Two."), model("I look."), model(call(1), call(2, signed=False))]
    history += [user(response("a")), user(response("b")), user("And?")]
    fitted = fit(history, 10**6, **OPTIONS)
    assert fitted.messages == [
        *history[:2],
        model("I look.", call(1), call(2, signed=False)),
        user(response("a"), response("b")),
        user("And?"),
    ]
    assert violations("gemini", fitted.messages, history) == []


def test_words_beside_results_are_a_second_content() -> None:
    history = [user("Hi"), model(call(1)), user(response("a"), "And?"), user("Well?")]
    fitted = fit(history, 10**6, **OPTIONS)
    assert fitted.messages == [*history[:2], user(response("a")), user("And?"), user("Well?")]
    assert fitted.positions == (0, 1, 2, 2, 3)


def test_alternating_users_are_joined_but_not_to_results() -> None:
    history = [user("One."), user("Two."), model(call(1)), user(response("a")), user("And?")]
    fitted = fit(history, 10**6, **OPTIONS, alternate=True)
    assert fitted.messages == [user("One.", "Two."), *history[2:]]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (user(), "empty content"),
        (user(""), "empty content"),
        (user({}), "empty content"),
        (user("Hi", response("a")), "a tool result after other content"),
        (model(response("a")), "a tool result in a content of role model"),
        (user(call(1)), "a call in a content of role user"),
        (model({"text": "", "thoughtSignature": "c2ln"}), None),
    ],
)
def test_a_content_that_gemini_refuses_is_rejected(message: Any, reason: str | None) -> None:
    rejection = read_message(message, "gemini").rejection
    assert rejection is None if reason is None else str(rejection).startswith(reason)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ([user(response("a"))], "result without its call"),
        ([model(call(1)), user(response("a", name="other"))], "result without its call"),
        ([model(call(1, id="x")), user(response("a", id="y"))], "result without its call"),
        ([model(call(1)), user(response("a"), response("b"))], "result without its call"),
        ([model(call(1), call(2, "other")), user(response("a", "other"), response("b"))], "results in another order"),
        ([model(call(1), call(2)), user(response("a"), "Hm."), user(response("b"))], "words between the results"),
    ],
)
def test_a_broken_step_is_left_out_with_its_reason(broken: list[Any], reason: str) -> None:
    history = [user("Hi"), *broken, model("So."), user("Now?")]
    fitted = fit(history, 10**6, **OPTIONS)
    assert violations("gemini", fitted.messages, history) == []
    assert reason in str(fitted.dropped[0].reason)


@pytest.mark.parametrize(
    "broken",
    [[model(call(1))], [model(call(1)), user("Never mind.")], [model(call(1), call(2)), user(response("a"))]],
)
def test_a_call_without_its_response_is_an_error_that_says_what_to_do(broken: list[Any]) -> None:
    history = [user("Hi"), *broken]
    match = r"messages\[1\] has a call without its result: append one for each call, or remove the call"
    with pytest.raises(InvalidItemError, match=match):
        fit(history, 10**6, **OPTIONS)
    with pytest.raises(InvalidItemError, match=match):
        MessageSession(10**6, **OPTIONS).fit(history)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "user", "content": "Hi"}, "content belongs to another format than Gemini's: convert the message"),
        ({"role": "user", "part": [{"text": "Hi"}]}, "has no parts but 'part'; did you mean 'parts'?"),
        ({"role": "user", "text": "Hi"}, "has no parts but 'text'; did you mean 'parts'?"),
    ],
)
def test_words_under_a_wrong_key_are_refused(message: dict[str, Any], words: str) -> None:
    for options in (OPTIONS, {}):
        with pytest.raises(InvalidItemError, match=words):
            fit([message, model("So."), user("Now?")], 10**6, **options)


def test_ids_are_compared_where_both_have_one() -> None:
    history = [user("Hi"), model(call(1, id="x")), user(response("a"))]
    assert fit(history, 10**6, **OPTIONS).messages == history


def test_a_request_ends_with_the_user() -> None:
    history = [user("Hi"), model("Hello.")]
    assert fit(history, 10**6).messages == history[:1]


@pytest.mark.parametrize(
    ("history", "error", "words"),
    [
        ([user("Hi"), {"role": "assistant", "content": [{"text": "a"}]}], ConfigurationError, "bedrock and gemini"),
        ([user("Hi"), {"role": "tool", "content": "x"}], ConfigurationError, "mix the formats gemini and openai"),
        ([{"role": "system", "content": "Be kind."}, user("Hi")], InvalidItemError, "pass the prompt as system="),
        ([user("Hi"), {"role": "assistant", "parts": [{"text": "a"}]}], InvalidItemError, "one of user, model"),
        ([user("Hi"), {"role": "model", "parts": "a"}], TypeError, "a list of objects"),
    ],
)
def test_a_history_in_the_wrong_shape_is_an_error(history: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        fit(history, 1000)


def test_contents_in_another_format_are_named() -> None:
    with pytest.raises(InvalidItemError, match="name it with provider='gemini'"):
        fit([user("Hi")], 1000, provider="anthropic")


def test_fields_may_be_spelled_as_in_python_and_the_role_may_be_absent() -> None:
    history = [{"parts": [{"text": "Hi"}]}, model(call(1)), user({"function_response": response("x " * 900)})]
    history[-1]["parts"] = [{"function_response": {"name": "look", "response": {"output_text": "x\n" * 900}}}]
    assert fit(history, 10**6, **OPTIONS).messages[2] is history[2]
    shorter = fit(history, 200, **OPTIONS).messages[-1]["parts"][0]["functionResponse"]
    assert shorter["name"] == "look"
    assert "[cupel: " in shorter["response"]["output"]


@pytest.mark.parametrize("data", [IMAGE, b64decode(IMAGE)])
def test_images_are_base64_or_bytes(data: Any) -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": data}}
    assert read_message(user(image), "gemini").extra - read_message(user("Hi"), "gemini").extra == 1120
    answer = user(response("see", parts=[image]))
    assert read_message(answer, "gemini").extra - read_message(user(response("see")), "gemini").extra == 1120
    sizes = fit([user("Hi", image)], 10**6, image_tokens=lambda size: 7 if size == (640, 480) else 0)
    assert sizes.total_tokens < 20


def test_sound_counts_by_its_length() -> None:
    sound = {"inlineData": {"mimeType": "audio/mp3", "data": bytes(8000)}}
    assert read_message(user(sound), "gemini").extra == read_message(user("Hi"), "gemini").extra + 32


def test_thoughts_are_not_what_a_note_says() -> None:
    assert GEMINI.said(model({"text": "Hm.", "thought": True}, "Yes.")) == ("assistant", "Yes.")


def test_only_names_of_the_api_are_spelled_its_way_and_nulls_are_left_out() -> None:
    call = {"function_call": {"name": "look", "args": {"page_number": None}, "id": None}, "thought_signature": None}
    assert GEMINI.normal({"role": "model", "parts": [call]}) == model(
        {"functionCall": {"name": "look", "args": {"page_number": None}}}
    )


def test_a_file_that_is_an_image_counts_as_one() -> None:
    image = {"fileData": {"mimeType": "image/png", "fileUri": "gs://bucket/a.png"}}
    assert read_message(user(image), "gemini").extra - read_message(user("Hi"), "gemini").extra == 1120


def test_a_signature_is_not_counted() -> None:
    part = {"toolCall": {"toolType": "GOOGLE_SEARCH", "args": {"query": "weather"}}}
    signed = {**part, "thoughtSignature": "c2ln" * 100}
    assert read_message(model(signed), "gemini").texts == read_message(model(part), "gemini").texts


def test_thoughts_are_not_shortened() -> None:
    thought = {"text": "Hm.", "thought": True}
    assert GEMINI.change_texts(model(thought, "Yes."), ("prose",), str.upper) == model(thought, "YES.")


def test_a_message_of_another_format_is_not_recognised() -> None:
    assert GEMINI.recognises(model("Hi"))
    assert not GEMINI.recognises({**model("Hi"), "content": "Hi"})


class Content(dict[str, Any]):
    """A content as the SDK has it: an object that dumps and validates itself."""

    role = property(lambda self: self["role"])
    parts = property(lambda self: self["parts"])

    def model_dump(self, **_options: Any) -> dict[str, Any]:
        return dict(self)

    @classmethod
    def model_validate(cls, content: dict[str, Any]) -> "Content":
        return cls(content)


def test_changed_contents_of_the_sdk_keep_their_class() -> None:
    history = [Content(one) for one in (user("Hi"), model("I look."), model(call(1)), user(response("a"), "And?"))]
    fitted = fit(history, 10**6, **OPTIONS)
    assert fitted.messages == [user("Hi"), model("I look.", call(1)), user(response("a")), user("And?")]
    assert {type(one) for one in fitted.messages} == {Content}
