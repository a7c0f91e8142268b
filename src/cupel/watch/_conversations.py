"""Tell conversations apart: a request belongs to the earlier one with which it shares the longest run of messages."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cupel._documents import is_object
from cupel._text import preview
from cupel.errors import CupelError
from cupel.messages import read_message
from cupel.watch._reading import digests_of, opening_of
from cupel.watch._store import Branch, Conversation, Store, WatchedTurn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cupel.watch._reading import ReadRequest

_LEAST_RUN: Final = 2
"""A single message that two histories share in their middle, such as "continue", says nothing."""
_TITLED: Final = 10
"""Messages in which a title is looked for."""
_MOST_BRANCHES: Final = 128
_MOST_TURNS: Final = 2_000
MEMORY: Final = 64_000_000
"""Bytes of the newest requests of all branches that stay in memory; the least recently used are forgotten first."""


class Place(NamedTuple):
    """Where a request belongs."""

    conversation: Conversation
    branch: Branch
    turn: WatchedTurn
    source: Branch | None
    """The branch that this one was forked from, by this request."""


class Match(NamedTuple):
    """A branch that shares messages with a request."""

    common: int
    continues: bool
    alike: int
    """How many of system prompt and tools are the same."""
    conversation: Conversation
    branch: Branch


class BranchFinder:
    """Finds the branch of a request, or begins one."""

    def __init__(self, store: Store, memory: int = MEMORY) -> None:
        self._store = store
        self._memory = memory

    def place(self, read: ReadRequest, size: int, at: float) -> Place:
        """Add a turn for a request to the branch that it continues, or to a new one."""
        digests, opening = digests_of(read.messages), opening_of(read.system, read.tools)
        found = self.find(read, digests, opening)
        source = None
        if found is not None and found.continues:
            conversation, branch = found.conversation, found.branch
        else:
            conversation = self._begun(read, digests, at) if found is None else found.conversation
            source = None if found is None else found.branch
            branch = Branch(
                str(1 + max((int(one.name) for one in conversation.branches), default=-1)),
                read.call.provider,
                None if source is None else source.name,
                0 if found is None else found.common,
            )
            conversation.branches.append(branch)
        last = branch.turns[-1] if branch.turns else None
        turn = WatchedTurn(0 if last is None else last.number + 1, at, read.model, len(read.messages))
        if branch.live and branch.digests == digests:
            turn.action = "retry"
        elif last is not None and branch.digests != digests[: last.count]:
            last.replaced = branch.messages[last.count - 1]
        branch.messages, branch.digests, branch.opening = read.messages, digests, opening
        branch.system, branch.tools, branch.parameters, branch.size = read.system, read.tools, read.parameters, size
        branch.answer, branch.live = [], True
        branch.add(turn)
        del branch.turns[:-_MOST_TURNS]
        self._store.touch(conversation)
        self._forget(conversation, branch)
        return Place(conversation, branch, turn, source)

    def find(self, read: ReadRequest, digests: list[bytes], opening: tuple[bytes, bytes]) -> Match | None:
        """Return the branch that a request continues, or is forked from; among equal ones, the newest."""
        skipped = _leading_system(read.messages)
        matches = [
            match
            for conversation in self._store.conversations
            for branch in reversed(conversation.branches)
            if branch.provider == read.call.provider
            and (match := _match(conversation, branch, digests, opening)).common > skipped
        ]
        if matches:
            best = max(matches, key=lambda match: match[:3])
            if best.common == len(digests):  # an agent that was started again repeats itself
                since = best.branch.turns[-1].at
                matches = [match for match in matches if match.continues and match.branch.turns[-1].at > since]
            return max(matches, key=lambda match: match[:3], default=best)
        return max(self._runs(read, digests, opening), key=lambda match: match.common, default=None)

    def _runs(self, read: ReadRequest, digests: list[bytes], opening: tuple[bytes, bytes]) -> Iterator[Match]:
        """Yield the branches that share a run of messages elsewhere: the client has compacted its history."""
        said = set(digests[_leading_system(read.messages) :])
        for conversation in self._store.conversations:
            for branch in conversation.branches:
                if branch.provider == read.call.provider and len(said.intersection(branch.digests)) >= _LEAST_RUN:
                    matcher = SequenceMatcher(None, branch.digests, digests, autojunk=False)
                    size = matcher.find_longest_match().size
                    if size >= _LEAST_RUN:
                        alike = sum(map(bytes.__eq__, branch.opening, opening))
                        yield Match(size, False, alike, conversation, branch)  # noqa: FBT003

    def _begun(self, read: ReadRequest, digests: list[bytes], at: float) -> Conversation:
        start = f"{datetime.fromtimestamp(at, UTC):%Y%m%dT%H%M%S}-{digests[0].hex()[:4] if digests else 'none'}"
        taken = {one.name for one in self._store.conversations}
        numbers = ("", *(f"-{number}" for number in range(2, len(taken) + 3)))
        name = next(start + number for number in numbers if start + number not in taken)
        return Conversation(name, _title(read))

    def _forget(self, current: Conversation, branch: Branch) -> None:
        """Forget old branches of the current conversation and old conversations, until the rest is small enough."""
        if len(current.branches) > _MOST_BRANCHES:
            current.branches.remove(next(one for one in current.branches if one is not branch))
        oldest = self._store.conversations[::-1]
        held = sum(one.size for conversation in oldest for one in conversation.branches)
        for conversation in oldest:
            for one in list(conversation.branches):
                if held > self._memory and one is not branch:
                    conversation.branches.remove(one)
                    held -= one.size
            if not conversation.branches:
                self._store.forget(conversation.name)


def _match(conversation: Conversation, branch: Branch, digests: Sequence[bytes], opening: tuple[bytes, bytes]) -> Match:
    """Compare a request with the newest one of a branch.

    Clients may change the last message of a request when they send the next one. A request whose system prompt and
    tools are both different is another agent's, even if its messages are the same.
    """
    before, count = branch.digests, len(branch.digests)
    pairs = enumerate(zip(before, digests, strict=False))
    common = next((at for at, (ours, theirs) in pairs if ours != theirs), min(count, len(digests)))
    alike = sum(map(bytes.__eq__, branch.opening, opening))
    same = common == count and (len(digests) > count or alike == len(opening))
    changed = common == count - 1 and len(digests) > count
    return Match(common, (same or changed) and alike > 0, alike, conversation, branch)


def _leading_system(messages: Sequence[Any]) -> int:
    """Return how many messages at the beginning are the system's: many conversations share them."""
    roles = (message.get("role") if is_object(message) else None for message in messages)
    return next((at for at, role in enumerate(roles) if role not in {"system", "developer"}), len(messages))


def _title(read: ReadRequest) -> str:
    """Return the beginning of the user's first words; agents put their own in front, in angle brackets."""
    texts: list[str] = []
    for message in read.messages[_leading_system(read.messages) :][:_TITLED]:
        with suppress(CupelError, TypeError):
            info = read_message(message, read.call.provider)
            texts += [text for text in info.texts if info.role == "user" and text.strip()]
    said = [text for text in texts if not text.lstrip().startswith("<")]
    return preview((said or texts or ["(no text)"])[0])
