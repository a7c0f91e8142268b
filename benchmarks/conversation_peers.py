"""What other packages send of the same conversations, each in an environment of its own.

    make bench PARTS=conversation-peers

runs this module in the environment of every peer (`python -m benchmarks.conversation_peers langchain figures 8`), and
puts the figures of `ruler.py` side by side. Every package gets the conversations as its own messages and the tokens
that cupel counts, where it takes a counter. It is run as its documentation says: with its defaults, and with the
settings that bring it to the same budget, the latter as deep as the tail cuts, to 70 %, where it can be told. Packages
that write what they leave out into the agent's messages go on from there; those that edit a request begin with the
whole history. No peer calls a model here: summaries are not measured.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any, Final, Self

from benchmarks.machine import facts
from benchmarks.recordings import COUNTER, Message, kinds, tokens
from benchmarks.ruler import measure
from benchmarks.sessions import STRATEGIES, about, averages, two_digits
from benchmarks.tables import markdown
from cupel.evaluation import Recording, WindowStrategy

CONVERSATIONS: Final = 8
"""Conversations of each kind."""
LOW: Final = 0.7
ENVIRONMENTS: Final = Path(__file__).parents[1] / ".venvs"
Step = Callable[[list[Message]], list[Message]]
Start = Callable[[int], Step]


def counted(messages: Sequence[Message]) -> int:
    """Return the tokens of messages, as everybody counts them here."""
    return sum(map(tokens, messages))


def changed(message: Message, text: str) -> Message:
    """Return a message with another text, itself if it is the same."""
    return message if text == (message.get("content") or "") else {**message, "content": text}


def calls_of(message: Message) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the id, the name and the arguments of each call."""
    return [
        (call["id"], call["function"]["name"], _arguments(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    ]


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"arguments": text}


def paired(messages: Sequence[Message]) -> list[Message]:
    """Return messages whose call ids are unique, as some packages look results up by them; recordings repeat some."""
    found: list[Message] = []
    waiting: dict[str, str] = {}
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            found.append({**message, "tool_call_id": waiting.get(message["tool_call_id"], message["tool_call_id"])})
            continue
        calls = message.get("tool_calls") or ()
        waiting.update({call["id"]: f"{call['id']}.{at}" for call in calls})
        found.append(
            {**message, "tool_calls": [{**call, "id": waiting[call["id"]]} for call in calls]} if calls else message
        )
    return found


# --- LangChain ---------------------------------------------------------------------------------------------------


def context_editing(trigger: int | None) -> Step:
    from langchain.agents.middleware import ClearToolUsesEdit

    edit = ClearToolUsesEdit() if trigger is None else ClearToolUsesEdit(trigger=trigger)

    def step(history: list[Message]) -> list[Message]:
        messages = _langchain(history)
        edit.apply(messages, count_tokens=lambda given: counted([history[int(one.id)] for one in given]))
        return [changed(history[int(one.id)], one.content) for one in messages]

    return step


def langchain_trim(budget: int, *starts: str) -> Step:
    from langchain_core.messages import trim_messages

    def step(history: list[Message]) -> list[Message]:
        kept = trim_messages(
            _langchain(history),
            max_tokens=budget,
            token_counter=lambda given: counted([history[int(one.id)] for one in given]),
            strategy="last",
            include_system=True,
            start_on=starts,
            end_on=("human", "tool"),
        )
        return [history[int(one.id)] for one in kept]

    return step


def _langchain(history: Sequence[Message]) -> list[Any]:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    found: list[Any] = []
    for at, message in enumerate(history):
        text, role = message.get("content") or "", message["role"]
        if role == "assistant":
            calls = [{"id": key, "name": name, "args": args} for key, name, args in calls_of(message)]
            found.append(AIMessage(text, id=str(at), tool_calls=calls))
        elif role == "tool":
            found.append(ToolMessage(text, id=str(at), tool_call_id=message["tool_call_id"]))
        else:
            found.append((SystemMessage if role == "system" else HumanMessage)(text, id=str(at)))
    return found


# --- LiteLLM -----------------------------------------------------------------------------------------------------


def litellm_compress(trigger: int | None) -> Step:
    from litellm.compression import compress

    options: dict[str, Any] = {} if trigger is None else {"compression_trigger": trigger}

    def step(history: list[Message]) -> list[Message]:
        given = [{**message, "content": message.get("content") or ""} for message in history]
        found = compress(given, model="gpt-4o", **options)["messages"]
        return [changed(message, one["content"]) for message, one in zip(history, found, strict=True)]

    return step


# --- Haystack ----------------------------------------------------------------------------------------------------


def haystack_compactor(name: str, budget: int, **fractions: float) -> Step:
    from haystack.hooks import compaction

    hook = compaction.CompactionHook(
        getattr(compaction, name)(), context_window=budget, token_counter=_HaystackCounter(), **fractions
    )
    state = SimpleNamespace(data={"messages": [], "context_tokens": 0})
    state.set = lambda key, value, **_: state.data.__setitem__(key, value)
    read = 0

    def step(history: list[Message]) -> list[Message]:
        nonlocal read
        state.data["messages"] = [*state.data["messages"], *map(_haystack, history[read:], range(read, len(history)))]
        read = len(history)
        hook.run(state)
        return [_from_haystack(message, history) for message in state.data["messages"]]

    return step


class _HaystackCounter:
    """Counts as cupel does, whatever became of a message."""

    def count(self, messages: list[Any], tools: Any = None) -> int:
        del tools
        return counted([_from_haystack(message, ()) for message in messages])


def _haystack(message: Message, at: int) -> Any:
    from haystack.dataclasses import ChatMessage, ToolCall

    text, role, meta = message.get("content") or "", message["role"], {"at": at}
    if role == "assistant":
        calls = [ToolCall(tool_name=name, arguments=args, id=key) for key, name, args in calls_of(message)]
        return ChatMessage.from_assistant(text or None, tool_calls=calls, meta=meta)
    if role == "tool":
        return ChatMessage.from_tool(
            text, ToolCall(tool_name="tool", arguments={}, id=message["tool_call_id"]), meta=meta
        )
    return (ChatMessage.from_system if role == "system" else ChatMessage.from_user)(text, meta=meta)


def _from_haystack(message: Any, history: Sequence[Message]) -> Message:
    result = message.tool_call_result
    text = message.text or "" if result is None else result.result
    if history and (at := message.meta.get("at")) is not None:
        return changed(history[at], text)
    made: Message = {"role": message.role.value, "content": text}
    if result is not None:
        made["tool_call_id"] = result.origin.id
    if message.tool_calls:
        made["tool_calls"] = [
            {
                "id": one.id,
                "type": "function",
                "function": {"name": one.tool_name, "arguments": json.dumps(one.arguments)},
            }
            for one in message.tool_calls
        ]
    return made


# --- Strands -----------------------------------------------------------------------------------------------------


def strands_window(budget: int | None) -> Step:
    from strands.agent.conversation_manager import SlidingWindowConversationManager
    from strands.types.exceptions import ContextWindowOverflowException

    # Without a budget, 40 messages before every call; with one, what it does when the model's window overflows.
    options: dict[str, Any] = {"per_turn": True} if budget is None else {"pin_first": 1}
    manager = SlidingWindowConversationManager(**options)
    agent, read = SimpleNamespace(messages=[]), 0

    def step(history: list[Message]) -> list[Message]:
        nonlocal read
        agent.messages += _strands(history, read)
        read = len(history)
        if budget is None:
            manager.apply_management(agent)
            return _from_strands(agent.messages, history)
        while counted(window := _from_strands(agent.messages, history)) > budget:
            try:
                manager.reduce_context(agent, e=ContextWindowOverflowException())
            except ContextWindowOverflowException:
                break
        return window

    return step


def _strands(history: Sequence[Message], start: int) -> Iterator[Any]:
    """Yield messages as Bedrock takes them: the results of a step are one message of the user; no system prompt."""
    results: list[Any] = []
    for at in range(start, len(history)):
        message = history[at]
        text, role = message.get("content") or "", message["role"]
        if role == "tool":
            content = [{"text": text}]
            results.append(
                {
                    "toolResult": {
                        "toolUseId": message["tool_call_id"],
                        "status": "success",
                        "content": content,
                        "at": at,
                    }
                }
            )
            continue
        if results:
            yield {"role": "user", "content": results, "at": None}
            results = []
        if role == "assistant":
            uses = [
                {"toolUse": {"toolUseId": key, "name": name, "input": args}} for key, name, args in calls_of(message)
            ]
            yield {"role": "assistant", "content": [*([{"text": text}] if text else []), *uses], "at": at}
        elif role == "user":
            yield {"role": "user", "content": [{"text": text}], "at": at}
    if results:
        yield {"role": "user", "content": results, "at": None}


def _from_strands(messages: Sequence[Any], history: Sequence[Message]) -> list[Message]:
    found = [message for message in history if message["role"] == "system"]
    for message in messages:
        if message["at"] is not None:
            found.append(history[message["at"]])
            continue
        for block in message["content"]:
            result = block["toolResult"]
            found.append(changed(history[result["at"]], "\n".join(part["text"] for part in result["content"])))
    return found


# --- Microsoft Agent Framework -----------------------------------------------------------------------------------


def agent_framework(budget: int, **options: Any) -> Step:
    from agent_framework import ContextWindowCompactionStrategy, apply_compaction

    strategy = ContextWindowCompactionStrategy(
        max_context_window_tokens=budget, max_output_tokens=0, tokenizer=COUNTED, **options
    )
    messages, read = list[Any](), 0

    def step(history: list[Message]) -> list[Message]:
        nonlocal read
        messages.extend(map(_framework, history[read:], range(read, len(history))))
        read = len(history)
        kept = asyncio.run(apply_compaction(messages, strategy=strategy, tokenizer=COUNTED))
        return [_from_framework(message, history) for message in kept]

    return step


COUNTED: Final = SimpleNamespace(count_tokens=COUNTER.count)


def _framework(message: Message, at: int) -> Any:
    from agent_framework import Content
    from agent_framework import Message as Told

    text, role = message.get("content") or "", message["role"]
    if role == "tool":
        contents = [Content.from_function_result(message["tool_call_id"], result=text)]
    else:
        calls = [Content.from_function_call(key, name, arguments=args) for key, name, args in calls_of(message)]
        contents = [*([Content.from_text(text)] if text else []), *calls]
    return Told(role, contents, additional_properties={"at": at})


def _from_framework(message: Any, history: Sequence[Message]) -> Message:
    at = message.additional_properties.get("at")
    return {"role": str(message.role), "content": message.text} if at is None else history[at]


# --- OpenAI Agents SDK -------------------------------------------------------------------------------------------


def output_trimmer(**options: Any) -> Step:
    from agents.extensions import ToolOutputTrimmer
    from agents.run_config import CallModelData, ModelInputData

    trimmer = ToolOutputTrimmer(**options)

    def step(history: list[Message]) -> list[Message]:
        items, places = list[Any](), list[int]()
        for at, message in enumerate(history):
            for item in _responses(message):
                items.append(item)
                places.append(at)
        data = CallModelData(ModelInputData(items, None), agent=None, context=None)  # type: ignore[arg-type]
        found = dict[int, Message]()
        for at, item in zip(places, trimmer(data).input, strict=True):
            is_result = item.get("type") == "function_call_output"
            found[at] = changed(history[at], item["output"]) if is_result else history[at]
        return [found[at] for at in sorted(found)]

    return step


def _responses(message: Message) -> Iterator[dict[str, Any]]:
    text, role = message.get("content") or "", message["role"]
    if role == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": text}
        return
    if text or role != "assistant":
        yield {"role": role, "content": text}
    for call in message.get("tool_calls") or ():
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}


# --- Pydantic AI harness -----------------------------------------------------------------------------------------


def pydantic_compaction(budget: int, *names: str, **options: Any) -> Step:
    from pydantic_ai_harness import compaction

    steps = [getattr(compaction, name)(max_tokens=budget, **options.get(name, {})) for name in names]
    messages, read = list[Any](), 0

    def step(history: list[Message]) -> list[Message]:
        nonlocal messages, read
        messages = [*messages, *_pydantic(history, read)]
        read = len(history)
        for one in steps:
            if counted(_from_pydantic(messages, history)) > budget:
                messages = asyncio.run(one.compact(messages, None))
        return _from_pydantic(messages, history)

    return step


def _pydantic(history: Sequence[Message], start: int) -> Iterator[Any]:
    """Yield requests and responses; what comes between two responses is one request."""
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    parts: list[Any] = []
    for at in range(start, len(history)):
        message = history[at]
        text, role = message.get("content") or "", message["role"]
        if role == "assistant":
            if parts:
                yield ModelRequest(parts=parts)
                parts = []
            calls = [ToolCallPart(name, args, tool_call_id=key) for key, name, args in calls_of(message)]
            yield ModelResponse(parts=[*([TextPart(text)] if text else []), *calls], metadata={"at": at})
        elif role == "tool":
            parts.append(ToolReturnPart("tool", text, tool_call_id=message["tool_call_id"], metadata={"at": at}))
        else:
            parts.append((SystemPromptPart if role == "system" else UserPromptPart)(_Placed(text, at)))
    if parts:
        yield ModelRequest(parts=parts)


class _Placed(str):  # noqa: SLOT000  (it has an attribute)
    """A text that knows which message it is."""

    at: int

    def __new__(cls, text: str, at: int) -> Self:
        made = super().__new__(cls, text)
        made.at = at
        return made


def _from_pydantic(messages: Sequence[Any], history: Sequence[Message]) -> list[Message]:
    found: list[Message] = []
    for message in messages:
        if message.kind == "response":
            found.append(history[message.metadata["at"]])
            continue
        for part in message.parts:
            if part.part_kind == "tool-return":
                found.append(changed(history[part.metadata["at"]], part.content))
            elif isinstance(part.content, _Placed):
                found.append(history[part.content.at])
            else:
                found.append(
                    {"role": "system" if part.part_kind == "system-prompt" else "user", "content": str(part.content)}
                )
    return found


# -----------------------------------------------------------------------------------------------------------------

PEERS: Final[dict[str, tuple[str, dict[str, Start]]]] = {
    "langchain": (
        "langchain",
        {
            "`ContextEditingMiddleware`, defaults": lambda _: context_editing(None),
            "`ContextEditingMiddleware`, trigger at the budget": context_editing,
            "`trim_messages`, as recommended, from a user's message on": lambda budget: langchain_trim(budget, "human"),
            "`trim_messages`, from any step on": lambda budget: langchain_trim(budget, "human", "ai"),
        },
    ),
    "litellm": (
        "litellm",
        {
            "`compress`, defaults": lambda _: litellm_compress(None),
            "`compress`, trigger at the budget": litellm_compress,
        },
    ),
    "haystack": (
        "haystack-ai",
        {
            "`SlidingWindowCompactor`, defaults": lambda budget: haystack_compactor("SlidingWindowCompactor", budget),
            "`SlidingWindowCompactor`, from 100 to 70 %": lambda budget: haystack_compactor(
                "SlidingWindowCompactor", budget, compact_at=1.0, compact_to=LOW
            ),
            "`ToolResultPruningCompactor`, from 100 to 70 %": lambda budget: haystack_compactor(
                "ToolResultPruningCompactor", budget, compact_at=1.0, compact_to=LOW
            ),
        },
    ),
    "strands": (
        "strands-agents",
        {
            "`SlidingWindowConversationManager`, 40 messages": lambda _: strands_window(None),
            "`SlidingWindowConversationManager`, on overflow, the task pinned": strands_window,
        },
    ),
    "agent-framework": (
        "agent-framework-core",
        {
            "`ContextWindowCompactionStrategy`, defaults": agent_framework,
            "`ContextWindowCompactionStrategy`, from 100 to 70 %, the task kept": lambda budget: agent_framework(
                budget, tool_eviction_threshold=LOW, truncation_threshold=1.0, preserve_first_user_group=True
            ),
        },
    ),
    "openai-agents": ("openai-agents", {"`ToolOutputTrimmer`, defaults": lambda _: output_trimmer()}),
    "pydantic-ai-harness": (
        "pydantic-ai-harness",
        {
            "`ClearToolResults`": lambda budget: pydantic_compaction(budget, "ClearToolResults"),
            "`ClearToolResults`, then `SlidingWindowCompaction` to 70 %": lambda budget: pydantic_compaction(
                budget,
                "ClearToolResults",
                "SlidingWindowCompaction",
                SlidingWindowCompaction={"keep_tokens": int(LOW * budget), "tokenizer": COUNTER.count},
            ),
        },
    ),
}
"""For each environment the distribution, and what it is asked to do at a budget."""
AS_IT_COMES: Final = ("defaults", "40 messages", "from a user's message on")
"""How the names of settings end that know nothing of the budget, or leave a run of calls without its task."""
OURS: Final = ("everything", "tail", "session")


def strategy_of(start: Start) -> WindowStrategy:
    """Return a peer as a strategy; every conversation has call ids of its own."""

    def begin(recording: Recording, budget: int) -> Step:
        del recording
        return start(budget)

    return begin


def measure_here(strategies: Mapping[str, WindowStrategy], most: int = CONVERSATIONS) -> list[dict[str, Any]]:
    """Return the figures of strategies on every kind of conversation."""
    rows: list[dict[str, Any]] = []
    for kind in kinds(most):
        sessions = list(map(paired, kind.sessions))
        for name, strategy in strategies.items():
            rows.append({"kind": kind.title, "strategy": name, **measure(sessions, strategy, kind.budget)})
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def measure_conversation_peers(most: int = CONVERSATIONS, environments: Path = ENVIRONMENTS) -> dict[str, Any]:
    """Return the figures of cupel, and of every peer that has an environment."""
    rows = measure_here({name: STRATEGIES[name] for name in OURS}, most)
    missing: list[str] = []
    for peer in PEERS:
        python = environments / f"peer-{peer}" / "bin" / "python"
        if not python.exists():
            missing.append(peer)
            continue
        rows += _asked(python, peer, "figures", most)
    whole = {row["kind"]: row["price"] for row in rows if row["strategy"] == "everything"}
    rows = [{**row, "ratio": round(row["price"] / whole[row["kind"]], 3)} for row in rows]
    return {"machine": facts(), "kinds": list(map(about, kinds(most))), "rows": rows, "missing": missing}


COLUMNS: Final = {"price": "ratio", "whole": "whole", "all": "all", "users": "users", "trail": "trail"}


def table(found: Mapping[str, Any]) -> str:
    """Return the averages over the kinds, and the requests that are over the budget or that a provider refuses."""
    lines: list[list[str]] = []
    for row in averages(found["rows"]):
        mine = [one for one in found["rows"] if one["strategy"] == row["strategy"]]
        shares = (fmean(one[name] / max(one["turns"], 1) for one in mine) for name in ("over", "invalid"))
        lines.append([row["strategy"], *(two_digits(row[name]) for name in COLUMNS.values()), *map(_percent, shares)])
    shown = markdown(["what is sent", *COLUMNS, "over", "invalid"], lines)
    without = f"\n\nNot installed: {', '.join(found['missing'])}." if found["missing"] else ""
    return shown + without


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.005 else f"{100 * share:.1f} %"


def requests_to_judge(strategies: Mapping[str, WindowStrategy], most: int) -> dict[str, list[str]]:
    """Return what each strategy sends before the actions that `surprise.py` judges, as a model reads it."""
    from benchmarks.surprise import told, turns_to_judge

    found: dict[str, list[str]] = {}
    for kind in kinds():
        unique = replace(kind, sessions=list(map(paired, kind.sessions)))
        for turn in turns_to_judge(unique, most):
            for name, strategy in strategies.items():
                found.setdefault(name, []).append(told(turn.request(strategy)))
    return found


def requests_of_peers(most: int, environments: Path = ENVIRONMENTS) -> dict[str, list[str]]:
    """Return the requests of every peer that has an environment, at the same budget as the others."""
    found: dict[str, list[str]] = {}
    for peer in PEERS:
        if (python := environments / f"peer-{peer}" / "bin" / "python").exists():
            found.update(_asked(python, peer, "requests", most))
    return {name: told for name, told in found.items() if not name.endswith(AS_IT_COMES)}


def _asked(python: Path, peer: str, what: str, most: int) -> Any:
    command = [str(python), "-m", "benchmarks.conversation_peers", peer, what, str(most)]
    done = subprocess.run(command, cwd=ENVIRONMENTS.parent, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    """Print the figures, or the requests, of the package that this environment is for."""
    logging.disable(logging.WARNING)
    peer, what, most = sys.argv[1], sys.argv[2], int(sys.argv[3])
    package, starts = PEERS[peer]
    named = {f"{package} {version(package)}, {name}": strategy_of(start) for name, start in starts.items()}
    print(json.dumps((requests_to_judge if what == "requests" else measure_here)(named, most)))


if __name__ == "__main__":
    main()
