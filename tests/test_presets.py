"""What the presets are, and what they promise whatever the pool."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cupel.policy
from benchmarks.rulers import conversations, without_queries
from cupel import (
    GROUP_KEY,
    SOURCE_TYPE_KEY,
    ContextBudget,
    ContextItem,
    ContextKind,
    PinnedExceedsBudgetError,
    presets,
)
from cupel.errors import SelectionError
from cupel.evaluation import evaluate
from cupel.messages import fit, from_items, to_items

CONTENTS = {  # ruling 14.3
    "agent": ({"relevance": 2, "recency": 1}, 0.0, {}),
    "chat": ({"relevance": 60, "recency": 3, "kind": 1}, 0.5, {}),
    "code_review": ({"relevance": 4, "kind": 2, "priority": 2, "recency": 0.25}, 0.2, {}),
    "debugging": ({"relevance": 8, "priority": 3, "kind": 2, "recency": 0.5}, 0.3, {}),
    "document_qa": (
        {"relevance": 4, "kind": 2, "reflexive": 2, "priority": 1},
        0.2,
        {"inner": "u_shaped"},
    ),
    "long_running": ({"relevance": 60, "recency": 3, "frequency": 1, "kind": 1}, 0.5, {}),
    "rag": ({"reflexive": 3, "relevance": 3, "kind": 1}, 0.0, {"inner": "u_shaped"}),
    "tool_use": ({"relevance": 8, "recency": 2, "kind": 1, "priority": 1}, 0.0, {}),
}
ASKED = [getattr(presets, name)() for name in CONTENTS]
"""The presets that look for a query."""
PRESETS = [getattr(presets, name)() for name in presets.__all__]
PINS = [
    {"kind": "SystemPrompt"},
    {"kind": "Message", "metadata": {SOURCE_TYPE_KEY: "user"}, "newest": 1},
    {"kind": "ToolOutput", "newest": 1},
]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WORDS = ("parser", "fails", "log", "lunch", "retry", "queue")
QUERIES = st.none() | st.sampled_from(WORDS)


@pytest.mark.parametrize("function", CONTENTS)
def test_presets_are_what_the_page_says(function):
    weights, neighbours, rest = CONTENTS[function]
    relevance = {"type": "relevance", "neighbours": neighbours, "stem": False, "optional": True}
    if not neighbours:
        del relevance["neighbours"]
    scorers = [
        {"scorer": relevance if tag == "relevance" else tag, "weight": float(weight)} for tag, weight in weights.items()
    ]
    placer = {"type": "system_first", "inner": rest["inner"]} if "inner" in rest else "system_first"
    document = {
        "name": function.replace("_", "-"),
        "scorer": {"type": "composite", "scorers": scorers},
        "slicer": "best_first",
        "placer": placer,
        "pins": PINS,
        "overflow": "truncate",
    }
    assert cupel.policy.to_dict(replace(getattr(presets, function)(), description=None)) == document


def test_the_default_of_conversations_is_what_the_page_says():
    assert cupel.policy.to_dict(replace(presets.conversation(), description=None)) == {
        "name": "conversation",
        "scorer": "reuse",
        "placer": "system_first",
        "pins": PINS,
        "deduplication": False,
        "overflow": "truncate",
    }


def test_every_preset_says_whom_it_serves_what_it_keeps_and_when_it_hurts():
    assert set(presets.__all__) == {*CONTENTS, "conversation"}
    for function in presets.__all__:
        text = getattr(presets, function).__doc__
        assert text.startswith("For ")
        assert getattr(presets, function)().description == text.partition("\n")[0]
        assert "It keeps ." in text or function == "conversation"
        assert "It hurts when" in text or "It hurts with" in text


@st.composite
def pools(draw):
    """A session as items: words, documents, memories, and calls grouped with one or two results, partly undated."""
    number, items, dated = count(), [ContextItem("Be brief.", 3, kind="SystemPrompt")], draw(st.booleans())

    def item(kind, **fields):
        at = next(number)
        text = f"{at}: {draw(st.sampled_from(WORDS))} {draw(st.sampled_from(WORDS))}"
        if draw(st.booleans()):
            text = text.partition(": ")[2]  # then others may say the same
        when = NOON + timedelta(minutes=at) if dated and kind not in {"Document", "Memory"} else None
        return ContextItem(text, draw(st.integers(1, 90)), kind=kind, timestamp=when, **fields)

    for step in range(draw(st.integers(1, 8))):
        group = {"metadata": {GROUP_KEY: f"call {step}"}}
        what = draw(st.sampled_from(["call", "call", "user", "assistant", "Document", "Memory"]))
        if what == "call":
            items.append(item("Message", **group))
            items += [item("ToolOutput", **group) for _ in range(draw(st.integers(1, 2)))]
        elif what in {"user", "assistant"}:
            items.append(item("Message", metadata={SOURCE_TYPE_KEY: what}))
        else:
            items.append(item(what, future_relevance_hint=draw(st.sampled_from([None, 0.2, 0.9]))))
    return items


@given(pool=pools(), policy=st.sampled_from(PRESETS), tokens=st.integers(3, 400), query=QUERIES)
@settings(max_examples=200)
def test_the_newest_tool_result_stays_and_calls_stay_with_their_results(pool, policy, tokens, query):
    results = [item for item in pool if item.kind == ContextKind.TOOL_OUTPUT]
    try:
        selected = policy.run(pool, ContextBudget(tokens, max(1, tokens // 2)), query=query)
    except PinnedExceedsBudgetError:
        newest = results[-1].metadata[GROUP_KEY] if results else None
        users = [item for item in pool if item.metadata.get(SOURCE_TYPE_KEY) == "user"]
        needed = [item for item in pool if newest and item.metadata.get(GROUP_KEY) == newest]
        assert 3 + sum(item.tokens for item in (*needed, *users[-1:])) > tokens
        return
    chosen = set(map(id, selected))
    assert selected[0].kind == ContextKind.SYSTEM_PROMPT
    assert not results or id(results[-1]) in chosen
    for group in {item.metadata.get(GROUP_KEY) for item in results}:
        members = {id(item) for item in pool if item.metadata.get(GROUP_KEY) == group}
        assert members <= chosen or members.isdisjoint(chosen)


@st.composite
def histories(draw):
    """A chat history with calls, some in parallel; sometimes it ends with results that the model has yet to see."""
    messages = [{"role": "system", "content": "Be brief."}]
    for step in range(draw(st.integers(1, 6))):
        messages.append({"role": "user", "content": f"{draw(st.sampled_from(WORDS))}? " * draw(st.integers(1, 20))})
        for turn in range(draw(st.integers(0, 2))):
            ids = [f"{step}.{turn}.{at}" for at in range(draw(st.integers(1, 2)))]
            function = {"name": "look", "arguments": '{"at": "log"}'}
            calls = [{"id": one, "type": "function", "function": function} for one in ids]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            for one in ids:
                text = f"{one} {draw(st.sampled_from(WORDS))} " * draw(st.integers(1, 30))
                messages.append({"role": "tool", "tool_call_id": one, "content": text})
        if draw(st.booleans()) or messages[-1]["role"] == "user":
            messages.append({"role": "assistant", "content": "Done."})
    return messages if messages[-1]["role"] != "assistant" else messages[:-1]


@given(history=histories(), policy=st.sampled_from(PRESETS), tokens=st.integers(20, 900), query=QUERIES)
@settings(max_examples=200)
def test_histories_keep_the_newest_result_and_every_pair(history, policy, tokens, query):
    items, windows = to_items(history), []
    exchanges = [item for item in items if item.kind == ContextKind.TOOL_OUTPUT]
    try:
        selected = policy.run(items, tokens, query=query)
    except PinnedExceedsBudgetError:
        pass
    else:
        assert not exchanges or exchanges[-1] in selected
        windows.append(from_items(selected, history))
    try:
        windows.append(fit(history, tokens, policy, query=query, forms=False, notes=False).messages)
    except SelectionError:
        assert sum(item.tokens for item in items) > tokens - 10
    else:
        assert history[-1] in windows[-1]
    for window in windows:
        calls = [call["id"] for message in window for call in message.get("tool_calls") or ()]
        assert calls == [message["tool_call_id"] for message in window if message["role"] == "tool"]


def test_fit_keeps_a_newest_result_that_fits_and_lets_go_of_an_old_one_that_does_not():
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "What is in the log?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "a line of the log " * 800},
        {"role": "assistant", "content": "Nothing."},
        *({"role": role, "content": f"{number}?"} for number in range(200) for role in ("user", "assistant")),
        {"role": "user", "content": "Thanks."},
    ]
    for policy in PRESETS:
        assert history[2] in fit(history[:3], 5000, policy).messages
        assert history[2] in fit(history, 8000, policy).messages
        assert history[2] not in fit(history, 2000, policy).messages


def test_presets_need_neither_an_extra_nor_a_query(monkeypatch):
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    items = [ContextItem("The parser is slow.", 5), ContextItem("Lunch is at noon.", 5)]
    for name in presets.__all__:
        pipeline = getattr(presets, name)()
        found = pipeline.run(items, 5)
        assert len(found) == 1
        for item, query in zip(items, ("parser", "lunch"), strict=True):
            assert pipeline.run(items, 5, query=query) == ([item] if name in CONTENTS else found)


def test_presets_keep_most_of_what_a_question_asks_for(tmp_path):
    """A floor for generated conversations; the page has the figures for recorded ones."""
    origin, cases = conversations("second", tmp_path)
    assert origin == "generated"
    asked = [case for case in cases if case.budget.target_tokens == 1_000][::6]
    for policy in ASKED:
        assert evaluate(policy, asked).kept.value >= 0.9
        assert evaluate(policy, without_queries(asked)).kept.value <= 0.3
