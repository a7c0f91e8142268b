"""Random policy documents: every strategy, nested where nesting is allowed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

import cupel.policy
from cupel import Pipeline, RecencyScorer, Scorer, Slicer
from cupel.testing import strategies
from tests.oracle.generators import NOW, TAGS


def lengths_and_letters(texts: list[str]) -> list[list[int]]:
    """An embedding that the oracle can do in its head."""
    return [[len(text), text.count("a")] for text in texts]


def _weights(names: list[str]) -> st.SearchStrategy[dict[str, float]]:
    return st.dictionaries(st.sampled_from(names), st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 2.5]), max_size=4)


def _curves() -> st.SearchStrategy[dict[str, Any]]:
    seconds = st.sampled_from([0.5, 60.0, 3600.0, 86400.0, 180000.0])
    window = st.fixed_dictionaries({"max_age_seconds": seconds, "score": st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])})
    return st.one_of(
        st.fixed_dictionaries({"type": st.just("exponential"), "half_life_seconds": seconds}),
        st.fixed_dictionaries({"type": st.just("window"), "max_age_seconds": seconds}),
        st.fixed_dictionaries({"type": st.just("step"), "windows": st.lists(window, min_size=1, max_size=3)}),
    )


def _leaf_scorers() -> st.SearchStrategy[dict[str, Any]]:
    unit = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    plain = st.sampled_from(["recency", "priority", "frequency", "reflexive", "kind"]).map(lambda name: {"type": name})
    return st.one_of(
        plain,
        st.fixed_dictionaries({"type": st.just("kind"), "weights": _weights(["Message", "TOOL", "kit", "\u212ait"])}),
        st.fixed_dictionaries({"type": st.just("tag"), "weights": _weights(TAGS)}),
        st.fixed_dictionaries(
            {"type": st.just("tag"), "weights": _weights(["a", "k", "é"]), "case_sensitive": st.just(value=False)}
        ),
        st.fixed_dictionaries({"type": st.just("metadata_trust"), "default_score": unit}),
        st.fixed_dictionaries(
            {
                "type": st.just("metadata_key"),
                "key": st.just("stage"),
                "value": st.sampled_from(["final", "3", "None"]),
                "boost": st.sampled_from([0.5, 1.5, 3.0]),
            }
        ),
        st.fixed_dictionaries(
            {
                "type": st.just("embedding"),
                "embed": st.just(f"{__name__}:lengths_and_letters"),
                "query": st.sampled_from(["a", "ab", "b"]),
            }
        ),
        st.fixed_dictionaries(
            {"type": st.just("relevance"), "query": st.sampled_from(["a", "A b, b?", "1 march", "z"])},
            optional={
                "neighbours": st.sampled_from([0.0, 0.2, 0.5]),
                "k1": st.sampled_from([0.0, 1.2, 2.0]),
                "b": st.sampled_from([0.0, 0.75, 1.0]),
                "stem": st.sampled_from([True, False, "german"]),
                "stop": st.sampled_from([[], ["B", "c"]]),
                "dates": st.booleans(),
                "optional": st.booleans(),
            },
        ),
        st.just({"type": "relevance", "optional": True, "stem": False}),
        st.fixed_dictionaries(
            {"type": st.just("reuse")},
            optional={"calls": st.sampled_from([1, 8, 10**400]), "words": st.sampled_from([0.3, 4.0, 1e308])},
        ),
        st.fixed_dictionaries(
            {
                "type": st.just("decay"),
                "now": st.just(NOW.isoformat()),
                "curve": _curves(),
                "null_timestamp_score": unit,
            }
        ),
    )


def _of_the_kit(family: str, drawn: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Whatever is declared, in fewer shapes than here; `optimal` and `stream` are tried elsewhere."""
    policies = drawn.map(lambda one: cupel.policy.to_dict(replace(Pipeline(scorer=RecencyScorer()), **{family: one})))
    return policies.map(lambda policy: _with_types(policy.get(family, "greedy"))).filter(_is_specified)


def _with_types(document: Any) -> Any:
    """Write bare tags out, which the oracle does not read."""
    if isinstance(document, str):
        return {"type": document}
    inside = {key: _with_types(document[key]) for key in ("inner", "scorer") if key in document}
    if document.get("type") == "composite":
        inside["scorers"] = [_with_types(entry) for entry in document["scorers"]]
    return {**document, **inside}


def _is_specified(document: dict[str, Any]) -> bool:
    inner = document.get("inner")
    return document["type"] not in {"optimal", "stream"} and (inner is None or _is_specified(inner))


def scorer_specs() -> st.SearchStrategy[dict[str, Any]]:
    """Every scorer, nested up to a few levels."""
    weight = st.sampled_from([0.1, 0.2, 0.3, 0.7, 1.0, 3.0])

    def extend(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        entry = st.fixed_dictionaries({"scorer": inner, "weight": weight})
        return st.one_of(
            st.fixed_dictionaries({"type": st.just("scaled"), "inner": inner}),
            st.fixed_dictionaries({"type": st.just("composite"), "scorers": st.lists(entry, min_size=1, max_size=3)}),
        )

    return st.recursive(_leaf_scorers(), extend, max_leaves=4) | _of_the_kit("scorer", strategies.scorers())


def _knapsacks() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"type": st.just("knapsack")}, optional={"bucket_size": st.sampled_from([1, 2, 3, 5, 10])}
    )


def _some_kinds() -> st.SearchStrategy[list[str]]:
    """Kinds to limit: no two fold together, one never has a candidate."""
    return st.lists(st.sampled_from(["Message", "TOOL", "kit", "\u212ait", "Gone"]), unique=True, max_size=3)


@st.composite
def _quotas(draw: st.DrawFn) -> list[dict[str, Any]]:
    entries = []
    for kind in draw(_some_kinds()):
        require = draw(st.sampled_from([0.0, 7.0, 10.0, 29.0, 33.3]))
        cap = draw(st.sampled_from([require, 57.0, 58.0, 100.0]))
        entries.append({"kind": kind, "require": require, "cap": cap})
    return entries


@st.composite
def _count_entries(draw: st.DrawFn) -> list[dict[str, Any]]:
    entries = []
    for kind in draw(_some_kinds()):
        require = draw(st.integers(0, 2))
        cap = {"cap_count": require + draw(st.integers(0, 2))} if draw(st.integers(0, 3)) else {}
        entries.append({"kind": kind, "require_count": require, **cap})
    return entries


def _scarcities() -> st.SearchStrategy[str]:
    return st.sampled_from(["degrade", "degrade", "degrade", "throw"])


def slicer_specs() -> st.SearchStrategy[dict[str, Any]]:
    """Every slicer; decorators around each other too, except where construction forbids it."""
    counted = st.fixed_dictionaries(
        {"type": st.just("count_constrained_knapsack"), "entries": _count_entries(), "scarcity": _scarcities()},
        optional={"bucket_size": st.sampled_from([1, 3, 10])},
    )
    leaves = st.one_of(st.just({"type": "greedy"}), st.just({"type": "best_first"}), _knapsacks(), counted)

    def extend(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        allowed = inner.filter(lambda spec: spec["type"] != "knapsack")
        return st.one_of(
            st.fixed_dictionaries(
                {"type": st.just("quota"), "inner": inner, "quotas": _quotas()},
                optional={"leftover": st.sampled_from(["unused", "share"])},
            ),
            st.fixed_dictionaries(
                {
                    "type": st.just("count_quota"),
                    "inner": allowed,
                    "entries": _count_entries(),
                    "scarcity": _scarcities(),
                },
                optional={"leftover": st.sampled_from(["unused", "share"])},
            ),
        )

    return st.recursive(leaves, extend, max_leaves=2) | _of_the_kit("slicer", strategies.slicers())


def _pin_rules() -> st.SearchStrategy[dict[str, Any]]:
    conditions = {
        "kind": st.sampled_from(["tool", "Document"]),
        "tag": st.sampled_from(["a", "k"]),
        "source": st.sampled_from(["Tool", "chat"]),
        "metadata": st.just({"stage": "final"}),
        "newest": st.integers(1, 2),
    }
    return st.fixed_dictionaries({}, optional=conditions).filter(bool)


def policies() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "scorer": scorer_specs(),
            "slicer": slicer_specs(),
            "placer": st.sampled_from(["chronological", "u_shaped", "system_first"]),
            "deduplication": st.booleans(),
            "pins": st.lists(_pin_rules(), max_size=2),
            "overflow": st.sampled_from(["throw", "truncate", "truncate", "proceed"]),
        }
    )


def build_scorer(spec: dict[str, Any]) -> Scorer:
    return cupel.policy.from_dict({"scorer": spec}).scorer


def build_slicer(spec: dict[str, Any]) -> Slicer:
    return cupel.policy.from_dict({"scorer": "recency", "slicer": spec}).slicer
