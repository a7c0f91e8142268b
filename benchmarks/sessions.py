"""Measure what strategies for filling a window cost over conversations, and what they keep for the next step.

`recordings.py` says which conversations these are; without recordings, they are generated. `ruler.py` defines the
figures.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from benchmarks.machine import facts
from benchmarks.recordings import COUNTER, Kind, Message, head_of, kinds, tokens
from benchmarks.ruler import measure
from benchmarks.tables import markdown
from cupel.evaluation import EverythingStrategy, FitStrategy, Recording, SessionStrategy, TailStrategy, WindowStrategy

LOW: Final = 0.7
"""The share of the budget that `clear` keeps when it cuts."""
KEPT_RESULTS: Final = 3
PLACEHOLDER: Final = "[Old tool result content cleared]"


def clear(recording: Recording, budget: int) -> Callable[[list[Message]], list[Message]]:
    """Replace all but the newest tool results by a placeholder when full; then keep the tail if that is not enough.

    Anthropic's context editing and LangChain's `ContextEditingMiddleware` do the first half.
    """
    del recording
    start, cleared = 0, dict[int, Message]()

    def step(history: list[Message]) -> list[Message]:
        nonlocal start
        head = head_of(history)
        start = max(start, head)
        window = [cleared.get(at, message) for at, message in enumerate(history)]
        if sum(map(tokens, window[:head])) + sum(map(tokens, window[start:])) > budget:
            results = [at for at in range(start, len(history)) if history[at]["role"] == "tool"]
            cleared.update({at: {**history[at], "content": PLACEHOLDER} for at in results[:-KEPT_RESULTS]})
            window = [cleared.get(at, message) for at, message in enumerate(history)]
            if sum(map(tokens, window[:head])) + sum(map(tokens, window[start:])) > budget:
                start = _start(window, head, budget)
        return window[:head] + window[start:]

    return step


def _start(window: Sequence[Message], head: int, budget: int) -> int:
    """Return where the newest messages begin that fit `LOW` of the budget beside the head, calls with results."""
    room, at = LOW * budget - sum(map(tokens, window[:head])), len(window)
    while at > head and room >= tokens(window[at - 1]):
        at -= 1
        room -= tokens(window[at])
    while at < len(window) and window[at]["role"] == "tool":
        at += 1
    return at


STRATEGIES: Final[dict[str, WindowStrategy]] = {
    "everything": EverythingStrategy(),
    "tail": TailStrategy(counter=COUNTER),
    "clear old tool results": clear,
    "fit every turn": FitStrategy(counter=COUNTER),
    "session": SessionStrategy(options={"counter": COUNTER}),
}
COLUMNS: Final = ("ratio", "whole", "all", "users", "talk", "trail", "early", "over", "invalid", "unsent", "ms")


def measure_sessions(
    strategies: Mapping[str, WindowStrategy] = STRATEGIES, *, folder: Path | None = None, quick: bool = False
) -> dict[str, Any]:
    """Return one row for each strategy and kind of conversation; prices also as a share of sending everything."""
    rows: list[dict[str, Any]] = []
    found = kinds(3 if quick else None, folder)
    for kind in found:
        whole = 1
        for name, strategy in strategies.items():
            figures = measure(kind.sessions, strategy, kind.budget)
            whole = figures["price"] if name == "everything" else whole
            ratio = round(figures["price"] / max(whole, 1), 3)
            rows.append({"kind": kind.title, "strategy": name, "ratio": ratio, **figures})
            print(f"{kind.title}: {name} {figures}", flush=True)
    return {"machine": facts(), "kinds": list(map(about, found)), "rows": rows}


def about(kind: Kind) -> dict[str, Any]:
    """Return what a table says of a kind of conversations."""
    return {
        "title": kind.title,
        "budget": kind.budget,
        "public": kind.public,
        "conversations": len(kind.sessions),
    }


def table(found: Mapping[str, Any]) -> str:
    """Return the figures in Markdown, losses included, and their averages over the kinds."""
    rows = [*found["rows"], *averages(found["rows"])]
    titles = {kind["title"]: f"{kind['title']}, {kind['budget']:,}" for kind in found["kinds"]}
    columns = [name for name in COLUMNS if name in found["rows"][0]]
    return markdown(
        ["conversations, budget", "strategy", *columns],
        (
            [titles.get(row["kind"], row["kind"]), row["strategy"], *(_cell(row[name]) for name in columns)]
            for row in rows
        ),
        left=2,
    )


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:,}"


def averages(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each strategy; a kind without a figure has no part in its average."""
    found: list[dict[str, Any]] = []
    names = [name for name, value in rows[0].items() if not isinstance(value, str)]
    for strategy in dict.fromkeys(row["strategy"] for row in rows):
        average: dict[str, Any] = {"kind": "average", "strategy": strategy}
        for name in names:
            had = [row[name] for row in rows if row["strategy"] == strategy and row.get(name) is not None]
            average[name] = round(fmean(had), 3) if had else None
        found.append(average)
    return found


def summary(found: Mapping[str, Any]) -> str:
    """Return the averages of every strategy, and what a session costs on each kind of conversation."""
    rows = averages(found["rows"])
    columns = {
        "price": "ratio",
        "next step's facts": "whole",
        "user's messages": "users",
        "earlier calls shown": "trail",
    }
    lines = []
    for row in rows:
        name = "everything (over the budget)" if row["strategy"] == "everything" else row["strategy"]
        cells = [name, *(two_digits(row[column]) for column in columns.values())]
        lines.append([f"**{cell}**" for cell in cells] if name == "session" else cells)
    return "\n\n".join([markdown(["strategy", *columns], lines), textwrap.fill(_costs(found["rows"]), 120)])


def _costs(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say what a session costs beside sending everything, kind by kind, and beside the other strategies."""
    paid = {row["kind"]: row["ratio"] for row in rows if row["strategy"] == "session"}
    mean = {row["strategy"]: row["ratio"] for row in averages(rows)}
    each = "; ".join(f"{kind} {_less(ratio)}" for kind, ratio in sorted(paid.items(), key=lambda pair: pair[1]))
    others = ", ".join(
        f"{mean['session'] / ratio:.2f} times the price of “{name}”"
        for name, ratio in mean.items()
        if name not in {"everything", "session"}
    )
    return f"A session costs {_less(mean['session'])} than sending everything on average ({each}); that is {others}."


def _less(ratio: float) -> str:
    percent = round(100 * (1 - ratio))
    return f"{percent} % less" if percent >= 0 else f"{-percent} % more"


def by_kind(found: Mapping[str, Any]) -> str:
    """Return price, *whole* and *all* of every strategy on each kind of conversation."""
    titles = [kind["title"] for kind in found["kinds"]]
    heads = [kind["title"] + ("" if kind["public"] else " *") for kind in found["kinds"]]
    cells = {(row["kind"], row["strategy"]): row for row in found["rows"]}
    strategies = list(dict.fromkeys(row["strategy"] for row in found["rows"]))
    return markdown(
        ["price · whole · all", *heads],
        [
            ["budget", *(f"{kind['budget']:,}" for kind in found["kinds"])],
            ["conversations", *(kind["conversations"] for kind in found["kinds"])],
            ["steps judged", *(cells[title, "session"]["steps"] or "–" for title in titles)],
            *([name, *(_kept(cells[title, name]) for title in titles)] for name in strategies),
        ],
        left=1 + len(titles),
    )


def _kept(row: Mapping[str, Any]) -> str:
    return " · ".join(two_digits(row[name], digits) for name, digits in (("ratio", 2), ("whole", 3), ("all", 3)))


def two_digits(value: float | None, digits: int = 2) -> str:
    """Return a share without its leading zero, and a dash for what there is not."""
    if value is None:
        return "–"
    shown = f"{value:.{digits}f}"
    return shown.removeprefix("0") if value < 1 else shown
