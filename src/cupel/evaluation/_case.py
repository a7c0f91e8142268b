"""A selection problem whose right answer is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cupel._checks import as_integer, as_list, as_tuple, shown, wrong_type
from cupel._planning import MOST_TOKENS
from cupel.evaluation._errors import EvaluationError
from cupel.model import ContextBudget, ContextItem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True, init=False)
class Case:
    """Items, a budget, and which of the items are needed.

    A need is a position, an item of `items` itself, or the string that an item has under `"id"` in its metadata.
    Cases of one `group`, such as the questions about one conversation, are never split between learning and judging;
    where none is given, cases over the same `items` object are one group. `name` is what messages call the case.

    >>> items = [ContextItem("The gate is B12.", 6, metadata={"id": "gate"}), ContextItem("Lunch?", 3)]
    >>> case = Case(items, 6, ["gate"], query="which gate?")
    >>> case.needed, case.budget.target_tokens
    ((0,), 6)
    """

    items: Sequence[ContextItem] = field(repr=False)
    budget: ContextBudget
    needed: tuple[int, ...]
    """Positions in `items`, ascending."""
    query: str | None
    group: str | None
    name: str | None

    def __init__(
        self,
        items: Sequence[ContextItem],
        budget: ContextBudget | int,
        needed: Iterable[str | int | ContextItem],
        query: str | None = None,
        *,
        group: str | None = None,
        name: str | None = None,
    ) -> None:
        for part, given in (("query", query), ("group", group), ("name", name)):
            if given is not None and not isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise wrong_type(part, "a string or None", given)
        called = f"case {name}: " if name is not None else ""
        if isinstance(items, (list, tuple)):
            as_tuple("items", items, ContextItem)
        else:
            items = as_tuple("items", items, ContextItem)
        if query is not None and not query.strip():
            raise EvaluationError(f"{called}query must not be empty, got {shown(query)}; leave it out if there is none")
        positions = _positions(items, needed, called)
        if not positions:
            raise EvaluationError(f"{called}needed is empty: a case without needs measures nothing")
        for part, value in (
            ("items", items),
            ("budget", _window(budget)),
            ("needed", positions),
            ("query", query),
            ("group", group),
            ("name", name),
        ):
            object.__setattr__(self, part, value)


def _window(budget: ContextBudget | int) -> ContextBudget:
    if not isinstance(budget, ContextBudget):
        whole = as_integer("budget", budget, error=EvaluationError, expected="an integer or a ContextBudget")
        budget = ContextBudget(whole, whole)
    if budget.max_tokens > MOST_TOKENS:
        raise EvaluationError(f"budget must be at most 2**53 tokens, got {shown(budget.max_tokens)}")
    return budget


def _positions(items: Sequence[ContextItem], needed: Iterable[str | int | ContextItem], called: str) -> tuple[int, ...]:
    if isinstance(needed, str):
        raise wrong_type(f"{called}needed", "an iterable of ids, positions or items", needed)
    needs = as_list(f"{called}needed", needed, "an iterable of ids, positions or items")
    ids: dict[object, int] = {}
    objects: dict[int, int] = {}
    for position, item in enumerate(items):
        ids.setdefault(item.metadata.get("id"), position)
        objects.setdefault(id(item), position)
    found: set[int] = set()
    for number, need in enumerate(needs):
        where = f"{called}needed[{number}]"
        if isinstance(need, bool) or not isinstance(need, (str, int, ContextItem)):
            raise wrong_type(where, "an id, a position or an item", need)
        if isinstance(need, int):
            place = need if 0 <= need < len(items) else None
        else:
            place = ids.get(need) if isinstance(need, str) else objects.get(id(need))
        if place is None:
            raise EvaluationError(f"{where} is not among the {len(items)} items: {shown(need)}{_hint(need, ids)}")
        found.add(place)
    return tuple(sorted(found))


def _hint(need: object, ids: dict[object, int]) -> str:
    if isinstance(need, str) and set(ids) == {None}:
        return '; no item has an "id" in its metadata'
    if isinstance(need, ContextItem):
        return "; items are told apart by identity, so name the very object, its id or its position"
    return ""
