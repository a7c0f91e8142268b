"""Fitting a history into a budget: the pipeline's selection, made valid."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from cupel._columns import descending
from cupel.diagnostics import ExcludedItem, Filtered, SelectionReport
from cupel.errors import PinnedExceedsBudgetError
from cupel.messages._formats import OUTPUTS, checked_parts
from cupel.messages._history import Options, read_history
from cupel.messages._results import Fitted, dropped_from
from cupel.messages._segments import shortening_of
from cupel.messages._shortening import lengthened, shorter_units, with_shorter
from cupel.model import ContextBudget, ContextItem, OverflowStrategy
from cupel.pipeline import Pipeline
from cupel.scorers import RecencyScorer
from cupel.slicers import BestFirstSlice

if TYPE_CHECKING:
    from cupel.messages._formats import Part, Provider
    from cupel.messages._formats.media import ImageTokens
    from cupel.messages._history import History
    from cupel.messages._rules import SystemMessages
    from cupel.shorten import Shortener
    from cupel.tokens import TokenCounter


M = TypeVar("M")


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
    forms: Shortener | bool = False,
    parts: Collection[Part] = OUTPUTS,
) -> Fitted[M]:
    """Return the part of a provider's chat history that fits a budget and that the provider will accept.

    `messages` are chat-completions messages, Responses items or Anthropic messages, as dicts or as SDK objects; the
    format is recognised unless `provider` names it. Calls stay with their results, reasoning with what it led to, and
    the user speaks first.
    System prompts, the newest thing the user said and the results that the model has yet to see are always kept, and
    so is whatever `pin` returns True for; an error names what does not fit. `tools` and Anthropic's `system` are
    counted. With `alternate`, the user and the assistant take turns strictly. `system_messages` says what becomes of
    system messages behind the opening ones: `"keep"`, `"compete"`, or a number, of which the newest stay. `query` is
    what a policy that scores by relevance looks for, by default the newest user message. With `forms=True`, or a
    shortener of your own, long tool outputs may be sent shorter where not everything fits: in copies, which
    `Fitted.shortened` names. `parts` says what else may be: `"prose"`, what the user and the assistant said, and
    `"arguments"`, the strings in calls, which stay JSON. What is newest, pinned, or beside reasoning keeps its words.
    Without a `policy` the newest messages win; without a `counter`, tokens are counted by
    `cupel.tokens.default_counter()`. `image_tokens` is what an image costs: a number, or a function of its size;
    without it, the rules published for GPT-4o and for Claude 4.

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
        read_history(messages, options), budget, policy, query=query, forms=forms, parts=checked_parts(parts)
    )


def fit_history(
    history: History,
    budget: int | ContextBudget,
    policy: Pipeline | None,
    *,
    query: str | None,
    forms: Shortener | bool,
    parts: Collection[Part] = OUTPUTS,
) -> Fitted[Any]:
    """Return the part of a history that fits a budget."""
    request = FitTask(history, ContextBudget.of(budget))
    shortening = shortening_of(forms, built_in=True, parts=parts)
    pipeline = Pipeline.of(newest_first() if policy is None else policy).bind(
        history.asked() if query is None else query
    )
    items = request.with_pins(history.items(request.room), pipeline)
    too_long = sum(item.tokens for item in items) > request.room
    shorter = shorter_units(request, items, shortening) if shortening is not None and too_long else {}
    outcome = request.select(with_shorter(request, items, shorter), replace(pipeline, pins=()))
    report, shortened = lengthened(request, items, outcome, shorter)
    return Fitted(
        messages=history.sent(history.positions(outcome.kept), shortened),
        report=report,
        total_tokens=sum(entry.item.tokens for entry in report.included),
        dropped=dropped_from(history, report, outcome.items),
        provider=history.format.name,
        shortened=tuple(sorted(shortened)),
    )


def newest_first() -> Pipeline:
    """Return the default for `fit`: the newest units first, whole, skipping what does not fit; nothing is deduplicated.

    Saying the same thing twice in a conversation is not a mistake to clean up, so equal messages all stay candidates.

    >>> newest_first().to_dict()["slicer"]
    'best_first'
    """
    return Pipeline(
        scorer=RecencyScorer(),
        slicer=BestFirstSlice(),
        deduplicate=False,
        overflow=OverflowStrategy.TRUNCATE,
        name="newest-first",
    )


_ATTEMPTS = 5
"""How many selections are compared at most."""


class PinnedMessagesExceedBudgetError(PinnedExceedsBudgetError):
    """What must be sent does not fit; `parts` says what that is, as pairs of a description and its tokens."""

    def __init__(self, pinned_tokens: int, available_tokens: int, parts: tuple[tuple[str, int], ...]) -> None:
        super().__init__(pinned_tokens, available_tokens)
        self.args = (pinned_tokens, available_tokens, parts)  # what pickling rebuilds it from
        self.parts = parts

    @property
    def excess_tokens(self) -> int:
        """By how much it does not fit."""
        return self.pinned_tokens - self.available_tokens

    def __str__(self) -> str:
        listed = "; ".join(f"{description}: {tokens}" for description, tokens in self.parts)
        return (
            f"the pinned messages need {self.pinned_tokens} tokens, {self.excess_tokens} more than the "
            f"{self.available_tokens} available ({listed})"
        )


@dataclass(frozen=True, slots=True)
class FitTask:
    """What is to be fitted into what: a history, with the request's fixed costs, into a window."""

    history: History
    window: ContextBudget

    @property
    def available(self) -> int:
        """Tokens that a request may have at most."""
        return self.window.max_tokens - self.window.output_reserve

    @property
    def room(self) -> int:
        """Tokens for messages: what the window aims at, less the fixed costs."""
        return min(self.window.target_tokens, self.available) - sum(item.tokens for item in self.history.fixed)

    def with_pins(self, items: list[ContextItem], pipeline: Pipeline) -> list[ContextItem]:
        """Return the items, pinned also what the pipeline's rules pin, the newest first, as far as it fits.

        What must be sent has its place already. The rest may be an old tool output larger than the window: it competes.
        """
        left = self.room - sum(item.tokens for item in items if item.pinned)
        held = list(items)
        for index in sorted(pipeline.pinned(items), reverse=True):
            if not items[index].pinned and self.history.units[index].rejection is None and items[index].tokens <= left:
                left -= items[index].tokens
                held[index] = msgspec.structs.replace(items[index], pinned=True)
        return held

    def too_large(self, must: Mapping[int, int]) -> PinnedMessagesExceedBudgetError:
        """Return the error for a request whose fixed costs and units that must be sent do not fit, part by part."""
        parts = [(item.content.partition(":")[0], item.tokens) for item in self.history.fixed]
        parts += [(self.history.describe(unit), tokens) for unit, tokens in must.items()]
        return PinnedMessagesExceedBudgetError(sum(tokens for _, tokens in parts), self.available, tuple(parts))

    def select(self, items: Sequence[ContextItem], pipeline: Pipeline) -> Attempt:
        """Return the best legal selection; raise an error that lists the pinned parts if they alone do not fit."""
        must = {unit: item.tokens for unit, item in enumerate(items) if item.pinned}
        if sum(must.values()) + sum(item.tokens for item in self.history.fixed) > self.available:
            raise self.too_large(must)
        barred = {index: unit.rejection for index, unit in enumerate(self.history.units) if unit.rejection is not None}
        outcome = self._run(items, pipeline, barred)
        outcomes = [outcome]
        # Units may have to go because others are missing. Perhaps those are worth their tokens: pin them, and compare.
        costs = [item.tokens for item in items]
        room = self.room - sum(must.values())
        wanted = self.history.rules.complete(outcome.chosen, costs, room) if outcome.trimmed else ()
        if wanted and sum(costs[index] for index in wanted) <= room:
            held = [msgspec.structs.replace(item, pinned=item.pinned or i in wanted) for i, item in enumerate(items)]
            outcomes.append(self._run(held, pipeline, barred))
        # Or else their tokens are for others.
        while all(one.trimmed for one in outcomes) and len(outcomes) < _ATTEMPTS:
            barred = barred | outcome.trimmed
            outcome = self._run(items, pipeline, barred)
            outcomes.append(outcome)
        return max(outcomes, key=lambda one: one.tokens)  # the first, if they are equal

    def _run(self, items: Sequence[ContextItem], pipeline: Pipeline, barred: dict[int, str]) -> Attempt:
        offered = {id(item): index for index, item in enumerate(items) if index not in barred}
        report = pipeline.dry_run([*self.history.fixed, *(items[index] for index in offered.values())], self.window)
        chosen = {offered[id(entry.item)] for entry in report.included if id(entry.item) in offered}
        return Attempt(items, barred, chosen, self.history.rules.drop_violations(chosen), report)


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
