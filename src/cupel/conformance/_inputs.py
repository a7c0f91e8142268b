"""Items, scored items and budgets, built from their tables."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cupel._checks import shown
from cupel._documents import BUDGET, ITEM, WireForm
from cupel.conformance._vector import TomlTable
from cupel.model import ContextBudget, ContextItem, ScoredItem


def build_items(tables: list[TomlTable]) -> list[ContextItem]:
    """Build the items in file order; a table with `same_as` repeats an earlier object instead of making its twin."""
    items: list[ContextItem] = []
    for table in tables:
        if table.has("same_as"):
            items.append(items[position_of(table, "same_as", items)])
        else:
            items.append(_build_item(table))
    return items


def _build_item(table: TomlTable) -> ContextItem:
    fields = _fields(ITEM, table)
    if isinstance(timestamp := fields.get("timestamp"), str):
        try:
            fields["timestamp"] = datetime.fromisoformat(timestamp)
        except ValueError:
            raise table.error("timestamp", f"must be a date-time, not {shown(timestamp)}") from None
    return ContextItem(**{"content": table.need("content"), "tokens": table.need("tokens"), **fields})


def _fields(form: WireForm[Any], table: TomlTable) -> dict[str, Any]:
    """Return the fields that a table has of a form, in either spelling; what they hold is for the class to judge."""
    return {field.name: value for field, value in form.named(table.values, aside={}, partial=True)}


def build_scored(tables: list[TomlTable]) -> list[ScoredItem]:
    """Build scored items; without a score a pinned item has the 1.0 that the Place stage gives it, another one 0.0."""
    items = build_items(tables)
    return [
        ScoredItem(item, table.number("score") if table.has("score") else float(item.pinned))
        for item, table in zip(items, tables, strict=True)
    ]


def build_budget(table: TomlTable) -> ContextBudget:
    """Build a budget whose ceiling is its target unless the vector sets one (ruling 11.2)."""
    target = table.need("target_tokens")
    most = table.option("max_tokens", default=target)
    return ContextBudget(**{"max_tokens": most, "target_tokens": target, **_fields(BUDGET, table)})


def position_of(table: TomlTable, key: str, items: list[ContextItem]) -> int:
    """Read a field that points at one of the items by position."""
    return check_position(table, key, table.need(key), items)


def check_position(table: TomlTable, key: str, position: Any, items: list[ContextItem]) -> int:
    """Check that a number is the position of an item."""
    if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < len(items):
        raise table.error(key, f"must be the position of one of {len(items)} items, not {shown(position)}")
    return position


def first_positions(items: list[ContextItem]) -> dict[int, int]:
    """Number the items by identity; an object listed twice goes by its first position."""
    return {id(item): position for position, item in reversed(list(enumerate(items)))}


def find_item(table: TomlTable, items: list[ContextItem]) -> ContextItem:
    """Return the item that an expectation means: the one at `index` if given, else the first with its content."""
    content = table.text("content")
    candidates = [items[position_of(table, "index", items)]] if table.has("index") else items
    for item in candidates:
        if item.content == content:
            return item
    raise table.error("content", f"no such item has the content {shown(content)}")
