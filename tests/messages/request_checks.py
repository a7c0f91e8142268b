"""What must hold for every request that is made of a valid history; each check returns what is wrong, or None."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cupel.messages._formats import FORMATS, REPLY_FRAME
from cupel.messages._formats.media import ImageRule
from cupel.messages._memory import message_tokens
from cupel.tokens import CharacterEstimate
from tests.messages.provider_rules import Message, alternation, has_words, unseen, violations

COUNTER = CharacterEstimate()
USERS_SHARE, PRESENT_SHARE = 0.3, 0.5
"""All messages of the user must be sent while they, and all after the newest, take no more of the budget than this."""
_NOTE = re.compile(r"\A\[cupel: \d+ earlier steps? omitted here: [^\]]*\]\n?")
_SHORTER = re.compile(r"\[cupel: |…")


@dataclass(frozen=True)
class Request:
    """A request, and the history and the budget that it was made of."""

    provider: str
    history: list[Message]
    before: list[Message]
    """A copy of the history, made before."""
    budget: int
    made: Any
    """A `Fitted` or a `Turn`."""
    alternate: bool = False
    by_policy: bool = False
    """Whether a policy decided what is in it."""

    @property
    def kept(self) -> set[int]:
        """Positions of the messages of the history that are in the request."""
        gone = {at for unit in self.made.dropped for at in unit.positions}
        return {*range(len(self.history))} - gone


def weigh(provider: str, messages: list[Message]) -> int:
    """Return the tokens of a request, notes included."""
    format_ = FORMATS[provider]
    infos = [format_.read(format_.normal(message), "message", ImageRule()) for message in messages]
    return REPLY_FRAME + sum(message_tokens(info, COUNTER) for info in infos)


def not_accepted(request: Request) -> str | None:
    """The provider takes the request."""
    problems = violations(request.provider, request.made.messages, request.history)
    problems += alternation(request.provider, request.made.messages) if request.alternate else []
    return problems[0] if problems else None


def over_budget(request: Request) -> str | None:
    """The request takes no more than the budget, as it is counted and counted again."""
    taken = max(request.made.total_tokens, weigh(request.provider, request.made.messages))
    return f"{taken} tokens of {request.budget}" if taken > request.budget else None


def not_whole(request: Request) -> str | None:
    """A history that fits is sent as it is."""
    if request.alternate or request.by_policy or weigh(request.provider, request.history) > request.budget:
        return None
    return "the history fits and was changed" if request.made.messages != request.history else None


def without_the_present(request: Request) -> str | None:
    """The newest message of the user and the results that no answer follows are in the request."""
    present = {id(message) for message in unseen(request.provider, request.history)}
    lost = [at for at, message in enumerate(request.history) if id(message) in present and at not in request.kept]
    return f"messages {lost} are missing" if lost else None


def without_the_users_words(request: Request) -> str | None:
    """The messages of the user are in the request while they take a small part of it."""
    start = max((at for at, message in enumerate(request.history) if _is_compaction(message)), default=0)
    spoken = [at for at in range(start, len(request.history)) if has_words(request.provider, request.history[at])]
    tokens = weigh(request.provider, [request.history[at] for at in spoken])
    present = weigh(request.provider, request.history[max(spoken, default=0) :])
    if request.by_policy or tokens > USERS_SHARE * request.budget or present > PRESENT_SHARE * request.budget:
        return None
    lost = [at for at in spoken if at not in request.kept]
    return f"messages {lost} of the user are missing" if lost else None


def _is_compaction(message: Message) -> bool:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [message]
    return any(block.get("type") == "compaction" for block in blocks)


def not_a_part(request: Request) -> str | None:
    """The request is a part of the history, in order, besides notes and shorter texts."""
    placed = list(zip(request.made.positions, request.made.messages, strict=True))
    positions = [at for at, _ in placed if at is not None]
    if any(one >= other for one, other in pairwise(positions)):
        return f"out of order: {positions}"
    for at, message in placed:
        if at is None and not _is_note(message):
            return f"neither a note nor a message of the history: {message}"
        if at is not None and not request.alternate and not derived(message, request.history[at]):
            return f"not made of message {at}: {message}"
    return None


def _is_note(message: Message) -> bool:
    text = message.get("content", message.get("parts"))
    while isinstance(text, list | dict):
        text = next(iter(text), None) if isinstance(text, list) else text.get("text")
    return isinstance(text, str) and _NOTE.fullmatch(text) is not None


def derived(sent: Any, own: Any) -> bool:
    """Whether a value is one of the history's, but for a note in front of it and texts that say they are shorter."""
    if sent == own:
        return True
    if isinstance(sent, str):
        bare = _NOTE.sub("", sent)
        return bare == (own or "") or (isinstance(own, str) and (bool(_SHORTER.search(bare)) or _same_json(bare, own)))
    if isinstance(sent, list):
        bare = [inner for inner in sent if not (isinstance(inner, dict) and _is_note({"content": [inner]}))]
        if not isinstance(own, list) or len(bare) != len(own):
            return bare == [] and not own
        return all(map(derived, bare, own))
    if isinstance(sent, dict) and isinstance(own, dict):
        added = {key for key in sent.keys() - own.keys() if _NOTE.fullmatch(str(sent[key]))}
        return sent.keys() - added == own.keys() and all(derived(sent[key], own[key]) for key in own)
    return False


def _same_json(sent: str, own: str) -> bool:
    """Whether a text is the same JSON, escaped in another way, or the text that it wraps."""
    try:
        given = json.loads(own)
        return (isinstance(given, dict) and given.get("text") == sent) or bool(json.loads(sent) == given)
    except ValueError:
        return False


def altered(request: Request) -> str | None:
    """The caller's history stays as it is."""
    return None if request.history == request.before else "the history was altered"


CHECKS = (
    not_accepted,
    over_budget,
    not_whole,
    without_the_present,
    without_the_users_words,
    not_a_part,
    altered,
)
