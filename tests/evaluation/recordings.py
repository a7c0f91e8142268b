"""One conversation about parcels, in every format."""

import json


def chat(turns: int = 12, noise: int = 30) -> list[dict]:
    """Each look-up names what the one eight before it found, so that windows which forget it lose it."""
    history = [
        {"role": "system", "content": "You track parcels."},
        {"role": "user", "content": "Find the parcels of customer-77."},
    ]
    for turn in range(turns):
        arguments = json.dumps(
            {"after": f"PX-{1000 + max(0, turn - 8)}", "depot": "Hamburg", "deep": True, "page": turn}
        )
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "look_up", "arguments": arguments}}
        history.append({"role": "assistant", "content": f"Looking, {turn}.", "tool_calls": [call]})
        found = {"parcel": f"PX-{1000 + turn}", "depot": "Hamburg", "log": f"scan {turn} " * noise}
        history.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": json.dumps(found)})
    return history


def anthropic(history: list[dict]) -> dict:
    messages = []
    for message in history[1:]:
        if message["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            messages.append({"role": "user", "content": [block]})
        elif message.get("tool_calls"):
            uses = [
                {
                    "type": "tool_use",
                    "id": c["id"],
                    "name": c["function"]["name"],
                    "input": json.loads(c["function"]["arguments"]),
                }
                for c in message["tool_calls"]
            ]
            messages.append({"role": "assistant", "content": [{"type": "text", "text": message["content"]}, *uses]})
        else:
            messages.append(message)
    return {"messages": messages, "system": history[0]["content"], "id": "parcels"}


def bedrock(history: list[dict]) -> dict:
    """The same as a request of Bedrock's; its tools are left out."""
    told = anthropic(history)

    def block(one: dict) -> dict:
        if one["type"] == "tool_use":
            return {"toolUse": {"toolUseId": one["id"], "name": one["name"], "input": one["input"]}}
        if one["type"] == "tool_result":
            return {"toolResult": {"toolUseId": one["tool_use_id"], "content": [{"text": one["content"]}]}}
        return {"text": one["text"]}

    messages = []
    for message in told["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        messages.append({"role": message["role"], "content": [block(one) for one in blocks]})
    return {**told, "messages": messages}


def gemini(history: list[dict]) -> dict:
    """The same as a request of Gemini's."""
    names = {call["id"]: call["function"]["name"] for message in history for call in message.get("tool_calls", ())}
    contents = []
    for message in history[1:]:
        if message["role"] == "tool":
            answer = {"name": names[message["tool_call_id"]], "response": {"output": message["content"]}}
            contents.append({"role": "user", "parts": [{"functionResponse": answer}]})
            continue
        functions = [call["function"] for call in message.get("tool_calls", ())]
        calls = [{"functionCall": {"name": one["name"], "args": json.loads(one["arguments"])}} for one in functions]
        role = "user" if message["role"] == "user" else "model"
        contents.append({"role": role, "parts": [{"text": message["content"]}, *calls]})
    return {"contents": contents, "systemInstruction": {"parts": [{"text": history[0]["content"]}]}, "id": "parcels"}


def responses(history: list[dict]) -> dict:
    items = []
    for message in history:
        if message["role"] == "tool":
            items.append(
                {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
            )
        else:
            items.append({"type": "message", "role": message["role"], "content": message["content"]})
        items += [{"type": "function_call", "call_id": c["id"], **c["function"]} for c in message.get("tool_calls", ())]
    return {"input": items}


def _parts(message: dict) -> dict:
    if message["role"] == "tool":
        part = {"type": "tool_call_response", "id": message["tool_call_id"], "response": message["content"]}
        return {"role": "tool", "parts": [part]}
    calls = [
        {
            "type": "tool_call",
            "id": c["id"],
            "name": c["function"]["name"],
            "arguments": json.loads(c["function"]["arguments"]),
        }
        for c in message.get("tool_calls", ())
    ]
    return {"role": message["role"], "parts": [{"type": "text", "content": message["content"]}, *calls]}


def otlp(history: list[dict]) -> dict:
    """Spans as a collector writes them, one for each call of the model, messages as JSON in attributes."""
    spans = []
    for at in range(3, len(history) + 1):
        if history[at - 1]["role"] == "assistant":
            attributes = {
                "gen_ai.conversation.id": "parcels",
                "gen_ai.system_instructions": json.dumps([{"type": "text", "content": history[0]["content"]}]),
                "gen_ai.input.messages": json.dumps([_parts(message) for message in history[1 : at - 1]]),
                "gen_ai.output.messages": json.dumps([_parts(history[at - 1])]),
            }
            pairs = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
            spans.append({"traceId": "t1", "name": "chat", "attributes": pairs})
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


def span_events(history: list[dict]) -> dict:
    """The last call's span as the SDK writes it, with an event for each message."""
    events = []
    for message in history[:-1]:
        body = {"content": message["content"]}
        if message["role"] == "tool":
            body["id"] = message["tool_call_id"]
        if message.get("tool_calls"):
            body["tool_calls"] = json.dumps(message["tool_calls"])
        events.append({"name": f"gen_ai.{message['role']}.message", "attributes": body})
    return {"name": "chat", "context": {"trace_id": "0x1"}, "attributes": {"gen_ai.system": "openai"}, "events": events}
