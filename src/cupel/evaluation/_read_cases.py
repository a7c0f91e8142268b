"""Cases out of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cupel._checks import shown
from cupel._documents import ITEM, budget_of, is_list, is_object
from cupel.errors import CupelError
from cupel.evaluation._case import Case
from cupel.evaluation._errors import EvaluationError
from cupel.evaluation._files import documents
from cupel.tokens import counter_or_default

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cupel.model import ContextBudget, ContextItem
    from cupel.tokens import TokenCounter

_KEYS = frozenset(("items", "budget", "needed", "query", "group", "id"))


def read_cases(
    path: str | Path, *, budget: ContextBudget | int | None = None, counter: TokenCounter | None = None
) -> list[Case]:
    """Read cases from JSON lines, one a line, or from a JSON list; `.gz` is unpacked.

    A case is an object with `items`, `needed` (ids or positions), and if there are any `budget`, `query`, `group` and
    `id`. One without `items` has those of the last case of its group. `budget` is for cases that bring none; items
    without a token count are counted by `counter`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> line = '{"items": [{"content": "The gate is B12.", "tokens": 6}], "needed": [0], "query": "which gate?"}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "cases.jsonl"
    ...     _ = path.write_text(line)
    ...     cases = read_cases(path, budget=100)
    >>> cases[0].query
    'which gate?'
    """
    pools: dict[str | None, list[ContextItem]] = {}
    found: list[Case] = []
    count = counter_or_default(counter).count
    for where, document in documents(path):
        rows = [(where, document)]
        if is_list(document):
            rows = [(f"{where}[{at}]", row) for at, row in enumerate(document)]
        for place, row in rows:
            try:
                found.append(_case(row, pools, budget, count, place))
            except (CupelError, TypeError, ValueError) as error:
                text = str(error)
                raise EvaluationError(text if text.startswith(place) else f"{place}: {text}") from None
    if not found:
        raise EvaluationError(f"{path}: there is no case in it")
    return found


def _case(
    row: Any,
    pools: dict[str | None, list[ContextItem]],
    shared: ContextBudget | int | None,
    count: Callable[[str], int],
    place: str,
) -> Case:
    if not is_object(row):
        raise EvaluationError(f"a case must be an object, got {shown(row)}")
    unknown = sorted(row.keys() - _KEYS)
    if unknown:
        raise EvaluationError(f"unknown key {shown(unknown[0])} (known: {', '.join(sorted(_KEYS))})")
    group = None if row.get("group") is None else str(row["group"])
    if row.get("items") is not None:
        pools[group] = _items(row["items"], count)
    elif group is None or group not in pools:
        raise EvaluationError("items is missing, and no earlier case of its group has any")
    if "needed" not in row:
        raise EvaluationError("needed is missing: say which items the answer needs, by id or position")
    budget = shared if row.get("budget") is None else budget_of(row["budget"])
    if budget is None:
        raise EvaluationError("budget is missing, and none is given for all cases")
    name = place if row.get("id") is None else str(row["id"])
    needed: Sequence[Any] = row["needed"]
    return Case(pools[group], budget, needed, row.get("query"), group=group, name=name)


def _items(forms: Any, count: Callable[[str], int]) -> list[ContextItem]:
    if not is_list(forms):
        raise EvaluationError(f"items must be a list, got {shown(forms)}")
    items: list[ContextItem] = []
    for at, form in enumerate(forms):
        try:
            if is_object(form) and form.get("tokens") is None and isinstance(form.get("content"), str):
                form = {**form, "tokens": count(form["content"]) if form["content"] else 0}  # noqa: PLW2901
            items.append(ITEM.read(form))
        except (CupelError, TypeError, ValueError) as error:
            raise EvaluationError(f"items[{at}]: {error}") from None
    return items
