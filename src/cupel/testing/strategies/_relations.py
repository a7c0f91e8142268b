"""Items with relations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from cupel.model import ContextItem

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

_HINTS: Final = (0.0, 0.25, 0.5, 1.0)
_MOST_FORMS: Final = 3


@st.composite
def related_lists(draw: DrawFn, *, max_things: int = 4) -> list[ContextItem]:
    """Return candidates with forms, groups, requirements (circles among them) and exclusive sets, none of them pinned.

    Every thing has an id, and a hint for `ReflexiveScorer`; contents are distinct.

    >>> from hypothesis import find
    >>> found = find(related_lists(), lambda items: len(items) == 2)
    >>> sorted(item.content for item in found)
    ['a0', 'a1']
    """
    names = "abcdefghijklmnopqrstuvwxyz"[: draw(st.integers(1, max_things))]
    found: list[ContextItem] = []
    for name in names:
        shared: dict[str, Any] = draw(
            st.fixed_dictionaries(
                {"cupel:id": st.just(name)},
                optional={
                    "cupel:group": st.sampled_from("gh"),
                    "cupel:exclusive": st.sampled_from("ef"),
                    "cupel:requires": st.lists(st.sampled_from(names), min_size=1, max_size=2),
                },
            )
        )
        kind, hint = draw(st.sampled_from(["Message", "ToolOutput"])), draw(st.sampled_from(_HINTS))
        for form in range(draw(st.integers(1, _MOST_FORMS))):
            worth = {"cupel:worth": draw(st.sampled_from([0.5, 0.0, 0.25, 1.0]))} if form else {}
            tokens = draw(st.integers(0, 12))
            metadata = {**shared, **worth}
            found.append(ContextItem(f"{name}{form}", tokens, kind=kind, metadata=metadata, future_relevance_hint=hint))
    return found
