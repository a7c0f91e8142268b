"""Bedrock's requests against the service model that botocore ships: what it refuses never reaches the service."""

from typing import Any

import pytest

pytest.importorskip("botocore")

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

from cupel.messages import MessageSession, PinnedMessagesExceedBudgetError, fit
from tests.messages.chat import COUNTER
from tests.messages.generators.bedrock import history as generated
from tests.messages.generators.chance import Chance
from tests.messages.test_bedrock import POINT, THOUGHT, TOOLS, assistant, result, steps, use, user

OPTIONS: dict[str, Any] = {"counter": COUNTER, "tools": TOOLS, "image_tokens": 10}
OPERATION: Any = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2")).operation_model("Converse")
IMAGE = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
REDACTED = {"reasoningContent": {"redactedContent": b"\x00\xff"}}


def check(messages: list[Any]) -> None:
    params = {"modelId": "m", "messages": messages, "toolConfig": {"tools": TOOLS}, "system": [{"text": "Hi"}, POINT]}
    report = ParamValidator().validate(params, OPERATION.input_shape)
    assert not report.has_errors(), report.generate_report()


def test_the_validator_sees_a_wrong_block() -> None:
    with pytest.raises(AssertionError, match="toolUseId"):
        check([user("Hi"), assistant({"toolUse": {"name": "look", "input": {}}})])


@pytest.mark.parametrize("budget", [700, 1500, 10**6])
def test_every_request_has_the_shape_of_the_service_model(budget: int) -> None:
    history = steps(12)
    history[2:2] = [assistant("It may be the image."), user("This one:", IMAGE)]
    history += [assistant(REDACTED, THOUGHT, use("last")), user(result("last", IMAGE, {"json": {"rows": ["x"] * 900}}))]
    check(history)
    check(fit(history, budget, **OPTIONS).messages)
    session = MessageSession[Any](budget, **OPTIONS)
    for end in range(1, len(history) + 1):
        if history[end - 1]["role"] == "user":
            check(session.fit(history[:end]).marked())


def test_requests_of_generated_histories_have_the_shape_of_the_service_model() -> None:
    for seed in range(60):
        history = generated(Chance(seed), 4)
        check(history)
        whole = fit(history, 10**6, **OPTIONS).total_tokens
        for share in (40, 70):
            try:
                check(fit(history, whole * share // 100, forms=True, **OPTIONS).messages)
            except PinnedMessagesExceedBudgetError:
                continue


def test_usage_is_read_as_the_service_reports_it() -> None:
    members = OPERATION.output_shape.members["usage"].members
    session = MessageSession[Any](1000)
    session.fit([user("Hi")])
    usage = dict.fromkeys((name for name in members if name.endswith("InputTokens")), 0)
    bill = session.observe({**usage, "inputTokens": 7, "cacheReadInputTokens": 3, "cacheWriteInputTokens": 5})
    assert bill is not None
    assert (bill.sent, bill.read) == (15, 3)
