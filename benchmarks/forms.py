"""What shorter forms in `fit` cost over agent sessions, and what they keep of what the next step uses.

Real sessions and their ruler are read from `../shared/sessions` where that exists; or else sessions are generated,
and only the share of steps whose names are all still there is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from benchmarks import sessions
from benchmarks.sessions import COUNTER, Message, Step
from benchmarks.tables import markdown
from cupel.errors import SelectionError
from cupel.integrations.messages import fit
from cupel.shorten import head_tail, key_lines, matching, names, outline, shorten, stub, table, values

HALF = 0
"""In place of a budget: half of what the history takes, on every turn."""
BUDGETS = {"coding": (8_000, 16_000, 32_000), "airline": (HALF, 2_500, 3_500), "generated": (HALF, 2_000, 4_000)}

Form = Callable[[str, int], str]


def _remembered(form: Callable[..., str]) -> Form:
    """A form that is made once of each text, though a history comes back on every turn."""
    return lru_cache(maxsize=None)(partial(form, counter=COUNTER))


def _in_full(form: Callable[..., str]) -> Form:
    """A form of JSON that leaves out nothing but what its kind does; other texts stay as they are."""
    whole = _remembered(form)
    return lambda text, _: whole(text, None) if text[:1] in ("{", "[") else text


def _line(text: str, _: int) -> str:
    return stub(text, counter=COUNTER)


FORMS: dict[str, dict[str, Any]] = {
    "none: whole messages": {},
    "`forms=True`": {"forms": True},
    "`forms=True`, all parts": {"forms": True, "parts": ("outputs", "prose", "arguments")},
    "`shorten`": {"forms": _remembered(shorten)},
    "`key_lines`": {"forms": _remembered(key_lines)},
    "`head_tail`": {"forms": _remembered(head_tail)},
    "`matching`": {"forms": _remembered(matching)},
    "`outline`": {"forms": _remembered(outline)},
    "`names`": {"forms": _remembered(names)},
    "`values` in full": {"forms": _in_full(values)},
    "`table` in full": {"forms": _in_full(table)},
    "`stub`": {"forms": _line},
}


def fitting(options: dict[str, Any]) -> Callable[[int], Step]:
    """`fit` on every turn with the task pinned; where what must be sent does not fit, into twice the budget."""

    def make(budget: int) -> Step:
        def step(history: list[Message]) -> list[Message]:
            task = next((message for message in history if message["role"] == "user"), None)
            window = budget or sum(map(sessions.tokens, history)) // 2
            for room in (window, 2 * window, 4 * window):
                try:
                    return fit(
                        history, room, counter=COUNTER, provider="openai", pin=lambda one: one is task, **options
                    ).messages
                except SelectionError:
                    continue
            return history

        return step

    return make


def measure_forms(*, quick: bool = False) -> list[dict[str, Any]]:
    """One row for each form, kind of sessions and budget."""
    rows: list[dict[str, Any]] = []
    for title, measure in sessions.sources(quick=quick):
        for budget in BUDGETS[title]:
            for name, options in FORMS.items():
                found = measure(fitting(options), budget)
                rows.append({"sessions": title, "budget": budget, "form": name, **found})
                print(title, budget, name, found["sent"], found["whole"], found.get("context"), flush=True)
    return rows


def show(rows: Sequence[dict[str, Any]]) -> str:
    """The figures in Markdown, a table for each kind of sessions: tokens sent, steps kept whole, and in context."""
    parts: list[str] = []
    for title in dict.fromkeys(row["sessions"] for row in rows):
        mine = [row for row in rows if row["sessions"] == title]
        budgets = list(dict.fromkeys(row["budget"] for row in mine))
        cells = {(row["form"], row["budget"]): _cell(row) for row in mine}
        lines = [
            [form, *(cells[form, budget] for budget in budgets)] for form in dict.fromkeys(r["form"] for r in mine)
        ]
        heads = [f"{budget:,}" if budget else "half of each history" for budget in budgets]
        parts.append(markdown([f"{title} sessions", *heads], lines))
    return "\n\n".join(parts)


def _cell(row: dict[str, Any]) -> str:
    context = [f"{100 * row['context']:.0f} %"] if "context" in row else []
    return " · ".join([f"{row['sent']:,}", f"{100 * row['whole']:.0f} %", *context])
