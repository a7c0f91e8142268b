"""The two steps of a fit by themselves, for callers who run their own pipeline between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast

from cupel._internal.checks import as_function, as_list, as_text, as_tuple, shown
from cupel.errors import ConfigurationError, InvalidItemError
from cupel.messages._formats import SentMessage
from cupel.messages._history import POSITIONS_KEY, read_history
from cupel.messages._plain import is_sequence
from cupel.messages._reading import Options
from cupel.model import UNTIMED_KEY, ContextItem, ContextKind

if TYPE_CHECKING:
    from cupel.messages._formats import Provider
    from cupel.messages._formats.media import ImageTokens
    from cupel.messages._history import History
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
    timestamps: Sequence[datetime | None] | None = None,
) -> list[ContextItem]:
    """Return the history as candidates, one for each unit that can be sent.

    Each item's content is readable text, and its metadata holds the positions of its messages. Units that break the
    provider's rules by themselves, such as a result without its call, are left out.

    `timestamps` are the times of the messages; None stands for that of the message before. Without them an item's
    timestamp is only its place in the history: enough for a history alone or beside undated items, and an error beside
    items that have a timestamp of their own. The other arguments are those of `fit`.

    >>> history = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hello, how can I help?"}]
    >>> [item.content for item in to_items(history)]
    ['user: Hello!', 'assistant: Hello, how can I help?']
    >>> from datetime import UTC, datetime
    >>> to_items(history, timestamps=[datetime(2026, 3, 12, 9, 30, tzinfo=UTC), None])[1].timestamp.hour
    9
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
    times = None if timestamps is None else _times(timestamps, len(messages))
    return [_placed(item, times) for item in history.items()]


def _placed(item: ContextItem, times: Sequence[datetime] | None) -> ContextItem:
    """Return an item with the time of its last message, or marked as one without a time."""
    if times is None:
        return item.replace(metadata={**item.metadata, UNTIMED_KEY: True})
    return item.replace(timestamp=times[item.metadata[POSITIONS_KEY][-1]])


def _times(timestamps: Sequence[datetime | None], count: int) -> list[datetime]:
    """Return a time for each message: its own, or that of the nearest one before it, at the beginning after it."""
    given = as_list("timestamps", timestamps, "a list of datetimes, one for each message")
    if len(given) != count:
        msg = f"timestamps must hold one time for each of the {count} messages, got {len(given)}"
        raise ConfigurationError(msg)
    known = [_instant(time, f"timestamps[{at}]") for at, time in enumerate(given) if time is not None]
    if count and not known:
        raise ConfigurationError("timestamps must hold at least one time, got None for every message")
    times: list[datetime] = []
    following = iter(known)
    for time in given:
        times.append(next(following) if time is not None else times[-1] if times else known[0])
    return times


def _instant(time: object, where: str) -> datetime:
    """Return a time as an item would hold it; an error names its place."""
    try:
        made = ContextItem("a message", 0, timestamp=cast("datetime", time)).timestamp
    except (TypeError, InvalidItemError) as bad:
        raise type(bad)(str(bad).replace("timestamp", where, 1)) from None
    return cast("datetime", made)


def from_items(
    items: Iterable[ContextItem],
    messages: Sequence[M],
    *,
    provider: Provider | None = None,
    alternate: bool = False,
    system_messages: SystemMessages = "keep",
    context: Callable[[list[ContextItem]], str] | None = None,
) -> list[M]:
    """Return the messages of the selected items in their original order, as `fit` does.

    `items` come from `to_items(messages)` with the same options, in any order. Units that cannot be sent without a
    missing one are left out: a tool step of the running loop without its thinking, an assistant message that would come
    first.

    Other items, such as documents and memories, need `context`: their text becomes one message of the user, right
    before the newest one, where it leaves the beginning of the request to the provider's cache.

    Args:
        items: The selected items.
        messages: The history.
        provider: As in `to_items`.
        alternate: As in `to_items`.
        system_messages: As in `to_items`.
        context: Returns the text of the items that are not of the history; it gets them in the order of `items`.

    >>> history = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hello, how can I help?"}]
    >>> from_items(to_items(history)[:1], history)
    [{'role': 'user', 'content': 'Hello!'}]
    >>> selected = [ContextItem("The user's name is Ada.", 7, kind="Memory"), *to_items(history)[:1]]
    >>> from_items(selected, history, context=lambda items: items[0].content)[0]
    {'role': 'user', 'content': "The user's name is Ada."}
    """
    options = Options(provider=provider, alternate=alternate, system_messages=system_messages, sends=False)
    history = read_history(messages, options)
    units = {tuple(unit.positions): index for index, unit in enumerate(history.units) if unit.rejection is None}
    chosen: set[int] = set()
    others: list[ContextItem] = []
    for item in as_tuple("items", items, ContextItem):
        if context is not None and POSITIONS_KEY not in item.metadata:
            others.append(_placeable(item))
        else:
            chosen.add(_unit_index(item, units))
    trimmed = history.rules.drop_violations(chosen)
    kept = sorted((one for index in chosen - trimmed.keys() for one in history.of(index)), key=lambda one: one.at)
    request = history.request(kept)
    if context is not None and others:
        text = as_text("the result of context", as_function("context", context)(others))
        if text:
            request = _with_context(history, request, text)
    return [placed.message for placed in request]


def _with_context(history: History, request: list[SentMessage], text: str) -> list[SentMessage]:
    """Insert a message of the user before the newest one; at the end, if there is none."""
    asked = (at for at in range(len(request) - 1, -1, -1) if _is_question(history, request[at]))
    at = next(asked, len(request))
    like: Any = request[min(at, len(request) - 1)].message if request else {}
    message = history.format.sendable(like, history.format.user_message(text), "context")
    added = [*request[:at], SentMessage(message, ()), *request[at:]]
    return history.format.joined(added, alternate=history.options.alternate)


def _is_question(history: History, placed: SentMessage) -> bool:
    messages = [history.messages[at] for at in placed.positions]
    return any(message.role == "user" and message.speaks for message in messages)


def _placeable(item: ContextItem) -> ContextItem:
    """Return an item that can be told in a message of the user."""
    if item.kind == ContextKind.SYSTEM_PROMPT:
        msg = (
            f"item {shown(item.content)} is a system prompt that is not of messages: put it at their beginning where "
            "the provider takes it there (OpenAI), or leave it out of items and pass it as the provider's own parameter"
        )
        raise InvalidItemError(msg)
    return item


def _unit_index(item: ContextItem, units: dict[tuple[int, ...], int]) -> int:
    positions: object = item.metadata.get(POSITIONS_KEY)
    index = units.get(tuple(cast("Sequence[int]", positions))) if is_sequence(positions) else None
    if index is None:
        got = f"one whose metadata[{POSITIONS_KEY!r}] is {type(positions).__name__}: {shown(positions)}"
        hint = "; pass context= to send others beside them" if POSITIONS_KEY not in item.metadata else ""
        msg = f"items must come from to_items(messages), got {got}{hint}"
        raise InvalidItemError(msg)
    return index
