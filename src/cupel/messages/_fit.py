"""Fitting a history into a budget: the pipeline's selection, made valid."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from cupel._internal.checks import as_flag, suggesting
from cupel._internal.columns import descending
from cupel.diagnostics import (
    BudgetExceeded,
    ExcludedItem,
    Filtered,
    IncludedItem,
    InclusionReason,
    PinnedOverride,
    SelectionReport,
)
from cupel.messages._formats import OUTPUTS, checked_parts
from cupel.messages._gaps import Gaps
from cupel.messages._history import Options, read_history
from cupel.messages._notes import NOTES_SHARE
from cupel.messages._present import MESSAGE_FRAME, Present
from cupel.messages._results import Fitted, dropped_from, too_large
from cupel.messages._segments import Segments
from cupel.model import ContextBudget, ContextItem, ContextKind, OverflowStrategy
from cupel.pipeline import Pipeline, effective_budget
from cupel.scorers import RecencyScorer
from cupel.slicers import BestFirstSlice

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from cupel.messages._formats import Part, Provider
    from cupel.messages._formats.media import ImageTokens
    from cupel.messages._gaps import PlacedNote
    from cupel.messages._history import History
    from cupel.messages._present import Held
    from cupel.messages._rules import SystemMessages
    from cupel.messages._segments import Segment
    from cupel.shorten import Shortener
    from cupel.tokens import TokenCounter


M = TypeVar("M")

_SHORT, _SHORT_PARTS = 300, 20
"""The short form of an older text has at most this many tokens, or this fraction of the room if that is more."""
_SHRINKS = 0.85
"""A form that keeps more of the tokens is not worth changing a message for."""
_ATTEMPTS = 5
"""How many selections are compared at most."""


@suggesting(
    max_tokens="the budget is the second argument, fit(messages, 8000)",
    model="pass counter= to count tokens as a model does",
    keep="only a MessageSession has it",
    note="only a MessageSession has it; notes=False adds no notes",
)
def fit(
    messages: Sequence[M],
    budget: int | ContextBudget,
    policy: Pipeline | None = None,
    counter: TokenCounter | None = None,
    tools: Sequence[object] | None = None,
    *,
    provider: Provider | None = None,
    system: object = None,
    pin: Callable[[M], bool] | None = None,
    image_tokens: ImageTokens | None = None,
    alternate: bool = False,
    system_messages: SystemMessages = "keep",
    query: str | None = None,
    forms: Shortener | bool | None = None,
    parts: Collection[Part] = OUTPUTS,
    notes: bool = True,
) -> Fitted[M]:
    """Return the part of a provider's chat history that fits a budget and that the provider will accept.

    A history that fits is returned whole. Otherwise calls stay with their results, reasoning with the items that it led
    to, and the first message is the user's. System prompts, the newest user message and results that the model has not
    seen yet are always kept; all user messages and the newest steps are kept while they fit. Where steps are omitted, a
    note lists them: `[cupel: 2 earlier steps omitted here: …]`. If mandatory messages do not fit, an error names them.

    Args:
        messages: chat-completions messages, Responses items, Anthropic messages, Converse messages of Bedrock or
            contents of Gemini, as dicts or as SDK objects.
        budget: the tokens of the request, or a budget with a reserve for the answer.
        policy: how the other messages are ranked and chosen; without one, the newest win.
        counter: how tokens are counted; without one, by `cupel.tokens.default_counter()`.
        tools: the tools of the request, which are counted.
        provider: the format of the messages, recognised unless it is named.
        system: the system prompt that is a separate parameter, as Anthropic's, which is counted.
        pin: a function of a message that returns True for those to keep.
        image_tokens: the cost of an image: a number, or a function of its size; without it, the rules published for
            GPT-4o and for Claude 4.
        alternate: whether the user and the assistant must take turns; neighbouring messages of the user are merged.
        system_messages: which system messages after the opening ones stay: `"keep"` all, let them `"compete"`, or the
            number of the newest that stay.
        query: the text that a policy that scores by relevance looks for, by default the newest user message.
        forms: long tool outputs that must be sent are shortened where they do not fit, in copies, which
            `Fitted.shortened` names. With True, or a shortener of your own, older ones may be sent shorter too; with
            False, none is.
        parts: the texts of older messages that `forms` may shorten: `"outputs"`, `"prose"`, the words of the user and
            the assistant, and `"arguments"`, the strings in calls, which stay JSON. Texts beside reasoning keep their
            words.
        notes: whether notes on omitted steps are added, in copies of the messages that hold them.

    >>> history = [
    ...     {"role": "system", "content": "Answer in one sentence."},
    ...     {"role": "user", "content": "What is in the log? " + "Please look closely. " * 50},
    ...     {"role": "assistant", "content": "Nothing unusual."},
    ...     {"role": "user", "content": "And in the other one?"},
    ... ]
    >>> fitted = fit(history, 60)
    >>> [message["role"] for message in fitted.messages]
    ['system', 'user']
    >>> fitted.messages[0] is history[0], fitted.dropped[0].reason.name
    (True, 'BudgetExceeded')
    """
    options = Options(
        provider=provider,
        counter=counter,
        system=system,
        tools=tools,
        pin=pin,
        image_tokens=image_tokens,
        alternate=alternate,
        system_messages=system_messages,
    )
    return fit_history(
        read_history(messages, options),
        budget,
        policy,
        query=query,
        forms=forms,
        parts=checked_parts(parts),
        notes=notes,
    )


def newest_first() -> Pipeline:
    """Return the default for `fit`: the newest units that fit, whole; nothing is deduplicated.

    Repeated messages are normal in a conversation, so equal messages all stay candidates.

    >>> newest_first().name
    'newest-first'
    """
    return Pipeline(
        scorer=RecencyScorer(),
        slicer=BestFirstSlice(),
        deduplicate=False,
        overflow=OverflowStrategy.TRUNCATE,
        name="newest-first",
    )


def fit_history(
    history: History,
    budget: int | ContextBudget,
    policy: Pipeline | None,
    *,
    query: str | None,
    forms: Shortener | bool | None,
    parts: tuple[Part, ...] = OUTPUTS,
    notes: bool = True,
) -> Fitted[Any]:
    """Return the part of a history that fits a budget."""
    writes = history.framework is None or history.framework.with_outputs is not None
    source = Segments((None if forms is True else forms) if writes else False, joined=False)
    task = FitTask(history, ContextBudget.of(budget), source, has_notes=as_flag("notes", notes) and writes)
    pipeline = Pipeline.of(newest_first() if policy is None else policy).bind(
        history.asked() if query is None else query
    )
    history.drop_stale(task.room)
    items = history.items(task.room)
    pinned = task.with_pins(items, pipeline)
    pipeline = replace(pipeline, pins=())
    if task.fits(pinned):
        return task.fitted(pinned, task.select(pinned, pipeline), {})
    held = task.held({unit for unit, item in enumerate(pinned) if item.pinned})
    shorter = held | (task.shorter(items, held, parts) if forms not in (None, False) else {})
    units = {unit for at in held for unit in task.segments[at].units}
    short = task.shortened(items, shorter, units)
    outcome = task.select(short, pipeline, units)
    # The notes on the omitted steps need room as well.
    written = task.notes(outcome, task.note_limit)
    reserve = min(sum(map(task.gaps.tokens, written.values())), task.room - sum(short[unit].tokens for unit in units))
    if reserve > 0:
        outcome = task.without(reserve).select(short, pipeline, units)
    return task.fitted(items, outcome, shorter)


@dataclass(frozen=True)
class FitTask:
    """One call of `fit`: a history, the request's fixed costs, and the window that they must fit."""

    history: History
    window: ContextBudget
    source: Segments
    """Makes the shorter forms."""
    has_notes: bool
    """Whether omitted steps are noted."""

    @property
    def available(self) -> int:
        """Tokens that a request may have at most."""
        return self.window.max_tokens - self.window.output_reserve

    @property
    def room(self) -> int:
        """Tokens for messages: the target of the window, less the fixed costs."""
        return min(self.window.target_tokens, self.available) - self.history.fixed_tokens

    @property
    def soft_room(self) -> int:
        """Tokens for messages that need not be sent: the room less the safety margin and reserved slots."""
        return effective_budget(self.window, self.history.fixed_tokens).target_tokens

    @property
    def note_limit(self) -> int:
        """Tokens that all notes together may take."""
        return self.available // NOTES_SHARE if self.has_notes else 0

    @cached_property
    def segments(self) -> Sequence[Segment]:
        """The units that can be sent."""
        return self.source.split(self.history, range(len(self.history.messages)))

    @cached_property
    def gaps(self) -> Gaps:
        """Finds omitted steps and writes the notes on them."""
        separate = self.history.framework is None  # a framework's message cannot be created
        return Gaps(segments=self.segments, counter=self.history.counter, separate=separate)

    def with_pins(self, items: list[ContextItem], pipeline: Pipeline) -> list[ContextItem]:
        """Return the items; also pin those that the pipeline's rules pin, the newest first, while they fit.

        Mandatory units have their place already. Others may be old tool outputs larger than the window: they compete.
        """
        left = self.room - sum(item.tokens for item in items if item.pinned)
        held = list(items)
        for index in sorted(pipeline.pinned(items), reverse=True):
            if not items[index].pinned and self.history.units[index].rejection is None and items[index].tokens <= left:
                left -= items[index].tokens
                held[index] = msgspec.structs.replace(items[index], pinned=True)
        return held

    def fits(self, items: Sequence[ContextItem]) -> bool:
        """Return whether everything that can be sent fits whole."""
        sendable = [item for unit, item in zip(self.history.units, items, strict=True) if unit.rejection is None]
        pinned = sum(item.tokens for item in (*self.history.fixed, *sendable) if item.pinned)
        loose = sum(item.tokens for item in sendable if not item.pinned)
        if pinned > self.available:
            return False
        return not loose or loose <= effective_budget(self.window, pinned).target_tokens

    def held(self, pinned: set[int]) -> Held:
        """Return the segments that are sent whatever their score, and their forms; raise if the least does not fit.

        Units that the policy has `pinned` are held where they fit.
        """
        rules, segments = self.history.rules, self.segments
        others = frozenset(at for at, segment in enumerate(segments) if pinned.issuperset(segment.units))
        present, hard = self._present(self.soft_room), self._present(self.available - self.history.fixed_tokens)
        levels = (present.levels(others), present.levels(), hard.least())
        for held in chain.from_iterable(levels) if hard.room >= 0 else ():
            units = {unit for at in held for unit in segments[at].units}
            if not rules.drop_violations(units, units):
                return held
        must = sorted(unit for at in hard.needed(set()) for unit in segments[at].units)
        raise too_large(self.history, self.available, must)

    def _present(self, room: int) -> Present:
        total = sum(segment.tokens for segment in self.segments)
        return Present(history=self.history, source=self.source, segments=self.segments, room=room, excess=total)

    def shorter(self, items: Sequence[ContextItem], held: Held, parts: tuple[Part, ...]) -> Held:
        """Return short forms of older segments with long texts; the newest one and mandatory ones keep their words."""
        found: Held = {}
        limit = max(_SHORT, self.room // _SHORT_PARTS)
        for at, segment in enumerate(self.segments[:-1]):
            if items[segment.units[0]].pinned or held.get(at):
                continue
            fixed = any(self.history.infos[position].is_fixed for position in segment.positions)
            which = OUTPUTS if fixed or self.history.framework is not None else parts
            name = self.source.shortened(segment, self.history, limit, which)
            if segment.form(name).tokens <= _SHRINKS * segment.tokens:
                found[at] = name
        return found

    def shortened(self, items: Sequence[ContextItem], forms: Held, held: AbstractSet[int]) -> list[ContextItem]:
        """Return the items with the sizes of shorter segments; those that are held are pinned, and no others."""
        found = list(items)
        for at, name in forms.items():
            (unit,) = self.segments[at].units
            found[unit] = self._shortened_item(items[unit], at, name)
        return [msgspec.structs.replace(item, pinned=unit in held) for unit, item in enumerate(found)]

    def _shortened_item(self, item: ContextItem, at: int, name: str) -> ContextItem:
        segment = self.segments[at]
        return self.history.shortened(item, segment.positions, segment.form(name).messages) if name else item

    def without(self, tokens: int) -> FitTask:
        """Return the task with a smaller window."""
        target = max(0, min(self.window.target_tokens, self.available) - tokens)
        return replace(self, window=msgspec.structs.replace(self.window, target_tokens=target))

    def left(self, outcome: Attempt) -> int:
        """Return the tokens that an outcome leaves free."""
        pinned = sum(item.tokens for item in (*self.history.fixed, *outcome.items) if item.pinned)
        taken = sum(outcome.items[unit].tokens for unit in outcome.kept if not outcome.items[unit].pinned)
        free = effective_budget(self.window, pinned).target_tokens - taken
        return max(0, min(free, self.soft_room - outcome.tokens))

    def notes(self, outcome: Attempt, left: int) -> dict[int, PlacedNote]:
        """Return the notes on the units that an outcome leaves out, within `left` tokens."""
        kept = {*outcome.kept}
        if not self.has_notes or all(unit.rejection or at in kept for at, unit in enumerate(self.history.units)):
            return {}
        gaps = self.gaps.between([at for at, segment in enumerate(self.segments) if kept.issuperset(segment.units)])
        return self.gaps.written(gaps, min(self.note_limit, left - MESSAGE_FRAME * len(gaps)))

    def fitted(self, items: Sequence[ContextItem], outcome: Attempt, forms: Held) -> Fitted[Any]:
        """Return the request of an outcome, with notes on omitted steps, and texts made longer where there is room."""
        left = self.left(outcome)
        notes = [placed for _, placed in sorted(self.notes(outcome, left).items())]
        kind = ContextKind("Note")
        noted = [ContextItem(one.text, self.gaps.tokens(one), kind=kind, pinned=True) for one in notes]
        left -= sum(item.tokens for item in noted)
        report, forms = self._lengthened(items, outcome, forms, left)
        report = replace(
            report,
            included=(*(IncludedItem(item, 1.0, InclusionReason.PINNED) for item in noted), *report.included),
            excluded=_with_true_reasons(report.excluded, left),
            total_candidates=report.total_candidates + len(noted),
            total_tokens_considered=report.total_tokens_considered + sum(item.tokens for item in noted),
        )
        shorter = {at: one for i, name in forms.items() for at, one in self.segments[i].form(name).messages.items()}
        kept = self.history.positions(outcome.kept)
        sent = self.history.request(kept, shorter, {one.slot: one.text for one in notes})
        return Fitted(
            messages=[one.message for one in sent],
            report=report,
            total_tokens=sum(entry.item.tokens for entry in report.included),
            dropped=dropped_from(self.history, report, outcome.items),
            provider=self.history.format.name,
            shortened=tuple(sorted(shorter.keys() & {*kept})),
            positions=tuple(one.position for one in sent),
            notes=tuple(one.text for one in notes),
        )

    def _lengthened(
        self, items: Sequence[ContextItem], outcome: Attempt, forms: Held, left: int
    ) -> tuple[SelectionReport, Held]:
        """Make shorter segments longer where there is room, the best first; return the report with their new sizes."""
        report, longer = outcome.report(), dict(forms)
        short = {id(outcome.items[self.segments[at].units[0]]): at for at, name in forms.items() if name}
        present, newer = self._present(self.room), dict[int, ContextItem]()
        included = [entry for entry in report.included if id(entry.item) in short]
        for entry in sorted(included, key=lambda entry: (-entry.score, -short[id(entry.item)])):
            at = short[id(entry.item)]
            name = present.lengthened(at, forms[at], left)
            if name != forms[at]:
                longer[at] = name
                item = newer[id(entry.item)] = self._shortened_item(items[self.segments[at].units[0]], at, name)
                left -= item.tokens - entry.item.tokens
        entries = (IncludedItem(newer.get(id(one.item), one.item), one.score, one.reason) for one in report.included)
        return replace(report, included=tuple(entries)), longer

    def select(self, items: Sequence[ContextItem], pipeline: Pipeline, held: AbstractSet[int] | None = None) -> Attempt:
        """Return the best valid selection; the pinned items fit."""
        must = {unit: item.tokens for unit, item in enumerate(items) if item.pinned}
        keep = {*must} if held is None else {*held}
        barred = {index: unit.rejection for index, unit in enumerate(self.history.units) if unit.rejection is not None}
        outcome = self._run(items, pipeline, barred, keep)
        outcomes = [outcome]
        # Units may have to go because others are missing. Perhaps those are worth their tokens: pin them, and compare.
        costs = [item.tokens for item in items]
        room = self.room - sum(must.values())
        wanted = self.history.rules.complete(outcome.chosen, costs, room) if outcome.trimmed else ()
        if wanted and sum(costs[index] for index in wanted) <= room:
            pinned = [msgspec.structs.replace(item, pinned=item.pinned or i in wanted) for i, item in enumerate(items)]
            outcomes.append(self._run(pinned, pipeline, barred, keep))
        # Or else their tokens are for others.
        while all(one.trimmed for one in outcomes) and len(outcomes) < _ATTEMPTS:
            barred = barred | {unit: why for unit, why in outcome.trimmed.items() if unit not in keep}
            outcome = self._run(items, pipeline, barred, keep)
            outcomes.append(outcome)
        # The first of the best: with all that is held, then with the most tokens.
        return max(outcomes, key=lambda one: (len(keep.intersection(one.kept)), one.tokens))

    def _run(
        self, items: Sequence[ContextItem], pipeline: Pipeline, barred: dict[int, str], held: AbstractSet[int]
    ) -> Attempt:
        offered = {id(item): index for index, item in enumerate(items) if index not in barred}
        report = pipeline.dry_run([*self.history.fixed, *(items[index] for index in offered.values())], self.window)
        chosen = {offered[id(entry.item)] for entry in report.included if id(entry.item) in offered}
        return Attempt(items, barred, chosen, self.history.rules.drop_violations(chosen, held), report)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One selection: the units not offered, those chosen, those of them that cannot be sent, the pipeline's report."""

    items: Sequence[ContextItem]
    barred: dict[int, str]
    """Units that were no candidates, with the reason."""
    chosen: set[int]
    trimmed: dict[int, str]
    """Chosen units that cannot be sent because others were not chosen, with the reason."""
    run: SelectionReport

    @property
    def kept(self) -> list[int]:
        """The units that are sent, in order."""
        return sorted(self.chosen - self.trimmed.keys())

    @property
    def tokens(self) -> int:
        """Tokens of the units that are sent."""
        return sum(self.items[index].tokens for index in self.kept)

    def report(self) -> SelectionReport:
        """Return the run's report with the units that the provider's rules exclude among the excluded."""
        gone = {id(self.items[index]): Filtered(rule) for index, rule in self.trimmed.items()}
        flawed = [ExcludedItem(self.items[index], 0.0, Filtered(rule)) for index, rule in sorted(self.barred.items())]
        excluded = [
            *self.run.excluded,
            *(ExcludedItem(e.item, e.score, gone[id(e.item)]) for e in self.run.included if id(e.item) in gone),
            *flawed,
        ]
        # Replaced, not rebuilt: the report keeps its origin, and with it the answer to "at which budget would it fit?".
        return replace(
            self.run,
            included=tuple(entry for entry in self.run.included if id(entry.item) not in gone),
            excluded=tuple(excluded[at] for at in descending([entry.score for entry in excluded])),
            total_candidates=self.run.total_candidates + len(flawed),
            total_tokens_considered=self.run.total_tokens_considered + sum(entry.item.tokens for entry in flawed),
        )


def _with_true_reasons(excluded: Sequence[ExcludedItem], left: int) -> tuple[ExcludedItem, ...]:
    """Return exclusions with `BudgetExceeded` for units that held ones displaced: the caller did not pin those."""
    return tuple(
        ExcludedItem(entry.item, entry.score, BudgetExceeded(entry.item.tokens, left))
        if isinstance(entry.reason, PinnedOverride)
        else entry
        for entry in excluded
    )
