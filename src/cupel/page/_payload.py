"""Everything the page shows, as plain JSON values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from cupel._documents import plain_number
from cupel._relations import are_related, marks_of
from cupel._text import CONTENT_LIMIT
from cupel._version import __version__
from cupel.diagnostics import vocabulary
from cupel.model import (
    EXCLUSIVE_KEY,
    GROUP_KEY,
    ID_KEY,
    REQUIRES_KEY,
    WORTH_KEY,
    ContextBudget,
    ContextItem,
    ContextKind,
)
from cupel.page._positions import distinct
from cupel.page._probes import Probes
from cupel.page._replay import bucket_size
from cupel.page._variant import Variant, variant_payload

GENERATOR: Final = f"cupel {__version__}"
_METADATA_LIMIT: Final = 2_000
_RELATIONS: Final = (ID_KEY, WORTH_KEY, REQUIRES_KEY, GROUP_KEY, EXCLUSIVE_KEY)
"""Metadata that the page says in words of its own."""
_USUAL: Final = (
    ContextKind.SYSTEM_PROMPT,
    ContextKind.MESSAGE,
    ContextKind.DOCUMENT,
    ContextKind.TOOL_OUTPUT,
    ContextKind.MEMORY,
)


def page_payload(
    items: Iterable[ContextItem],
    budget: ContextBudget,
    variants: Sequence[Variant],
    *,
    title: str,
    source: str | None,
    fixed_window: bool,
    on_progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """Compute the page's data: the items once, and for each policy what showing it at any budget takes.

    With `fixed_window` the slider moves the target under an unchanged `max_tokens`, otherwise both move together.
    The page opens with the first variant; `source` is how a command line names the items, if one can. `on_progress` is
    told after each variant how many of how many are done.

    >>> from cupel import presets
    >>> variants = [Variant(presets.chat(), "chat", "--policy chat")]
    >>> items = [ContextItem("hello", 2), ContextItem("a long farewell", 40)]
    >>> page = page_payload(items, ContextBudget(10, 10), variants, title="T", source="x.json", fixed_window=False)
    >>> page["slider"]
    {'min': 0, 'max': 100}
    """
    candidates = distinct(items)
    kinds = _kinds(candidates)
    numbers = {key: position for position, key in enumerate(kinds)}
    prepared = [variant.policy.pipeline().prepare(candidates) for variant in variants]
    buckets = (bucket_size(one.chooser.replay(numbers)) for one in prepared)
    probes = Probes.covering(candidates, budget, buckets, fixed_window=fixed_window)
    policies: list[dict[str, Any]] = []
    for variant, one in zip(variants, prepared, strict=True):
        policies.append(variant_payload(variant, one, candidates, numbers, probes))
        if on_progress is not None:
            on_progress(len(policies), len(variants))
    return {
        "title": title,
        "source": source,
        "generator": GENERATOR,
        "budget": probes.settings(),
        "slider": {"min": probes.lowest, "max": probes.highest},
        "start": 0,
        "kinds": list(kinds.values()),
        "reasons": vocabulary(),
        "total_tokens": sum(item.tokens for item in candidates),
        "items": _items(candidates, numbers),
        "policies": policies,
    }


def _kinds(items: Sequence[ContextItem]) -> dict[str, str]:
    """Return the kinds by folded name: the well-known ones first, the others as they appear."""
    found: dict[str, str] = {}
    for item in items:
        found.setdefault(item.kind.key, item.kind.value)
    return {kind.key: found[kind.key] for kind in _USUAL if kind.key in found} | found


def _items(items: Sequence[ContextItem], kinds: dict[str, int]) -> list[dict[str, Any]]:
    """Return the items with what the script compares: when each is among the dated, and which have one text."""
    times = sorted({item.timestamp for item in items if item.timestamp is not None})
    ranks = {time: rank for rank, time in enumerate(times)}
    contents = Counter(item.content for item in items)
    texts = {content: number for number, content in enumerate(contents)}
    rows = [_item(item, kinds) for item in items]
    for row, item in zip(rows, items, strict=True):
        if item.timestamp is not None:
            row["when"] = ranks[item.timestamp]
        if contents[item.content] > 1:
            row["text"] = texts[item.content]
    return rows


def _item(item: ContextItem, kinds: dict[str, int]) -> dict[str, Any]:
    length, hint = len(item.content), item.future_relevance_hint
    told = ", ".join(f"{key}: {value}" for key, value in item.metadata.items() if key not in _RELATIONS)
    row: dict[str, Any] = {
        "content": item.content[:CONTENT_LIMIT],
        "tokens": item.tokens,
        "kind": kinds[item.kind.key],
        "spelled": item.kind.value,
        "source": item.source.value,
    }
    more = {
        "clipped": length if length > CONTENT_LIMIT else None,
        "priority": item.priority,
        "tags": list(item.tags) or None,
        "time": None if item.timestamp is None else item.timestamp.isoformat().replace("+00:00", "Z"),
        "hint": None if hint is None else plain_number(hint),
        "pinned": item.pinned or None,
        "metadata": told[:_METADATA_LIMIT] or None,
    }
    return row | {name: value for name, value in more.items() if value is not None} | _relations(item)


def _relations(item: ContextItem) -> dict[str, Any]:
    """Return the thing an item stands for, and what must or must not be in with it."""
    if not are_related([item]):
        return {}
    marks = marks_of(item)
    found = {"thing": marks.id, "requires": list(marks.requires), "group": marks.group, "exclusive": marks.exclusive}
    worth = {"worth": marks.worth} if marks.worth != 1 else {}
    return {name: value for name, value in found.items() if value} | worth
