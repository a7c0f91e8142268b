"""Valid histories of the Responses API."""

from __future__ import annotations

import json

from tests.messages.generators.chance import Chance, Message


def history(chance: Chance, turns: int) -> list[Message]:
    """Return a conversation that ends where the model is asked."""
    items = [_system(chance)] if chance.happens(0.5) else []
    for turn in range(turns):
        items += [_user(chance) for _ in range(chance.choice((1, 1, 1, 2)))]
        for _ in range(chance.choice((0, 1, 2, 5))):
            items += _program(chance) if chance.happens(0.1) else _step(chance)
        if turn < turns - 1:
            items += _answer(chance) if chance.happens(0.9) else []
            items += [_system(chance)] if chance.happens(0.05) else []
            items += [_compaction(chance)] if chance.happens(0.06) else []
    return items


def _system(chance: Chance) -> Message:
    return {"role": chance.choice(("system", "developer")), "content": chance.prose()}


def _user(chance: Chance) -> Message:
    if chance.happens(0.6):
        return {"role": "user", "content": chance.prose()}
    text = {"type": "input_text", "text": chance.prose()}
    image = {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"}
    file = {"type": "input_file", "filename": "a.pdf", "file_data": "QUJD" * 20}
    return {"type": "message", "role": "user", "content": chance.choice(([text], [text, image], [file, text]))}


def _compaction(chance: Chance) -> Message:
    return {"type": "compaction", "id": chance.key("cmp"), "encrypted_content": "gAAA" * chance.randint(5, 80)}


def _thoughts(chance: Chance) -> list[Message]:
    if chance.happens(0.5):
        return []
    summary = [{"type": "summary_text", "text": chance.prose()}] * chance.choice((0, 1))
    thought: Message = {"type": "reasoning", "id": chance.key("rs"), "summary": summary}
    return [{**thought, "encrypted_content": "gAAA" * 20} if chance.happens(0.5) else thought]


def _said(chance: Chance) -> Message:
    part = {"type": "output_text", "text": chance.prose(), "annotations": []}
    return {
        "type": "message",
        "id": chance.key("msg"),
        "role": "assistant",
        "status": "completed",
        "content": [part] if chance.happens(0.95) else [{"type": "refusal", "refusal": "No."}],
    }


def _answer(chance: Chance) -> list[Message]:
    if chance.happens(0.2):
        return [{"role": "assistant", "content": chance.prose()}]
    search = {"type": "web_search_call", "id": chance.key("ws"), "status": "completed", "action": {"type": "search"}}
    return [*_thoughts(chance), *([search] if chance.happens(0.2) else []), _said(chance)]


def _step(chance: Chance) -> list[Message]:
    """Calls and their outputs in any order; the user may type while the tools run."""
    calls = [_call(chance) for _ in range(chance.choice((1, 1, 1, 2, 4)))]
    items = [*_thoughts(chance), *([_said(chance)] if chance.happens(0.2) else []), *calls]
    outputs = [_output(chance, call) for call in chance.shuffled(calls)]
    if chance.happens(0.15):
        outputs.insert(chance.randint(0, len(outputs)), _user(chance))
    return items + outputs


def _call(chance: Chance) -> Message:
    key = chance.key("call")
    if chance.happens(0.1):
        return {"type": "custom_tool_call", "call_id": key, "name": "shell", "input": chance.words()}
    call = {"type": "function_call", "call_id": key, "name": chance.tool(), "arguments": json.dumps(chance.arguments())}
    return {**call, "id": chance.key("fc"), "status": "completed"} if chance.happens(0.5) else call


def _output(chance: Chance, call: Message) -> Message:
    text = chance.output() if chance.happens(0.9) else ""
    parts = [{"type": "input_text", "text": text or "none"}]
    if chance.happens(0.3):
        parts.append({"type": "input_image", "image_url": f"data:image/png;base64,{chance.encoded()}"})
    output = text if chance.happens(0.8) else parts
    return {"type": f"{call['type']}_output", "call_id": call["call_id"], "output": output}


def _program(chance: Chance) -> list[Message]:
    """A program of the model that makes calls, in one or two rounds."""
    key = chance.key("prog")
    caller = {"type": "program", "caller_id": key}
    program = {"type": "program", "id": chance.key("prg"), "call_id": key, "code": chance.words(), "fingerprint": "f"}
    items = [*_thoughts(chance), program]
    for _ in range(chance.choice((1, 2))):
        calls = [{**_call(chance), "caller": caller} for _ in range(chance.choice((1, 2)))]
        items += [*calls, *({**_output(chance, call), "caller": caller} for call in calls)]
    done = {"type": "program_output", "id": chance.key("po"), "call_id": key, "status": "completed"}
    return [*items, {**done, "result": chance.document()}]
