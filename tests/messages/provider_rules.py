"""What the providers accept, written down from their public rules and error messages.

Nothing here knows how cupel works: each function takes a request's messages as plain dicts and lists what the provider
would object to. `original` is the history the request was cut from, where a rule depends on it.
"""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]


def violations(provider: str, messages: list[Message], original: list[Message] | None = None) -> list[str]:
    """Everything wrong with a request, empty if the provider would take it."""
    if not messages:
        return ["a request needs at least one message"]
    if provider == "openai":
        return list(_openai(messages))
    if provider == "openai-responses":
        return list(_responses(messages))
    return list(_anthropic(messages, original if original is not None else messages))


def _blank(text: Any) -> bool:
    return not isinstance(text, str) or not text.strip()


# --- OpenAI chat completions -------------------------------------------------------------------------------
def _openai(messages: list[Message]):
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        role = message["role"]
        if role in ("tool", "function"):
            key = message["tool_call_id"] if role == "tool" else f"function {message['name']}"
            if key not in waiting:
                yield f"{index}: a {role} message must answer a call of the preceding assistant message, not {key}"
            waiting.discard(key)
        else:
            if waiting:
                yield f"{index}: the calls {sorted(waiting)} must be answered before a {role} message"
            waiting = set()
        calls = [call["id"] for call in message.get("tool_calls") or []]
        if message.get("tool_calls") == []:
            yield f"{index}: [] is too short for tool_calls"
        if message.get("function_call"):
            calls.append(f"function {message['function_call']['name']}")
        if calls and role != "assistant":
            yield f"{index}: only the assistant calls tools"
        if len(calls) != len(set(calls)):
            yield f"{index}: two calls share an id"
        waiting |= set(calls)
        yield from _openai_content(index, message, role, calls)
    if waiting:
        yield f"end: the calls {sorted(waiting)} are never answered"


def _openai_content(index: int, message: Message, role: str, calls: list[str]):
    content = message.get("content")
    if isinstance(content, list):
        if not content:
            yield f"{index}: an empty array of parts"
        for part in content:
            if part["type"] == "text" and not part["text"]:
                yield f"{index}: an empty text part"
    elif content is None:
        excused = role == "assistant" and (calls or message.get("refusal") or message.get("audio"))
        if not excused:
            yield f"{index}: content is required"
    elif content == "" and role not in ("tool", "function") and not calls and not message.get("refusal"):
        yield f"{index}: empty content"


# --- OpenAI Responses --------------------------------------------------------------------------------------
_ANSWERED = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "local_shell_call": "local_shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "program": "program_output",
}


def _responses(items: list[Message]):
    yield from _responses_ids(items)
    yield from _responses_pairs(items)
    for index, item in enumerate(items):
        follower = items[index + 1] if index + 1 < len(items) else None
        if item.get("type") == "reasoning" and (follower is None or not _from_model(follower)):
            yield f"{index}: reasoning was provided without its required following item"
        if item.get("type", "message") == "message":
            yield from _responses_content(index, item)


def _responses_ids(items: list[Message]):
    ids: set[str] = set()
    for index, item in enumerate(items):
        if not item.get("id") or item.get("type") == "local_shell_call_output":
            continue
        if item["id"] in ids:
            yield f"{index}: duplicate item found with id {item['id']}"
        ids.add(item["id"])


def _responses_pairs(items: list[Message]):
    calls: dict[tuple[str, str], int] = {}
    answered: set[tuple[str, str]] = set()
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        caller = item.get("caller") or {}
        if kind in _ANSWERED:
            key = (kind, item["call_id"])
            if key in calls:
                yield f"{index}: two calls share an id"
            if caller.get("type") == "program" and ("program", caller["caller_id"]) not in calls:
                yield f"{index}: no program found for the caller {caller['caller_id']}"
            calls[key] = index
        elif kind in _ANSWERED.values():
            key = (next(call for call in _ANSWERED if _ANSWERED[call] == kind), item.get("call_id") or item["id"])
            if key not in calls:
                yield f"{index}: no tool call found for the output {key[1]}"
            if key in answered:
                yield f"{index}: a second output for {key[1]}"
            answered.add(key)
    for kind, key in sorted(calls.keys() - answered):
        if kind != "program" or not _waits(items, key):
            yield f"end: no tool output found for the call {key}"


def _waits(items: list[Message], program: str) -> bool:
    """Whether a program without output was handed the results of its calls, and nothing else has happened since."""
    talk = [item for item in items if item.get("role") not in ("system", "developer")]
    made = [
        item["call_id"] for item in talk if (item.get("caller") or {}).get("caller_id") == program and _from_model(item)
    ]
    return bool(made) and talk[-1].get("type", "").endswith("_output") and talk[-1].get("call_id") in made


def programs_kept_whole(items: list[Message], original: list[Message]) -> list[str]:
    """A program is replayed with every item that belongs to it."""
    families: dict[str, set[int]] = {}
    for item in original:
        caller = (item.get("caller") or {}).get("caller_id")
        if item.get("type") in ("program", "program_output") or caller:
            families.setdefault(caller or item["call_id"], set()).add(id(item))
    present = {id(item) for item in items}
    return [
        f"program {name} was torn apart" for name, family in families.items() if family & present and family - present
    ]


def _from_model(item: Message) -> bool:
    kind = item.get("type", "message")
    return item.get("role") == "assistant" if kind == "message" else not kind.endswith("_output")


def _responses_content(index: int, item: Message):
    content = item.get("content")
    if not content:
        yield f"{index}: empty content"
    elif isinstance(content, list):
        for part in content:
            if part["type"] in ("input_text", "output_text") and not part["text"]:
                yield f"{index}: an empty text part"


def reasoning_kept_together(items: list[Message], original: list[Message]) -> list[str]:
    """An item that the model reasoned towards must come with that reasoning, and right behind it."""
    required: dict[int, Message] = {}
    pending: list[Message] = []
    for item in original:
        if item.get("type") == "reasoning":
            pending.append(item)
        elif _from_model(item):
            for thought in pending:
                required[id(item)] = thought
        else:
            pending = []
    present = {id(item) for item in items}
    return [
        f"{item.get('type', 'message')} was provided without its required reasoning item"
        for item in items
        if id(item) in required and id(required[id(item)]) not in present
    ]


# --- Anthropic messages ------------------------------------------------------------------------------------
def _blocks(message: Message) -> list[Message]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _anthropic(messages: list[Message], original: list[Message]):
    if messages[0]["role"] != "user":
        yield "first message must use the user role"
    if messages[-1]["role"] == "assistant" and messages[-1] is not original[-1]:
        yield "a final assistant message is a prefill that nobody asked for"
    if messages[-1]["role"] == "assistant":
        text = _blocks(messages[-1])[-1:]
        if text and text[0]["type"] == "text" and text[0]["text"] != text[0]["text"].rstrip():
            yield "final assistant content cannot end with trailing whitespace"
    yield from _anthropic_blocks(messages)
    yield from _anthropic_compactions(messages)
    yield from _anthropic_systems(messages)
    yield from _anthropic_pairs(messages)
    yield from _anthropic_server_tools(messages)
    running = _tool_loops(messages)[-1]
    thoughtful = {id(m) for loop in _tool_loops(original) if loop and _thinks(loop[0]) for m in loop}
    uses_tools = any(block["type"] == "tool_use" for message in running for block in _blocks(message))
    if uses_tools and any(id(message) in thoughtful for message in running) and not _thinks(running[0]):
        yield "the final assistant turn must start with a thinking block"


def _anthropic_compactions(messages: list[Message]):
    """A compaction is the first block of an assistant message, and only one of a request carries content."""
    found = 0
    for index, message in enumerate(messages):
        for at, block in enumerate(_blocks(message)):
            if block["type"] == "compaction":
                found += 1
                if at or message["role"] != "assistant":
                    yield f"{index}: a compaction block must be the first of an assistant message"
    if found > 1:
        yield "only one compaction block may carry content"


def _anthropic_blocks(messages: list[Message]):
    for index, message in enumerate(messages):
        for extra in sorted(message.keys() - {"role", "content"}):
            yield f"{index}.{extra}: extra inputs are not permitted"
        blocks = _blocks(message)
        if not blocks:
            yield f"{index}: all messages must have non-empty content"
        for at, block in enumerate(blocks):
            inner = block.get("content") if block["type"] == "tool_result" else None
            for text in [block, *(inner if isinstance(inner, list) else ())]:
                if text["type"] == "text" and _blank(text["text"]):
                    yield f"{index}: text content blocks must contain non-whitespace text"
            if block["type"] == "tool_use" and message["role"] != "assistant":
                yield f"{index}: tool_use belongs to the assistant"
            if _is_server_block(block) and message["role"] != "assistant":
                yield f"{index}: {block['type']} belongs to the assistant"
            if block["type"] == "tool_result" and message["role"] != "user":
                yield f"{index}: tool_result belongs to the user"
            if block["type"] == "tool_result" and any(b["type"] != "tool_result" for b in blocks[:at]):
                yield f"{index}: tool_result blocks must come first"
            if block["type"] == "thinking" and not block.get("signature"):
                yield f"{index}: thinking needs its signature"


def _is_server_block(block: Message) -> bool:
    return block["type"] in ("server_tool_use", "mcp_tool_use") or block["type"].endswith("_tool_result")


def _anthropic_systems(messages: list[Message]):
    for index, message in enumerate(messages):
        if message["role"] != "system":
            continue
        if index == 0 or messages[index - 1]["role"] != "user":
            yield f"{index}: a system message must follow a user message"
        if index + 1 < len(messages) and messages[index + 1]["role"] != "assistant":
            yield f"{index}: a system message must be last or be followed by the assistant"


def _turns(messages: list[Message]) -> list[tuple[str, list[Message]]]:
    """Neighbours of one role are combined into one turn, as the provider does."""
    turns: list[tuple[str, list[Message]]] = []
    for message in messages:
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(_blocks(message))
        else:
            turns.append((message["role"], _blocks(message)))
    return turns


def _anthropic_pairs(messages: list[Message]):
    seen: set[str] = set()
    turns = _turns(messages)
    for index, (role, blocks) in enumerate(turns):
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(calls) != len(set(calls)) or seen & set(calls):
            yield f"turn {index}: tool_use ids must be unique"
        seen |= set(calls)
        following = turns[index + 1][1] if index + 1 < len(turns) and turns[index + 1][0] == "user" else []
        leading = []
        for block in following:
            if block["type"] != "tool_result":
                break
            leading.append(block["tool_use_id"])
        if role == "assistant" and sorted(leading) != sorted(calls):
            yield f"turn {index}: calls {calls} are followed by the results {leading}"
        if role == "user" and any(block["type"] == "tool_result" for block in blocks):
            before = turns[index - 1] if index else ("", [])
            known = {block["id"] for block in before[1] if block["type"] == "tool_use"}
            for block in blocks:
                if block["type"] == "tool_result" and block["tool_use_id"] not in known:
                    yield f"turn {index}: tool_result without its tool_use in the previous message"
        if role == "assistant" and blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            yield f"turn {index}: the final block in an assistant message cannot be thinking"


def _anthropic_server_tools(messages: list[Message]):
    """Server tools: a result has its call before it, a call its result; code's calls are answered by results alone."""
    at_work: set[str] = set()
    for index, (role, blocks) in enumerate(_turns(messages)):
        if role == "user" and at_work and any(block["type"] != "tool_result" for block in blocks):
            yield f"turn {index}: {sorted(at_work)} was found without a corresponding tool result block"
        if role != "assistant":
            continue
        before, went_on = set(at_work), False
        for block in blocks:
            caller = (block.get("caller") or {}).get("tool_id")
            if block["type"] in ("server_tool_use", "mcp_tool_use"):
                if block["id"] in at_work:
                    yield f"turn {index}: tool_use ids must be unique"
                at_work.add(block["id"])
            elif block["type"].endswith("_tool_result"):
                if block["tool_use_id"] not in at_work:
                    yield f"turn {index}: unexpected tool_use_id {block['tool_use_id']} in {block['type']}"
                at_work.discard(block["tool_use_id"])
                went_on = True
            elif block["type"] == "tool_use" and caller:
                if caller not in at_work:
                    yield f"turn {index}: a call by code {caller}, which is not running"
                went_on = True
        if before & at_work and not went_on:
            yield f"turn {index}: {sorted(before & at_work)} was found without a corresponding tool result block"


def _tool_loops(messages: list[Message]) -> list[list[Message]]:
    """The assistant's messages between user turns without results; the last list is the running loop.

    A user turn that holds a result, alone or with words behind it, goes on with the loop.
    """
    loops: list[list[Message]] = [[]]
    said: list[Message] = []
    for message in [*messages, None]:
        if message is not None and message["role"] == "user":
            said += _blocks(message)
        if message is not None and message["role"] in ("user", "system"):
            continue
        if said and all(block["type"] != "tool_result" for block in said):
            loops.append([])
        said = []
        if message is not None:
            loops[-1].append(message)
    return loops


def _thinks(message: Message) -> bool:
    blocks = _blocks(message)
    return bool(blocks) and blocks[0]["type"] in ("thinking", "redacted_thinking")


# --- what the next request must hold, and alternation ------------------------------------------------------
def unseen(provider: str, messages: list[Message]) -> list[Message]:
    """The newest message with words of the user, and the results that no message of the model follows."""
    newest = [message for message in messages if _has_words(provider, message)][-1:]
    results: list[Message] = []
    for message in reversed(messages):
        if _is_models(provider, message):
            break
        if _has_results(provider, message):
            results.append(message)
    return newest + results


def _has_words(provider: str, message: Message) -> bool:
    if message.get("role") != "user":
        return False
    return provider != "anthropic" or any(block["type"] != "tool_result" for block in _blocks(message))


def _has_results(provider: str, message: Message) -> bool:
    if provider == "anthropic":
        return any(block["type"] == "tool_result" for block in _blocks(message))
    return message.get("role") in ("tool", "function") or str(message.get("type")) in _ANSWERED.values()


def _is_models(provider: str, message: Message) -> bool:
    return _from_model(message) if provider == "openai-responses" else message["role"] == "assistant"


def alternation(provider: str, messages: list[Message]) -> list[str]:
    """What a template objects to that wants the user and the assistant to take turns, beginning with the user.

    Calls and results in messages of their own are steps of the assistant's turn, and are not counted.
    """
    sides = [
        "assistant" if _is_models(provider, message) else "user"
        for message in messages
        if message.get("role") not in ("system", "developer") and not _is_step(provider, message)
    ]
    wrong = [index for index, side in enumerate(sides) if side != ("user", "assistant")[index % 2]]
    return [f"roles must alternate, at {index} of {sides}" for index in wrong[:1]]


def _is_step(provider: str, message: Message) -> bool:
    if provider == "openai":
        calls = message.get("tool_calls") or message.get("function_call")
        return bool(calls) or message["role"] in ("tool", "function")
    return provider == "openai-responses" and message.get("type", "message") != "message"
