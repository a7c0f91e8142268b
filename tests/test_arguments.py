"""Every public callable answers an argument of the wrong type with an error that names the argument."""

from __future__ import annotations

import asyncio
import inspect
import os
from datetime import timedelta
from enum import Enum

import msgspec
import pytest

import cupel
from cupel import (
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CupelError,
    GreedySlice,
    Pipeline,
    ReflexiveScorer,
    ScoredItem,
    Scorer,
    Slicer,
    UShapedPlacer,
    analytics,
    policy,
    tokens,
)
from cupel.scorers import Exponential

ITEM = ContextItem("x", 1)
BUDGET = ContextBudget(10, 10)
PIPELINE = Pipeline(scorer=ReflexiveScorer())
PREPARED = PIPELINE.prepare([ITEM])
REPORT = PIPELINE.dry_run([ITEM], BUDGET)
PAIR = {"a": PIPELINE, "b": PIPELINE}


async def source():
    yield ITEM


class Clock:
    def now(self):
        return ITEM.timestamp


class CountingSlice(GreedySlice):
    """What slicers and counters take as `inner`."""

    def count(self, text, /):
        return len(text)


SOUND = {
    "all_items": [ITEM],
    "budget": BUDGET,
    "budgets": [BUDGET],
    "cap_count": 2,
    "content": "x",
    "counter": tokens.CharacterEstimate(),
    "curve": Exponential(timedelta(1)),
    "clock": Clock(),
    "embed": lambda texts: [[1.0] for _ in texts],
    "document": {"scorer": "recency"},
    "entries": [CountQuotaEntry("Message", 0, 1)],
    "fields": {"content": "x", "tokens": 1},
    "full": ITEM,
    "half_life": timedelta(1),
    "inner": CountingSlice(),
    "item": ITEM,
    "items": [ITEM],
    "key": "k",
    "kind": "Message",
    "max_age": timedelta(1),
    "max_tokens": 10,
    "observed": 5,
    "estimated": 5,
    "path": os.devnull,
    "pipeline": PIPELINE,
    "placer": UShapedPlacer(),
    "policy": Pipeline(scorer=ReflexiveScorer()),
    "prepared": PREPARED,
    "quotas": [],
    "report": REPORT,
    "reported": 5,
    "require_count": 0,
    "score": 0.5,
    "scored": [ScoredItem(ITEM, 0.5)],
    "scorer": ReflexiveScorer(),
    "search_ceiling": 5,
    "slack_tokens": 1,
    "slicer": GreedySlice(),
    "source": source,
    "sources": lambda: [source()],
    "boost": 2.0,
    "id": "an-id",
    "tag": "a-tag",
    "target_item": ITEM,
    "target_tokens": 5,
    "text": '{"scorer": "recency"}',
    "tokens": 1,
    "value": "v",
    "variants": PAIR,
    "weights": {"a": 1.0},
    "windows": [(timedelta(1), 0.5)],
}
LONG = "x" * 100_000
WRONG = [None, 5, 1.5, "text", b"x", True, object(), [5], {"a": 1}, LONG, [LONG], {"a": LONG}]
OBJECTS = [ITEM, BUDGET, PIPELINE, PREPARED, REPORT, Pipeline(scorer=ReflexiveScorer()), GreedySlice(), UShapedPlacer()]
# What the library itself makes or calls: records of a run, and the column forms of strategies.
OWN = {
    "fit",
    "arrange",
    "PreparedSelection",
    "ContextResult",
    "Chooser",
    "Reach",
    "ScoreBreakdown",
    "ScorePart",
    "Selection",
    "Span",
    "enforce_relations",
    "from_candidates",
}
# The name that the message uses for an argument, where the argument's own would say less.
CALLED = {
    "value": "kind|source|value",
    "sources": "source",
    "schema": "schema",
    "fields": "fields|an item|a budget|a report",
}


def callables():
    for namespace in (cupel, analytics, policy, tokens):
        for name in namespace.__all__:
            public = getattr(namespace, name)
            abstract = inspect.isabstract(public) or getattr(public, "_is_protocol", False)
            plain = isinstance(public, type) and issubclass(public, (BaseException, Enum))
            record = isinstance(public, type) and public.__module__.startswith(("cupel.diagnostics", "cupel.analytics"))
            if callable(public) and not (abstract or plain or record or name in OWN or public in (Scorer, Slicer)):
                yield name, public
    for value in OBJECTS:
        for name in dir(value):
            own = name in OWN or (name == "prepare" and isinstance(value, Slicer))
            if not name.startswith("_") and not own and inspect.ismethod(getattr(value, name)):
                yield f"{type(value).__name__}.{name}", getattr(value, name)


def arguments():
    """Each argument of each callable, with all that the callable takes."""
    for name, function in callables():
        found = inspect.signature(function).parameters.values()
        takes = [one for one in found if one.kind not in {one.VAR_POSITIONAL, one.VAR_KEYWORD}]
        for one in takes:
            yield pytest.param(function, takes, one, id=f"{name}-{one.name}")


async def drain(stream) -> None:
    async for _ in stream:
        pass


def call(function, takes, wrong, value) -> None:
    """Call with one wrong argument and the sound ones that are required."""
    positional, named = [], {}
    for one in takes:
        if one is not wrong and one.default not in (one.empty, msgspec.UNSET):
            continue
        given = value if one is wrong else SOUND[one.name]
        if one is not wrong and one.name in {"source", "sources"}:
            given = given()  # a stream can be read once
        if one.kind is one.POSITIONAL_ONLY:
            positional.append(given)
        else:
            named[one.name] = given
    answer = function(*positional, **named)
    if inspect.iscoroutine(answer):
        asyncio.run(answer)
    elif hasattr(answer, "__aiter__"):
        asyncio.run(drain(answer))


@pytest.mark.parametrize(("function", "takes", "wrong"), list(arguments()))
def test_a_wrong_type_is_answered_by_name(function, takes, wrong, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # a text may be taken for the path of a file
    for value in WRONG:
        try:
            call(function, takes, wrong, value)
        except OSError:
            continue  # no such file
        except (CupelError, TypeError, ValueError) as error:
            problem = error
        else:
            continue  # taken for what it is
        names = CALLED.get(wrong.name, wrong.name).split("|")
        wrong_value = isinstance(problem, CupelError)
        assert wrong_value or any(name in str(problem) for name in names), f"{value!r}: {problem!r}"
        assert len(str(problem)) < 1_000
