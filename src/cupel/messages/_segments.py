"""A conversation as segments: units that are kept or evicted together, with their shorter forms."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from cupel._internal.checks import as_function, as_text
from cupel._planning import Entry
from cupel.errors import SelectionError
from cupel.messages._formats import OUTPUTS
from cupel.messages._notes import OmittedStep, Slot, can_hold_note, step_of
from cupel.messages._reuse import UsageTracker
from cupel.shorten import shorten

if TYPE_CHECKING:
    from cupel.messages._formats import Part
    from cupel.messages._history import History, Shorter
    from cupel.shorten import Shortener
    from cupel.tokens import TokenCounter

WHOLE: Final = ""
"""The form of a segment whose texts are all as they came; any other is named by the limit of its texts, in tokens."""
BEGUN: Final = "begun"
"""The form of an entry that has grown since it was sent."""
LONGEST_LIMIT: Final = 9
"""Digits of the largest limit that a form may have."""
PROSE: tuple[Part, ...] = ("prose",)
_LONGEST_QUESTION = 300
"""Characters of a message of the user that tells which lines of an output matter; a longer one matches too many."""

SegmentRole = Literal["step", "system", "talk", "user"]
"""A `step` holds calls with their outputs, `talk` is the assistant's words without a call."""


class MessageForm(NamedTuple):
    """A form of some messages: their tokens, and the messages that differ, by position."""

    tokens: int
    messages: Mapping[int, Shorter]


@dataclass(slots=True)
class Segment:
    """Units that are interleaved, as one candidate: their messages, and the forms that were made of them."""

    key: str
    units: tuple[int, ...]
    positions: tuple[int, ...]
    tokens: int
    role: SegmentRole
    has_user_words: bool
    outputs: Mapping[int, Collection[Part]]
    """Positions of the messages that hold outputs, and which texts of them are outputs."""
    sizes: Mapping[int, Sequence[int]]
    """Tokens of each output, by position."""
    trace: OmittedStep
    """The lines that a note gives to this segment where it is left out."""
    holder: int | None
    """Position of the output that a note can go into."""
    forms: dict[str, MessageForm] = field(default_factory=dict[str, MessageForm])

    def form(self, name: str) -> MessageForm:
        """Return a form by name; the whole differs in no message."""
        return self.forms[name] if name else MessageForm(self.tokens, {})

    @property
    def all_sizes(self) -> list[int]:
        """Tokens of each output, message after message."""
        return [size for sizes in self.sizes.values() for size in sizes]

    @property
    def slot(self) -> Slot:
        """Where a note goes that precedes this segment."""
        return Slot(self.positions[0], in_result=False) if self.holder is None else Slot(self.holder, in_result=True)

    def renumbered(self, positions: Mapping[int, int]) -> Segment:
        """Return the segment with new positions of its messages."""
        return replace(
            self,
            positions=tuple(positions[at] for at in self.positions),
            outputs={positions[at]: parts for at, parts in self.outputs.items()},
            sizes={positions[at]: sizes for at, sizes in self.sizes.items()},
            holder=None if self.holder is None else positions[self.holder],
            forms={
                name: MessageForm(form.tokens, {positions[at]: one for at, one in form.messages.items()})
                for name, form in self.forms.items()
            },
        )


def _asked_before(history: History, position: int) -> str | None:
    """Return the newest question of the user before a message: later ones must not change a form that was sent."""
    for at in range(position - 1, -1, -1):
        info = history.infos[at]
        if info.role == "user" and info.speaks and not history.parsed[at].is_output:
            asked = " ".join(info.texts).strip()
            return asked if 0 < len(asked) <= _LONGEST_QUESTION else None
    return None


class Segments:
    """Follows a history from turn to turn: its segments, their values, and their shorter forms.

    Everything here is a function of the history, so another process finds the same.
    """

    def __init__(self, forms: object, *, joined: bool = True) -> None:
        self._shortener: Shortener | None = None if forms is None or forms is False else as_function("forms", forms)
        """The caller's shortener; None for the built-in one."""
        self._shortens = forms is not False
        self.archived: list[OmittedStep] = []
        """Segments that no request will contain again, in order."""
        self._joined = joined
        """Whether units that are interleaved form one segment."""
        self._tracker = UsageTracker()
        self._known: dict[str, Segment] = {}
        self._order: list[int] = []
        """For each segment of the last turn its number among all segments."""

    def follow(self, history: History, origin: Sequence[int]) -> list[Segment]:
        """Return the segments of a history; only those that were not there before are looked at closely.

        Args:
            history: the messages that are still read.
            origin: their positions in the whole history.

        Raises:
            SelectionError: the archived segments do not belong to this history.
        """
        segments = self.split(history, origin)
        known = {segment.key: segment for segment in segments}
        order = sorted([*self.archived, *(segment.trace for segment in segments)])
        count = len(self._tracker.keys)
        if [step.key for step in order[:count]] != self._tracker.keys:
            if self.archived:
                msg = "the history is not a continuation of the one before"
                raise SelectionError(msg)
            self._tracker, count = UsageTracker(), 0
        for step in order[count:]:
            if step.key in known:
                shown, asked = _texts(known[step.key], history)
                self._tracker.add(step.key, known[step.key].tokens, shown=shown, asked=asked)
        self._order = [number for number, step in enumerate(order) if step.key in known]
        self._known = known
        return segments

    def values(self) -> list[float]:
        """Return the value of each segment to the conversation."""
        return self._tracker.values(self._order)

    def archived_before(self, segments: Sequence[Segment]) -> dict[int, list[OmittedStep]]:
        """Return the archived segments, by the index of the segment that they precede."""
        found: dict[int, list[OmittedStep]] = {}
        places = [segment.trace.position for segment in segments]
        for one in self.archived:
            found.setdefault(bisect(places, one.position), []).append(one)
        return found

    def archive(self, segments: Sequence[Segment], renumbered: Mapping[int, int]) -> None:
        """Archive some segments; the messages of the others have new positions from now on."""
        self.archived = sorted([*self.archived, *(segment.trace for segment in segments)])
        gone = {segment.key for segment in segments}
        self._known = {key: one.renumbered(renumbered) for key, one in self._known.items() if key not in gone}

    def shortened(self, segment: Segment, history: History, limit: int, parts: Collection[Part] | None = None) -> str:
        """Return the name of a segment's form with texts of at most `limit` tokens; the whole, if there is none.

        Outputs are shortened, or else the words of the user; if `parts` are given, these texts of all its messages.
        """
        name = str(limit) if parts in (None, OUTPUTS) else ":".join([str(limit), *parts])
        if name in segment.forms:
            return name
        which = segment.outputs if parts is None else dict.fromkeys(segment.positions, parts)
        if parts is None and segment.role == "user" and not segment.outputs and history.framework is None:
            which = dict.fromkeys(segment.positions, PROSE)
        elif parts in (None, OUTPUTS) and max(segment.all_sizes, default=0) <= limit:
            return WHOLE
        form = self._form(history, segment, limit, which) if self._shortens else None
        if form is None:
            return WHOLE
        segment.forms[name] = form
        return name

    def _form(
        self, history: History, segment: Segment, limit: int, parts: Mapping[int, Collection[Part]]
    ) -> MessageForm | None:
        """Return a segment with texts of at most `limit` tokens; None if none is shorter, or it cannot be sent."""
        query = _asked_before(history, segment.positions[0])
        messages: dict[int, Shorter] = {}
        tokens = segment.tokens
        for position, which in parts.items():
            texts = history.format.texts_in(history.parsed[position].view, which)
            forms = [self._text(text, limit, history.counter, query) for text in texts]
            if forms == texts:
                continue
            shorter = history.with_texts(position, forms, which)
            if shorter is not None and shorter.tokens < history.parsed[position].tokens:
                tokens -= history.parsed[position].tokens - shorter.tokens
                messages[position] = shorter
        return MessageForm(tokens, messages) if messages else None

    def _text(self, text: str, limit: int, counter: TokenCounter, query: str | None) -> str:
        if self._shortener is not None:
            form = as_text("the result of forms", self._shortener(text, limit))
            if counter.count(form) <= limit:
                return form or text
        return shorten(text, limit, counter=counter, query=query) or text

    def restore(self, segment: Segment, history: History, entry: Entry) -> bool:
        """Return whether the form that an entry names can be made again, with the same tokens."""
        if entry.form == WHOLE:
            return segment.tokens == entry.tokens
        if not (entry.form.isdecimal() and len(entry.form) <= LONGEST_LIMIT):
            return False
        name = self.shortened(segment, history, int(entry.form))
        return name == entry.form and segment.forms[name].tokens == entry.tokens

    def split(self, history: History, origin: Sequence[int]) -> list[Segment]:
        """Return the units that can be sent, those that are interleaved taken together; equal ones are numbered."""
        found: list[Segment] = []
        archived = iter([*self.archived, None])
        seen: dict[str, int] = {}
        older = next(archived)
        for units in _clusters(history, joined=self._joined):
            positions = tuple(history.positions(units))
            while older is not None and older.position < origin[positions[0]]:
                before = older.key.partition("#")[0]
                seen[before] = seen.get(before, 0) + 1
                older = next(archived)
            digest = digest_of(history, positions)
            seen[digest] = number = seen.get(digest, 0) + 1
            key = digest if number == 1 else f"{digest}#{number}"
            known = self._known.get(key)
            if known is None or known.positions != positions:
                known = _segment(key, units, positions, history, origin[positions[0]])
            found.append(known if known.units == units else replace(known, units=units))
        return found


def _segment(key: str, units: tuple[int, ...], positions: tuple[int, ...], history: History, origin: int) -> Segment:
    parsed, infos = history.parsed, history.infos
    observed = [at for at in positions if parsed[at].is_output]
    outputs: dict[int, Collection[Part]] = {at: OUTPUTS for at in positions if infos[at].results}
    outputs |= dict.fromkeys(observed, PROSE)
    spoken = any(infos[at].speaks and infos[at].role in ("user", "tool") and at not in observed for at in positions)
    roles = {history.units[unit].role for unit in units}
    role: SegmentRole = "talk"
    if "exchange" in roles or observed:
        role = "step"
    elif "user" in roles:
        role = "user"
    elif roles == {"system"}:
        role = "system"
    count, texts_in = history.counter.count, history.format.texts_in
    views = [parsed[at].view for at in positions]
    first = next((n for n, at in enumerate(positions) if infos[at].role == "assistant"), 0)
    return Segment(
        key,
        units,
        positions,
        tokens=sum(parsed[position].tokens for position in positions),
        role=role,
        has_user_words=spoken,
        outputs=outputs,
        sizes={at: [count(text) for text in texts_in(parsed[at].view, parts)] for at, parts in outputs.items()},
        trace=step_of(origin, key, views[first:], history.format, history.counter),
        holder=next((at for at in outputs if at in observed or can_hold_note(parsed[at].view, history.format)), None),
    )


def _clusters(history: History, *, joined: bool) -> list[tuple[int, ...]]:
    """Return the sendable units; if `joined`, interleaved ones and observations with their actions together."""
    clusters: list[list[int]] = []
    reach = -1
    for index, unit in enumerate(history.units):
        if unit.rejection is not None:
            continue
        observed = history.parsed[unit.positions[0]].is_output
        after = clusters and history.units[clusters[-1][-1]].closes in ("assistant", "tool")
        together = unit.positions[0] < reach or (observed and after and _acts(history, clusters[-1]))
        if joined and together:
            clusters[-1].append(index)
        else:
            clusters.append([index])
        reach = max(reach, unit.positions[-1])
    return [tuple(cluster) for cluster in clusters]


def _acts(history: History, cluster: Sequence[int]) -> bool:
    """Return whether a cluster began with the assistant: the next message observes its action."""
    return history.units[cluster[0]].opens == "assistant"


def digest_of(history: History, positions: Sequence[int]) -> str:
    """Return a hash of the messages at some positions."""
    return blake2b(b"".join(history.parsed[position].digest for position in positions), digest_size=12).hexdigest()


def _texts(segment: Segment, history: History) -> tuple[str, str]:
    """Return the texts of a segment, and the arguments of its calls."""
    infos = [history.infos[position] for position in segment.positions]
    shown = "\n".join(text for info in infos if not info.calls for text in info.texts)
    asked = "\n".join(text for info in infos if info.calls for text in info.texts)
    return shown, asked.replace("\\n", "\n").replace('\\"', '"')


def grown(last: Sequence[Entry], segments: Sequence[Segment], history: History) -> tuple[Entry, ...]:
    """Return the last request as it is seen now: where a segment has grown out of entries, one entry replaces them.

    A question that was sent with its first calls becomes one segment with more calls and the answer, if the user and
    the assistant must take turns.
    """
    now, then = {segment.key for segment in segments}, {entry.key for entry in last}
    start = next((at for at, entry in enumerate(last) if entry.key not in now), len(last))
    unknown = last[start:]
    fresh = [segment for segment in reversed(segments) if segment.key not in then] if unknown else []
    counts = [_beginning(segment, unknown, history) for segment in fresh]
    count = max(counts, default=0)
    if not count:
        return tuple(last)
    begun = Entry(fresh[counts.index(count)].key, BEGUN, sum(entry.size for entry in unknown[:count]))
    return (*last[:start], begun, *unknown[count:])


def _beginning(segment: Segment, entries: Sequence[Entry], history: History) -> int:
    """Return how many entries, sent whole one after the other, are the first messages of a segment."""
    start = 0
    for count, entry in enumerate(entries):
        digest = entry.key.partition("#")[0]
        ends = range(start + 1, len(segment.positions))
        end = next((end for end in ends if digest_of(history, segment.positions[start:end]) == digest), None)
        if end is None or entry.form != WHOLE or entry.steps:
            return count
        start = end
    return len(entries)


def level(sizes: Sequence[int], allowed: int) -> int:
    """Return the limit at which texts of these sizes, each cut to it, take no more than is allowed; at least 1."""
    ordered = sorted(sizes)
    for done, size in enumerate(ordered):
        share = allowed // (len(ordered) - done)
        if size > share:
            return max(1, share)
        allowed -= size
    return max([1, *ordered])
