"""Scorers that cannot be built say which field, which value, and what was expected."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from cupel import (
    CompositeScorer,
    DecayScorer,
    Exponential,
    FixedClock,
    FrequencyScorer,
    KindScorer,
    MetadataKeyScorer,
    MetadataTrustScorer,
    PriorityScorer,
    RecencyScorer,
    ReflexiveScorer,
    RelevanceScorer,
    ScaledScorer,
    ScorerConfigError,
    Step,
    SystemClock,
    TagScorer,
    Window,
)

HOUR = timedelta(hours=1)
ZERO = timedelta(0)
CLOCK = FixedClock(datetime(2025, 1, 1, tzinfo=UTC))
R = RecencyScorer()
anything: Any = None

CASES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: KindScorer({"a": -1}), ScorerConfigError, r"weights\['a'\] must be finite and >= 0, got -1"),
    (lambda: KindScorer({"a": nan}), ScorerConfigError, r"weights\['a'\] must be finite and >= 0, got nan"),
    (lambda: KindScorer({"a": inf}), ScorerConfigError, "got inf"),
    (lambda: KindScorer({"a": 1, "A": 1}), ScorerConfigError, "weights: 'a' and 'A' are the same kind"),
    (lambda: KindScorer({" ": 1}), ScorerConfigError, "weights: kind must not be blank"),
    (lambda: KindScorer({"a": anything}), TypeError, r"weights\['a'\] must be a number, got NoneType"),
    (lambda: KindScorer({"a": 10**400}), ScorerConfigError, "must fit a double, got an integer of 1329 bits"),
    (lambda: TagScorer({"a": -0.5}), ScorerConfigError, r"weights\['a'\] must be finite and >= 0, got -0.5"),
    (lambda: TagScorer({"a": nan}), ScorerConfigError, "got nan"),
    (lambda: TagScorer({"a": inf}), ScorerConfigError, "got inf"),
    (lambda: TagScorer({"a": 1, "A": 1}, case_sensitive=False), ScorerConfigError, "'A' is the same tag as another"),
    (lambda: TagScorer({3: 1.0}), TypeError, "a key of weights must be a string, got int: 3"),  # type: ignore[dict-item]
    (lambda: TagScorer(anything), TypeError, "weights must be a mapping, got NoneType"),
    (lambda: TagScorer({}, case_sensitive=anything), TypeError, "case_sensitive must be True or False, got None"),
    (lambda: CompositeScorer([]), ScorerConfigError, "at least one"),
    (lambda: CompositeScorer([(R, 0)]), ScorerConfigError, r"entries\[0\] weight must be finite and > 0, got 0"),
    (lambda: CompositeScorer([(R, 1), (R, -1)]), ScorerConfigError, r"entries\[1\] weight must be finite"),
    (lambda: CompositeScorer([(R, nan)]), ScorerConfigError, "got nan"),
    (lambda: CompositeScorer([(R, inf)]), ScorerConfigError, "got inf"),
    (lambda: CompositeScorer([(R, 1e308), (R, 1e308)]), ScorerConfigError, "add up to infinity"),
    (lambda: CompositeScorer([(None, 1)]), TypeError, r"entries\[0\]: the first of the pair must be a Scorer"),  # type: ignore[list-item]
    (lambda: CompositeScorer([R]), TypeError, r"entries\[0\] must be a \(scorer, weight\) pair"),  # type: ignore[list-item]
    (lambda: CompositeScorer([(R, "1")]), TypeError, r"entries\[0\] weight must be a number, got str"),  # type: ignore[list-item]
    (lambda: ScaledScorer(anything), TypeError, "inner must be a Scorer, got NoneType"),
    (lambda: MetadataTrustScorer(-0.1), ScorerConfigError, "default_score must be from 0 to 1, got -0.1"),
    (lambda: MetadataTrustScorer(1.1), ScorerConfigError, "default_score must be from 0 to 1, got 1.1"),
    (lambda: MetadataTrustScorer(inf), ScorerConfigError, "default_score must be from 0 to 1, got inf"),
    (lambda: MetadataTrustScorer(nan), ScorerConfigError, "default_score must be from 0 to 1, got nan"),
    (lambda: MetadataTrustScorer(anything), TypeError, "default_score must be a number, got NoneType"),
    (lambda: MetadataKeyScorer("k", "v", 0.0), ScorerConfigError, "boost must be finite and > 0, got 0.0"),
    (lambda: MetadataKeyScorer("k", "v", -1), ScorerConfigError, "boost must be finite and > 0, got -1"),
    (lambda: MetadataKeyScorer("k", "v", nan), ScorerConfigError, "got nan"),
    (lambda: MetadataKeyScorer("k", "v", inf), ScorerConfigError, "got inf"),
    (lambda: MetadataKeyScorer(anything, "v", 1), TypeError, "key must be a string, got NoneType"),
    (lambda: MetadataKeyScorer("k", anything, 1), TypeError, "value must be a string, got NoneType"),
    (lambda: Exponential(ZERO), ScorerConfigError, r"half_life \(halfLife\) must be longer than zero"),
    (lambda: Exponential(-HOUR), ScorerConfigError, "halfLife"),
    (lambda: Exponential(anything), TypeError, r"half_life \(halfLife\) must be a timedelta, got NoneType"),
    (lambda: Window(ZERO), ScorerConfigError, r"max_age \(maxAge\) must be longer than zero"),
    (lambda: Step([]), ScorerConfigError, "windows must hold at least one"),
    (lambda: Step([(ZERO, 0.5)]), ScorerConfigError, r"windows\[0\] max_age \(maxAge\) must be longer than zero"),
    (lambda: Step([(-HOUR, 0.5)]), ScorerConfigError, r"windows\[0\] max_age"),
    (lambda: Step([(HOUR, 1), (HOUR, nan)]), ScorerConfigError, r"windows\[1\] score must be a number, got nan"),
    (lambda: Step([(HOUR, "1")]), TypeError, r"windows\[0\] score must be a number, got str"),  # type: ignore[list-item]
    (lambda: Step([HOUR]), TypeError, r"windows\[0\] must be a \(max_age, score\) pair"),  # type: ignore[list-item]
    (lambda: FixedClock(datetime(2025, 1, 1)), ScorerConfigError, "instant must carry a time zone"),  # noqa: DTZ001
    (lambda: FixedClock(anything), TypeError, "instant must be an aware datetime, got NoneType"),
    (
        lambda: DecayScorer(anything, Window(HOUR)),
        TypeError,
        r"clock must be a Clock, an object with a method now\(\), got NoneType",
    ),
    (lambda: DecayScorer(CLOCK, anything), TypeError, "curve must be Exponential, Window or Step, got NoneType"),
    (lambda: DecayScorer(CLOCK, Window(HOUR), null_timestamp_score=-0.1), ScorerConfigError, "from 0 to 1, got -0.1"),
    (lambda: DecayScorer(CLOCK, Window(HOUR), null_timestamp_score=1.1), ScorerConfigError, "from 0 to 1, got 1.1"),
    (
        lambda: DecayScorer(CLOCK, Window(HOUR), null_timestamp_score=nan),
        ScorerConfigError,
        "null_timestamp_score must be from 0 to 1, got nan",
    ),
]


@pytest.mark.parametrize(("build", "error", "says"), CASES)
def test_refused(build: Callable[[], object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        build()


def test_zero_weights_and_bounds_are_legal() -> None:
    assert KindScorer({"a": -0.0}).score_all([]) == []
    assert MetadataTrustScorer(0).default_score == 0.0
    assert MetadataTrustScorer(1).default_score == 1.0
    assert CompositeScorer([(R, True)]).normalized_weights == (1.0,)


SCORERS = [
    R,
    PriorityScorer(),
    FrequencyScorer(),
    ReflexiveScorer(),
    KindScorer(),
    KindScorer({"a": 1}),
    TagScorer({"a": 1}, case_sensitive=False),
    CompositeScorer([(ScaledScorer(R), 1), (KindScorer(), 2)]),
    ScaledScorer(R),
    MetadataTrustScorer(0.25),
    MetadataKeyScorer("k", "v", 2),
    DecayScorer(CLOCK, Exponential(HOUR)),
    DecayScorer(SystemClock(), Step([(HOUR, 0.5)]), null_timestamp_score=0),
    DecayScorer(CLOCK, Window(HOUR)),
    RelevanceScorer(neighbours=0.5, stop=["a"], query="b"),
]


@pytest.mark.parametrize("scorer", SCORERS, ids=lambda scorer: type(scorer).__name__)
def test_scorers_are_frozen_values(scorer: Any) -> None:
    for twin in (pickle.loads(pickle.dumps(scorer)), copy.deepcopy(scorer)):
        assert twin == scorer
        assert repr(twin) == repr(scorer)
        assert hash(twin) == hash(scorer)
    assert not hasattr(scorer, "__dict__")
    for name in (*scorer.__dataclass_fields__, "anything"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(scorer, name, 1)
    assert sum(scorer == other for other in SCORERS) == 1


def test_the_repr_shows_what_was_given_and_nothing_derived() -> None:
    assert repr(TagScorer({"a": 1}, case_sensitive=False)) == "TagScorer(weights={'a': 1.0}, case_sensitive=False)"
    assert repr(KindScorer({"a": 1})) == "KindScorer(weights={ContextKind('a'): 1.0})"
    assert repr(CompositeScorer([(R, 1)])) == "CompositeScorer(entries=((RecencyScorer(), 1.0),))"


def test_whether_case_matters_is_said_by_name() -> None:
    with pytest.raises(TypeError, match="positional"):
        TagScorer({"a": 1}, False)  # type: ignore[misc]


@pytest.mark.parametrize("weight", [np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
def test_weights_of_other_types_become_plain_ones(weight: Any) -> None:
    (found,) = TagScorer({"a": weight}).weights.values()
    assert (type(found), found) == (float, 0.5)
    entries: Any = [(KindScorer(), np.int64(3)), (KindScorer(), weight)]
    assert CompositeScorer(entries).normalized_weights == (3 / 3.5, 0.5 / 3.5)
