"""The data of the page of a replay."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from cupel.evaluation._cases import EvaluationError
from cupel.evaluation._reader import Reader
from cupel.messages import recall
from cupel.page import ConversationTexts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.evaluation._recordings import Recording
    from cupel.evaluation._replay import Replay, ReplayedTurn
    from cupel.messages import Prices


def turns_payload(replay: Replay) -> dict[str, Any]:
    """Return each conversation's texts once, and each request as runs of their numbers."""
    if not replay.recordings:
        raise EvaluationError("this replay has no recordings, which the page needs; pass a result of `replay`")
    conversations: list[dict[str, Any]] = []
    start = 0
    for number, recording in enumerate(replay.recordings, start=1):
        reader = Reader(recording, replay.counter)
        steps = [step.at for step in reader.steps]
        turns = [each[start : start + len(steps)] for each in replay.strategies.values()]
        start += len(steps)
        if not any(turns):
            continue
        texts = ConversationTexts(recording.messages, reader.read, reader.cost)
        conversations.append(
            {
                "name": recording.name or f"conversation {number}",
                "opening": [{**texts.row(message), "tokens": reader.opening_tokens} for message in reader.opening],
                "messages": len(recording.messages),
                "strategies": [_turns(each, texts, replay.prices, recording) for each in turns],
                "texts": texts.rows,
                "steps": steps,
                "misses": _misses(recording, steps),
            }
        )
    prices = {"read": replay.prices.read, "write": replay.prices.write}
    strategies = list(replay.strategies)
    return {"budget": replay.budget, "prices": prices, "strategies": strategies, "conversations": conversations}


def _misses(recording: Recording, steps: Sequence[int]) -> list[dict[str, Any]]:
    """Return why the cache was missed: for each cause the tokens, the requests, and the turn with most of them."""
    turns = {at: turn for turn, at in enumerate(steps)}
    found: dict[str, list[tuple[int, int]]] = {}
    for call in recording.calls:
        for cause, tokens in call.causes.items():
            found.setdefault(cause, []).append((tokens, turns.get(call.at, -1)))
    sums = [(sum(tokens for tokens, _ in own), cause, own) for cause, own in found.items()]
    return [
        {"cause": cause, "tokens": total, "requests": len(own), "turn": max(own)[1]}
        for total, cause, own in sorted(sums, reverse=True)
    ]


def _turns(
    turns: Sequence[ReplayedTurn], texts: ConversationTexts, prices: Prices, recording: Recording
) -> list[dict[str, Any]]:
    rows = [_turn(turn, texts, prices) for turn in turns]
    followed = next(filter(None, (_followed(turn, recording) for turn in turns[:-4:-1])), None)
    return [*rows[:-1], rows[-1] | {"told": [followed]}] if followed else rows


def _followed(turn: ReplayedTurn, recording: Recording) -> str | None:
    """Return what a note of a request says that an id stands for, and what the model would get for it."""
    sent = json.dumps([] if turn.request is None else turn.request.messages, ensure_ascii=False, default=str)
    notes = re.findall(r"\[cupel: \d+ earlier steps? omitted here: ([^\]]*)\]", sent)
    if not (lines := re.findall(r"#(\w+) ([^;×]+?)…?(?:;|$)", "\n".join(reversed(notes)), re.MULTILINE)):
        return None
    name, line = lines[-1]
    text = recall({"id": name}, recording.messages[: turn.at], page=10**6)
    begun = next(filter(str.strip, text.splitlines()), "").strip()[:60]
    return (
        f"A note tells of {line} and gives it the id {name}: for a call of recall with it, the model gets the "
        f"{len(text):,} characters that were left out, beginning with “{begun.rstrip()}…”"
    )


def _turn(turn: ReplayedTurn, texts: ConversationTexts, prices: Prices) -> dict[str, Any]:
    row: dict[str, Any] = {"history": turn.history}
    if turn.request is None:
        return row | {"failure": turn.failure}
    read = prices.cached(turn.hit)
    row |= {"sent": turn.sent, "read": read, "new": turn.new, "price": turn.price}
    row["request"] = texts.request(turn.request.messages, turn.request.positions)
    if turn.over:
        row["over"] = True
    if turn.request.reason:
        row["reason"] = turn.request.reason
    if turn.request.notes:
        row["notes"] = [{"at": list(note.positions), "words": note.words} for note in turn.request.notes]
    if turn.retention is not None:
        row["used"] = {"facts": turn.retention.facts, "kept": turn.retention.kept}
    return row
