"""Fitting a history into a budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from cupel._policies import as_pipeline
from cupel.messages._forms import shortening_of
from cupel.messages._history import Options, read_history
from cupel.messages._parts import OUTPUTS, checked_parts
from cupel.messages._policy import newest_first
from cupel.messages._results import Fitted, dropped_from
from cupel.messages._selection import FitTask
from cupel.messages._shortening import lengthened, shorter_units, with_shorter
from cupel.model import ContextBudget

if TYPE_CHECKING:
    from cupel.messages._dialect import Provider
    from cupel.messages._history import History
    from cupel.messages._media import ImageTokens
    from cupel.messages._parts import Part
    from cupel.messages._pins import SystemMessages
    from cupel.pipeline import Pipeline
    from cupel.policy import Policy
    from cupel.shorten import Shortener
    from cupel.tokens import TokenCounter

M = TypeVar("M")


def fit(
    messages: Sequence[M],
    budget: int | ContextBudget,
    policy: Policy | Pipeline | None = None,
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
    policy: Policy | Pipeline | None,
    *,
    query: str | None,
    forms: Shortener | bool,
    parts: Collection[Part] = OUTPUTS,
) -> Fitted[Any]:
    """Return the part of a history that fits a budget."""
    request = FitTask(history, ContextBudget.of(budget))
    shortening = shortening_of(forms, built_in=True, parts=parts)
    pipeline = as_pipeline(newest_first() if policy is None else policy).bind(
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
        provider=history.dialect.name,
        shortened=tuple(sorted(shortened)),
    )
