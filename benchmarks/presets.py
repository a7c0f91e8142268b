"""What each preset keeps of what is needed: `python -m benchmarks presets`."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from benchmarks.rulers import BUDGETS, SHARED, Half, agents, code, conversations, without_queries
from cupel import Pipeline, presets
from cupel.evaluation import Case, FitStrategy, evaluate, replay

NEWEST: Final = "`fit` without a policy"


def measure_presets(
    half: Half = "second", *, shared: Path = SHARED, quick: bool = False, tell: Callable[[str], object] = print
) -> dict[str, Any]:
    """Measure every preset on the half of each ruler that it was not chosen on."""
    origin, cases = conversations(half, shared)
    functions = code(half)
    sessions = agents(half, shared)
    if quick:
        cases, functions = cases[:40], functions[:40]
        sessions = [one._replace(recordings=one.recordings[:1]) for one in sessions]
    rows: list[dict[str, Any]] = []
    for name in (None, *presets.__all__):
        policy = None if name is None else getattr(presets, name)()
        row: dict[str, Any] = {"preset": NEWEST if policy is None else policy.name}
        if policy is not None:
            row["asked"] = _kept(policy, cases)
            row["not asked"] = _kept(policy, without_queries(cases))
            row["code"] = _kept(policy, functions)
        for agent in sessions:
            figures = replay(agent.recordings, {"fit": FitStrategy(policy)}, agent.budget).figures["fit"]
            row[agent.name] = [figures.whole, figures.context]
        rows.append(row)
        tell(f"{row['preset']}: measured")
    return {
        "conversations": origin,
        "questions": len(cases) // len(BUDGETS),
        "functions": len(functions) // len(BUDGETS),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "agents": {one.name: {"sessions": len(one.recordings), "budget": one.budget} for one in sessions},
        "rows": rows,
    }


def _kept(policy: Pipeline, cases: list[Case]) -> list[float]:
    """Return the share of the needs that is kept under each budget."""
    outcomes = evaluate(policy, cases).outcomes
    shares = {budget: [o.share for o in outcomes if o.case.budget.target_tokens == budget] for budget in BUDGETS}
    return [fmean(found) if found else 0.0 for found in shares.values()]


def table(found: dict[str, Any]) -> str:
    """Return the figures as a table of Markdown."""
    columns = ["asked", "not asked", "code", *found["agents"]]
    titles = {
        "asked": f"{found['conversations']} conversations, with the question",
        "not asked": "... without it",
        "code": f"code of Python {found['python']}, with a question",
        **{name: f"{name}, {about['budget']:,} tokens" for name, about in found["agents"].items()},
    }
    lines = [
        "| preset | " + " | ".join(titles[column] for column in columns) + " |",
        "|---|" + "---|" * len(columns),
        *(
            f"| {row['preset']} | " + " | ".join(_cell(row.get(column)) for column in columns) + " |"
            for row in found["rows"]
        ),
    ]
    sessions = ", ".join(f"{about['sessions']} sessions of the {name}" for name, about in found["agents"].items())
    budgets = ", ".join(f"{budget:,}" for budget in BUDGETS)
    about = (
        f"{found['questions']} questions about conversations and {found['functions']} about code: the share of what "
        f"answers them that is kept at {budgets} tokens. {sessions}: steps that use only what is in the window, and "
        "names that stand there between the same words."
    )
    return "\n".join([*lines, "", about])


def _cell(figures: list[float] | None) -> str:
    return "" if figures is None else " ".join(f"{figure:.2f}".replace("0.", ".", 1) for figure in figures)
