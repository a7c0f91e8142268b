"""Random pools with every kind of relation, many ties among them."""

from hypothesis import strategies as st

from cupel import ContextItem

SCORES = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)
WORTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
KINDS = ("Message", "ToolOutput")


@st.composite
def related_items(draw, *, requires=True, exclusive=True, pinned=False, max_size=9):
    """Items of up to six things, with forms, groups and, if wanted, requirements, exclusive sets and pins."""
    items = []
    count = draw(st.integers(1, 6))
    names = [f"thing {number}" for number in range(count)]
    for number, name in enumerate(names):
        shared = {}
        if draw(st.integers(0, 2)) == 0:
            shared["cupel:group"] = draw(st.sampled_from(("g", "h")))
        if exclusive and draw(st.integers(0, 3)) == 0:
            shared["cupel:exclusive"] = draw(st.sampled_from(("e", "f")))
        if requires and draw(st.integers(0, 2)) == 0:
            shared["cupel:requires"] = draw(st.lists(st.sampled_from(names), max_size=2))
        kind, hint = draw(st.sampled_from(KINDS)), draw(st.sampled_from(SCORES))
        for form in range(draw(st.integers(1, 3)) if len(items) < max_size - count else 1):
            metadata = {**shared, "cupel:id": name}
            if form:
                metadata["cupel:worth"] = draw(st.sampled_from(WORTHS))
            tokens = draw(st.integers(0, 12))
            items.append(
                ContextItem(
                    f"{number}.{form}",
                    tokens,
                    kind=kind,
                    metadata=metadata,
                    future_relevance_hint=hint,
                    pinned=pinned and form == 0 and draw(st.integers(0, 4)) == 0,
                )
            )
    return draw(st.permutations(items))
