"""Fitting a history into a budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from cupel._checks import as_function
from cupel.diagnostics import ExclusionReason, SelectionReport
from cupel.errors import ConfigurationError
from cupel.integrations.messages._history import History, Options, fixed_items, read_history
from cupel.integrations.messages._parts import OUTPUTS, checked_parts
from cupel.integrations.messages._plain import wrong_type
from cupel.integrations.messages._policy import newest_first
from cupel.integrations.messages._selection import Request
from cupel.integrations.messages._sendable import sendable
from cupel.integrations.messages._shortening import Shortening, select_shortened
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import Pipeline
from cupel.policy import Policy

if TYPE_CHECKING:
    from cupel.integrations.messages._dialect import Dialect, Provider
    from cupel.integrations.messages._history import Shorter
    from cupel.integrations.messages._media import ImageTokens
    from cupel.integrations.messages._parts import Part
    from cupel.integrations.messages._pins import SystemMessages
    from cupel.integrations.messages._plain import JSON
    from cupel.shorten import Shortener
    from cupel.tokens import TokenCounter

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Dropped(Generic[M]):
    """Messages that were left out together, and why."""

    messages: list[M]
    positions: tuple[int, ...]
    """Where they stood in the history."""
    item: ContextItem
    """The candidate that stood for them in the selection."""
    reason: ExclusionReason
    """A `Filtered` reason names the provider's rule that forbids them; any other is the selection's own."""


@dataclass(frozen=True, slots=True)
class Fitted(Generic[M]):
    """A history that fits."""

    messages: list[M]
    """The caller's own messages, unchanged and in their original order; SDK objects as the dicts that can be sent."""
    report: SelectionReport
    """Every unit with its score and reason, the request's fixed costs among the pinned."""
    total_tokens: int
    """Tokens of the whole request as counted: messages, system prompt, tools and framing."""
    dropped: list[Dropped[M]]
    """What was left out, in its original order."""
    provider: str
    """The format whose rules were applied."""
    shortened: tuple[int, ...] = ()
    """Where the messages stood in the history that are copies with shorter texts."""

    def _repr_html_(self) -> str:
        return self.report._repr_html_()  # pyright: ignore[reportPrivateUsage]  (the protocol of notebooks)


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
    history = read_history(messages, options)
    fixed = fixed_items(history, system, tools)
    shortening = _shortening(lambda _, shorter: shorter.view, checked_parts(parts), forms=forms)
    fitted = _fit_history(messages, history, budget, policy, fixed, query=query, shortening=shortening)
    return replace(fitted, messages=[sendable(message, "messages[]") for message in fitted.messages])


def fit_view(
    messages: Sequence[M],
    budget: int | ContextBudget,
    *,
    dialect: Dialect,
    view: Callable[[M], JSON],
    policy: Policy | Pipeline | None = None,
    counter: TokenCounter | None = None,
    tools: Sequence[object] | None = None,
    system: object = None,
    pin: Callable[[M], bool] | None = None,
    alternate: bool = False,
    system_messages: SystemMessages = "keep",
    query: str | None = None,
    forms: Shortener | bool = False,
    with_outputs: Callable[[M, Sequence[str]], M] | None = None,
) -> Fitted[M]:
    """`fit` for a framework's messages: `view` translates each into `dialect`, for reading only.

    `with_outputs` writes shorter outputs into a copy of a message; without it, `forms` is refused.
    """
    if forms is not False and with_outputs is None:
        msg = "forms must be False: this framework's messages cannot be shortened, for lack of with_outputs"
        raise ConfigurationError(msg)
    write = cast("Callable[[M, Sequence[str]], M]", with_outputs)
    shortening = _shortening(lambda message, shorter: write(message, shorter.texts), OUTPUTS, forms=forms)
    options = Options(
        counter=counter,
        tools=tools,
        pin=pin,
        alternate=alternate,
        system_messages=system_messages,
        dialect=dialect,
        view=view,
    )
    history = read_history(messages, options)
    fixed = fixed_items(history, system, tools)
    return _fit_history(messages, history, budget, policy, fixed, query=query, shortening=shortening)


def _fit_history(
    messages: Sequence[M],
    history: History,
    budget: int | ContextBudget,
    policy: Policy | Pipeline | None,
    fixed: Sequence[ContextItem],
    *,
    query: str | None,
    shortening: Shortening | None,
) -> Fitted[M]:
    request = Request(history, fixed, as_window(budget))
    pipeline = as_pipeline(policy).bind(history.asked() if query is None else query)
    items = request.with_pins(history.items(request.room), pipeline)
    pipeline = replace(pipeline, pins=())
    shorter: Mapping[int, Shorter] = {}
    if shortening is None or sum(item.tokens for item in items) <= request.room:
        request.check_pinned(items)
        outcome = request.select(items, pipeline)
        report = outcome.report()
    else:
        outcome, report, shorter = select_shortened(request, items, pipeline, shortening)
    return Fitted(
        messages=[
            shortening.copy(messages[position], shorter[position])
            if shortening is not None and position in shorter
            else messages[position]
            for position in history.positions(outcome.kept)
        ],
        report=report,
        total_tokens=sum(entry.item.tokens for entry in report.included),
        dropped=[
            Dropped(
                [messages[position] for position in history.units[index].positions],
                tuple(history.units[index].positions),
                outcome.items[index],
                reason,
            )
            for index, reason in sorted(outcome.reasons(outcome.report()).items())
        ],
        provider=history.dialect.name,
        shortened=tuple(sorted(shorter)),
    )


def _shortening(
    copy: Callable[[Any, Shorter], Any], parts: Collection[Part], *, forms: Shortener | bool
) -> Shortening | None:
    if forms is False:
        return None
    return Shortening(None if forms is True else as_function("forms", forms), parts, copy)


def as_pipeline(policy: Policy | Pipeline | None) -> Pipeline:
    if isinstance(policy, Pipeline):
        return policy
    if policy is not None and not isinstance(policy, Policy):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong_type("policy", "a Policy or a Pipeline", policy)
    return (policy or newest_first()).pipeline()


def as_window(budget: int | ContextBudget) -> ContextBudget:
    if isinstance(budget, ContextBudget):
        return budget
    if isinstance(budget, bool) or not isinstance(budget, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong_type("budget", "an integer or a ContextBudget", budget)
    return ContextBudget(budget, budget)
