"""The texts of a conversation, each of which the page carries once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cupel._internal.text import CONTENT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cupel.messages import Message


class ConversationTexts:
    """Numbers the texts of a conversation: its own messages first, then the shorter forms in which they were sent.

    Args:
        messages: The messages of the conversation.
        read: Returns the facts about one of them, or about one that was made from it.
        cost: Returns the tokens of a message.

    >>> from cupel.messages import read_message
    >>> history = [{"role": "user", "content": "Hello!"}]
    >>> texts = ConversationTexts(history, lambda message: read_message(message, "openai"), lambda info: 3)
    >>> texts.request([*history, {"role": "user", "content": "(a note)"}], [0, None])
    [0, 2]
    >>> texts.rows[1]
    {'role': 'user', 'text': '(a note)', 'tokens': 3, 'of': None}
    """

    def __init__(self, messages: Sequence[Any], read: Callable[[Any], Message], cost: Callable[[Message], int]) -> None:
        self._messages, self._read, self._cost = messages, read, cost
        infos = [read(message) for message in messages]
        self._own = [info.text for info in infos]
        self._forms: dict[tuple[int | None, str], int] = {}
        self.rows = [self.row(info) for info in infos]

    def row(self, info: Message) -> dict[str, Any]:
        """Return a message as the page shows it."""
        text = info.text
        row = {"role": info.role, "text": text[:CONTENT_LIMIT], "tokens": self._cost(info)}
        return row | {"clipped": len(text)} if len(text) > CONTENT_LIMIT else row

    def request(self, messages: Iterable[Any], positions: Iterable[int | None]) -> list[int]:
        """Return the numbers of a request's texts, as runs; a text that is not known is added."""
        return runs(self._number(message, at) for message, at in zip(messages, positions, strict=True))

    def _number(self, message: Any, at: int | None) -> int:
        if at is not None and message is self._messages[at]:
            return at
        info = self._read(message)
        if at is not None and info.text == self._own[at]:
            return at
        if (at, info.text) not in self._forms:
            self._forms[at, info.text] = len(self.rows)
            self.rows.append({**self.row(info), "of": at})
        return self._forms[at, info.text]


def runs(numbers: Iterable[int]) -> list[int]:
    """Write numbers as the first and the length of each run of successors: most of a request is one run.

    >>> runs([0, 1, 2, 7, 9, 10])
    [0, 3, 7, 1, 9, 2]
    """
    found: list[int] = []
    for number in numbers:
        if found and found[-2] + found[-1] == number:
            found[-1] += 1
        else:
            found += [number, 1]
    return found
