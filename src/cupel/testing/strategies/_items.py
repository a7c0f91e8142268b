"""Draw items, scores, budgets and related items."""

from __future__ import annotations

from copy import copy
from datetime import UTC, datetime, timedelta
from math import inf, nan
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from cupel._internal.columns import Candidates, descending
from cupel.model import ContextBudget, ContextItem, ContextKind, ScoredItem

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy


_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
_TAGS: Final = ("urgent", "Urgent", "docs", "ci")
_SCORES: Final = (0.0, 0.25, 0.5, 1.0, 1 / 3, 0.1 + 0.2, 0.3, 1e-9, -0.0, -0.5, 2.5)


def kinds() -> SearchStrategy[ContextKind]:
    """Draw one of four kinds, two of which differ in case only and are therefore equal.

    >>> from hypothesis import find
    >>> find(kinds(), lambda kind: kind != ContextKind.MESSAGE)
    ContextKind('Document')
    """
    return st.sampled_from(["Message", "message", "Document", "ToolOutput"]).map(ContextKind.of)


# Built once, because building and checking a strategy takes longer than drawing from it.
_FIELDS: Final[dict[str, SearchStrategy[Any]]] = {
    "kind": kinds(),
    "priority": st.sampled_from([None, 0, 1, 2, -1]),
    "tags": st.lists(st.sampled_from(_TAGS), max_size=3),
    "metadata": st.fixed_dictionaries(
        {},
        optional={
            "cupel:trust": st.sampled_from(["0.25", "0.9", 0.5, "high"]),
            "cupel:priority": st.sampled_from(["high", "low"]),
            "notes": st.just(["a"]).map(list),  # mutable, to catch strategies that change their input
        },
    ),
    "timestamp": st.sampled_from([None, *(_EPOCH + timedelta(hours=hours) for hours in range(6))]),
    "future_relevance_hint": st.sampled_from([None, 0.0, 0.25, 0.5, 1.0, 1 / 3]),
    "pinned": st.sampled_from([False, False, False, True]),
}
_CONTENTS: Final = st.sampled_from("abcdefgh")
_TOKENS: Final = st.sampled_from([0, 1, 2, 3, 5, 10, 50, 100, 400])


@st.composite
def items(
    draw: DrawFn,
    *,
    contents: SearchStrategy[str] | None = None,
    tokens: SearchStrategy[int] | None = None,
    kinds: SearchStrategy[ContextKind] | SearchStrategy[str] | None = None,
    priorities: SearchStrategy[int | None] | None = None,
    tags: SearchStrategy[list[str]] | None = None,
    metadata: SearchStrategy[dict[str, Any]] | None = None,
    timestamps: SearchStrategy[datetime | None] | None = None,
    hints: SearchStrategy[float | None] | None = None,
    pinned: SearchStrategy[bool] | None = None,
) -> ContextItem:
    """Draw an item; each argument replaces the default of a field.

    By default contents are single letters, so that duplicates are common, token counts are not negative, and one item
    in eight is pinned.

    >>> from hypothesis import find
    >>> find(items(), lambda item: item.tokens > 2)
    ContextItem(content='a', tokens=3)
    """
    content = draw(contents if contents is not None else _CONTENTS)
    cost = draw(tokens if tokens is not None else _TOKENS)
    # Half of the items have no other field: with few choices per item, examples shrink well.
    plain = not draw(st.booleans())
    given = dict(zip(_FIELDS, (kinds, priorities, tags, metadata, timestamps, hints, pinned), strict=True))
    fields: dict[str, Any] = {}
    for name, default in _FIELDS.items():
        chosen = given[name]
        if chosen is not None:
            fields[name] = draw(chosen)
        elif not plain:
            fields[name] = draw(default)
    return ContextItem(content, cost, **fields)


def item_lists(
    items: SearchStrategy[ContextItem] | None = None, *, min_size: int = 0, max_size: int = 12
) -> SearchStrategy[list[ContextItem]]:
    """Draw a list of candidates, sometimes with equal twins, which strategies must tell apart by identity.

    >>> from hypothesis import find
    >>> first, second = find(item_lists(), lambda found: len(found) == 2 and found[0] == found[1])
    >>> first is second
    False
    """
    each = items if items is not None else _items()
    # Twins are drawn for any length, so that removing an item while shrinking does not change later draws.
    drawn = st.tuples(
        st.lists(each, min_size=min_size, max_size=max_size), st.lists(st.integers(0, max_size), max_size=2)
    )

    def with_twins(drawn: tuple[list[ContextItem], list[int]]) -> list[ContextItem]:
        found, twins = drawn
        room = max_size - len(found) if found else 0
        return [*found, *(copy(found[twin % len(found)]) for twin in twins[:room])]

    return drawn.map(with_twins)


def scores(*, non_finite: bool = False) -> SearchStrategy[float]:
    """Draw a score, often tied: mostly from 0 to 1, sometimes beyond; NaN and the infinities on request.

    >>> from hypothesis import find
    >>> find(scores(), lambda score: score > 0)
    0.25
    """
    return st.sampled_from([*_SCORES, nan, inf, -inf] if non_finite else _SCORES)


def scored_items(
    items: SearchStrategy[ContextItem] | None = None, *, scores: SearchStrategy[float] | None = None
) -> SearchStrategy[ScoredItem]:
    """Draw an item with a score.

    >>> from hypothesis import find
    >>> find(scored_items(), lambda scored: True)
    ScoredItem(item=ContextItem(content='a', tokens=0), score=0.0)
    """
    return st.builds(ScoredItem, items if items is not None else _items(), scores if scores is not None else _scores())


def scored_lists(
    items: SearchStrategy[ContextItem] | None = None,
    *,
    scores: SearchStrategy[float] | None = None,
    min_size: int = 0,
    max_size: int = 12,
) -> SearchStrategy[list[ScoredItem]]:
    """Draw the input of a slicer: unpinned items by descending score, ties in input order, NaN last.

    >>> from hypothesis import find
    >>> found = find(scored_lists(), lambda found: len({entry.score for entry in found}) == 2)
    >>> [entry.score for entry in found]
    [0.25, 0.0]
    """
    unpinned = items if items is not None else _items(pinned=st.just(value=False))
    each = scores if scores is not None else _scores()
    # An item and its score are drawn together, so that shrinking can remove them together.
    drawn = st.tuples(
        st.lists(st.builds(ScoredItem, unpinned, each), min_size=min_size, max_size=max_size),
        st.lists(st.tuples(st.integers(0, max_size), each), max_size=2),
    )

    def with_twins(drawn: tuple[list[ScoredItem], list[tuple[int, float]]]) -> list[ScoredItem]:
        found, twins = drawn
        room = max_size - len(found) if found else 0
        copies = (ScoredItem(copy(found[twin % len(found)].item), score) for twin, score in twins[:room])
        scored = Candidates.of([*found, *copies])
        return scored.at(descending(scored.scores)).scored()

    return drawn.map(with_twins)


@st.composite
def budgets(draw: DrawFn, *, max_tokens: SearchStrategy[int] | None = None, reservations: bool = True) -> ContextBudget:
    """Draw a budget; without `reservations` it has only a window and a target, as slicers receive it.

    >>> from hypothesis import find
    >>> find(budgets(), lambda budget: budget.target_tokens > 20)
    ContextBudget(max_tokens=21, target_tokens=21)
    """
    window = draw(max_tokens if max_tokens is not None else st.integers(0, 1000))
    target = draw(st.integers(0, window))
    held_back: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
        {},
        optional={
            "output_reserve": st.integers(1, max(1, window)),
            "reserved_slots": st.dictionaries(st.sampled_from(["Message", "Memory"]), st.integers(0, 50), min_size=1),
            "estimation_safety_margin_percent": st.sampled_from([7.0, 34.0, 100.0]),
        },
    )
    fields: dict[str, Any] = draw(held_back) if reservations and window else {}
    return ContextBudget(window, target, **fields)


# Parameters of the same name hide these functions.
_items, _scores = items, scores


_HINTS: Final = (0.0, 0.25, 0.5, 1.0)
_MOST_FORMS: Final = 3


@st.composite
def related_lists(draw: DrawFn, *, max_entities: int = 4) -> list[ContextItem]:
    """Return candidates with forms and groups, none of them pinned.

    Every entity has an id, and a hint for `ReflexiveScorer`; contents are distinct.

    >>> from hypothesis import find
    >>> found = find(related_lists(), lambda items: len(items) == 2)
    >>> sorted(item.content for item in found)
    ['a0', 'a1']
    """
    names = "abcdefghijklmnopqrstuvwxyz"[: draw(st.integers(1, max_entities))]
    found: list[ContextItem] = []
    for name in names:
        shared: dict[str, Any] = draw(
            st.fixed_dictionaries(
                {"cupel:id": st.just(name)},
                optional={"cupel:group": st.sampled_from("gh")},
            )
        )
        kind, hint = draw(st.sampled_from(["Message", "ToolOutput"])), draw(st.sampled_from(_HINTS))
        for form in range(draw(st.integers(1, _MOST_FORMS))):
            worth = {"cupel:worth": draw(st.sampled_from([0.5, 0.0, 0.25, 1.0]))} if form else {}
            tokens = draw(st.integers(0, 12))
            metadata = {**shared, **worth}
            found.append(ContextItem(f"{name}{form}", tokens, kind=kind, metadata=metadata, future_relevance_hint=hint))
    return found
