"""Fitting a history into a budget: a cut without a memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from cupel._internal.checks import as_flag, as_text, suggesting
from cupel.messages._cut import CutTerms, MessageRequest
from cupel.messages._engine import Conversation, with_bound_thinking
from cupel.messages._forms import checked_shortener
from cupel.messages._reading import HistoryReader, Options, Thinking
from cupel.messages._reports import report_of
from cupel.messages._results import Dropped, Fitted, unsent_end
from cupel.messages._state import State
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline

if TYPE_CHECKING:
    from cupel.diagnostics import SelectionReport
    from cupel.messages._formats import Provider
    from cupel.messages._formats.media import ImageTokens
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
    notes: bool = True,
    recall: bool = False,
    thinking: Thinking = "bound",
) -> Fitted[M]:
    """Return the part of a provider's chat history that fits a budget and that the provider will accept.

    A history that fits is returned whole. Otherwise it is cut: system prompts, the newest steps and the user's words
    stay, and a pipeline selects from the other steps, each whole or with shorter outputs. Calls stay with their
    results, and a note tells of every step that is left out: `[cupel: 2 earlier steps omitted here: …]`. If what must
    stay does not fit, an error names it. A `MessageSession` does the same turn after turn, and appends in between.

    Args:
        messages: chat-completions messages, Responses items, Anthropic messages, Converse messages of Bedrock or
            contents of Gemini, as dicts or as SDK objects.
        budget: the tokens of the request, or a budget with a reserve for the answer.
        policy: selects the steps, by default `presets.conversation()`.
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
        forms: False keeps all outputs whole; a shortener replaces the built-in one.
        notes: whether notes on omitted steps are added, in copies of the messages that hold them.
        recall: True writes ids into notes and markers, by which the model asks for what they omit: `recall_tool` is
            the tool that it calls, which is counted, and `recall` answers.
        thinking: `"bound"` for models that check that everything before a block of thinking is as it was when they
            wrote it: blocks after the first change are removed. `"loop"` for older ones, whose running tool loop must
            begin with its thinking.

    >>> history = [
    ...     {"role": "system", "content": "Answer in one sentence."},
    ...     {"role": "user", "content": "What is in the log?"},
    ...     {"role": "assistant", "content": "Nothing unusual. " * 50},
    ...     {"role": "user", "content": "And in the other one?"},
    ... ]
    >>> fitted = fit(history, 90)
    >>> fitted.notes
    ('[cupel: 1 earlier step omitted]',)
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
        recall=recall,
        thinking=thinking,
    )
    return fit_once(
        messages,
        options,
        budget,
        policy,
        query=query,
        forms=forms,
        notes=notes,
    )


def fit_once(
    messages: Sequence[Any],
    options: Options,
    budget: int | ContextBudget,
    policy: Pipeline | None,
    *,
    query: str | None,
    forms: Shortener | bool | None,
    notes: bool = True,
) -> Fitted[Any]:
    """Return the part of a history that fits a budget."""
    framework = options.framework
    terms = CutTerms(
        pipeline=None if policy is None else Pipeline.of(policy),
        shortener=None if forms is True else checked_shortener(forms),
        notes=as_flag("notes", notes) and (framework is None or framework.with_outputs is not None),
        query=None if query is None else as_text("query", query),
    )
    conversation = Conversation(messages, HistoryReader(options), terms, ContextBudget.of(budget), State())
    decided = conversation.request()
    if not isinstance(decided, MessageRequest):
        decided = with_bound_thinking(conversation, decided.finish(decided.choose(), {}))
    request = decided
    if unsent := unsent_end(request.history):
        logging.getLogger("cupel").warning(unsent)

    def account() -> tuple[SelectionReport, list[Dropped[Any]]]:
        return report_of(conversation, request, request)

    return Fitted[Any](account, **request.described(request.sent(), len(messages)))
