"""A conversation's window, turn by turn."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from math import floor, inf
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, cast

from msgspec import structs

from cupel._internal.checks import as_finite, as_flag, as_function, as_instance, as_text, suggesting
from cupel.errors import ConfigurationError, SelectionError
from cupel.messages._cut import Cut, CutTerms, MessageRequest
from cupel.messages._engine import Conversation, entries_of, signatures_in, waiting_in, with_bound_thinking
from cupel.messages._formats import PLAIN, detect_format
from cupel.messages._forms import checked_shortener
from cupel.messages._framework import Framework
from cupel.messages._history import opening_of
from cupel.messages._ids import RECALL_TOOL
from cupel.messages._prices import Bill, Prices
from cupel.messages._reading import HistoryReader, Options, Thinking
from cupel.messages._recall import PAGES, Answers
from cupel.messages._state import State, settle
from cupel.messages._turns import TurnBuilder
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline

if TYPE_CHECKING:
    from cupel.messages._cut import KeptUnits
    from cupel.messages._formats import Provider
    from cupel.messages._formats.media import ImageTokens
    from cupel.messages._gaps import Gap
    from cupel.messages._results import Turn
    from cupel.messages._rules import SystemMessages
    from cupel.shorten import Shortener
    from cupel.tokens import TokenCounter

M = TypeVar("M")
NoteFunction = Callable[[list[Any], str | None], str | Awaitable[str]]
"""Writes the note on omitted messages, given those that are newly omitted and its previous answer for that gap."""

_ALLOWANCE = 1.01
"""The provider's tokens for one of ours differ a little from request to request."""
_LEAST_WINDOW = 4
"""Whatever a provider reports, the window keeps 1 / `_LEAST_WINDOW` of the budget."""
_log = logging.getLogger("cupel")


class MessageSession(Generic[M]):
    """Keeps the window of one conversation: one writer, one request a turn.

    A history that fits the budget is the request. Otherwise, while the last request and the new messages fit, they are
    the request. Otherwise the request is cut: a pipeline selects from the steps of the history, and the next turns
    append to that. The newest steps and the user's words stay, and a note tells of every step that is left out.

    Args:
        budget: the tokens of a request, in the provider's count.
        policy: selects the steps where a request is cut; by default `presets.conversation()`.
        provider: the format of the history; recognised if it is not named.
        prices: how the provider caches; by default, as the provider does.
        keep: the share of the free room that a cut fills, beside what must stay; the rest is for the next turns.
        note: writes the note on omitted messages: `note(messages, previous)` gets the newly omitted messages and its
            own previous answer, and returns at most a twentieth of the budget. It may be asynchronous for `afit`.
        observation: returns True for user messages that are tool outputs, for agents that send them that way.
        forms: False keeps all outputs whole; a shortener replaces the built-in one.
        query: the text that a policy's scorer looks for; by default the newest user message.
        gaps: False drops messages from the old end only.
        recall: True writes ids into notes and markers, by which the model asks for what they omit: put `recall_tool`
            among the request's tools, where it is counted, and answer its calls with `recall`.
        thinking: `"bound"` for models that check that everything before a block of thinking is as it was when they
            wrote it; `"loop"` for older ones, whose running tool loop must begin with its thinking.
        framework: reads and returns the messages of a framework.

    The other arguments are those of `fit`.

    >>> session = MessageSession(1000, provider="openai")
    >>> history = [{"role": "user", "content": "What is in the log?"}]
    >>> turn = session.fit(history)
    >>> turn.action, turn.bill.new == turn.total_tokens
    ('append', True)
    >>> session.observe({"prompt_tokens": 14, "prompt_tokens_details": {"cached_tokens": 0}}).sent
    14
    """

    @suggesting(
        max_tokens="the budget is the first argument, MessageSession(8000)",
        model="pass counter= to count tokens as a model does",
        recent="the newest steps are always held",
        worth="raise keep to keep more after a cut",
        notes="note= takes a function that writes them",
    )
    def __init__(
        self,
        budget: int | ContextBudget,
        policy: Pipeline | None = None,
        *,
        provider: Provider | None = None,
        prices: Prices | None = None,
        keep: float = 0.45,
        note: NoteFunction | None = None,
        observation: Callable[[M], bool] | None = None,
        forms: Shortener | Literal[False] | None = None,
        counter: TokenCounter | None = None,
        tools: Sequence[object] | None = None,
        system: object = None,
        pin: Callable[[M], bool] | None = None,
        query: str | None = None,
        image_tokens: ImageTokens | None = None,
        alternate: bool = False,
        gaps: bool = True,
        recall: bool = False,
        system_messages: SystemMessages = "keep",
        thinking: Thinking = "bound",
        framework: Framework[M] | None = None,
    ) -> None:
        self._budget = ContextBudget.of(budget)
        self._prices = None if prices is None else as_instance("prices", prices, Prices)
        self._note = None if note is None else cast("NoteFunction", as_function("note", note))
        if framework is not None:
            as_instance("framework", framework, Framework)
        if provider is not None:
            detect_format((), provider, system=None, tools=None)  # raises if there is no such format
        self._options = Options(
            provider=provider,
            counter=counter,
            system=system,
            tools=tools if framework is None else framework.schemas(tools),
            pin=None if pin is None else as_function("pin", pin),
            image_tokens=image_tokens,
            alternate=alternate,
            system_messages=system_messages,
            framework=framework,
            observation=observation,
            thinking=thinking,
            recall=recall,
        )
        self._terms = CutTerms(
            pipeline=None if policy is None else Pipeline.of(policy),
            keep=as_finite("keep", keep, least=0, most=1, error=ConfigurationError),
            shortener=checked_shortener(forms),
            notes=framework is None or framework.with_outputs is not None,
            gaps=as_flag("gaps", gaps),
            query=None if query is None else as_text("query", query),
            asks=note is not None,
        )
        self._state = State()
        self._writing = Lock()
        self._begin()

    def _begin(self) -> None:
        """Forget everything that is only kept to save time."""
        self._reader = HistoryReader(self._options)
        self._cut: MessageRequest | None = None

    @property
    def budget(self) -> ContextBudget:
        """The budget of each request."""
        return self._budget

    @property
    def total(self) -> Bill:
        """The bill of all requests so far."""
        return self._state.total

    @suggesting(
        tools="pass it to MessageSession(...), for all turns",
        system="pass it to MessageSession(...), for all turns",
        budget="pass it to MessageSession(...), for all turns",
        query="pass it to MessageSession(...), for all turns",
    )
    def fit(self, history: Sequence[M], *, idle: float | None = None) -> Turn[M]:
        """Return the next request, and remember it as sent.

        Args:
            history: the whole conversation so far, the new messages at its end. A message of the last request that has
                changed since is noticed, one that was left out is not.
            idle: how many seconds ago the last request was sent. After the `ttl` of the prices the provider has
                forgotten it, and a request that is nearly full is cut now.
        """
        with self._only_writer():
            conversation = self._conversation(history, idle)
            decided = conversation.request()
            if isinstance(decided, MessageRequest):
                return self._sent(conversation, decided)
            selection, words = decided.choose(), dict[int, str]()
            for gap, omitted, previous in self._asked(decided, selection):
                answer = _now(cast("NoteFunction", self._note)(omitted, previous)) if omitted else previous or ""
                words[gap.holder] = as_text("the result of note", answer)
            return self._sent(conversation, with_bound_thinking(conversation, decided.finish(selection, words)))

    async def afit(self, history: Sequence[M], *, idle: float | None = None) -> Turn[M]:
        """Return the next request as `fit` does; an asynchronous `note` function is awaited."""
        with self._only_writer():
            conversation = self._conversation(history, idle)
            decided = conversation.request()
            if isinstance(decided, MessageRequest):
                return self._sent(conversation, decided)
            selection, words = decided.choose(), dict[int, str]()
            for gap, omitted, previous in self._asked(decided, selection):
                answer: object = cast("NoteFunction", self._note)(omitted, previous) if omitted else previous or ""
                words[gap.holder] = as_text(
                    "the result of note", await answer if inspect.isawaitable(answer) else answer
                )
            return self._sent(conversation, with_bound_thinking(conversation, decided.finish(selection, words)))

    def _conversation(self, history: Sequence[M], idle: float | None) -> Conversation:
        is_cold = False
        if idle is not None:
            prices = self._prices or default_prices(self._options.provider or "openai")
            is_cold = as_finite("idle", idle, least=0, most=inf, error=ConfigurationError) > prices.ttl
        self._reader.recognise(self._state.written, self._state.quoted, self._state.seen)
        # A copy: a report may be asked for when the caller's list has grown.
        messages = list(history) if isinstance(history, list) else history
        return Conversation(messages, self._reader, self._terms, self._window(), self._state, is_cold)

    def _window(self) -> ContextBudget:
        """Return the budget in our tokens: it is counted in the provider's."""
        budget, scale = self._budget, self._state.scale
        window = min(budget.target_tokens, budget.max_tokens - budget.output_reserve)
        if not self._state.usage or scale.predicted(window) <= window:
            return budget
        ours = (window - scale.overhead) / (scale.ratio * (_ALLOWANCE if scale.ratio > 1 else 1.0))
        least = max(floor(ours), window // _LEAST_WINDOW)
        return structs.replace(budget, max_tokens=least, target_tokens=least, output_reserve=0)

    def _asked(self, cut: Cut, selection: KeptUnits) -> list[tuple[Gap, list[Any], str | None]]:
        """Return the gaps that the caller's function writes a note on, with its two arguments."""
        if self._note is None:
            return []
        known, last = cut.last.sent, max(cut.last.sent, default=-1)
        asked: list[tuple[Gap, list[Any], str | None]] = []
        messages = {one.at: one.source for one in cut.history.messages}
        for gap in selection.gaps:
            fresh = [at for step in gap.steps for at in step.positions if at in known or at > last]
            previous = "\n".join(note.words for note in gap.before if note.words)
            asked.append((gap, [messages[at] for at in fresh], previous or None))
        return asked

    def _sent(self, conversation: Conversation, request: MessageRequest) -> Turn[M]:
        """Return the turn that sends a request, and remember it."""
        history = request.history
        prices = self._prices or history.format.prices
        if request.cut is not None:
            self._cut = request
        turn, bill = TurnBuilder(conversation, request, prices, self._cut).build()
        before = self._state
        self._state = structs.replace(
            before,
            turns=before.turns + 1,
            opening=history.opening.digest,
            last=entries_of(request),
            seen=len(conversation.messages),
            whole=conversation.whole(history),
            written=signatures_in(request, before.written),
            quoted=tuple(sorted(self._reader.quoted)),
            waiting=waiting_in(request),
            pending=bill,
            before=before.total,
        )
        self._reader.notes = dict(request.notes)
        self._reader.keep({one.at for one in history.messages})
        if turn.warning:
            _log.warning("turn %d: %s", self._state.turns, turn.warning)
        if _log.isEnabledFor(logging.INFO):
            _log.info("turn %d: %s; %s", self._state.turns, turn, bill)
        if _log.isEnabledFor(logging.DEBUG):
            for change in turn.changes:
                _log.debug("turn %d: %s", self._state.turns, change)
        return turn

    def observe(self, usage: object, *, diagnostics: object = None) -> Bill | None:
        """Settle the last request's bill with the provider's own counts, learn from them, and return it.

        A request is settled once: a second usage changes nothing, and None is returned.

        Args:
            usage: the usage of a response of Anthropic's, OpenAI's, Gemini's or Bedrock's SDK, or a mapping like it.
            diagnostics: the cache diagnostics of a response of Anthropic's. If they say that the request differs from
                the one before where the bill expected it to be the same, `mistake` of the bill says so, and a warning
                is logged.
        """
        with self._only_writer():
            fmt = self._reader.format
            prices = self._prices or (default_prices("anthropic") if fmt is None else fmt.prices)
            self._state, bill = settle(self._state, usage, prices, diagnostics)
        if bill is not None and bill.mistake:
            _log.warning("turn %d: the bill was wrong: %s", self._state.turns, bill.mistake)
        return bill

    @property
    def recall_tool(self) -> dict[str, Any]:
        """The definition of the tool whose calls `recall` answers, in the provider's format."""
        options = self._options
        fmt = self._reader.format if options.framework is None else options.framework.rules
        if options.recall and fmt is None:
            fmt = detect_format((), options.provider, system=None, tools=self._reader.tools)
        if not options.recall or fmt is None or fmt is PLAIN:
            what = "provider must be named before the first history" if options.recall else "recall must be True"
            raise ConfigurationError(
                f"{what} for a session with a recall_tool, got {options.provider or options.recall}"
            )
        return dict(fmt.tool(RECALL_TOOL))

    def recall(self, call: object, history: Sequence[M]) -> str:
        """Return the answer to the model's call of `recall_tool`: an omitted text as it was, or where words are in it.

        Whatever the call holds, there is an answer. It takes at most a fifth of the room and says how to get the rest.

        Args:
            call: the call in the provider's format, as a dict or an SDK's object, or a mapping of its arguments.
            history: the whole conversation so far.
        """
        answers = Answers(history, self._options, self._state)
        conversation = Conversation(history, answers.reader, self._terms, self._window(), self._state)
        return answers.answer(call, conversation.room(opening_of(answers.reader).tokens).soft // PAGES)

    def to_json(self) -> str:
        """Return the state that another process needs to continue: a few kilobytes, without contents.

        The only contents are the texts that a caller's `note` function returned.
        """
        return self._state.to_json()

    @classmethod
    def from_json(cls, state: str, /, *args: Any, **kwargs: Any) -> Self:
        """Continue from the text that `to_json` returned, with the arguments of the constructor.

        Entries of another conversation match nothing in this one, so nothing of them is counted as read.
        """
        session = cls(*args, **kwargs)
        session._state = State.from_json(state)
        return session

    def copy(self) -> Self:
        """Return a session that continues from here independently: a branch of the conversation."""
        with self._only_writer():
            return copy(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_writing", "_reader", "_cut")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._writing = Lock()
        self._begin()

    def __repr__(self) -> str:
        turns = self._state.turns
        plural = "" if turns == 1 else "s"
        return f"<{type(self).__name__}: {turns} turn{plural} of at most {self._budget.target_tokens} tokens>"

    @contextmanager
    def _only_writer(self) -> Generator[None]:
        if not self._writing.acquire(blocking=False):
            msg = "the session is in use by another thread: a conversation has one writer; copy() starts a branch"
            raise SelectionError(msg)
        try:
            yield
        finally:
            self._writing.release()


def _now(answer: object) -> object:
    """Return an answer that need not be awaited."""
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        msg = "note is asynchronous: use `await session.afit(history)` instead of `session.fit(history)`"
        raise TypeError(msg)
    return answer


def default_prices(provider: str) -> Prices:
    """Return how the provider of a format caches prompts, for callers that pass no prices.

    >>> default_prices("openai") == Prices.automatic(), default_prices("anthropic") == Prices.marked()
    (True, True)
    """
    return detect_format((), provider, system=None, tools=None).prices
