"""Fitting a history into a budget: the pipeline's selection, made valid."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from cupel._checks import as_flag, suggesting
from cupel._columns import descending
from cupel.diagnostics import (
    BudgetExceeded,
    ExcludedItem,
    Filtered,
    IncludedItem,
    InclusionReason,
    PinnedOverride,
    SelectionReport,
)
from cupel.errors import PinnedExceedsBudgetError
from cupel.messages._cuts import FEWEST_STEPS, NEWEST_STEPS, PRESENT_SHARE, Cuts
from cupel.messages._formats import OUTPUTS, checked_parts
from cupel.messages._history import Options, read_history
from cupel.messages._notes import NOTES_SHARE
from cupel.messages._results import Fitted, dropped_from
from cupel.model import ContextBudget, ContextItem, ContextKind, OverflowStrategy
from cupel.pipeline import Pipeline, effective_budget
from cupel.scorers import RecencyScorer
from cupel.slicers import BestFirstSlice

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from cupel.messages._formats import Part, Provider
    from cupel.messages._formats.media import ImageTokens
    from cupel.messages._history import History
    from cupel.messages._notes import Slot
    from cupel.messages._rules import SystemMessages
    from cupel.shorten import Shortener
    from cupel.tokens import TokenCounter


M = TypeVar("M")


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
        messages: chat-completions messages, Responses items or Anthropic messages, as dicts or as SDK objects.
        budget: the tokens of the request, or a budget with a reserve for the answer.
        policy: how the other messages are ranked and chosen; without one, the newest win.
        counter: how tokens are counted; without one, by `cupel.tokens.default_counter()`.
        tools: the tools of the request, which are counted.
        provider: the format of the messages, recognised unless it is named.
        system: Anthropic's system prompt, which is counted.
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


def fit_history(
    history: History,
    budget: int | ContextBudget,
    policy: Pipeline | None,
    *,
    query: str | None,
    forms: Shortener | bool | None,
    parts: Collection[Part] = OUTPUTS,
    notes: bool = True,
) -> Fitted[Any]:
    """Return the part of a history that fits a budget."""
    task = FitTask(history, ContextBudget.of(budget), as_flag("notes", notes))
    pipeline = Pipeline.of(newest_first() if policy is None else policy).bind(
        history.asked() if query is None else query
    )
    history.drop_stale(task.room)
    cuts = Cuts(history, task.room, forms, parts)
    items = history.items(task.room)
    pinned = task.with_pins(items, pipeline)
    pipeline = replace(pipeline, pins=())
    if task.fits(pinned):
        return _fitted(task, pinned, task.select(pinned, pipeline), cuts)
    held = hold(task, items, {unit for unit, item in enumerate(pinned) if item.pinned}, cuts)
    # The newest unit keeps its words, and so do those that must be sent.
    cuts.shorten_older(unit for unit in _sendable(history)[:-1] if not items[unit].pinned)
    short = task.shortened(items, cuts, held)
    outcome = task.select(short, pipeline, held)
    # The notes on the omitted steps need room as well.
    reserve = sum(item.tokens for item in task.note_items(task.notes(outcome, task.note_limit)))
    reserve = max(0, min(reserve, task.room - sum(short[unit].tokens for unit in held)))
    if reserve:
        outcome = task.without(reserve).select(short, pipeline, held)
    return _fitted(task, items, outcome, cuts)


def _fitted(task: FitTask, items: Sequence[ContextItem], outcome: Attempt, cuts: Cuts) -> Fitted[Any]:
    """Return the request of an outcome, with notes on omitted steps, and texts made longer where there is room."""
    history = task.history
    left = task.left(outcome)
    notes = task.notes(outcome, min(task.note_limit, left))
    note_items = task.note_items(notes)
    while notes and sum(item.tokens for item in note_items) > left:
        notes.pop(min(notes))
        note_items = task.note_items(notes)
    left -= sum(item.tokens for item in note_items)
    report = _with_true_reasons(lengthened(task, items, outcome, cuts, left), left)
    kept = {at for unit in outcome.kept for at in history.units[unit].positions}
    shorter = {at: one for at, one in cuts.messages.items() if at in kept}
    report = replace(
        report,
        included=(*(IncludedItem(item, 1.0, InclusionReason.PINNED) for item in note_items), *report.included),
        total_candidates=report.total_candidates + len(note_items),
        total_tokens_considered=report.total_tokens_considered + sum(item.tokens for item in note_items),
    )
    messages, positions = history.request(history.positions(outcome.kept), shorter, notes)
    return Fitted(
        messages=messages,
        report=report,
        total_tokens=sum(entry.item.tokens for entry in report.included),
        dropped=dropped_from(history, report, outcome.items),
        provider=history.format.name,
        shortened=tuple(sorted(shorter)),
        positions=positions,
        notes=tuple(notes[slot] for slot in sorted(notes)),
    )


def _with_true_reasons(report: SelectionReport, left: int) -> SelectionReport:
    """Return a report with `BudgetExceeded` for units that held ones displaced: the caller did not pin those."""
    excluded = tuple(
        ExcludedItem(entry.item, entry.score, BudgetExceeded(entry.item.tokens, left))
        if isinstance(entry.reason, PinnedOverride)
        else entry
        for entry in report.excluded
    )
    return replace(report, excluded=excluded)


def hold(task: FitTask, items: Sequence[ContextItem], pinned: AbstractSet[int], cuts: Cuts) -> set[int]:
    """Return the units that are sent whatever their score, cut so that they fit; raise if the least does not fit.

    From most to least: all messages of the user and the newest three steps, or as many as take 40 % of the room; the
    newest two; the newest; the strongest messages of the user with it; then only units that must be sent. Units that
    the policy has `pinned` are added where they fit.
    """
    history = task.history
    must = {unit for unit, item in enumerate(items) if item.pinned}
    users = _by_strength(history, [unit for unit in _sendable(history) if history.has_user_words(unit)])
    steps = _newest_steps(task, cuts)
    costs = [item.tokens for item in items]

    def fitting(wanted: AbstractSet[int], count: int, room: int) -> set[int] | None:
        """Return units with the strongest users and all units that they require, cut so that they fit."""
        wanted = {*wanted, *users[:count]}
        needed = history.rules.complete(wanted, costs, task.room - sum(costs[unit] for unit in wanted))
        held = sorted(wanted | needed)
        cuts.clear()
        cuts.cap(held)
        fits = cuts.cut_outputs(held, room) or cuts.cut_users(users[:count][::-1], held, room)
        return {*held} if fits and not history.rules.drop_violations({*held}, {*held}) else None

    for least in [must] if must == pinned else [{*pinned}, must]:
        for newest in range(len(steps), 0, -1):
            if (held := fitting(least | {*steps[-newest:]}, len(users), task.soft_room)) is not None:
                return held
        for wanted in (least | {*steps[-1:]}, least):
            low, high = 0, len(users)
            while low < high:
                middle = (low + high + 1) // 2
                fits = fitting(wanted, middle, task.soft_room) is not None
                low, high = (middle, high) if fits else (low, middle - 1)
            if (held := fitting(wanted, low, task.soft_room)) is not None:
                return held
    if (held := fitting(must, 0, task.available - task.fixed_tokens)) is not None:
        return held
    cuts.clear()
    raise task.too_large({unit: items[unit].tokens for unit in sorted(must)})


def _newest_steps(task: FitTask, cuts: Cuts) -> list[int]:
    """Return the newest three steps, or as many as take their share of the room, at least two."""
    units = task.history.units
    steps = [unit for unit in _sendable(task.history) if units[unit].role == "exchange"][-NEWEST_STEPS:]
    while len(steps) > FEWEST_STEPS:
        cuts.clear()
        cuts.cap(steps)
        if cuts.cost(steps) <= PRESENT_SHARE * task.room:
            break
        steps = steps[1:]
    return steps


def _by_strength(history: History, users: Sequence[int]) -> list[int]:
    """Return messages of the user, the one to keep longest first: the newest, the first, then short before long."""
    ends = list(dict.fromkeys([*users[-1:], *users[:1]]))
    tokens = {unit: sum(history.parsed[at].tokens for at in history.units[unit].positions) for unit in users}
    return [*ends, *sorted((unit for unit in users if unit not in ends), key=lambda unit: (tokens[unit], -unit))]


def _sendable(history: History) -> list[int]:
    return [index for index, unit in enumerate(history.units) if unit.rejection is None]


def lengthened(task: FitTask, items: Sequence[ContextItem], outcome: Attempt, cuts: Cuts, left: int) -> SelectionReport:
    """Make shorter units longer where there is room, the best first; return the report with their new sizes."""
    report = outcome.report()
    units = {id(item): unit for unit, item in enumerate(outcome.items) if item is not items[unit]}
    if not units:
        return report
    newer: dict[int, ContextItem] = {}
    by_score = sorted(report.included, key=lambda entry: (-entry.score, -units.get(id(entry.item), -1)))
    for entry in by_score:
        unit = units.get(id(entry.item))
        if unit is None:
            continue
        gain = cuts.lengthen(unit, left)
        left -= gain
        if gain:
            newer[id(entry.item)] = task.shortened_item(items[unit], unit, cuts)
    included = tuple(
        IncludedItem(newer.get(id(entry.item), entry.item), entry.score, entry.reason) for entry in report.included
    )
    return replace(report, included=included)


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


NOTE_FRAME = {True: 2, False: 5}
"""Tokens around a note: in a tool result, and as a separate message."""
_ATTEMPTS = 5
"""How many selections are compared at most."""


class PinnedMessagesExceedBudgetError(PinnedExceedsBudgetError):
    """The messages that must be sent exceed the budget; `parts` lists them as pairs of a description and tokens."""

    def __init__(self, pinned_tokens: int, available_tokens: int, parts: tuple[tuple[str, int], ...]) -> None:
        super().__init__(pinned_tokens, available_tokens)
        self.args = (pinned_tokens, available_tokens, parts)  # pickling rebuilds it from these
        self.parts = parts

    @property
    def excess_tokens(self) -> int:
        """The tokens by which the messages exceed the budget."""
        return self.pinned_tokens - self.available_tokens

    def __str__(self) -> str:
        listed = "; ".join(f"{description}: {tokens}" for description, tokens in self.parts)
        return (
            f"the pinned messages need {self.pinned_tokens} tokens, {self.excess_tokens} more than the "
            f"{self.available_tokens} available ({listed})"
        )


@dataclass(frozen=True, slots=True)
class FitTask:
    """One call of `fit`: a history, the request's fixed costs, and the window that they must fit."""

    history: History
    window: ContextBudget
    has_notes: bool = True
    """Whether omitted steps are noted."""

    @property
    def available(self) -> int:
        """Tokens that a request may have at most."""
        return self.window.max_tokens - self.window.output_reserve

    @property
    def room(self) -> int:
        """Tokens for messages: the target of the window, less the fixed costs."""
        return min(self.window.target_tokens, self.available) - self.fixed_tokens

    @property
    def soft_room(self) -> int:
        """Tokens for messages that need not be sent: the room less the safety margin and reserved slots."""
        return effective_budget(self.window, self.fixed_tokens).target_tokens

    @property
    def fixed_tokens(self) -> int:
        """Tokens of a request besides its messages."""
        return sum(item.tokens for item in self.history.fixed)

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

    @property
    def note_limit(self) -> int:
        """Tokens that all notes together may take."""
        return self.available // NOTES_SHARE if self.has_notes else 0

    def fits(self, items: Sequence[ContextItem]) -> bool:
        """Return whether everything that can be sent fits whole."""
        sendable = [item for unit, item in zip(self.history.units, items, strict=True) if unit.rejection is None]
        pinned = sum(item.tokens for item in (*self.history.fixed, *sendable) if item.pinned)
        loose = sum(item.tokens for item in sendable if not item.pinned)
        if pinned > self.available:
            return False
        return not loose or loose <= effective_budget(self.window, pinned).target_tokens

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

    def notes(self, outcome: Attempt, limit: int) -> dict[Slot, str]:
        """Return the notes on the units that an outcome leaves out."""
        kept = {*outcome.kept}
        omitted = [unit for unit in range(len(outcome.items)) if unit not in kept]
        return self.history.notes(self.history.omitted_steps(omitted), self.history.positions(kept), limit)

    def note_items(self, notes: Mapping[Slot, str]) -> list[ContextItem]:
        """Return pinned items for the cost of notes."""
        count = self.history.counter.count
        return [
            ContextItem(text, count(text) + NOTE_FRAME[slot.in_result], kind=ContextKind("Note"), pinned=True)
            for slot, text in sorted(notes.items())
        ]

    def shortened(self, items: Sequence[ContextItem], cuts: Cuts, held: AbstractSet[int]) -> list[ContextItem]:
        """Return the items with the sizes of shorter units, and held ones pinned."""
        found: list[ContextItem] = []
        for unit, item in enumerate(items):
            one = self.shortened_item(item, unit, cuts)
            found.append(msgspec.structs.replace(one, pinned=True) if unit in held and not one.pinned else one)
        return found

    def shortened_item(self, item: ContextItem, unit: int, cuts: Cuts) -> ContextItem:
        """Return a unit's item with the texts and tokens of its shorter messages."""
        positions = self.history.units[unit].positions
        shorter = {at: cuts.messages[at] for at in positions if at in cuts.messages}
        return self.history.shortened(item, positions, shorter) if shorter else item

    def too_large(self, must: Mapping[int, int]) -> PinnedMessagesExceedBudgetError:
        """Return the error for a request whose fixed costs and units that must be sent do not fit, part by part."""
        parts = [(item.content.partition(":")[0], item.tokens) for item in self.history.fixed]
        parts += [(self.history.describe(unit), tokens) for unit, tokens in must.items()]
        return PinnedMessagesExceedBudgetError(sum(tokens for _, tokens in parts), self.available, tuple(parts))

    def select(self, items: Sequence[ContextItem], pipeline: Pipeline, held: AbstractSet[int] | None = None) -> Attempt:
        """Return the best valid selection; raise an error that lists the pinned parts if they alone do not fit."""
        must = {unit: item.tokens for unit, item in enumerate(items) if item.pinned}
        if sum(must.values()) + self.fixed_tokens > self.available:
            raise self.too_large(must)
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
