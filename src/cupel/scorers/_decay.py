"""Scores that fall with age."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import isnan
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from cupel._internal.checks import as_list, as_pair, wrong_type
from cupel.errors import ScorerConfigError
from cupel.scorers._base import PeerlessScorer, as_weight, unit_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem


_ZERO = timedelta(0)


class Curve(ABC):
    """Turns an age, never negative, into a score."""

    __slots__ = ()

    @abstractmethod
    def at(self, age: timedelta) -> float:
        """Return the score of an item of this age."""


@dataclass(frozen=True, slots=True)
class Exponential(Curve):
    """Halves the score with every `half_life`.

    >>> Exponential(timedelta(hours=24)).at(timedelta(hours=48))
    0.25
    """

    half_life: timedelta

    def __post_init__(self) -> None:
        _positive_duration(self.half_life, "half_life (halfLife)")

    def at(self, age: timedelta) -> float:
        """Return the score of an item of this age."""
        return float(2.0 ** -(age.total_seconds() / self.half_life.total_seconds()))


@dataclass(frozen=True, slots=True)
class Window(Curve):
    """Scores 1 below `max_age` and 0 from there on.

    >>> Window(timedelta(hours=6)).at(timedelta(hours=6))
    0.0
    """

    max_age: timedelta

    def __post_init__(self) -> None:
        _positive_duration(self.max_age, "max_age (maxAge)")

    def at(self, age: timedelta) -> float:
        """Return the score of an item of this age."""
        return 1.0 if age < self.max_age else 0.0


@dataclass(frozen=True, slots=True)
class Step(Curve):
    """Scores by the first window, in the order given, whose `max_age` is above the age; the last one when none is.

    >>> Step([(timedelta(hours=1), 0.9), (timedelta(hours=24), 0.5)]).at(timedelta(hours=1))
    0.5
    """

    windows: Sequence[tuple[timedelta, float]]

    def __post_init__(self) -> None:
        pairs = as_list("windows", self.windows, "an iterable of (max_age, score) pairs")
        windows = tuple(_checked_window(position, window) for position, window in enumerate(pairs))
        if not windows:
            raise ScorerConfigError("windows must hold at least one (max_age, score) pair, got none")
        object.__setattr__(self, "windows", windows)

    def at(self, age: timedelta) -> float:
        """Return the score of an item of this age."""
        for max_age, score in self.windows:
            if max_age > age:
                return score
        return self.windows[-1][1]


def _checked_window(position: int, window: Any) -> tuple[timedelta, float]:
    max_age, raw = as_pair(f"windows[{position}]", window, "a (max_age, score) pair")
    _positive_duration(max_age, f"windows[{position}] max_age (maxAge)")
    score = as_weight(raw, f"windows[{position}] score")
    if isnan(score):
        raise ScorerConfigError(f"windows[{position}] score must be a number, got nan")
    return max_age, score


def _positive_duration(value: object, field: str) -> None:
    if not isinstance(value, timedelta):
        raise wrong_type(field, "a timedelta", value)
    if value <= _ZERO:
        raise ScorerConfigError(f"{field} must be longer than zero, got {value}")


@runtime_checkable
class Clock(Protocol):
    """An object with a `now()` method that returns the current time."""

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
    """A clock that always returns the same instant, for repeatable runs.

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
        raise ScorerConfigError(f"{field} must carry a time zone, got the naive {instant.isoformat()}")
    return instant.astimezone(UTC)
