"""A conversation's window, turn by turn."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from msgspec import structs

from cupel._internal.checks import as_finite, as_flag, as_function, as_instance, as_text, suggesting
from cupel._planning import Answer, BaseSession, Opening, Prices, TurnStart, conclude
from cupel.errors import ConfigurationError, CupelError
from cupel.messages._formats import detect_format
from cupel.messages._framework import Framework
from cupel.messages._gaps import Gaps
from cupel.messages._history import Options, read_history
from cupel.messages._memory import PLACEHOLDER, Active, Archive, Memory
from cupel.messages._plain import is_sequence
from cupel.messages._results import PinnedMessagesExceedBudgetError
from cupel.messages._segments import Segments, grown
from cupel.messages._turns import TurnBuilder, Whole
from cupel.messages._window import ANSWER_SHARE, PlannedRequest, TurnPlanner
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline

if TYPE_CHECKING:
    from cupel.messages._formats import Provider
    from cupel.messages._formats.media import ImageTokens
    from cupel.messages._history import History
    from cupel.messages._results import Turn
    from cupel.messages._rules import SystemMessages
    from cupel.messages._segments import Segment
    from cupel.model import ContextItem
    from cupel.shorten import Shortener
    from cupel.tokens import TokenCounter

M = TypeVar("M")
NoteFunction = Callable[[list[Any], str | None], str | Awaitable[str]]
"""Writes the note on omitted messages, given those that are newly omitted and its previous answer for that gap."""

_SIZE = 0.75
"""A score is the worth of a message among others; a long one is worth more, but less per token."""
_TRUST = 0.33
"""The built-in values are worth less than a policy's scores: they are guesses about the future."""
_ARCHIVED = 64
"""Messages are archived when there are at least this many."""


class MessageSession(BaseSession, Generic[M]):
    """Keeps the window of one conversation: each request changes the last one only where it must, or where that pays.

    A history that fits the budget is sent as it is. Beyond that, the newest steps and every message of the user stay,
    older tool outputs are shortened, and then steps are left out; notes in the next tool result say which.

    Args:
        budget: the tokens of a request, in the provider's count.
        policy: scores messages in place of the built-in values; its slicer and placer are not used.
        provider: the format of the history; recognised if it is not named.
        prices: how the provider caches; by default, as the provider does.
        keep: the share of the budget that is in use after a cut.
        note: writes the note on omitted messages: `note(messages, previous)` gets the newly omitted messages and its
            own previous answer, and returns at most a twentieth of the budget. It may be asynchronous for `afit`.
        observation: returns True for user messages that are tool outputs, for agents that send them that way.
        worth: raise it to keep more context at a higher cost.
        forms: False keeps all outputs whole; a shortener replaces the built-in one.
        query: the text that a policy's scorer looks for; by default the newest user message.
        gaps: False drops messages from the old end only.
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
        notes="note= takes a function that writes them",
    )
    def __init__(
        self,
        budget: int | ContextBudget,
        policy: Pipeline | None = None,
        *,
        provider: Provider | None = None,
        prices: Prices | None = None,
        keep: float = 0.5,
        note: NoteFunction | None = None,
        observation: Callable[[M], bool] | None = None,
        worth: float = 1.0,
        forms: Shortener | Literal[False] | None = None,
        counter: TokenCounter | None = None,
        tools: Sequence[object] | None = None,
        system: object = None,
        pin: Callable[[M], bool] | None = None,
        query: str | None = None,
        image_tokens: ImageTokens | None = None,
        alternate: bool = False,
        gaps: bool = True,
        system_messages: SystemMessages = "keep",
        framework: Framework[M] | None = None,
    ) -> None:
        super().__init__(ContextBudget.of(budget), prices, worth)
        self._follows_provider = prices is None
        self._pipeline = None if policy is None else Pipeline.of(policy)
        self._trust = _TRUST if policy is None else 1.0
        self._share = as_finite("keep", keep, least=0, most=1, error=ConfigurationError)
        self._note = None if note is None else as_function("note", note)
        self._observation = None if observation is None else as_function("observation", observation)
        self._gaps = as_flag("gaps", gaps)
        self._query = None if query is None else as_text("query", query)
        if framework is not None:
            as_instance("framework", framework, Framework)
        if provider is not None:
            detect_format((), provider, system=None, tools=None)  # raises if there is no such format
        self._writes = framework is None or framework.with_outputs is not None
        self._forms = forms if self._writes else False
        self._options = Options(
            provider=provider,
            counter=counter,
            system=system,
            tools=tools if framework is None else framework.schemas(tools),
            pin=None if pin is None else _pinning(pin),
            image_tokens=image_tokens,
            alternate=as_flag("alternate", alternate),
            system_messages=system_messages,
            framework=framework,
        )
        self._begin()

    def _begin(self) -> None:
        self._segments = Segments(self._forms)
        self._memory = Memory(observation=self._observation)
        self._archive = Archive()

    @suggesting(
        tools="pass it to MessageSession(...), for all turns",
        system="pass it to MessageSession(...), for all turns",
        budget="pass it to MessageSession(...), for all turns",
        query="pass it to MessageSession(...), for all turns",
    )
    def fit(self, history: Sequence[M], *, idle: float | None = None) -> Turn[M]:
        """Return the next request, and remember it as sent.

        Args:
            history: the whole conversation so far, the new messages at its end.
            idle: how many seconds ago the last request was sent. After the `ttl` of the prices the provider has
                forgotten it, and everything is written again in any case.
        """
        with self._only_writer():
            planner, request, active = self._planned(history, idle)
            words: dict[int, str] = {}
            for at, omitted, previous in self._asked(planner, request):
                words[at] = as_text("the result of note", _now(cast("NoteFunction", self._note)(omitted, previous)))
            return self._sent(planner, planner.noted(request, words), active, history)

    async def afit(self, history: Sequence[M], *, idle: float | None = None) -> Turn[M]:
        """Return the next request as `fit` does; an asynchronous `note` function is awaited."""
        with self._only_writer():
            planner, request, active = self._planned(history, idle)
            words: dict[int, str] = {}
            for at, omitted, previous in self._asked(planner, request):
                answer = cast("NoteFunction", self._note)(omitted, previous)
                words[at] = as_text("the result of note", await answer if inspect.isawaitable(answer) else answer)
            return self._sent(planner, planner.noted(request, words), active, history)

    def _planned(self, messages: Sequence[M], idle: float | None) -> tuple[TurnPlanner, PlannedRequest, Active]:
        """Return the next request, planned; messages that were archived are not read again."""
        active = self._archive.active(messages) if is_sequence(messages) else None
        if self._archive:
            try:
                if active is not None:
                    return (*self._plan(active, idle), active)
            except (CupelError, TypeError):
                pass  # an error must give positions in the whole history
            self._begin()
        active = Active(messages, range(len(messages)) if is_sequence(messages) else ())
        return (*self._plan(active, idle), active)

    def _plan(self, active: Active, idle: float | None) -> tuple[TurnPlanner, PlannedRequest]:
        history = read_history(active.messages, self._options, self._memory)
        planner = self._planner(history, self._segments, active, idle)
        joined = not self._archive and any(len(segment.units) > 1 for segment in planner.segments)
        request: PlannedRequest | None = None
        try:
            request = planner.plan()
        except PinnedMessagesExceedBudgetError:
            if not joined:
                raise
        if request is not None and not (joined and planner.lacks_words(request)):
            return planner, request
        # Units that are interleaved can be sent without each other, if there is no room for all of them.
        parted = self._planner(history, Segments(self._forms, joined=False), active, idle)
        try:
            return parted, parted.plan()
        except PinnedMessagesExceedBudgetError:
            if request is None:
                raise
            return planner, request

    def _planner(self, history: History, source: Segments, active: Active, idle: float | None) -> TurnPlanner:
        if self._follows_provider:
            self._prices = history.format.prices
        window = self._window(self._budget)
        room = window - history.fixed_tokens
        history.drop_stale(room)
        segments = source.follow(history, active.origin)
        state = structs.replace(self._state, last=grown(self._state.last, segments, history))
        return TurnPlanner(
            history=history,
            source=source,
            segments=segments,
            values=self._values(history, room, segments, source),
            start=TurnStart.of(state, self._prices, _opening(history.fixed), idle),
            noting=Gaps(
                segments=segments,
                counter=history.counter,
                archived=source.archived_before(segments),
                answers=self._state.answers,
                separate=self._options.framework is None and not self._options.alternate,
            ),
            window=window,
            budget=self._budget.target_tokens,
            keep=self._share,
            worth=self._worth * self._trust,
            gaps=self._gaps,
            notes=self._writes,
            reserve=0 if self._note is None else window // ANSWER_SHARE,
        )

    def _values(self, history: History, room: int, segments: Sequence[Segment], source: Segments) -> list[float]:
        if self._pipeline is None or not segments:
            return source.values()
        items = history.items(room)
        scorer = self._pipeline.bind(history.asked() if self._query is None else self._query).scorer
        scores = scorer.checked_scores(items)
        return [
            sum(scores[unit] for unit in segment.units if scores[unit] > 0) * max(segment.tokens, 1) ** _SIZE
            for segment in segments
        ]

    def _asked(self, planner: TurnPlanner, request: PlannedRequest) -> list[tuple[int, list[Any], str | None]]:
        """Return the gaps that the caller's function writes a note on, with its two arguments."""
        asked: list[tuple[int, list[Any], str | None]] = []
        for at, gap in request.gaps.items() if self._note is not None else ():
            fresh, previous = planner.noting.previous(gap)
            positions = [position for one in fresh for position in planner.segments[one].positions]
            messages = [planner.history.messages[position] for position in positions]
            asked.append((at, messages, "\n".join(previous) or None))
        return asked

    def _sent(self, planner: TurnPlanner, request: PlannedRequest, active: Active, messages: Sequence[M]) -> Turn[M]:
        """Return the turn that sends a request, and remember it."""
        ends = {(placed.gap[0].key, placed.gap[-1].key): placed for placed in request.notes.values()}
        answers = [one for one in self._state.answers if (one.first, one.last) in ends]
        answers += [Answer(*end, placed.words) for end, placed in ends.items() if placed.words]
        distinct = {(one.first, one.last): one for one in answers}
        step = conclude(
            planner.start,
            request.planner,
            request.entries,
            terms=request.terms,
            value=request.value,
            answers=tuple(distinct.values()),
        )

        def whole() -> Whole:
            if len(active.messages) == len(messages):
                return replace(planner.history, memory=Memory()), planner.segments
            history = read_history(messages, self._options, Memory(observation=self._observation))
            return history, Segments(self._forms).split(history, range(len(messages)))

        turn = TurnBuilder(
            planner=planner,
            request=request,
            step=step,
            origin=active.origin,
            size=len(messages),
            limit=self._prices.marks - (self._options.system is not None or bool(self._options.tools)),
            whole=whole,
        ).build()
        self._keep(step.state, turn, turn.bill, turn.changes)
        self._store(planner, request, active, messages)
        return turn

    def _store(self, planner: TurnPlanner, request: PlannedRequest, active: Active, messages: Sequence[M]) -> None:
        """Archive the segments that no request will contain again, once there are many."""
        old = planner.archivable(request) if planner.source is self._segments else []
        if sum(len(planner.segments[at].positions) for at in old) < _ARCHIVED:
            return
        gone = {position for at in old for position in planner.segments[at].positions}
        stays = [at for at, one in enumerate(active.messages) if at not in gone and one is not PLACEHOLDER]
        self._archive.keep([active.origin[at] for at in stays], messages)
        after = cast("Active", self._archive.active(messages))
        places = {position: at for at, position in enumerate(after.origin) if after.messages[at] is not PLACEHOLDER}
        renumbered = {at: places[active.origin[at]] for at in stays}
        self._segments.archive([planner.segments[at] for at in old], renumbered)
        self._memory.renumber(after.messages, renumbered)


def _pinning(pin: Callable[[M], bool]) -> Callable[[M], bool]:
    """Return a rule for pins that is not asked about placeholders."""
    ask = as_function("pin", pin)
    return lambda message: message is not PLACEHOLDER and bool(ask(message))


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


def _opening(fixed: Sequence[ContextItem]) -> Opening:
    """Return a digest and the tokens of everything that comes before the messages of a request."""
    text = "".join(f"{item.tokens}:{item.content}\n" for item in fixed)
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return Opening(digest, sum(item.tokens for item in fixed))
