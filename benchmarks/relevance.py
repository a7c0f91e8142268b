"""How much of a question's evidence a selection keeps, on long conversations that are not part of the project.

`EVIDENCE` holds `conversations.jsonl.gz`, a line for each conversation: `items` with `id`, `content` and `timestamp`,
and `questions` with a `query` and, as `needed`, the ids of the items that answer it. Without the file: no figures.
`CUPEL_WORD_VECTORS` names a text file of word vectors, whose scorer in `examples/word_vectors.py` is then measured too.
"""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any, Final

from benchmarks.rulers import BUDGETS, QUESTIONS, SHARED, records, turns_of
from cupel import (
    BestFirstSlice,
    CompositeScorer,
    ContextItem,
    GreedySlice,
    Pipeline,
    PreparedSelection,
    RecencyScorer,
    RelevanceScorer,
    Scorer,
    presets,
)

WORD_VECTORS: Final = "CUPEL_WORD_VECTORS"
EVIDENCE: Final = SHARED / "evidence" / "conversations.jsonl.gz"


def _relevance(slicer: Any, **options: Any) -> Pipeline:
    return Pipeline(scorer=RelevanceScorer(**options), slicer=slicer, deduplicate=False)


WAYS: Final[dict[str, Callable[[], Pipeline]]] = {
    "the newest turns": lambda: Pipeline(scorer=RecencyScorer(), slicer=BestFirstSlice(), deduplicate=False),
    **{f"preset `{name}`": lambda name=name: getattr(presets, name)() for name in presets.__all__},
    "relevance, score per token": lambda: _relevance(GreedySlice()),
    "relevance, best first": lambda: _relevance(BestFirstSlice()),
    "relevance, neighbours 0.2, best first": lambda: _relevance(BestFirstSlice(), neighbours=0.2),
    "relevance, neighbours 0.5, best first": lambda: _relevance(BestFirstSlice(), neighbours=0.5),
}


def measure_relevance(questions: int = QUESTIONS, evidence: Path = EVIDENCE) -> list[dict[str, Any]]:
    """For each way, the mean share of a question's evidence that is kept at each budget; nothing without the data."""
    if not evidence.exists():
        return []
    conversations = [(turns_of(record), record["questions"][:questions]) for record in records(evidence)]
    return [_row(name, make(), conversations) for name, make in (WAYS | _with_word_vectors()).items()]


def _with_word_vectors() -> dict[str, Callable[[], Pipeline]]:
    """Return what a table of word vectors adds to relevance, if the environment names one."""
    path = os.environ.get(WORD_VECTORS)
    if not path:
        return {}
    example: Any = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "word_vectors.py"))
    scorer: Scorer = example["WordVectorScorer"](example["read_table"](path), neighbours=0.5)
    both = CompositeScorer([(RelevanceScorer(neighbours=0.5), 1), (scorer, 1)])
    made = {"word vectors alone": scorer, "relevance, neighbours 0.5, and word vectors": both}
    return {
        name: lambda one=one: Pipeline(scorer=one, slicer=BestFirstSlice(), deduplicate=False)
        for name, one in made.items()
    }


def _row(name: str, pipeline: Pipeline, conversations: list[tuple[list[ContextItem], Any]]) -> dict[str, Any]:
    kept: dict[int, list[float]] = {budget: [] for budget in BUDGETS}
    started = process_time()
    for items, asked in conversations:
        prepared: PreparedSelection | None = None
        for question in asked:
            query = question["query"]
            prepared = pipeline.prepare(items, query=query) if prepared is None else prepared.with_query(query)
            needed = set(question["needed"])
            for budget in BUDGETS:
                found = {item.metadata["id"] for item in prepared.run(budget)}
                kept[budget].append(len(needed & found) / len(needed))
    asked_in_all = len(kept[BUDGETS[0]])
    return {
        "way": name,
        "kept": {budget: fmean(shares) for budget, shares in kept.items()},
        "questions": asked_in_all,
        "ms": 1000 * (process_time() - started) / asked_in_all,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The figures as a table of Markdown."""
    if not rows:
        return f"not measured: {EVIDENCE.name} is not beside this checkout"
    lines = [
        "| selection | " + " | ".join(f"{budget:,}" for budget in BUDGETS) + " | ms a question |",
        "|---|" + "--:|" * (len(BUDGETS) + 1),
    ]
    for row in rows:
        kept = " | ".join(f"{row['kept'][budget]:.3f}".lstrip("0") for budget in BUDGETS)
        lines.append(f"| {row['way']} | {kept} | {row['ms']:.1f} |")
    return "\n".join([*lines, "", f"{rows[0]['questions']} questions; four budgets are part of a question's time."])
