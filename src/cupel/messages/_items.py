"""The two steps of a fit by themselves, for callers who run their own pipeline between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from cupel._internal.checks import as_tuple, shown
from cupel.errors import InvalidItemError
from cupel.messages._history import POSITIONS_KEY, Options, read_history
from cupel.messages._plain import is_sequence
from cupel.model import ContextItem

if TYPE_CHECKING:
    from cupel.messages._formats import Provider
    from cupel.messages._formats.media import ImageTokens
    from cupel.messages._rules import SystemMessages
    from cupel.tokens import TokenCounter

M = TypeVar("M")


def to_items(
    messages: Sequence[M],
    counter: TokenCounter | None = None,
    *,
    provider: Provider | None = None,
    pin: Callable[[M], bool] | None = None,
    image_tokens: ImageTokens | None = None,
    alternate: bool = False,
    system_messages: SystemMessages = "keep",
) -> list[ContextItem]:
    """Return the history as candidates, one for each unit that can be sent; the arguments are those of `fit`.

    Each item's content is readable text, its metadata holds the positions of its messages, and its timestamp their
    order. Units that break the provider's rules by themselves, such as a result without its call, are left out.

    >>> history = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hello, how can I help?"}]
    >>> [item.content for item in to_items(history)]
    ['user: Hello!', 'assistant: Hello, how can I help?']
    """
    options = Options(
        provider=provider,
        counter=counter,
        pin=pin,
        image_tokens=image_tokens,
        alternate=alternate,
        system_messages=system_messages,
        sends=False,
    )
    history = read_history(messages, options)
    return [item for item, unit in zip(history.items(), history.units, strict=True) if unit.rejection is None]


def from_items(
    items: Iterable[ContextItem],
    messages: Sequence[M],
    *,
    provider: Provider | None = None,
    alternate: bool = False,
    system_messages: SystemMessages = "keep",
) -> list[M]:
    """Return the messages of the selected items in their original order, as `fit` does.

    `items` come from `to_items(messages)` with the same options, in any order; remove others, such as retrieved
    documents, first. Units that cannot be sent without a missing one are left out: a tool step of the running loop
    without its thinking, an assistant message that would come first.

    >>> history = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hello, how can I help?"}]
    >>> from_items(to_items(history)[:1], history)
    [{'role': 'user', 'content': 'Hello!'}]
    """
    options = Options(provider=provider, alternate=alternate, system_messages=system_messages, sends=False)
    history = read_history(messages, options)
    units = {tuple(unit.positions): index for index, unit in enumerate(history.units) if unit.rejection is None}
    chosen = {_unit_index(item, units) for item in as_tuple("items", items, ContextItem)}
    trimmed = history.rules.drop_violations(chosen)
    return [placed.message for placed in history.request(history.positions(chosen - trimmed.keys()))]


def _unit_index(item: ContextItem, units: dict[tuple[int, ...], int]) -> int:
    positions: object = item.metadata.get(POSITIONS_KEY)
    index = units.get(tuple(cast("Sequence[int]", positions))) if is_sequence(positions) else None
    if index is None:
        got = f"one whose metadata[{POSITIONS_KEY!r}] is {type(positions).__name__}: {shown(positions)}"
        msg = f"items must come from to_items(messages), got {got}"
        raise InvalidItemError(msg)
    return index
