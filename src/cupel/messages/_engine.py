"""The decision on one request: the history, or the last request with the new messages, or a cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

from cupel._internal.text import plural
from cupel.messages._cut import Cut, MessageRequest, Reach, Room
from cupel.messages._forms import Forms
from cupel.messages._gaps import NOTES_SHARE, Last, PlacedNote, counted_id, find_gaps, placed_again, write_notes
from cupel.messages._history import opening_of, read_history
from cupel.messages._ids import noted_step
from cupel.messages._notes import OmittedStep, note_text, signatures, told, with_note
from cupel.messages._plain import is_sequence
from cupel.messages._present import Present
from cupel.messages._results import nothing_to_send
from cupel.messages._state import Entry, State
from cupel.messages._units import NO_RESULT
from cupel.model import ContextBudget
from cupel.pipeline import effective_budget

if TYPE_CHECKING:
    from cupel.messages._cut import CutTerms
    from cupel.messages._gaps import Note
    from cupel.messages._history import History
    from cupel.messages._reading import HistoryReader
    from cupel.messages._units import Message

_CHUNK: Final = 32
"""Messages that are read at once on the way back from the end of a history."""
_FAR: Final = 4
_BEGINNING: Final = 3
"""A history that keeps fewer of the last request's messages, such as the system prompt alone, begins in another way."""
_SIGNATURES: Final = 100
"""Notes that are recognised when they come back in a stored history."""
_COLD_SHARE: Final = 0.8
"""A request that takes more of the room than this is cut early, if the provider's cache has forgotten it anyway."""


@dataclass(frozen=True)
class Conversation:
    """One turn of a conversation, before it is decided; without a memory (`fit`), its state is that of a new one."""

    messages: Sequence[Any]
    """The history."""
    reader: HistoryReader
    terms: CutTerms
    budget: ContextBudget
    state: State
    is_cold: bool = False
    """Whether the provider has forgotten the last request: its time to live is over."""

    def request(self) -> MessageRequest | Cut:
        """Return the request, or the cut that has to be made."""
        if not is_sequence(self.messages):
            read_history(self.messages, self.reader)  # raises
        if self.reader.ids is not None:
            self.reader.ids.follow(self.messages, self.state.seen if self._continues else 0)
        history = read_history(self.messages, self.reader, view := self._continued_view())
        if view is not None and not history.sendable():
            history = read_history(self.messages, self.reader)
        if self.reader.options.framework is None and not history.sendable():
            raise nothing_to_send(history)
        return self._continued(history) or self._cut(history)

    @cached_property
    def warning(self) -> str:
        """What is probably wrong with the history, if it does not continue the last one; empty, if it does."""
        now, before = len(self.messages), self.state.seen
        if now < before:
            return (
                f"the history has {plural(now, 'message')}, the last one had {before:,}: unless the conversation went "
                f"back, pass the whole history to fit, not only the new messages"
            )
        last = len(self.state.last)  # its newest message may have grown
        if last and len(self.kept) < max(1, min(_BEGINNING, last - 1)):
            return (
                f"the history has {plural(now, 'message')} and does not begin like the last one, which had {before:,}: "
                f"hardly anything of the last request is read from the cache; pass the whole history to fit, unchanged"
            )
        return ""

    @cached_property
    def kept(self) -> tuple[Entry, ...]:
        """The first messages of the last request, up to the first that is not in the history as it was."""
        last = [entry for entry in self.state.last if entry.at < len(self.messages)]
        if not last:
            return ()
        read = self.reader.read(self.messages, [entry.at for entry in last], more=True)
        pairs = enumerate(zip(last, read, strict=True))
        return tuple(last[: next((n for n, (one, now) in pairs if one.digest != now.digest), len(last))])

    @cached_property
    def _continues(self) -> bool:
        """Whether the history is that of the last request with new messages at its end."""
        return len(self.messages) >= self.state.seen and len(self.kept) == len(self.state.last) > 0

    @cached_property
    def _waiting(self) -> set[int]:
        return {at for at in self.state.waiting if at < len(self.messages)}

    def _continued_view(self) -> list[int] | None:
        """Return the positions of the last request and of the new messages; None to read the whole history."""
        if not self._continues:
            return None
        start = self.kept[-1].at + 1
        new = range(start, len(self.messages))
        positions = sorted({entry.at for entry in self.kept} | self._waiting | {*new})
        if len(positions) == len(self.messages):
            return None
        tokens = sum(one.tokens for one in self.reader.read(self.messages, new, more=True))
        fits_again = self.state.whole + tokens <= self.room(opening_of(self.reader).tokens).soft
        return None if fits_again else positions

    def room(self, opening_tokens: int) -> Room:
        """Return the room for messages that the budget leaves beside tools and system prompt."""
        window = self.budget.max_tokens - self.budget.output_reserve
        return Room(
            window=min(self.budget.target_tokens, window),
            hard=window - opening_tokens,
            soft=effective_budget(self.budget, opening_tokens).target_tokens,
        )

    def _continued(self, history: History) -> MessageRequest | None:
        """Return the last request with the new messages after it, or the whole history; None if that cannot be sent."""
        room = self.room(history.opening.tokens)
        sendable = history.sendable()
        if not sendable or history.rules.drop_violations({*sendable}):
            return None
        whole = _tokens(history, room.soft)
        is_complete = sum(one.at >= 0 for one in history.messages) == len(self.messages)
        messages: list[Message] | None
        if is_complete and whole <= room.soft:
            messages, notes = [one for index in sendable for one in history.of(index)], self._notes_of(history, {})
        elif not self.kept:
            return None
        else:
            messages = self._appended(history, room)
            notes = None if messages is None else self._notes_of(history, self._restored(history))
        if messages is None or notes is None:
            return None
        messages = self.bound(history, sorted(messages, key=lambda one: one.at), notes)
        request = MessageRequest(history=history, messages=tuple(messages), notes=notes)
        full = _COLD_SHARE if self.is_cold and whole > room.soft else 1.0
        return request if request.tokens <= full * room.soft else None

    def _appended(self, history: History, room: Room) -> list[Message] | None:
        """Return the messages of the last request as they were sent, and the new ones, long outputs cut."""
        again = {entry.at for entry in self.kept if entry.called_again}
        forms = self._forms(history, again)
        kept = {entry.at: entry for entry in self.kept}
        start = self.kept[-1].at + 1 if self.kept else 0
        new = sum(one.tokens for one in history.messages if one.at >= start)
        excess = sum(entry.size for entry in self.kept) + new - self.terms.filled(room)
        present = Present(history=history, forms=forms, room=room.soft, excess=excess)
        found: list[Message] = []
        for index in history.sendable():
            limit = present.base(index) if history.places(index)[-1] >= start else None
            for one in history.of(index):
                entry = kept.pop(one.at, None)
                if entry is None and one.at < start:
                    return None  # it could not be sent before
                if entry is None:
                    sent = one if limit is None else forms.message(one, limit)
                else:
                    is_whole = entry.limit is None and not entry.bare
                    sent = one if is_whole else forms.message(one, entry.limit, bare=entry.bare, asked=entry.asked)
                if sent is None or (entry is not None and sent.tokens != entry.tokens):
                    return None
                found.append(sent)
        return None if kept else found

    def _restored(self, history: History) -> dict[int, PlacedNote] | None:
        """Return the notes of the last request; None if the history no longer has the steps that they tell of."""
        found: dict[int, PlacedNote] = {}
        for entry in self.kept:
            if (note := entry.note) is None:
                continue
            known = self.reader.notes.get(entry.at)
            placed = known if known is not None and known.note == note else self._placed(note, history)
            if placed is None:
                return None
            found[entry.at] = placed
        return found

    def _placed(self, note: Note, history: History) -> PlacedNote | None:
        """Return a note that another process wrote, written again from the steps that have a line."""
        name = counted_id(self.reader.ids, (), note.newest)
        text = note_text(note.steps, note.words, name) if note.words else self._text(note)
        found = None if text is None else placed_again(text, note, history.counter)
        return found or placed_again(note_text(note.steps, name=name), note, history.counter)

    def _text(self, note: Note) -> str | None:
        names, steps = Counter(note.names), list[OmittedStep]()
        for places in note.lines:
            if places[-1] >= len(self.messages):
                return None
            steps.append(noted_step(self.reader.read(self.messages, places, more=True), self.reader))
            names.subtract(steps[-1].names)
        return note_text(note.steps, told(+names, steps, counted_id(self.reader.ids, note.lines, note.newest)))

    def _notes_of(self, history: History, before: Mapping[int, PlacedNote] | None) -> dict[int, PlacedNote] | None:
        """Return the notes of a request that is not cut: those that it had, and on new messages that cannot be sent."""
        if before is None:
            return None
        start = self.kept[-1].at + 1 if self.kept and before else 0
        notes = dict(before)
        if self.terms.notes and any(unit.rejection and unit.places[0] >= start for unit in history.units):
            sent = {index: history.of(index) for index in history.sendable() if history.places(index)[0] >= start}
            gaps = find_gaps(history, sent, Last(), separate=history.options.framework is None, start=start)
            limit = self.room(history.opening.tokens).window // NOTES_SHARE
            notes |= write_notes(gaps, history.counter, limit, self.reader.ids)
        return notes

    def whole(self, history: History) -> int:
        """Return the tokens of the whole history; of one that is far longer than a request, those of its newest part.

        They say whether the history fits again, if a request may be longer than before.
        """
        if self._continues:
            return self.state.whole + sum(one.tokens for one in history.messages if one.at >= self.state.seen)
        total, at = 0, len(self.messages)
        while at > 0 and total <= _FAR * self.budget.max_tokens:
            start = max(0, at - _CHUNK)
            total += sum(one.tokens for one in self.reader.read(self.messages, range(start, at), more=True))
            at = start
        return total

    def _cut(self, history: History) -> Cut:
        """Return the cut of the history: it may keep what was in the last request, and select from the newest steps."""
        room = self.room(history.opening.tokens)
        is_complete = sum(one.at >= 0 for one in history.messages) == len(self.messages)
        last = Last()
        if self.kept:
            # A history that goes back is read as a whole, so what was omitted is counted anew.
            told = self.kept if self._continues else ()
            notes = {entry.at: entry.note for entry in told if entry.note is not None}
            last = Last({entry.at for entry in self.kept}, notes)
            if not is_complete and history.options.thinking == "bound":
                start = min(self._recent(room), self.kept[-1].at + 1)
                positions = {entry.at for entry in self.kept} | self._waiting | {*range(start, len(self.messages))}
                history = read_history(self.messages, self.reader, sorted(positions))
                is_complete = True
        if not is_complete:
            history = read_history(self.messages, self.reader)
        if _tokens(history, room.soft) > room.soft:
            history.drop_stale()
        return Cut(history, self.terms, room, last, self.messages)

    def _recent(self, room: Room) -> int:
        """Return the position from which on steps can be selected; no unit lies on both sides of it."""
        reach, at = Reach(room.window), len(self.messages)
        running: set[str] = set()
        while at > 0:
            start = max(0, at - _CHUNK)
            read = self.reader.read(self.messages, range(max(0, start - 1), at), more=True)
            for one, before in pairwise(reversed(read)):
                running = (running | {*one.ended, *one.within}) - {*one.begun}
                if reach.is_passed and not running and _begins(one, before):
                    return one.at
                if not reach.is_passed:
                    reach.add(one.tokens)
            at = start
        return 0

    def _forms(self, history: History, called_again: set[int]) -> Forms:
        return Forms(history, self.terms.shortener, called_again=called_again, source=self.messages)

    def bound(self, history: History, messages: Sequence[Message], notes: Mapping[int, PlacedNote]) -> list[Message]:
        """Return messages with the thinking that is still bound to what comes before it, and without any other.

        A block stays if everything before it is what was sent when it was written. Messages that are new, or of which
        nothing is remembered, are taken to have been sent as they are, up to the first that this request changes.
        """
        if history.options.thinking != "bound":
            return list(messages)
        same = self._unchanged(history, messages, notes)
        last = self.state.last
        whole = {one.at: one for one in history.messages}
        again = {one.at for one in messages if one.called_again}
        forms = self._forms(history, again)
        found: list[Message] = []
        for number, one in enumerate(messages):
            stays = number < same and not (number < len(last) and last[number].bare)
            sent = (
                one if one.bare != stays else forms.message(whole[one.at], one.limit, bare=not stays, asked=one.asked)
            )
            if sent is not None:
                found.append(sent)
        return found

    def _unchanged(self, history: History, messages: Sequence[Message], notes: Mapping[int, PlacedNote]) -> int:
        """Return how many of the first messages are as they were when the model wrote what comes after them."""
        last = self.state.last
        if self.state.turns and history.opening.digest != self.state.opening:
            return 0
        pairs = enumerate(zip(last, messages, strict=False))
        same = next((n for n, (entry, one) in pairs if not _is_same(entry, one, notes.get(one.at))), len(last))
        if same < len(last):
            return same
        before = last[-1].at if last else -1
        for one in messages[same:]:
            if one.at > max(before + 1, self.state.seen) or one.limit is not None or one.at in notes:
                break
            before, same = one.at, same + 1
        return same


def _tokens(history: History, enough: int) -> int:
    """Return the tokens of the messages that can be sent, counted from the end until there are more than enough."""
    total = 0
    for index in reversed(history.sendable()):
        total += sum(one.tokens for one in history.of(index))
        if total > enough:
            break
    return total


def _is_same(entry: Entry, message: Message, placed: PlacedNote | None) -> bool:
    """Return whether a message is as the last request had it, but for its thinking."""
    note = None if placed is None else placed.note
    return (entry.at, entry.digest, entry.limit, entry.note) == (message.at, message.digest, message.limit, note)


def _begins(message: Message, before: Message) -> bool:
    """Return whether no unit holds a message and one before it, as long as no work of the provider's is running."""
    if message.results or message.is_output or message.role == "system":
        return False
    return bool(before.results) or before.is_output or (message.role == "user" and not before.calls)


def entries_of(request: MessageRequest) -> tuple[Entry, ...]:
    """Return what a session remembers of a request."""
    notes = request.notes
    return tuple(
        Entry(
            at=one.at,
            digest=one.digest,
            tokens=one.tokens,
            limit=one.limit,
            bare=one.bare,
            called_again=one.called_again,
            asked=one.asked,
            note=notes[one.at].note if one.at in notes else None,
        )
        for one in request.messages
    )


def signatures_in(request: MessageRequest, before: Sequence[str]) -> tuple[str, ...]:
    """Return the signatures of the newest texts with a note, those of a request last."""
    fmt = request.history.format
    views = {one.at: one.view for one in request.messages}
    written = (
        signatures(with_note(views[at], one.text, fmt) if one.note.in_result else fmt.user_message(one.text), fmt)
        for at, one in sorted(request.notes.items())
    )
    return tuple(dict.fromkeys([*before, *chain.from_iterable(written)]))[-_SIGNATURES:]


def waiting_in(request: MessageRequest) -> tuple[int, ...]:
    """Return the positions of messages that could not be sent yet, or that no note tells of."""
    history = request.history
    sent = {one.at for one in request.messages}
    unsent = (index for index, unit in enumerate(history.units) if unit.role != "system" and history.is_read(index))
    return tuple(
        at
        for index in unsent
        if history.units[index].rejection == NO_RESULT and sent.isdisjoint(history.places(index))
        for at in history.places(index)
    )


def with_bound_thinking(conversation: Conversation, request: MessageRequest) -> MessageRequest:
    """Return a cut request with the thinking that may stay, as long as the window has room for it."""
    room = conversation.room(request.history.opening.tokens)
    messages = conversation.bound(request.history, request.messages, request.notes)
    bound = replace(request, messages=tuple(messages))
    return bound if bound.tokens <= max(room.soft, request.tokens) else request
