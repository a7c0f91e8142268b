"""What one item's metadata says about relations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from cupel._checks import as_finite, as_text, shown, wrong_type
from cupel.errors import InvalidItemError
from cupel.model import EXCLUSIVE_KEY, GROUP_KEY, ID_KEY, REQUIRES_KEY, WORTH_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel.model import ContextItem

_KEYS: Final = frozenset({ID_KEY, WORTH_KEY, REQUIRES_KEY, GROUP_KEY, EXCLUSIVE_KEY})


class Marks(msgspec.Struct, frozen=True, gc=False):
    """The relations of one item."""

    id: str | None = None
    """The thing it is a form of."""
    worth: float = 1.0
    """The share of the thing's score that it keeps."""
    requires: tuple[str, ...] = ()
    """The things that must be in, in any form."""
    group: str | None = None
    exclusive: str | None = None


_PLAIN: Final = Marks()


def are_related(items: Iterable[ContextItem]) -> bool:
    """Tell whether any item says anything about relations; every run asks, and nearly always none does."""
    filled = [item.metadata for item in items if item.metadata]
    return bool(filled) and not all(map(_KEYS.isdisjoint, filled))


def marks_of(item: ContextItem) -> Marks:
    """Read and check one item's relations.

    >>> from cupel.model import ContextItem
    >>> marks_of(ContextItem("a stub", 2, metadata={"cupel:id": "call-17", "cupel:worth": 0.1})).worth
    0.1
    """
    metadata = item.metadata
    if _KEYS.isdisjoint(metadata):
        return _PLAIN
    try:
        marks = Marks(
            _label(metadata, ID_KEY),
            _worth(metadata),
            _ids(metadata),
            _label(metadata, GROUP_KEY),
            _label(metadata, EXCLUSIVE_KEY),
        )
    except (TypeError, InvalidItemError) as bad:
        # Metadata may hold anything, so a value of another type is a wrong value, not a wrong call.
        msg = f"item {shown(item.content)}: {bad}"
        raise InvalidItemError(msg) from None
    if WORTH_KEY in metadata and marks.id is None:
        msg = f"item {shown(item.content)}: metadata[{WORTH_KEY!r}] needs a {ID_KEY!r} that names the thing, got none"
        raise InvalidItemError(msg)
    return marks


def _label(metadata: Any, key: str) -> str | None:
    label = metadata.get(key)
    if type(label) is str and label:
        return label
    if key not in metadata:
        return None
    label = as_text(f"metadata[{key!r}]", label)
    if not label:
        msg = f"metadata[{key!r}] must not be empty, got ''"
        raise InvalidItemError(msg)
    return label


def _worth(metadata: Any) -> float:
    worth = metadata.get(WORTH_KEY, 1.0)
    if type(worth) is float and 0 <= worth <= 1:
        return worth
    return as_finite(f"metadata[{WORTH_KEY!r}]", worth, least=0, most=1, error=InvalidItemError)


def _ids(metadata: Any) -> tuple[str, ...]:
    ids = metadata.get(REQUIRES_KEY, ())
    if ids == ():
        return ()
    name = f"metadata[{REQUIRES_KEY!r}]"
    if not isinstance(ids, (list, tuple)):  # a set has no order of its own, and the first one missing is reported
        raise wrong_type(name, "a list of ids", ids)
    return tuple(as_text(f"{name}[{place}]", one) for place, one in enumerate(cast("list[object]", ids)))


def check_batch(items: Iterable[ContextItem], seen: set[tuple[str, str]]) -> None:
    """Make sure that nothing in a batch of a stream is related to an earlier one, and remember what is in it.

    >>> from cupel.model import ContextItem
    >>> seen = set()
    >>> check_batch([ContextItem("a stub", 2, metadata={"cupel:id": "call-17"})], seen)
    >>> sorted(seen)
    [('cupel:id', 'call-17')]
    """
    related = [(item, marks_of(item)) for item in items if not _KEYS.isdisjoint(item.metadata)]
    ids = {marks.id for _, marks in related}
    new: set[tuple[str, str]] = set()
    for item, marks in related:
        named = ((ID_KEY, marks.id), (GROUP_KEY, marks.group), (EXCLUSIVE_KEY, marks.exclusive))
        labels = {(key, label) for key, label in named if label is not None}
        apart = sorted(labels & seen) + [(ID_KEY, one) for one in marks.requires if one not in ids]
        if apart:
            key, label = apart[0]
            msg = (
                f"item {shown(item.content)}: {key} {shown(label)} is not in the same batch of the stream; relations "
                "hold within a batch, so raise batch_size, or read the sources whole with arun"
            )
            raise InvalidItemError(msg)
        new |= labels
    seen |= new
