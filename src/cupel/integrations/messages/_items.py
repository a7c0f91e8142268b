"""The two steps of a fit by themselves, for callers who run their own pipeline between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from cupel.errors import InvalidItemError
from cupel.integrations.messages._history import POSITIONS_KEY, read_history

if TYPE_CHECKING:
    from cupel.integrations.messages._dialect import Provider
    from cupel.integrations.messages._media import ImageTokens
    from cupel.model import ContextItem
    from cupel.tokens import TokenCounter

M = TypeVar("M")


def to_items(
    messages: Sequence[M],
    counter: TokenCounter | None = None,
    *,
    provider: Provider | None = None,
    pin: Callable[[M], bool] | None = None,
    image_tokens: ImageTokens | None = None,
) -> list[ContextItem]:
    """The history as candidates, one for each unit that can be sent; the arguments are those of `fit`.

    Each item's content is readable text, its metadata holds the positions of its messages, and its timestamp their
    order. Units that break the provider's rules by themselves, such as a result without its call, are left out.

    >>> history = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hello, how can I help?"}]
    >>> [item.content for item in to_items(history)]
    ['user: Hello!', 'assistant: Hello, how can I help?']
    """
    history = read_history(messages, provider=provider, counter=counter, pin=pin, image_tokens=image_tokens)
    return [history.item(index) for index, unit in enumerate(history.units) if unit.flaw is None]


def from_items(items: Iterable[ContextItem], messages: Sequence[M], *, provider: Provider | None = None) -> list[M]:
    """The messages that the selected items stand for: the caller's own objects, in their original order.

    `items` come from `to_items(messages)`, in any order; others, such as retrieved documents, must be taken out first.
    Units at the ends after which the assistant would speak first, or last where it did not before, are left out.

    >>> history = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hello, how can I help?"}]
    >>> from_items(to_items(history)[:1], history)
    [{'role': 'user', 'content': 'Hello!'}]
    """
    history = read_history(messages, provider=provider)
    units = {tuple(unit.positions): index for index, unit in enumerate(history.units) if unit.flaw is None}
    chosen = {_unit_index(item, units) for item in items}
    trimmed = history.ends.trim(history.units, chosen)
    return [messages[position] for position in history.positions(chosen - trimmed.keys())]


def _unit_index(item: ContextItem, units: dict[tuple[int, ...], int]) -> int:
    positions = item.metadata.get(POSITIONS_KEY)
    index = units.get(tuple(positions)) if isinstance(positions, (list, tuple)) else None  # pyright: ignore[reportUnknownArgumentType]
    if index is None:
        msg = f"items must come from to_items(messages), got one whose metadata[{POSITIONS_KEY!r}] is {positions!r}"
        raise InvalidItemError(msg)
    return index
