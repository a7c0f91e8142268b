"""Scorers over one field of an item: its age, priority, hint and tags, or a weight for its kind, tags or metadata."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce
from math import isfinite, isinf
from numbers import Real
from typing import TYPE_CHECKING, Final

from cupel._internal.checks import as_flag, as_mapping, as_text, shown
from cupel._internal.columns import LARGE, ascending
from cupel._internal.folded import fold_ascii, folded_map
from cupel._internal.frozen import FrozenDict
from cupel.errors import ScorerConfigError
from cupel.model import TRUST_KEY, ContextKind
from cupel.scorers._base import PassScorer, PeerlessScorer, non_negative, positive, unit_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cupel.model import ContextItem


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NEVER: Final = -(2**63)
"""Before any date, in microseconds."""


def time_scores(times: list[datetime | None]) -> list[float]:
    """Rank instants by sorting; few of them are equal."""
    if len(times) >= LARGE:
        return _many_time_scores(times)
    scores = [0.0] * len(times)
    present = ascending(times)
    last = len(present) - 1
    score, before = 1.0, None
    for rank, position in enumerate(present):
        time = times[position]
        if last and time != before:  # ties share the lowest rank
            score, before = rank / last, time
        scores[position] = score
    return scores


def _many_time_scores(times: list[datetime | None]) -> list[float]:
    """Rank the instants of a `LARGE` pool with NumPy."""
    import numpy as np

    instants = np.array([_NEVER if time is None else (time - _EPOCH) // _MICROSECOND for time in times])
    present = instants != _NEVER
    _, level, counts = np.unique(instants[present], return_inverse=True, return_counts=True)
    last = counts.sum() - 1
    scores = np.zeros(len(times))
    scores[present] = ((np.cumsum(counts) - counts) / last)[level] if last else 1.0
    return scores.tolist()


def level_scores(levels: list[int | None]) -> list[float]:
    """Rank integers by counting; many of them are equal."""
    counts = Counter(levels)
    last = len(levels) - counts.pop(None, 0) - 1
    score_of: dict[int | None, float] = {None: 0.0}
    below = 0
    for level in sorted(level for level in counts if level is not None):
        score_of[level] = below / last if last else 1.0
        below += counts[level]
    return [score_of[level] for level in levels]


@dataclass(frozen=True, slots=True)
class RecencyScorer(PassScorer):
    """Scores by rank in time: the newest item 1, the oldest 0, evenly spaced between; no timestamp scores 0.

    Items with one timestamp share a score; if all timestamps are equal, all score 0. A lone timestamped item scores 1.

    >>> from datetime import UTC, datetime
    >>> from cupel import ContextItem
    >>> days = [datetime(2024, 1, day, tzinfo=UTC) for day in (3, 1, 2)]
    >>> RecencyScorer().score_all([ContextItem("x", 1, timestamp=day) for day in days])
    [1.0, 0.0, 0.5]
    """

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        return time_scores([item.timestamp for item in items])


@dataclass(frozen=True, slots=True)
class PriorityScorer(PassScorer):
    """Scores by rank of `priority`: the highest 1, the lowest 0; no priority scores 0. Ties as in `RecencyScorer`.

    >>> from cupel import ContextItem
    >>> PriorityScorer().score_all([ContextItem("x", 1, priority=priority) for priority in (10, None, 2)])
    [1.0, 0.0, 0.0]
    """

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        return level_scores([item.priority for item in items])


@dataclass(frozen=True, slots=True)
class ReflexiveScorer(PeerlessScorer):
    """Scores by `future_relevance_hint`, clamped to 0 to 1; a missing or non-finite hint scores 0.

    >>> from cupel import ContextItem
    >>> hints = [0.4, 1.7, -0.3, float("inf"), None]
    >>> ReflexiveScorer().score_all([ContextItem("x", 1, future_relevance_hint=hint) for hint in hints])
    [0.4, 1.0, 0.0, 0.0, 0.0]
    """

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        return [
            hint if (hint := item.future_relevance_hint) is not None and 0.0 <= hint <= 1.0 else _clamped(hint)
            for item in items
        ]


def _clamped(hint: float | None) -> float:
    if hint is None or not isfinite(hint):
        return 0.0
    return min(max(hint, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class FrequencyScorer(PassScorer):
    """Scores by shared tags: the share of the other items that have at least one tag in common with this one.

    Tags are compared without ASCII case. An item without tags, or without peers, scores 0.

    >>> from cupel import ContextItem
    >>> items = [ContextItem("a", 1, tags=["X"]), ContextItem("b", 1, tags=["x", "y"]), ContextItem("c", 1)]
    >>> FrequencyScorer().score_all(items)
    [0.5, 0.5, 0.0]
    """

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        # A tag is a bit set of positions and an item the union of its tags, so no two items are compared.
        if len(items) <= 1:
            return [0.0] * len(items)
        folded = {tag: fold_ascii(tag) for tag in {tag for item in items for tag in item.tags}}
        sets = {key: bytearray((len(items) + 7) // 8) for key in folded.values()}
        spelled = {tag: sets[key] for tag, key in folded.items()}
        for position, item in enumerate(items):
            byte, bit = position >> 3, 1 << (position & 7)
            for tag in item.tags:
                spelled[tag][byte] |= bit
        positions = {tag: int.from_bytes(found, "little") for tag, found in spelled.items()}
        distinct = {item.tags for item in items}
        sharing = {tags: reduce(int.__or__, map(positions.__getitem__, tags), 0).bit_count() for tags in distinct}
        # Every position of an item shares its tags, and none of them is its peer (ruling 4.5).
        occurrences = Counter(map(id, items))
        peers = len(items) - 1
        return [(sharing[item.tags] - occurrences[id(item)]) / peers if item.tags else 0.0 for item in items]


DEFAULT_KIND_WEIGHTS: FrozenDict[ContextKind, float] = FrozenDict(
    {
        ContextKind.SYSTEM_PROMPT: 1.0,
        ContextKind.MEMORY: 0.8,
        ContextKind.TOOL_OUTPUT: 0.6,
        ContextKind.DOCUMENT: 0.4,
        ContextKind.MESSAGE: 0.2,
    }
)
"""The weights of `KindScorer()`: the five well-known kinds and no others."""


@dataclass(frozen=True, slots=True)
class KindScorer(PeerlessScorer):
    """Scores by kind: the kind's weight, or 0 for a kind without one.

    Given weights replace the defaults and may exceed 1.

    >>> from cupel import ContextItem
    >>> KindScorer({"Document": 2}).score_all([ContextItem("a", 1, kind="document"), ContextItem("b", 1)])
    [2.0, 0.0]
    """

    weights: Mapping[ContextKind, float] | Mapping[str, float] | None = None
    _by_key: dict[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        weights = DEFAULT_KIND_WEIGHTS
        if self.weights is not None:
            weights = folded_map(
                self.weights,  # type: ignore[arg-type]
                ContextKind,
                non_negative,
                field="weights",
                error=ScorerConfigError,
            )
            object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "_by_key", {kind.key: weight for kind, weight in weights.items()})

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        weight_of = self._by_key.get
        return [weight_of(item.kind.key, 0.0) for item in items]


_SMALLER = 2.0**-64


@dataclass(frozen=True, slots=True)
class TagScorer(PeerlessScorer):
    """Scores by tags: the weights of the item's tags over the sum of all weights, at most 1.

    A tag that an item lists twice counts twice. Tags match exactly; `case_sensitive=False` folds ASCII case.

    >>> from cupel import ContextItem
    >>> TagScorer({"urgent": 3, "docs": 1}).score(ContextItem("x", 1, tags=["urgent", "other"]), [])
    0.75
    """

    weights: Mapping[str, float]
    case_sensitive: bool = field(default=True, kw_only=True)
    _by_key: dict[str, float] = field(init=False, repr=False, compare=False)
    _total: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        as_flag("case_sensitive", self.case_sensitive)
        weights: dict[str, float] = {}
        by_key: dict[str, float] = {}
        total = 0.0
        for tag, raw in as_mapping("weights", self.weights).items():
            as_text("a key of weights", tag)
            weight = non_negative(raw, f"weights[{shown(tag)}]")
            key = tag if self.case_sensitive else fold_ascii(tag)
            if key in by_key:
                msg = f"weights: {shown(tag)} is the same tag as another key when case is ignored; keep one"
                raise ScorerConfigError(msg)
            weights[tag] = by_key[key] = weight
            total += weight
        object.__setattr__(self, "weights", FrozenDict(weights))
        if isinf(total):
            # Scaling by a power of two changes no ratio and prevents the overflow.
            by_key = {key: weight * _SMALLER for key, weight in by_key.items()}
            total = 0.0
            for weight in by_key.values():
                total += weight
        object.__setattr__(self, "_by_key", by_key)
        object.__setattr__(self, "_total", total)

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        return [self._share(item.tags) for item in items]

    def _share(self, tags: tuple[str, ...]) -> float:
        if self._total == 0.0 or not tags:
            return 0.0
        matched = 0.0
        for tag in tags:
            matched += self._by_key.get(tag if self.case_sensitive else fold_ascii(tag), 0.0)
        return min(matched / self._total, 1.0)


NEUTRAL = 1.0
"""The score of items that do not match."""


@dataclass(frozen=True, slots=True)
class MetadataKeyScorer(PeerlessScorer):
    """Scores `boost` when `metadata[key]` is `value`, and 1 otherwise.

    A metadata value that is not a string is compared by its `str`; None never matches. In a composite the boost is
    *averaged* with the other scores like any score; it does not multiply them.

    >>> from cupel import ContextItem
    >>> scorer = MetadataKeyScorer("cupel:priority", "high", 1.5)
    >>> scorer.score(ContextItem("x", 1, metadata={"cupel:priority": "high"}), [])
    1.5
    """

    key: str
    value: str
    boost: float

    def __post_init__(self) -> None:
        as_text("key", self.key)
        as_text("value", self.value)
        object.__setattr__(self, "boost", positive(self.boost, "boost"))

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        key, value, boost = self.key, self.value, self.boost
        return [
            boost if (found := item.metadata.get(key)) is not None and str(found) == value else NEUTRAL
            for item in items
        ]


_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class MetadataTrustScorer(PeerlessScorer):
    """Scores by `metadata["cupel:trust"]`, a number or a decimal string, clamped to 0 to 1.

    Anything else (missing, not a plain ASCII decimal, not finite, a bool) scores `default_score`.

    >>> from cupel import ContextItem
    >>> MetadataTrustScorer().score(ContextItem("x", 1, metadata={"cupel:trust": "0.85"}), [])
    0.85
    """

    default_score: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "default_score", unit_interval(self.default_score, "default_score"))

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        return [self._trust(item.metadata.get(TRUST_KEY)) for item in items]

    def _trust(self, raw: object) -> float:
        trust = _parsed(raw)
        if trust is None or not isfinite(trust):
            return self.default_score
        return min(max(trust, 0.0), 1.0)


def _parsed(raw: object) -> float | None:
    """Parse a number strictly: `float` alone accepts underscores, blanks and non-ASCII digits (ruling 4.13)."""
    if isinstance(raw, str):
        return float(raw) if _DECIMAL.fullmatch(raw) else None
    if isinstance(raw, bool) or not isinstance(raw, Real):
        return None
    try:
        return float(raw)
    except OverflowError:
        return None
