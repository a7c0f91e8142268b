"""Draw scorers, slicers, placers and pipelines from the schemas of their documents."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from hypothesis import reject
from hypothesis import strategies as st

import cupel.policy
from cupel.errors import ConfigurationError
from cupel.model import OverflowStrategy
from cupel.pipeline import Pipeline
from cupel.policy import registered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from cupel.placers import Placer
    from cupel.scorers import Scorer
    from cupel.slicers import Slicer


if TYPE_CHECKING:
    Drawn = SearchStrategy[Any]

_KINDS: Final = ("Message", "Document", "ToolOutput")
_WORDS: Final = (*_KINDS, "urgent", "docs")
_NUMBERS: Final = (0.0, 0.5, 1.0, 0.25, 3.0, 3600.0, 20000.0)
_SPREAD: Final = 12


def built_in(family: str, *, max_leaves: int) -> Drawn:
    """Draw built-in strategies of a family; registered ones are not drawn, so that examples do not depend on them."""
    return _documents(family, max_leaves).map(lambda document: _built(family, document))


def _built(family: str, document: dict[str, Any]) -> Any:
    try:
        return getattr(cupel.policy.from_dict({"scorer": "recency", family: document}), family)
    except ConfigurationError:  # two fields that do not go together
        reject()


def _documents(family: str, max_leaves: int = 1) -> Drawn:
    schemas = [known.schema() for known in registered()[family].values() if known.built_in]
    wrapping = [schema for schema in schemas if f"#/$defs/{family}" in str(schema)]
    leaves = st.one_of(*(_drawn(schema, {}) for schema in schemas if schema not in wrapping))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(*(_drawn(schema, {family: inner}) for schema in wrapping)),
        max_leaves=max_leaves,
    )


def _drawn(schema: Mapping[str, Any], inner: Mapping[str, Drawn]) -> Drawn:
    """Draw values that a schema allows, and strategies of some families from `inner`."""
    if "$ref" in schema:
        family = schema["$ref"].rpartition("/")[2]
        return inner[family] if family in inner else _documents(family)
    if "anyOf" in schema:
        return st.one_of(*(_drawn(branch, inner) for branch in schema["anyOf"]))
    if "properties" in schema:
        return _object(schema, inner)
    if "additionalProperties" in schema:
        return st.dictionaries(st.sampled_from(_WORDS), _drawn(schema["additionalProperties"], inner), max_size=3)
    if "items" in schema:
        return st.lists(_drawn(schema["items"], inner), min_size=schema.get("minItems", 0), max_size=3)
    return st.sampled_from(_values(schema))


def _object(schema: Mapping[str, Any], inner: Mapping[str, Drawn]) -> Drawn:
    properties = schema["properties"]
    required = {key: _FIELDS[key] for key in properties if key in _FIELDS}
    members = {key: _drawn(one, inner) for key, one in properties.items() if key not in {*_FIELDS, *_UNSET}}
    required |= {key: members.pop(key) for key in schema["required"] if key in members}
    return st.fixed_dictionaries(required, optional=members)


def _values(schema: Mapping[str, Any]) -> Sequence[Any]:
    """Return a few values, the simplest first."""
    if "enum" in schema or "const" in schema:
        return schema.get("enum") or [schema["const"]]
    if schema["type"] == "boolean":
        return [False, True]
    if schema["type"] == "integer":
        least: int = schema.get("minimum", 0)
        return range(least, least + _SPREAD)
    if schema["type"] == "number":
        least, most = schema.get("minimum", -inf), schema.get("maximum", inf)
        above, below = schema.get("exclusiveMinimum", -inf), schema.get("exclusiveMaximum", inf)
        return [number for number in _NUMBERS if least <= number <= most and above < number < below]
    return _WORDS


def by_letters(texts: list[str]) -> list[list[float]]:
    """Embed texts without a model: close if they have about the same length and number of letters a."""
    return [[float(len(text)), float(text.count("a"))] for text in texts]


@st.composite
def _quotas(draw: DrawFn) -> list[dict[str, Any]]:
    # Requirements of a third each never exceed the whole.
    requirements, caps = st.sampled_from([0.0, 10.0, 33.0]), st.sampled_from([100.0, 33.0, 60.0])
    return [{"kind": kind, "require": draw(requirements), "cap": draw(caps)} for kind in draw(_some_kinds())]


@st.composite
def _count_entries(draw: DrawFn) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for kind in draw(_some_kinds()):
        required, cap = draw(st.integers(0, 3)), draw(st.none() | st.integers(0, 3))
        capped = {} if cap is None else {"cap_count": max(cap, required)}
        entries.append({"kind": kind, "require_count": required, **capped})
    return entries


@st.composite
def _limits(draw: DrawFn) -> list[dict[str, Any]]:
    most: Drawn = st.fixed_dictionaries({}, optional={"max_count": st.sampled_from([1, 3]), "max_tokens": st.just(20)})
    least: Drawn = st.fixed_dictionaries({"min_count": st.integers(0, 1), "min_tokens": st.sampled_from([0, 5])})
    return [{"kind": kind, **draw(least), **draw(most)} for kind in draw(_some_kinds())]


def _some_kinds() -> SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(_KINDS), max_size=3, unique=True)


_FIELDS: Final[dict[str, Drawn]] = {
    "now": st.just("2026-01-01T06:00:00Z"),  # a run must repeat
    "stem": st.just(value=False),  # True needs an extra, as for `exact`
    "exact": st.just(value=False),
    "optional": st.just(value=True),
    "query": st.sampled_from(["a", "b c"]),
    "embed": st.just(by_letters),
    "key": st.just("cupel:priority"),
    "value": st.sampled_from(["high", "low"]),
    "bucket_size": st.sampled_from([1, 7, 100]),
    "quotas": _quotas(),
    "entries": _count_entries(),
    "limits": _limits(),
}
"""Fields for which a schema allows too much."""
_UNSET: Final = ("max_cells",)
"""Fields that keep their default: a small table refuses most lists."""


def scorers(*, max_leaves: int = 4) -> SearchStrategy[Scorer]:
    """Draw a built-in scorer, composites and scaled ones included; clocks are fixed, so that scores never vary.

    >>> from hypothesis import find
    >>> find(scorers(), lambda scorer: True)
    RecencyScorer()
    """
    return built_in("scorer", max_leaves=max_leaves)


def slicers() -> SearchStrategy[Slicer]:
    """Draw a built-in slicer, quotas around others included; count quotas may exceed a target or raise.

    >>> from hypothesis import find
    >>> find(slicers(), lambda slicer: True)
    GreedySlice()
    """
    return built_in("slicer", max_leaves=2)


def placers() -> SearchStrategy[Placer]:
    """Draw a built-in placer.

    >>> from hypothesis import find
    >>> find(placers(), lambda placer: True)
    ChronologicalPlacer()
    """
    return built_in("placer", max_leaves=2)


def pipelines(
    *,
    scorers: SearchStrategy[Scorer] | None = None,
    slicers: SearchStrategy[Slicer] | None = None,
    placers: SearchStrategy[Placer] | None = None,
    overflow: SearchStrategy[OverflowStrategy] | None = None,
) -> SearchStrategy[Pipeline]:
    """Draw a pipeline of built-in strategies; each argument replaces the default of a part.

    >>> from hypothesis import find
    >>> find(pipelines(), lambda pipeline: not pipeline.deduplicate)
    Pipeline(scorer=RecencyScorer(), deduplicate=False)
    """
    return st.builds(
        Pipeline,
        scorer=scorers if scorers is not None else _scorers(),
        slicer=slicers if slicers is not None else _slicers(),
        placer=placers if placers is not None else _placers(),
        deduplicate=st.sampled_from([True, False]),
        overflow=overflow if overflow is not None else st.sampled_from(OverflowStrategy),
    )


# Parameters of the same name hide these functions.
_scorers, _slicers, _placers = scorers, slicers, placers
