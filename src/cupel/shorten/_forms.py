"""Forms of one thing, as items."""

from __future__ import annotations

from math import sqrt
from typing import TypeAlias, cast

import msgspec

from cupel._checks import as_finite, as_instance, as_text, shown, wrong_type
from cupel.errors import InvalidItemError
from cupel.model import ID_KEY, WORTH_KEY, ContextItem
from cupel.tokens import TokenCounter, counter_or_default

Form: TypeAlias = ContextItem | str
"""A shorter form: an item, or its text."""

_EXPECTED = "an item, a text, or a pair of one and its worth"


def forms(
    full: ContextItem,
    *shorter: Form | tuple[Form, float],
    id: str,  # noqa: A002 - the name of the metadata key
    counter: TokenCounter | None = None,
) -> tuple[ContextItem, ...]:
    """Return an item and its shorter forms, marked as forms of one thing: `cupel:id`, and `cupel:worth` of each.

    A shorter form is a text or an item, or a pair of it and its worth: the share of the full item's score that it
    keeps, from 0 to 1. Without one, the worth is the square root of the share of tokens, so a quarter of the length is
    worth half. Texts are counted; all else, from kind and time to metadata, is the full item's.

    >>> full = ContextItem("a long report", 900, kind="ToolOutput")
    >>> for item in forms(full, "its summary", ("a stub", 0.1), id="call-17"):
    ...     print(item.content, item.tokens, item.kind, dict(item.metadata))
    a long report 900 ToolOutput {'cupel:id': 'call-17'}
    its summary 2 ToolOutput {'cupel:id': 'call-17', 'cupel:worth': 0.0471...}
    a stub 2 ToolOutput {'cupel:id': 'call-17', 'cupel:worth': 0.1}
    """
    full = as_instance("full", full, ContextItem)
    label = as_text("id", id)
    if not label:
        msg = "id must not be empty, got ''"
        raise InvalidItemError(msg)
    if full.pinned:
        msg = f"full must not be pinned: a pinned item is always in, and has no shorter form; got {shown(full.content)}"
        raise InvalidItemError(msg)
    _require_same("full", ID_KEY, full, label)
    _require_same("full", WORTH_KEY, full, 1.0)
    named = msgspec.structs.replace(full, metadata={**full.metadata, ID_KEY: label})
    made = [_form(f"shorter[{place}]", entry, named, counter) for place, entry in enumerate(shorter)]
    seen = {full.content: "full"}
    for place, item in enumerate(made):
        if item.content in seen:
            msg = f"shorter[{place}] must differ from {seen[item.content]}, got the same content: {shown(item.content)}"
            raise InvalidItemError(msg)
        seen[item.content] = f"shorter[{place}]"
    return (named, *made)


def _form(path: str, entry: Form | tuple[Form, float], full: ContextItem, counter: TokenCounter | None) -> ContextItem:
    pair = cast("tuple[object, ...]", entry if isinstance(entry, tuple) else (entry, None))
    if len(pair) != 2:  # noqa: PLR2004 - a pair
        raise wrong_type(path, _EXPECTED, entry)
    form, worth = pair
    if isinstance(form, ContextItem):
        content, tokens = form.content, form.tokens
        _require_same(path, ID_KEY, form, full.metadata[ID_KEY])
        if worth is None:
            worth = form.metadata.get(WORTH_KEY)
        else:
            _require_same(path, WORTH_KEY, form, worth)
    elif isinstance(form, str):
        content, tokens = form, counter_or_default(counter).count(form)
    else:
        raise wrong_type(path, _EXPECTED, form)
    if not content:
        msg = f"{path} must not be empty, got ''"
        raise InvalidItemError(msg)
    if not 0 <= tokens <= full.tokens:
        msg = f"{path} must have from 0 to the {full.tokens} tokens of the full item, got {tokens}"
        raise InvalidItemError(msg)
    if worth is None:
        worth = sqrt(tokens / full.tokens) if full.tokens else 1.0
    worth = as_finite(f"{path}: worth", worth, least=0, most=1, error=InvalidItemError)
    metadata = {**full.metadata, WORTH_KEY: worth}
    return msgspec.structs.replace(full, content=content, tokens=tokens, metadata=metadata, original_tokens=full.tokens)


def _require_same(path: str, key: str, item: ContextItem, expected: object) -> None:
    found = item.metadata.get(key, expected)
    if found != expected:
        msg = f"{path}.metadata[{key!r}] must be {shown(expected)} or absent, got {shown(found)}"
        raise InvalidItemError(msg)
