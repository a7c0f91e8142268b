"""The placers; each returns a permutation of the positions it was given."""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.records import Item, descending, fold


def place(name: str, scored: Sequence[tuple[Item, float]]) -> list[int]:
    return PLACERS[name](scored)


def _chronological(scored: Sequence[tuple[Item, float]]) -> list[int]:
    dated = [p for p, (item, _) in enumerate(scored) if item.timestamp is not None]
    undated = [p for p, (item, _) in enumerate(scored) if item.timestamp is None]
    for i in range(1, len(dated)):  # insertion sort: plainly stable
        j = i
        while j > 0 and scored[dated[j]][0].timestamp < scored[dated[j - 1]][0].timestamp:
            dated[j - 1], dated[j] = dated[j], dated[j - 1]
            j -= 1
    return dated + undated


def _u_shaped(scored: Sequence[tuple[Item, float]]) -> list[int]:
    result = [-1] * len(scored)
    left, right = 0, len(scored) - 1
    for rank, position in enumerate(descending([score for _, score in scored])):
        if rank % 2 == 0:
            result[left] = position
            left += 1
        else:
            result[right] = position
            right -= 1
    return result


def _system_first(scored: Sequence[tuple[Item, float]]) -> list[int]:
    """A chronological order with the system prompts taken out and put before it."""
    first = [p for p, (item, _) in enumerate(scored) if fold(item.kind) == "systemprompt"]
    return first + [p for p in _chronological(scored) if p not in first]


PLACERS = {"chronological": _chronological, "u_shaped": _u_shaped, "system_first": _system_first}
