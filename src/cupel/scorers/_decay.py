"""Scores that fall with age."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from cupel._checks import wrong_type
from cupel.errors import ScorerConfigError
from cupel.scorers._base import PeerlessScorer
from cupel.scorers._curves import Curve
from cupel.scorers._weights import as_weight, unit_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem

_ZERO = timedelta(0)


@runtime_checkable
class Clock(Protocol):
    """Anything that knows the time."""

    def now(self) -> datetime:
        """Return the present instant as an aware datetime."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The computer's clock."""

    def now(self) -> datetime:
        """Return the present instant in UTC."""
        return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class FixedClock:
    """A clock that stands still, for repeatable runs.

    >>> FixedClock(datetime(2025, 1, 1, tzinfo=UTC)).now()
    datetime.datetime(2025, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
    """

    instant: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "instant", _aware(self.instant, "instant"))

    def now(self) -> datetime:
        """Return the fixed instant."""
        return self.instant


@dataclass(frozen=True, slots=True)
class DecayScorer(PeerlessScorer):
    """Scores by age along a curve, measured against a clock the caller provides; the future counts as age zero.

    The clock is read once a pass, so items of one age score alike; runs score alike only with a `FixedClock`.

    >>> from cupel import ContextItem
    >>> from cupel.scorers import Exponential
    >>> scorer = DecayScorer(FixedClock(datetime(2025, 1, 2, tzinfo=UTC)), Exponential(timedelta(days=1)))
    >>> scorer.score(ContextItem("x", 1, timestamp=datetime(2025, 1, 1, tzinfo=UTC)), [])
    0.5
    """

    clock: Clock
    curve: Curve
    null_timestamp_score: float = field(default=0.5, kw_only=True)

    def __post_init__(self) -> None:
        if not callable(getattr(self.clock, "now", None)):
            raise wrong_type("clock", "a Clock, an object with a method now()", self.clock)
        if not isinstance(self.curve, Curve):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("curve", "Exponential, Window or Step", self.curve)
        score = unit_interval(self.null_timestamp_score, "null_timestamp_score")
        object.__setattr__(self, "null_timestamp_score", score)

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        now = _aware(self.clock.now(), f"{type(self.clock).__name__}.now()")
        return [
            self.null_timestamp_score if item.timestamp is None else self._at(max(_ZERO, now - item.timestamp))
            for item in items
        ]

    def _at(self, age: timedelta) -> float:
        score = self.curve.at(age)
        return score if type(score) is float else as_weight(score, f"{type(self.curve).__name__}.at()")


def _aware(instant: object, field: str) -> datetime:
    if not isinstance(instant, datetime):
        raise wrong_type(field, "an aware datetime", instant)
    if instant.utcoffset() is None:
        msg = f"{field} must carry a time zone, got the naive {instant.isoformat()}"
        raise ScorerConfigError(msg)
    return instant.astimezone(UTC)
