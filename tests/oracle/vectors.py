"""Answer a conformance vector with the oracle, so that the project's own vectors are not the library's echo."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.oracle.pipeline import Outcome, run
from tests.oracle.placers import place
from tests.oracle.records import Budget, Item, OracleError
from tests.oracle.scorers import score
from tests.oracle.slicers import choose

Doc = Mapping[str, Any]
RUN_ERRORS = {"pinned_exceeds_budget", "overflow", "table_too_large", "scarcity"}


def differences(vector: Doc) -> list[str]:
    """Return what the oracle has to object to; a vector about a construction error is none of its business."""
    test = vector["test"]
    wanted = test.get("expect_error")
    if test["stage"] == "simulation" or test.get("expect_construction_error") or (wanted and wanted not in RUN_ERRORS):
        return []
    try:
        found = CHECKS[test["stage"]](vector)
    except OracleError as error:
        return [] if error.kind == wanted else [str(error)]
    return [f"expected {wanted}"] if wanted else found


def _scoring(vector: Doc) -> list[str]:
    items = _items(vector.get("items", []))
    spec = _scorer(vector["test"]["scorer"], vector.get("config", {}), vector.get("config", {}))
    epsilon = vector.get("tolerance", {}).get("score_epsilon", 1e-9)
    found = []
    for row in vector.get("expected", []):
        contents = [item.content for item in items]
        item = items[row.get("index", contents.index(row["content"]))]
        if not _close(score(spec, item, items), row["score_approx"], epsilon):
            found.append(f"{row['content']}: {score(spec, item, items)}")
    return found


def _slicing(vector: Doc) -> list[str]:
    rows, target = vector.get("scored_items", []), vector["budget"]["target_tokens"]
    scored = list(zip(_items(rows), [row["score"] for row in rows], strict=True))
    spec = _slicer(vector["test"]["slicer"], vector.get("config", {}))
    choice = choose(spec, scored, vector["budget"].get("max_tokens", target), target)
    contents = [scored[p][0].content for p in choice.positions]
    expected = vector["expected"]
    facts = {
        "selected_contents": Counter(contents) == Counter(expected["selected_contents"]),
        "selected_indexes": sorted(choice.positions) == sorted(expected.get("selected_indexes", choice.positions)),
        "ordered_contents": contents == expected.get("ordered_contents", contents),
        "shortfall_count": len(choice.shortfalls) == expected.get("shortfall_count", len(choice.shortfalls)),
        "cap_excluded_count": len(choice.dropped) == expected.get("cap_excluded_count", len(choice.dropped)),
    }
    return [f"{name}: {choice} {contents}" for name, holds in facts.items() if not holds]


def _placing(vector: Doc) -> list[str]:
    rows = vector.get("items", [])
    items = _items(rows)
    order = place(
        _plain(vector["test"]["placer"]), [(item, row["score"]) for item, row in zip(items, rows, strict=True)]
    )
    expected = vector["expected"]
    contents = [items[p].content for p in order]
    same = contents == expected["ordered_contents"] and order == expected.get("ordered_indexes", order)
    return [] if same else [str(order)]


def _pipeline(vector: Doc) -> list[str]:
    config, items = vector["config"], _items(vector.get("items", []))
    entries = config["scorers"]
    scorer = _entry(entries[0], config) if len(entries) == 1 else _composite(entries, config)
    policy = {
        "scorer": scorer,
        "slicer": _slicer(config.get("slicer", "greedy"), config),
        "placer": _plain(config.get("placer", "chronological")),
        "deduplication": config.get("deduplication", True),
        "overflow": config.get("overflow_strategy", "throw"),
    }
    outcome = run(policy, items, Budget(**vector["budget"]))
    output = vector.get("expected_output", [])
    wanted = [row if isinstance(row, dict) else {"content": row} for row in output]
    expected = vector.get("expected", {})
    facts = [_rows("output", wanted, [{"content": items[p].content, "index": p} for p in outcome.output])]
    if "overflow" in expected:
        over, merged = outcome.overflow or (None, [])
        actual = {"tokens_over_budget": over, "overflowing_contents": [items[p].content for p in merged]}
        facts.append(_rows("overflow", [expected["overflow"]], [actual]))
    return [fact for fact in facts + _diagnostics(expected.get("diagnostics", {}), outcome, items) if fact]


def _diagnostics(wanted: Doc, outcome: Outcome, items: Sequence[Item]) -> list[str]:
    actual = {
        "included": [
            {"content": items[p].content, "index": p, "score_approx": value, "inclusion_reason": reason}
            for p, value, reason in outcome.included
        ],
        "excluded": [
            {"content": items[p].content, "index": p, "score_approx": value, "exclusion_reason": reason, **fields}
            for p, value, reason, fields in outcome.excluded
        ],
        "shortfalls": [
            {"kind": kind, "required_count": required, "satisfied_count": satisfied}
            for kind, required, satisfied in outcome.shortfalls
        ],
        "events": [{"stage": stage, "item_count": count} for stage, count in outcome.events],
    }
    found = [_rows(name, wanted[name], rows) for name, rows in actual.items() if name in wanted]
    for name, value in wanted.get("summary", {}).items():
        if getattr(outcome, name) != value:
            found.append(f"{name}: {getattr(outcome, name)}")
    return found


def _rows(name: str, wanted: Sequence[Doc], actual: Sequence[Doc]) -> str:
    if len(wanted) != len(actual):
        return f"{name}: {actual}"
    for row, got in zip(wanted, actual, strict=True):
        for key, value in row.items():
            same = _close(got[key], value, 1e-9) if key == "score_approx" else got[key] == value
            if not same:
                return f"{name}.{key}: {got}"
    return ""


def _close(actual: float, expected: float, epsilon: float) -> bool:
    return abs(actual - expected) < epsilon or (math.isnan(actual) and math.isnan(expected))


def _items(rows: Sequence[Doc]) -> list[Item]:
    items: list[Item] = []
    for row in rows:
        if "same_as" in row:
            items.append(items[row["same_as"]])
            continue
        spelled = {"originalTokens": "original_tokens", "futureRelevanceHint": "future_relevance_hint"}
        fields = {spelled.get(key, key): value for key, value in row.items() if key != "score"}
        if isinstance(fields.get("timestamp"), datetime):
            fields["timestamp"] = fields["timestamp"].astimezone(UTC)
        items.append(Item(**fields))
    return items


def _plain(name: str) -> str:
    return name.replace("-", "_")


def _entry(entry: Doc, config: Doc) -> Doc:
    return _scorer(entry["type"], entry, config)


def _composite(entries: Sequence[Doc], config: Doc) -> Doc:
    children = [{"scorer": _entry(entry, config), "weight": entry.get("weight", 1.0)} for entry in entries]
    return {"type": "composite", "scorers": children}


def _pairs(value: Any, name: str) -> dict[str, float]:
    return value if isinstance(value, dict) else {row[name]: row["weight"] for row in value}


def _scorer(name: str, own: Doc, config: Doc) -> Doc:
    spec: dict[str, Any] = {**config, **own, "type": name}
    if name == "composite":
        return _composite(own.get("children", own.get("scorers")), config)
    if name == "scaled":
        inner = spec["inner_scorer"]
        spec["inner"] = _entry(inner, config) if isinstance(inner, dict) else _scorer(inner, own, config)
    if name == "kind" and "weights" in spec:
        spec["weights"] = _pairs(spec["weights"], "kind")
    if name == "tag":
        spec["weights"] = _pairs(spec["tag_weights"], "tag")
        spec["case_sensitive"] = spec.get("tag_case_sensitive", True)
    if name == "decay":
        spec["now"] = spec["reference_time"].isoformat()
        spec["curve"] = _seconds(spec["curve"])
    return spec


def _seconds(curve: Doc) -> Doc:
    renamed = {key.replace("_secs", "_seconds"): value for key, value in curve.items()}
    return {**renamed, "windows": [_seconds(window) for window in curve["windows"]]} if "windows" in curve else renamed


def _slicer(name: str, config: Doc) -> Doc:
    inner = config.get("inner", config.get("inner_slicer", "greedy"))
    spec = {**config, "type": name, "scarcity": config.get("scarcity_behavior", "degrade")}
    if name in {"quota", "count_quota"}:
        spec["inner"] = _slicer(inner["type"], inner) if isinstance(inner, dict) else {**config, "type": inner}
    return spec


CHECKS = {"scoring": _scoring, "slicing": _slicing, "placing": _placing, "pipeline": _pipeline}
