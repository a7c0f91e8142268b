"""The data of the page of a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cupel._text import CONTENT_LIMIT
from cupel.evaluation._cases import EvaluationError
from cupel.evaluation._reader import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cupel.evaluation._recordings import Recording
    from cupel.evaluation._replay import Replay, ReplayedTurn
    from cupel.evaluation._strategies import SentRequest
    from cupel.messages import MessageInfo
    from cupel.sessions import Prices
    from cupel.tokens import TokenCounter


def turns_payload(replay: Replay) -> dict[str, Any]:
    """Return each conversation's texts once, and each request as runs of their numbers."""
    if not replay.recordings:
        raise EvaluationError("this replay has no recordings, which the page needs; pass a result of `replay`")
    conversations: list[dict[str, Any]] = []
    start = 0
    for number, recording in enumerate(replay.recordings, start=1):
        conversation = _Conversation(recording, replay.counter)
        stop = start + len(conversation.steps)
        turns = {name: each[start:stop] for name, each in replay.strategies.items()}
        start = stop
        if any(turns.values()):
            conversations.append(conversation.payload(recording.name or f"conversation {number}", turns, replay.prices))
    prices = {"read": replay.prices.read, "write": replay.prices.write}
    strategies = list(replay.strategies)
    return {"budget": replay.budget, "prices": prices, "strategies": strategies, "conversations": conversations}


class _Conversation(Reader):
    """The texts of one recording: its own messages first, then the shorter forms in which they were sent."""

    def __init__(self, recording: Recording, counter: TokenCounter | None) -> None:
        super().__init__(recording, counter)
        self._texts = [self._text(message) for message in self.messages]
        self._forms: dict[tuple[int | None, str], int] = {}

    def payload(self, name: str, strategies: Mapping[str, Sequence[ReplayedTurn]], prices: Prices) -> dict[str, Any]:
        turns = [[self._turn(turn, prices) for turn in each] for each in strategies.values()]
        return {
            "name": name,
            "opening": [self._text(message) for message in self.opening],
            "messages": len(self.messages),
            "texts": self._texts,
            "steps": [step.at for step in self.steps],
            "strategies": turns,
        }

    def _text(self, message: MessageInfo) -> dict[str, Any]:
        text = message.text
        row = {"role": message.role, "text": text[:CONTENT_LIMIT], "tokens": self.cost(message)}
        return row | {"clipped": len(text)} if len(text) > CONTENT_LIMIT else row

    def _turn(self, turn: ReplayedTurn, prices: Prices) -> dict[str, Any]:
        row: dict[str, Any] = {"history": turn.history}
        if turn.request is None:
            return row | {"failure": turn.failure}
        read = prices.cached(turn.hit)
        row |= {"sent": turn.sent, "read": read, "new": turn.new, "price": turn.price}
        row["request"] = runs(self._numbers(turn.request))
        if turn.over:
            row["over"] = True
        if turn.request.reason:
            row["reason"] = turn.request.reason
        if turn.request.notes:
            row["notes"] = [{"at": list(note.positions), "words": note.words} for note in turn.request.notes]
        if turn.retention is not None:
            row["used"] = {"facts": turn.retention.facts, "kept": turn.retention.kept}
        return row

    def _numbers(self, request: SentRequest) -> Iterable[int]:
        for message, at in zip(request.messages, request.positions, strict=True):
            if at is not None and message is self.recording.messages[at]:
                yield at
                continue
            said = self.read(message)
            if at is not None and said.text == self.messages[at].text:
                yield at
                continue
            if (at, said.text) not in self._forms:
                self._forms[at, said.text] = len(self._texts)
                self._texts.append({**self._text(said), "of": at})
            yield self._forms[at, said.text]


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
