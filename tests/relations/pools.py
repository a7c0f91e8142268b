"""Random pools with forms and groups, many ties among them."""

from hypothesis import strategies as st

from cupel import ContextItem

SCORES = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)
WORTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
KINDS = ("Message", "ToolOutput")


@st.composite
def related_items(draw, *, pinned=False, max_size=9):
    """Items of up to six entities, with forms, groups and, if wanted, pins."""
    items = []
    count = draw(st.integers(1, 6))
    for number in range(count):
        shared = {"cupel:id": f"entity {number}"}
        if draw(st.integers(0, 2)) == 0:
            shared["cupel:group"] = draw(st.sampled_from(("g", "h")))
        kind, hint = draw(st.sampled_from(KINDS)), draw(st.sampled_from(SCORES))
        for form in range(draw(st.integers(1, 3)) if len(items) < max_size - count else 1):
            worth = {"cupel:worth": draw(st.sampled_from(WORTHS))} if form else {}
            items.append(
                ContextItem(
                    f"{number}.{form}",
                    draw(st.integers(0, 12)),
                    kind=kind,
                    metadata={**shared, **worth},
                    future_relevance_hint=hint,
                    pinned=pinned and form == 0 and draw(st.integers(0, 4)) == 0,
                )
            )
    return draw(st.permutations(items))
