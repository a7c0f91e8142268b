"""A conversation's window, turn by turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from msgspec import structs

from cupel._checks import as_finite, as_flag, as_instance, as_text
from cupel._planning import Decision, Opening, Remembering, decide
from cupel.errors import ConfigurationError
from cupel.messages._account import account
from cupel.messages._draft import Draft
from cupel.messages._entries import Pieces, grown
from cupel.messages._fit import FitTask
from cupel.messages._forms import shortening_of
from cupel.messages._framework import Framework
from cupel.messages._history import Options, ranges, read_history
from cupel.messages._memory import Memory
from cupel.messages._results import Turn, dropped_from
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline

if TYPE_CHECKING:
    from cupel._planning import Candidate, Prices
    from cupel.messages._entries import Piece
    from cupel.messages._formats import Provider
    from cupel.messages._formats.media import ImageTokens
    from cupel.messages._history import History
    from cupel.messages._rules import SystemMessages
    from cupel.model import ContextItem
    from cupel.shorten import Shortener
    from cupel.tokens import TokenCounter

M = TypeVar("M")

_SIZE = 0.75
"""A score says what a message is worth among others; a long one says more, but less for each token."""
_TRUST = 0.6
"""What a conversation's habits say of the future is worth less than a score. Trusted like one, they buy 1 % more steps
for 5 % more money on recorded sessions."""


class MessageSession(Remembering, Generic[M]):
    """Keeps the window of one conversation: each request changes the last one only where that pays.

    The options are those of `fit`, and besides: `prices` is how the provider caches, by default `Prices.marked()`.
    `worth` is what a window full of the best is worth, in windows sent without a cache: a higher one keeps more and
    costs more. Long tool outputs may be shortened, except in the newest messages, within the share `recent` of the
    budget: `forms=False` forbids it, and a shortener of your own replaces the built-in forms. With `gaps=False`
    messages leave only from the old end. Without a `policy`, a message's worth is how likely the next calls are to use
    it, as far as the conversation itself shows it, and less where later outputs repeat it; `query` is what a policy's
    scorer looks for, by default the newest user message. The messages of a `framework` are taken and
    returned as its own objects.

    >>> session = MessageSession(1000, provider="openai")
    >>> history = [{"role": "user", "content": "What is in the log?"}]
    >>> turn = session.fit(history)
    >>> turn.action, turn.bill.new == turn.total_tokens
    ('append', True)
    >>> session.observe({"prompt_tokens": 14, "prompt_tokens_details": {"cached_tokens": 0}}).sent
    14
    """

    def __init__(
        self,
        budget: int | ContextBudget,
        policy: Pipeline | None = None,
        *,
        prices: Prices | None = None,
        worth: float = 1.0,
        recent: float = 0.1,
        forms: Shortener | Literal[False] | None = None,
        counter: TokenCounter | None = None,
        tools: Sequence[object] | None = None,
        provider: Provider | None = None,
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
        self._pipeline = None if policy is None else Pipeline.of(policy)
        self._trust = _TRUST if policy is None else 1.0
        self._recent = as_finite("recent", recent, least=0, most=1, error=ConfigurationError)
        self._gaps = as_flag("gaps", gaps)
        self._query = None if query is None else as_text("query", query)
        if framework is not None:
            as_instance("framework", framework, Framework)
        shortening = shortening_of(forms, built_in=None)
        self._shortening = shortening if framework is None or framework.with_outputs is not None else None
        self._options = Options(
            provider=provider,
            counter=counter,
            system=system,
            tools=tools if framework is None else framework.schemas(tools),
            pin=pin,
            image_tokens=image_tokens,
            alternate=as_flag("alternate", alternate),
            system_messages=system_messages,
            framework=framework,
        )
        self._begin()

    def _begin(self) -> None:
        window = min(self._budget.target_tokens, self._budget.max_tokens - self._budget.output_reserve)
        self._pieces = Pieces(self._shortening, window)
        self._memory = Memory()

    def fit(self, history: Sequence[M], *, idle: float | None = None) -> Turn[M]:
        """Return the next request, and remember it as sent.

        `history` is the whole conversation so far, with what is new at its end. `idle` is how many seconds ago the last
        request was sent: after the `ttl` of the prices the provider has forgotten it, and a window may be packed anew
        at no extra cost. What is pinned, as in `fit`, and all that is new is sent; a new tool output that does not fit
        is sent in the longest form that does, unless `forms=False`.
        """
        if idle is not None:
            idle = as_finite("idle", idle, least=0, most=inf, error=ConfigurationError)
        with self._only_writer():
            draft = self._draft(history)
            state = structs.replace(self._state, last=draft.last)
            opening = _opening(draft.request.history.fixed)

            def decided(candidates: Sequence[Candidate]) -> Decision | None:
                return decide(
                    state,
                    candidates,
                    prices=self._prices,
                    worth=self._worth * self._trust,
                    room=draft.request.room,
                    opening=opening,
                    idle=idle,
                    gaps=self._gaps,
                )

            step, sent = draft.decide(decided, first=not self._state.turns)
            turn = self._turn(draft, step, sent)
            self._keep(step)
        return turn

    def _draft(self, messages: Sequence[M]) -> Draft:
        history = read_history(messages, self._options, self._memory)
        window = self._window(self._budget)
        request = FitTask(history, ContextBudget(window, window))
        items = history.items(request.room)
        pieces = self._pieces.follow(history, self._state.last)
        return Draft(
            request=request,
            items=items,
            source=self._pieces,
            pieces=pieces,
            values=self._values(history, items, pieces),
            last=grown(self._state.last, pieces, history),
            recent=self._recent,
        )

    def _values(self, history: History, items: Sequence[ContextItem], pieces: Sequence[Piece]) -> list[float]:
        if self._pipeline is None or not items:
            return self._pieces.values()
        scorer = self._pipeline.bind(history.asked() if self._query is None else self._query).scorer
        scores = scorer.checked_scores(items)
        return [
            sum(scores[unit] for unit in piece.units if scores[unit] > 0) * max(piece.tokens, 1) ** _SIZE
            for piece in pieces
        ]

    def _turn(self, draft: Draft, step: Decision, sent: dict[int, str]) -> Turn[M]:
        history = draft.request.history
        positions = sorted(at for index in sent for at in draft.pieces[index].positions)
        shorter = {at: one for i, name in sent.items() for at, one in draft.pieces[i].form(name).messages.items()}
        places = {piece.key: piece for piece in draft.pieces}
        report = account(draft, sent)
        return Turn(
            messages=history.sent(positions, shorter),
            report=report,
            total_tokens=step.bill.sent,
            dropped=dropped_from(history, report, draft.items),
            provider=history.format.name,
            shortened=tuple(sorted(shorter)),
            action=step.action,
            reason=step.reason,
            changes=tuple(
                replace(change, positions=places[change.key].positions, label=_label(history, places[change.key]))
                for change in step.changes
            ),
            marks=self._marks(draft, positions, step),
            bill=step.bill,
        )

    def _marks(self, draft: Draft, positions: Sequence[int], step: Decision) -> tuple[int, ...]:
        """Return where marks belong: at the end, behind what is as in the last request, and behind the opening."""
        limit = self._prices.marks - (self._options.system is not None or bool(self._options.tools))
        infos = draft.request.history.infos
        opening = next((n for n, at in enumerate(positions) if infos[at].role != "system"), len(positions)) - 1
        common = {entry.key for entry in step.entries[: step.common]}
        joint = sum(len(piece.positions) for piece in draft.pieces if piece.key in common) - 1
        places = dict.fromkeys(place for place in (len(positions) - 1, joint, opening) if place >= 0)
        return tuple(sorted([*places][: max(0, limit)]))


def _opening(fixed: Sequence[ContextItem]) -> Opening:
    """Return what stands before the messages of a request."""
    text = "".join(f"{item.tokens}:{item.content}\n" for item in fixed)
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return Opening(digest, sum(item.tokens for item in fixed))


def _label(history: History, piece: Piece) -> str:
    tools = dict.fromkeys(tool for at in piece.positions for tool in history.infos[at].tools)
    place = ranges(piece.positions)
    return f"{place} ({', '.join(tools)})" if tools else place
