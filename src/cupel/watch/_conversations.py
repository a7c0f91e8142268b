"""Tell conversations apart: a request belongs to the earlier one with which it shares the longest run of messages."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from contextlib import suppress
from datetime import UTC, datetime
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cupel._internal.documents import is_object
from cupel._internal.text import preview
from cupel.errors import CupelError
from cupel.messages import read_message
from cupel.watch._branches import Branch, WatchedTurn
from cupel.watch._govern import LiveBranch, common_run, prices_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cupel.watch._reading import ReadRequest

_LEAST_RUN: Final = 2
"""A single message that two histories share in their middle, such as "continue", says nothing."""
_TITLED: Final = 10
"""Messages in which a title is looked for."""
_MOST_BRANCHES: Final = 128
"""Branches of one conversation."""
_MOST_SESSIONS: Final = 128
"""Branches whose sessions stay in memory; others are restored from their states."""
_MOST_TURNS: Final = 2_000
MEMORY: Final = 64_000_000


class Match(NamedTuple):
    """A branch that shares messages with a request."""

    common: int
    continues: bool
    alike: int
    """How many of system prompt and tools are the same."""
    live: LiveBranch


class Place(NamedTuple):
    """Where a request belongs."""

    live: LiveBranch
    turn: WatchedTurn
    idle: float | None
    """Seconds since the last request of its conversation with this model, system prompt and tools; None for the first
    of all."""
    added: int
    """Bytes that it has more than the request before it in the branch."""


class Store:
    """The branches of all conversations in memory; finds the one that a request belongs to.

    Args:
        budget: The tokens of a governed request; None for a watcher that only looks.
        recall: Write ids of what is left out into governed requests.
        upstream: Where the calls go, for the page.
        memory: Bytes of the newest requests of all branches; the least recently used branches are forgotten first.
    """

    def __init__(
        self, *, budget: int | None = None, recall: bool = False, upstream: str = "", memory: int = MEMORY
    ) -> None:
        self.budget, self.recall, self.upstream, self.memory = budget, recall, upstream, memory
        self.changes = 0
        """Grows with every change."""
        self.closed = False
        self._live: OrderedDict[str, LiveBranch] = OrderedDict()

    @property
    def live(self) -> list[LiveBranch]:
        """The branches, the newest activity first."""
        return list(self._live.values())[::-1]

    def branch(self, session: str) -> Branch | None:
        """Return a branch by its names; None if it is not in memory."""
        found = self._live.get(session)
        return None if found is None else found.branch

    def touch(self, live: LiveBranch) -> None:
        """Add a branch, or make it the newest."""
        self._live[live.branch.session] = live
        self._live.move_to_end(live.branch.session)

    def place(self, read: ReadRequest, size: int, at: float) -> Place:
        """Add a turn for a request to the branch that it continues, or to a new one."""
        found = self.find(read)
        live = found.live if found is not None and found.continues else self._begun(read, found, at)
        branch, digests = live.branch, read.digests
        last = branch.turns[-1] if branch.turns else None
        turn = WatchedTurn(0 if last is None else last.number + 1, at, read.model, len(read.messages))
        if live.begun and live.digests == digests:
            turn.action = "retry"
        else:
            live.choice = None
        live.active = False
        if last is not None and live.digests != digests[: last.count]:  # the client has changed its last message
            changed = live.number(last.count - 1, branch.messages[last.count - 1])
            window = range(last.count) if last.window is None else last.window
            last.window = [changed if one == last.count - 1 else one for one in window]
        added = size - live.size
        live.digests, live.opening, live.prices = digests, read.opening, prices_of(read)
        live.size, live.begun = size, True
        branch.system, branch.tools, branch.parameters = read.system, read.tools, read.parameters
        branch.messages, branch.answered = list(read.messages), 0
        branch.turns.append(turn)
        del branch.turns[:-_MOST_TURNS]
        self.touch(live)
        self._forget(live)
        siblings = [one for one in self.live if one.branch.conversation == branch.conversation]
        return Place(live, turn, live.follow(read, at, siblings), added)

    def find(self, read: ReadRequest) -> Match | None:
        """Return the branch that a request continues, or is forked from; among equal ones, the newest."""
        digests, opening, skipped = read.digests, read.opening, _leading_system(read.messages)
        known = [live for live in self.live if live.branch.provider == read.call.provider]
        matches = [match for live in known if (match := _match(live, digests, opening)).common > skipped]
        if matches:
            best = max(matches, key=lambda match: match[:3])
            if best.common == len(digests):  # an agent that was started again repeats itself
                since = best.live.branch.turns[-1].at
                matches = [match for match in matches if match.continues and match.live.branch.turns[-1].at > since]
            return max(matches, key=lambda match: match[:3], default=best)
        return max(_runs(known, digests[skipped:], opening), key=lambda match: match.common, default=None)

    def _begun(self, read: ReadRequest, source: Match | None, at: float) -> LiveBranch:
        """Return a new branch, of a new conversation if it has no source."""
        if source is None:
            # Not a number: several watchers may record to one folder.
            name = f"{datetime.fromtimestamp(at, UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
            return LiveBranch(Branch(session=f"{name}.0", title=_title(read), provider=read.call.provider))
        parent = source.live.branch
        taken = [int(one.branch.name) for one in self.live if one.branch.conversation == parent.conversation]
        branch = Branch(
            session=f"{parent.conversation}.{1 + max(taken)}",
            title=_title(read),
            provider=parent.provider,
            parent=parent.name,
            forked=source.common,
            replay_from=len(read.messages),
            state=parent.state,
        )
        return source.live.forked(branch)

    def _forget(self, newest: LiveBranch) -> None:
        """Forget the least recently used branches, until the rest is small enough, and the sessions of older ones."""
        others = [one for one in self.live if one is not newest]
        siblings = [one for one in others if one.branch.conversation == newest.branch.conversation]
        held, too_many = newest.size, siblings[_MOST_BRANCHES - 1 :]
        for number, one in enumerate(others, 1):
            held += one.size
            if held > self.memory or one in too_many:
                del self._live[one.branch.session]
                held -= one.size
            elif number >= _MOST_SESSIONS:
                one.put_aside()


def _match(live: LiveBranch, digests: Sequence[bytes], opening: tuple[bytes, bytes]) -> Match:
    """Compare a request with the newest one of a branch.

    Clients may change the last message of a request when they send the next one. A request whose system prompt and
    tools are both different is another agent's, even if its messages are the same.
    """
    count, common, alike = len(live.digests), common_run(live.digests, digests), _alike(live, opening)
    same = common == count and (len(digests) > count or alike == len(opening))
    changed = common == count - 1 and len(digests) > count
    return Match(common, (same or changed) and alike > 0, alike, live)


def _alike(live: LiveBranch, opening: tuple[bytes, bytes]) -> int:
    return sum(map(bytes.__eq__, live.opening, opening))


def _runs(known: Sequence[LiveBranch], said: Sequence[bytes], opening: tuple[bytes, bytes]) -> Iterator[Match]:
    """Yield the branches that share a run of messages elsewhere: the client has compacted its history."""
    for live in known:
        if len(set(said).intersection(live.digests)) >= _LEAST_RUN:
            size = SequenceMatcher(None, live.digests, said, autojunk=False).find_longest_match().size
            if size >= _LEAST_RUN:
                yield Match(size, False, _alike(live, opening), live)  # noqa: FBT003


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
