"""Fitting a history into a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from cupel.diagnostics import ExclusionReason, SelectionReport
from cupel.integrations.messages._history import History, fixed_items, read_history
from cupel.integrations.messages._policy import newest_first
from cupel.integrations.messages._selection import Request
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import Pipeline
from cupel.policy import Policy

if TYPE_CHECKING:
    from cupel.integrations.messages._dialect import Dialect, Provider
    from cupel.integrations.messages._media import ImageTokens
    from cupel.integrations.messages._plain import JSON
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
    """A history that fits: the caller's own message objects, unchanged and in their original order."""

    messages: list[M]
    report: SelectionReport
    """Every unit with its score and reason, the request's fixed costs among the pinned."""
    total_tokens: int
    """Tokens of the whole request as counted: messages, system prompt, tools and framing."""
    dropped: list[Dropped[M]]
    """What was left out, in its original order."""
    provider: str
    """The format whose rules were applied."""


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
) -> Fitted[M]:
    """The part of a provider's chat history that fits a budget and that the provider will accept.

    `messages` are chat-completions messages, Responses items or Anthropic messages, as dicts or as SDK objects; the
    format is recognised unless `provider` names it. Calls stay with their results, reasoning with what it led to, and
    the user speaks first.
    System prompts and the newest user message are always kept, and so is whatever `pin` returns True for. `tools` and
    Anthropic's `system` are counted. Without a `policy` the newest messages win; without a `counter`, tokens are
    counted by `cupel.tokens.default_counter()`. `image_tokens` is what an image costs: a number, or a function of its
    size; without it, the rules published for GPT-4o and for Claude 4.

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
    history = read_history(
        messages, provider=provider, counter=counter, system=system, pin=pin, image_tokens=image_tokens
    )
    return _fit_history(messages, history, budget, policy, fixed_items(history, system, tools))


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
) -> Fitted[M]:
    """`fit` for a framework's messages: `view` translates each into `dialect`, for reading only."""
    history = read_history(messages, counter=counter, pin=pin, dialect=dialect, view=view)
    return _fit_history(messages, history, budget, policy, fixed_items(history, system, tools))


def _fit_history(
    messages: Sequence[M],
    history: History,
    budget: int | ContextBudget,
    policy: Policy | Pipeline | None,
    fixed: Sequence[ContextItem],
) -> Fitted[M]:
    window = budget if isinstance(budget, ContextBudget) else ContextBudget(budget, budget)
    request = Request(history, fixed, window)
    items = [history.item(index) for index in range(len(history.units))]
    request.check_pinned(items)
    outcome = request.select(items, _pipeline(policy))
    report = outcome.report()
    return Fitted(
        messages=[messages[position] for position in history.positions(outcome.kept)],
        report=report,
        total_tokens=sum(item.tokens for item in fixed) + outcome.tokens,
        dropped=[
            Dropped(
                [messages[position] for position in history.units[index].positions],
                tuple(history.units[index].positions),
                outcome.items[index],
                reason,
            )
            for index, reason in sorted(outcome.reasons(report).items())
        ],
        provider=history.dialect.name,
    )


def _pipeline(policy: Policy | Pipeline | None) -> Pipeline:
    if isinstance(policy, Pipeline):
        return policy
    if policy is not None and not isinstance(policy, Policy):  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"policy must be a Policy or a Pipeline, got {type(policy).__name__}: {policy!r}"
        raise TypeError(msg)
    return (policy or newest_first()).pipeline()
