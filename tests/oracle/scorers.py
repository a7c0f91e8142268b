"""The scorers, one function each; every one looks at the whole list again for every item."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from tests.oracle.records import Item, fold
from tests.oracle.relevance import relevance as _relevance
from tests.oracle.reuse import reuse as _reuse

Spec = Mapping[str, Any]

DEFAULT_KIND_WEIGHTS = {"SystemPrompt": 1.0, "Memory": 0.8, "ToolOutput": 0.6, "Document": 0.4, "Message": 0.2}
DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def score_all(spec: Spec, items: Sequence[Item]) -> list[float]:
    return [score(spec, item, items) for item in items]


def score(spec: Spec, item: Item, items: Sequence[Item]) -> float:
    return SCORERS[spec["type"]](spec, item, items)


def _rank(item: Item, items: Sequence[Item], field: str) -> float:
    own = getattr(item, field)
    if own is None:
        return 0.0
    known, lower = 0, 0
    for other in items:
        value = getattr(other, field)
        if value is None:
            continue
        known += 1
        if value < own:
            lower += 1
    return 1.0 if known <= 1 else lower / (known - 1)


def _recency(spec: Spec, item: Item, items: Sequence[Item]) -> float:
    return _rank(item, items, "timestamp")


def _priority(spec: Spec, item: Item, items: Sequence[Item]) -> float:
    return _rank(item, items, "priority")


def _kind(spec: Spec, item: Item, items: Sequence[Item]) -> float:
    for kind, weight in spec.get("weights", DEFAULT_KIND_WEIGHTS).items():
        if fold(kind) == fold(item.kind):
            return float(weight)
    return 0.0


def _tag(spec: Spec, item: Item, items: Sequence[Item]) -> float:
    same = (lambda tag: tag) if spec.get("case_sensitive", True) else fold
    weights = {same(tag): float(weight) for tag, weight in spec["weights"].items()}
    total = 0.0
    for weight in weights.values():
        total += weight
    if total == 0.0 or not item.tags:
        return 0.0
    matched = 0.0
    for tag in item.tags:
        if same(tag) in weights:
            matched += weights[same(tag)]
    return min(matched / total, 1.0)


def _frequency(spec: Spec, item: Item, items: Sequence[Item]) -> float:
    if not item.tags or len(items) <= 1:
        return 0.0
    matching = 0
    for other in items:
        if other is item:  # the object itself, at every position it holds (ruling 4.5)
            continue
        if any(fold(mine) == fold(theirs) for mine in item.tags for theirs in other.tags):
            matching += 1
    return matching / (len(items) - 1)


def _clamp(value: float) -> float:
    if value < 0.0:
        return 0.0
    return 1.0 if value > 1.0 else value


def _reflexive(spec: Spec, item: Item, items: Sequence[Item]) -> float:
    hint = item.future_relevance_hint
    if hint is None or not math.isfinite(hint):
        return 0.0
    return _clamp(float(hint))


def _composite(spec: Spec, item: Item, items: Sequence[Item]) -> float:
    heard = [child for child in spec["scorers"] if not _abstains(child["scorer"])] or spec["scorers"]
    total = 0.0
    for child in heard:
        total += float(child["weight"])
    result = 0.0
    for child in heard:
        result += score(child["scorer"], item, items) * (float(child["weight"]) / total)
    return result


def _abstains(spec: Spec | str) -> bool:
    return not isinstance(spec, str) and bool(spec.get("optional")) and spec.get("query") is None


def _scaled(spec: Spec, item: Item, items: Sequence[Item]) -> float:
    if not items:
        return 0.5
    raw, low, high, present = math.nan, math.inf, -math.inf, False
    for other in items:
        value = score(spec["inner"], other, items)
        if value < low:
            low = value
        if value > high:
            high = value
        if other is item:
            raw, present = value, True
    if high == low or not present:  # absent: no information (ruling 4.11)
        return 0.5
    return (raw - low) / (high - low)


def _metadata_trust(spec: Spec, item: Item, items: Sequence[Item]) -> float:
    default = float(spec.get("default_score", 0.5))
    raw = item.metadata.get("cupel:trust")
    if isinstance(raw, str):
        if not DECIMAL.fullmatch(raw):
            return default
        value = float(raw)
    elif isinstance(raw, (int, float)) and not isinstance(raw, bool):
        try:
            value = float(raw)
        except OverflowError:
            return default
    else:
        return default
    return _clamp(value) if math.isfinite(value) else default


def _metadata_key(spec: Spec, item: Item, items: Sequence[Item]) -> float:
    raw = item.metadata.get(spec["key"])
    if raw is None:
        return 1.0
    return float(spec["boost"]) if str(raw) == spec["value"] else 1.0


def _seconds(seconds: float) -> timedelta:
    return timedelta(microseconds=round(Fraction(seconds) * 1_000_000))


def _decay(spec: Spec, item: Item, items: Sequence[Item]) -> float:
    if item.timestamp is None:
        return float(spec.get("null_timestamp_score", 0.5))
    age = max(timedelta(0), datetime.fromisoformat(spec["now"]) - item.timestamp)
    curve = spec["curve"]
    if curve["type"] == "exponential":
        half_life = _seconds(curve["half_life_seconds"])
        return math.pow(2.0, -(age.total_seconds() / half_life.total_seconds()))
    if curve["type"] == "window":
        return 1.0 if age < _seconds(curve["max_age_seconds"]) else 0.0
    for window in curve["windows"]:
        if _seconds(window["max_age_seconds"]) > age:
            return float(window["score"])
    return float(curve["windows"][-1]["score"])


def _embedding(spec: Spec, item: Item, items: Sequence[Item]) -> float:
    """The cosine with the query, to nine decimals; without a table of vectors, of the length and the letters a."""
    own = item.metadata.get(spec.get("vector_key"))
    one = _direction(_vector(spec, item.content) if own is None else own)
    other = _direction(_vector(spec, spec["query"]))
    product = 0.0
    for mine, theirs in zip(one, other, strict=True):
        product += mine * theirs
    return max(0.0, min(1.0, round(product, 9)))


def _vector(spec: Spec, text: str) -> list[float]:
    return spec["vectors"][text] if "vectors" in spec else [len(text), text.count("a")]


def _direction(vector: Sequence[float]) -> list[float]:
    largest = max(abs(value) for value in vector)
    if largest == 0:
        return list(vector)
    square = 0.0
    for value in vector:
        square += (value / largest) * (value / largest)
    return [value / largest / math.sqrt(square) for value in vector]


SCORERS = {
    "recency": _recency,
    "priority": _priority,
    "kind": _kind,
    "tag": _tag,
    "frequency": _frequency,
    "reflexive": _reflexive,
    "reuse": _reuse,
    "composite": _composite,
    "scaled": _scaled,
    "metadata_trust": _metadata_trust,
    "metadata_key": _metadata_key,
    "decay": _decay,
    "relevance": _relevance,
    "embedding": _embedding,
}
