"""A request as a turn: its messages with their notes, its bill and cache breakpoints, and its report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cupel.messages._history import ranges
from cupel.messages._prices import Change
from cupel.messages._reports import report_of
from cupel.messages._results import Turn, unsent_end

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cupel.messages._cut import MessageRequest
    from cupel.messages._engine import Conversation
    from cupel.messages._prices import Action, Bill, Prices, What
    from cupel.messages._state import Entry
    from cupel.messages._units import Message


@dataclass(frozen=True)
class TurnBuilder:
    """Turns a request into the messages to send, and everything that is said about it."""

    conversation: Conversation
    request: MessageRequest
    prices: Prices
    cut: MessageRequest | None
    """The newest request that was cut: this one, or the one that it appends to."""

    def build(self) -> tuple[Turn[Any], Bill]:
        """Return the turn and its bill."""
        request = self.request
        conversation, state = self.conversation, self.conversation.state
        common = self._common()
        sent = request.sent()
        marked = self._marked(common)
        bill = self._bill(common)
        is_append = common == len(state.last)
        action: Action = "append" if is_append else "cut"
        cut, budget = self.cut, conversation.budget
        turn = Turn[Any](
            lambda: report_of(conversation, request, cut),
            **request.described(sent, len(conversation.messages)),
            budget=min(budget.target_tokens, budget.max_tokens - budget.output_reserve),
            warning=conversation.warning or unsent_end(request.history),
            action=action,
            reason=self._reason(action, common, bill),
            changes=tuple(self._changes(is_append=is_append and bool(state.turns))),
            marks=tuple(number for number, one in enumerate(sent) if not marked.isdisjoint(one.positions)),
            bill=bill,
        )
        return turn, bill

    def _common(self) -> int:
        """Return how many of its first messages are those of the last request."""
        last, notes = self.conversation.state.last, self.request.notes
        for number, (entry, one) in enumerate(zip(last, self.request.messages, strict=False)):
            note = notes[one.at].note if one.at in notes else None
            same = (one.at, one.digest, one.tokens, one.limit, one.bare, note)
            if (entry.at, entry.digest, entry.tokens, entry.limit, entry.bare, entry.note) != same:
                return number
        return min(len(last), len(self.request.messages))

    def _is_cold(self) -> bool:
        state, opening = self.conversation.state, self.request.history.opening
        return not state.turns or self.conversation.is_cold or state.opening != opening.digest

    def _bill(self, common: int) -> Bill:
        """Estimate the cost of a request that begins with some messages of the last one."""
        state, opening = self.conversation.state, self.request.history.opening.tokens
        sent = new = opening + self.request.tokens
        if state.turns:
            new = sum(one.tokens for one in self.request.messages if one.at >= state.seen)
        same = 0 if self._is_cold() else opening + sum(entry.size for entry in state.last[:common])
        return self.prices.estimate(same=same, sent=sent, new=new)

    def _reason(self, action: Action, common: int, bill: Bill) -> str:
        state = self.conversation.state
        if not state.turns:
            return "the first request"
        cold = "; the cache is cold" if self._is_cold() else ""
        if action == "append":
            return f"everything in the last request stays{cold}"
        kept = f"{common} of {len(state.last)} messages of the last request keep their place"
        return f"{kept}, {bill.rewritten + bill.new:,} tokens are written{cold}"

    def _marked(self, common: int) -> set[int]:
        """Return the messages to set cache breakpoints after: the last, the common prefix, and the opening."""
        messages, options = self.request.messages, self.conversation.reader.options
        has_opening = options.system is not None or bool(options.tools)
        limit = self.prices.marks - max(self.request.history.opening.marks, int(has_opening))
        opening = next((n for n, one in enumerate(messages) if one.role != "system"), len(messages)) - 1
        places = dict.fromkeys(place for place in (len(messages) - 1, common - 1, opening) if place >= 0)
        return {messages[place].at for place in [*places][: max(0, limit)]}

    def _changes(self, *, is_append: bool) -> Iterator[Change]:
        """Yield the changes since the last request; of a first one, everything that it leaves out or shortens."""
        state, history = self.conversation.state, self.request.history
        before: Mapping[int, Entry] = {entry.at: entry for entry in state.last}
        after = {one.at: one for one in self.request.messages}
        if is_append:  # then only new messages can differ
            before = {}
        for index, unit in enumerate(history.units):
            if is_append and unit.places[-1] < state.seen:
                continue
            if unit.rejection is not None and before.keys().isdisjoint(history.places(index)):
                continue
            messages = history.of(index)
            is_new = not state.turns or messages[-1].at >= state.seen
            was = [before[one.at] for one in messages if one.at in before]
            now = [after[one.at] for one in messages if one.at in after]
            whole = sum(one.tokens for one in messages) if (was or now or is_new) else 0
            change = _change(
                messages, sum(entry.tokens for entry in was), sum(one.tokens for one in now), whole, is_new
            )
            if change is not None:
                yield change


def _change(messages: Sequence[Message], was: int, now: int, whole: int, is_new: bool) -> Change | None:  # noqa: FBT001
    """Return how a unit differs from the last request; None if it does not."""
    places = [one.at for one in messages]
    tools = ", ".join(dict.fromkeys(tool for one in messages for tool in one.tools))
    label = ranges(places) + (f" ({tools})" if tools else "")
    if now and was and now != was:
        what: What = "shortened" if now < was else "restored"
        return Change(what=what, label=label, positions=tuple(places), tokens=now, before=was)
    if was and not now:
        return Change(what="evicted", label=label, positions=tuple(places), tokens=was, before=was)
    if now and not was and not is_new:
        return Change(what="recalled", label=label, positions=tuple(places), tokens=now, before=whole)
    if is_new and not now and whole:
        return Change(what="evicted", label=label, positions=tuple(places), tokens=whole, before=whole)
    if is_new and not was and now < whole:
        return Change(what="shortened", label=label, positions=tuple(places), tokens=now, before=whole)
    return None
