"""Valid histories of chat completions."""

from __future__ import annotations

import json

from tests.messages.generators.chance import Chance, Message


def history(chance: Chance, turns: int) -> list[Message]:
    """Return a conversation that ends where the model is asked."""
    messages = [_system(chance) for _ in range(chance.choice((0, 1, 1, 2)))]
    for turn in range(turns):
        messages += [_user(chance) for _ in range(chance.choice((1, 1, 1, 2)))]
        for _ in range(chance.choice((0, 1, 2, 5))):
            messages += _step(chance)
        if turn < turns - 1:
            messages += [_answer(chance)] if chance.happens(0.9) else []
            messages += [_system(chance)] if chance.happens(0.1) else []
    return messages


def _system(chance: Chance) -> Message:
    return {"role": chance.choice(("system", "developer")), "content": chance.prose()}


def _user(chance: Chance) -> Message:
    text = {"type": "text", "text": chance.prose()}
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{chance.encoded()}"}}
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{'QUJD' * 20}"}}
    content = chance.choice((chance.prose(), chance.prose(), " ", [text], [text, image], [image, text], [file, text]))
    return {"role": "user", "content": content, **({"name": "ann"} if chance.happens(0.1) else {})}


def _step(chance: Chance) -> list[Message]:
    if chance.happens(0.05):
        call = {"name": "f", "arguments": "{}"}
        asked = {"role": "assistant", "content": None, "function_call": call}
        return [asked, {"role": "function", "name": "f", "content": chance.output()}]
    calls = [_call(chance) for _ in range(chance.choice((1, 1, 1, 2, 4)))]
    message: Message = {"role": "assistant", "content": chance.choice((None, "", chance.prose())), "tool_calls": calls}
    if chance.happens(0.2):
        message |= chance.choice(({"refusal": None}, {"annotations": []}, {"reasoning_content": chance.prose()}))
    return [message, *(_result(chance, call["id"]) for call in chance.shuffled(calls))]


def _call(chance: Chance) -> Message:
    if chance.happens(0.1):
        return {"id": chance.key("call"), "type": "custom", "custom": {"name": "shell", "input": chance.words()}}
    arguments = json.dumps(chance.arguments()) if chance.happens(0.95) else '{"cut off'
    function = {"name": chance.tool(), "arguments": arguments}
    return {"id": chance.key("call"), "type": "function", "function": function}


def _result(chance: Chance, key: str) -> Message:
    text = chance.output() if chance.happens(0.9) else ""
    parts = [{"type": "text", "text": text or "none"}] * chance.choice((1, 2))
    return {"role": "tool", "tool_call_id": key, "content": text if chance.happens(0.8) else parts}


def _answer(chance: Chance) -> Message:
    answer: Message = chance.choice(
        (
            {"content": chance.prose()},
            {"content": [{"type": "text", "text": chance.prose()}]},
            {"content": None, "refusal": chance.prose()},
            {"content": [{"type": "refusal", "refusal": "No."}]},
            {"content": None, "audio": {"id": chance.key("audio")}},
        )
        if chance.happens(0.3)
        else ({"content": chance.prose()},)
    )
    return {"role": "assistant", **answer}
