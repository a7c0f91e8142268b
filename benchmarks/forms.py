"""Measure shorter forms in `fit` over agent sessions: tokens sent, and words kept that the next step uses.

Conversations are those of `recordings.py`. Names in context and readable outputs are measured where the folder of the
recordings also holds a ruler for them, `sessions/measure.py`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from statistics import fmean
from typing import Any

from benchmarks import recordings
from benchmarks.recordings import COUNTER, Kind, Message, tokens
from benchmarks.ruler import measure
from benchmarks.tables import markdown
from cupel.messages import PinnedMessagesExceedBudgetError, fit
from cupel.shorten import head_tail, key_lines, matching, names, outline, shorten, stub, table, values

BUDGETS = {"coding": (8_000, 16_000), "airline": (2_500, 3_500), "generated": (2_000, 4_000)}
CODING, AIRLINE = 12, 50
"""How many sessions of each kind are measured."""
EVERY = {"coding": 8, "airline": 1, "generated": 1}
"""One in this many turns over the budget is measured: `fit` remembers nothing from one to the next."""

Form = Callable[[str, int], str]


def _remembered(form: Callable[..., str]) -> Form:
    """A form that is made once of each text, though a history comes back on every turn."""
    return lru_cache(maxsize=None)(partial(form, counter=COUNTER))


def _in_full(form: Callable[..., str]) -> Form:
    """A form of JSON without a limit; other texts stay as they are."""
    whole = _remembered(form)
    return lambda text, _: whole(text, None) if text[:1] in ("{", "[") else text


def _line(text: str, _: int) -> str:
    return stub(text, counter=COUNTER)


FORMS: dict[str, dict[str, Any]] = {
    "whole messages": {"forms": False},
    "by default": {},
    "`shorten`": {"forms": _remembered(shorten)},
    "`head_tail`": {"forms": _remembered(head_tail)},
    "`key_lines`": {"forms": _remembered(key_lines)},
    "`matching`": {"forms": _remembered(matching)},
    "`outline`": {"forms": _remembered(outline)},
    "`names`": {"forms": _remembered(names)},
    "`values` in full": {"forms": _in_full(values)},
    "`table` in full": {"forms": _in_full(table)},
    "`stub`": {"forms": _line},
}


def fitted(history: list[Message], budget: int, options: dict[str, Any]) -> list[Message]:
    """`fit` with the task pinned; what must be sent gets its room whole, whatever the budget."""
    task = next((message for message in history if message["role"] == "user"), None)
    how: dict[str, Any] = {"counter": COUNTER, "provider": "openai", "pin": lambda one: one is task}
    try:
        whole = fit(history, budget, **how, forms=False)
    except PinnedMessagesExceedBudgetError as error:
        budget = error.pinned_tokens
        whole = fit(history, budget, **how, forms=False)
    return fit(history, budget, **how, **options).messages if whole.dropped else whole.messages


def measure_form(kind: Kind, options: dict[str, Any], budget: int) -> dict[str, Any]:
    """Return the figures of the ruler, and the tokens sent on the turns that it measures."""
    every, pressed, sent = EVERY[kind.title], 0, list[int]()

    def step(history: list[Message]) -> list[Message]:
        nonlocal pressed
        size = sum(map(tokens, history))
        pressed += size > budget
        if size <= budget or pressed % every:
            return history
        window = fitted(history, budget, options)
        sent.append(sum(map(tokens, window)))
        return window

    found = _measured(kind.sessions, step, budget, every)
    return {
        "sent": round(fmean(sent)),
        **{name: found[name] for name in ("whole", "context", "readable") if found.get(name)},
    }


def _measured(
    sessions: Sequence[list[Message]], step: Callable[[list[Message]], list[Message]], budget: int, every: int
) -> dict[str, Any]:
    path = recordings.RECORDINGS / "sessions" / "measure.py"
    if not path.exists():
        return measure(sessions, lambda _recording, _budget: step, budget, every)
    spec = importlib.util.spec_from_file_location("ruler", path)
    assert spec is not None
    assert spec.loader is not None
    ruler = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ruler)
    found: dict[str, Any] = ruler.measure([{"messages": one} for one in sessions], lambda _: step, budget, every)
    return found


def measure_forms(*, quick: bool = False) -> list[dict[str, Any]]:
    """One row for each form, kind of sessions and budget."""
    rows: list[dict[str, Any]] = []
    for kind in recordings.kinds(3 if quick else AIRLINE):
        for budget in BUDGETS.get(kind.title, ()):
            mine = replace(kind, sessions=kind.sessions[: CODING if kind.title == "coding" else AIRLINE])
            for name, options in FORMS.items():
                found = measure_form(mine, options, budget)
                rows.append({"sessions": kind.title, "budget": budget, "form": name, **found})
                print(kind.title, budget, name, found, flush=True)
    return rows


def show(rows: Sequence[dict[str, Any]]) -> str:
    """Return the figures in Markdown: tokens sent, steps kept whole and in context, and how readable outputs are."""
    parts: list[str] = []
    for title in dict.fromkeys(row["sessions"] for row in rows):
        mine = [row for row in rows if row["sessions"] == title]
        budgets = list(dict.fromkeys(row["budget"] for row in mine))
        cells = {(row["form"], row["budget"]): _cell(row) for row in mine}
        lines = [
            [form, *(cells[form, budget] for budget in budgets)] for form in dict.fromkeys(r["form"] for r in mine)
        ]
        heads = [f"{budget:,}" for budget in budgets]
        parts.append(markdown([f"{title} sessions", *heads], lines))
    return "\n\n".join(parts)


def _cell(row: dict[str, Any]) -> str:
    shares = [f"{100 * row[name]:.0f} %" if name in row else "–" for name in ("whole", "context", "readable")]
    return " · ".join([f"{row['sent']:,}", *shares])
