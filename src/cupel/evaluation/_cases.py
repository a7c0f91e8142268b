"""Cases: selection problems whose needed items are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cupel._internal.checks import as_list, as_tuple, shown, wrong_type
from cupel._internal.documents import ITEM, budget_of, decode_json, is_list, is_object
from cupel._internal.files import MAX_UNPACKED, read_bytes
from cupel.errors import CupelError
from cupel.model import ContextBudget, ContextItem
from cupel.tokens import counter_or_default

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cupel.tokens import TokenCounter


class EvaluationError(CupelError, ValueError):
    """Cases, recordings or the questions asked of them cannot be used; the message says which and why."""


_LINES: Final = (".jsonl", ".ndjson")


def documents(path: str | Path, max_unpacked: int) -> list[tuple[str, Any]]:
    """Return the documents of a file and their locations; `-` is standard input, and `.gz` is unpacked."""
    name = str(path)
    text = _text(name, max_unpacked)
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    if suffix not in _LINES:
        try:
            return [(name, _decoded(name, text))]
        except EvaluationError:
            if suffix == ".json" or "\n" not in text.strip():
                raise
    lines = {f"{name}:{number}": line for number, line in enumerate(text.split("\n"), 1) if line.strip()}
    return [(where, _decoded(where, line)) for where, line in lines.items()]


def _decoded(where: str, text: str) -> Any:
    try:
        return decode_json(text, error=EvaluationError)
    except EvaluationError as error:
        raise EvaluationError(f"{where}: {error}") from None


def _text(name: str, max_unpacked: int) -> str:
    try:
        return read_bytes(name, max_unpacked=max_unpacked).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EvaluationError(f"{name}: not UTF-8 text: {error.reason} at byte {error.start}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise EvaluationError(str(error)) from None


@dataclass(frozen=True, slots=True, init=False)
class Case:
    """Items, a budget, and which of the items are needed.

    A need is a position, an item of `items` itself, or the string that an item has under `"id"` in its metadata.
    Cases of one `group`, such as the questions about one conversation, are never split between learning and judging;
    where none is given, cases over the same `items` object are one group. `name` identifies the case in messages.

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
            raise EvaluationError(f"{called}needed is empty; list the items that the answer needs, or drop the case")
        for part, value in (
            ("items", items),
            ("budget", ContextBudget.of(budget)),
            ("needed", positions),
            ("query", query),
            ("group", group),
            ("name", name),
        ):
            object.__setattr__(self, part, value)


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


_KEYS = frozenset(("items", "budget", "needed", "query", "group", "id"))


def read_cases(
    path: str | Path,
    *,
    budget: ContextBudget | int | None = None,
    counter: TokenCounter | None = None,
    max_unpacked: int = MAX_UNPACKED,
) -> list[Case]:
    """Read cases from JSON lines, one a line, or from a JSON list; `.gz` is unpacked up to `max_unpacked` bytes.

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
    for where, document in documents(path, max_unpacked):
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
