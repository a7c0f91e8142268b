"""The families of strategies, and how to register more."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar, cast

from cupel._checks import shown
from cupel._documents import RegisteredStrategy, Registry, codec_of_class
from cupel.placers import Placer
from cupel.scorers import Curve, Scorer
from cupel.slicers import Slicer

T = TypeVar("T")
C = TypeVar("C", bound=type)

GROUP: Final = "cupel.strategies"


@cache
def load_plugins() -> tuple[str, ...]:
    """Import the modules of the entry-point group once, so that their decorators run; return the failures."""
    from importlib.metadata import entry_points

    failures: list[str] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            point.load()
        except Exception as error:  # noqa: BLE001 - a broken plug-in must not hide the document's own problem
            failures.append(f"the plug-in {point.name} = {point.value} failed to load: {type(error).__name__}: {error}")
    return tuple(failures)


_HINT: Final = f"; one of your own is found through the entry-point group {GROUP!r} or after --import MODULE"
SCORERS: Registry[Scorer] = Registry("scorer", Scorer, load_plugins, _HINT)
SLICERS: Registry[Slicer] = Registry("slicer", Slicer, load_plugins, _HINT)
PLACERS: Registry[Placer] = Registry("placer", Placer, load_plugins, _HINT)
CURVES: Registry[Curve] = Registry("curve", Curve, load_plugins, _HINT)
FAMILIES: Final[tuple[Registry[Any], ...]] = (SCORERS, CURVES, SLICERS, PLACERS)


def registered() -> dict[str, dict[str, RegisteredStrategy]]:
    """Return the class and the schema of every tag, by family, in the order of registration.

    Strategies of a plug-in are listed once a document has named one of them.

    >>> from cupel.policy import registered
    >>> list(registered())
    ['scorer', 'curve', 'slicer', 'placer']
    >>> registered()["placer"]["u_shaped"].strategy
    <class 'cupel.placers.UShapedPlacer'>
    """
    return {registry.family: dict(registry.by_tag) for registry in FAMILIES}


def register_scorer(tag: str) -> Callable[[C], C]:
    """Register a scorer class under a tag, so that policies with it can be written and read.

    The class is a dataclass, whose fields become the keys of its document, or offers `to_dict()` and the class method
    `from_dict(fields)`. A package that names the defining module in the entry-point group `cupel.strategies` is found
    without an import.

    >>> from dataclasses import dataclass
    >>> from cupel import Pipeline, policy
    >>> from cupel.scorers import Curve, Scorer
    >>> @policy.register_scorer("doc_length")
    ... @dataclass(frozen=True)
    ... class LengthScorer(Scorer):
    ...     longest: int = 1000
    ...     def score(self, item, all_items):
    ...         return min(1.0, item.tokens / self.longest)
    >>> policy.to_dict(Pipeline(scorer=LengthScorer(200)))
    {'scorer': {'type': 'doc_length', 'longest': 200}}
    >>> policy.from_dict({"scorer": "doc_length"}).scorer
    LengthScorer(longest=1000)
    """
    return _registering(SCORERS, tag)


def register_slicer(tag: str) -> Callable[[C], C]:
    """Register a slicer class under a tag, as `register_scorer` does a scorer class."""
    return _registering(SLICERS, tag)


def register_placer(tag: str) -> Callable[[C], C]:
    """Register a placer class under a tag, as `register_scorer` does a scorer class."""
    return _registering(PLACERS, tag)


def _registering(registry: Registry[T], tag: str) -> Callable[[C], C]:
    def register(strategy: C) -> C:
        given = cast("object", strategy)  # a decorator can be put on anything
        if not (isinstance(given, type) and issubclass(given, registry.base)):
            expected = f"a subclass of {registry.base.__name__}"
            raise TypeError(f"register_{registry.family} expects {expected}, got {shown(strategy)}")
        registry.add(tag, strategy, codec_of_class(strategy, FAMILIES))
        return strategy

    return register
