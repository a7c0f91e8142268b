"""Replay recorded conversations under other windows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from html import escape
from itertools import cycle, takewhile
from math import fsum
from typing import TYPE_CHECKING, Any, Final

from cupel._internal.checks import as_function, as_instance, as_integer, as_mapping, as_text, as_tuple
from cupel._internal.notebook import table
from cupel._internal.text import plural
from cupel.errors import CupelError, SelectionError
from cupel.evaluation._cases import EvaluationError
from cupel.evaluation._page import turns_payload
from cupel.evaluation._reader import Reader
from cupel.evaluation._recordings import Recording
from cupel.evaluation._retention import Retention, retention
from cupel.evaluation._strategies import SentRequest, request_of
from cupel.messages import Prices, default_prices, has_all_pairs, within_reach
from cupel.page import write_page

if TYPE_CHECKING:
    import os

    from cupel.evaluation._strategies import Fill, WindowStrategy
    from cupel.messages import Message
    from cupel.tokens import TokenCounter


_COLUMNS: Final = dict.fromkeys(("sent a turn", "cached", "price a turn", "facts held", "over", "failed"), "right")


def _notebook(found: Replay) -> str:
    """Return the compact view of a replay."""
    figures = found.figures
    turns = max((one.turns for one in figures.values()), default=0)
    head = f"{plural(turns, 'turn')} over {plural(found.budget, 'token')}"
    rows = [_cells(name, one) for name, one in figures.items()]
    return f"<div><p><strong>{escape(head)}</strong></p>{table({'strategy': 'left', **_COLUMNS}, rows)}</div>"


def _cells(name: str, one: Figures) -> tuple[str, ...]:
    priced = (f"{one.sent:,.0f}", f"{one.hit:.0%}", f"{one.price:,.0f}") if one.turns > one.failed else ("–",) * 3
    return name, *priced, f"{one.facts:.0%}" if one.steps else "–", f"{one.over:,}", f"{one.failed:,}"


@dataclass(frozen=True, slots=True)
class ReplayedTurn:
    """One request that a strategy would have sent."""

    recording: str
    at: int
    """The position of the model's answer in the recording."""
    history: int
    """Tokens of the whole history before it."""
    pressed: bool
    """Whether the history exceeds the budget, and the turn is not one of the recording that this one was forked from.

    Only such turns count.
    """
    retention: Retention | None
    """The facts that the answer used; None if it used none, or if the turn was not measured."""
    failure: str | None = None
    """Why there was no request; the turn then has no price, and all facts that the answer used count as lost."""
    sent: int = 0
    hit: int = 0
    """Tokens of the messages that this request has in common with the start of the last one: a prompt cache hit."""
    new: int = 0
    """Tokens of the messages that came after the last request."""
    price: float = 0.0
    """In units of one uncached input token."""
    over: bool = False
    invalid: bool = False
    """Whether a call has no result, or a result no call."""
    unsent: bool = False
    """Whether the newest message is missing."""
    request: SentRequest | None = field(default=None, repr=False)
    """The request; None if there was none."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The average cost of a strategy over the pressed turns, and the share of facts it keeps."""

    turns: int
    failed: int
    """Turns without a request; they do not count for `hit`, `sent` and `price`."""
    hit: float
    sent: float
    price: float
    over: int
    invalid: int
    unsent: int
    facts: float
    """The share of the facts that the window contained."""
    whole: float
    """The share of steps whose window contained all their facts."""
    context: float
    """The share of steps whose names all keep their original neighbouring words."""
    reach: float
    """The share of steps whose facts are all in the window or in a text that at most two calls of `recall` return."""
    steps: int
    """Steps that used facts, on which the last four are measured."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The requests of several strategies for the same recordings."""

    budget: int
    prices: Prices
    strategies: Mapping[str, tuple[ReplayedTurn, ...]] = field(repr=False)
    """Every turn of each strategy, recording after recording."""
    recordings: tuple[Recording, ...] = field(default=(), repr=False)
    counter: TokenCounter | None = field(default=None, repr=False)

    @property
    def figures(self) -> dict[str, Figures]:
        """The figures of each strategy."""
        return {name: _figures(turns) for name, turns in self.strategies.items()}

    def save_page(self, path: str | os.PathLike[str], *, title: str = "A conversation") -> None:
        """Write the page of the turns: the cost of each request, its changes, and its text."""
        write_page({"title": as_text("title", title), "turns": self.page_payload()}, path)

    def page_payload(self) -> dict[str, Any]:
        """Return the part `turns` of a page's data, as plain values."""
        return turns_payload(self)

    def _repr_html_(self) -> str:
        return _notebook(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: the figures of each strategy, and its turns."""
        return {
            "budget": self.budget,
            "prices": {"read": self.prices.read, "write": self.prices.write},
            "strategies": [
                {"name": name, **asdict(one), "each_turn": [_turn_to_dict(turn) for turn in self.strategies[name]]}
                for name, one in self.figures.items()
            ],
        }


def _turn_to_dict(turn: ReplayedTurn) -> dict[str, Any]:
    kept = None if turn.retention is None else {**asdict(turn.retention), "whole": turn.retention.whole}
    plain = asdict(replace(turn, request=None))  # messages are not copied
    del plain["request"]
    return {**plain, "retention": kept}


def _figures(turns: Sequence[ReplayedTurn]) -> Figures:
    pressed = [turn for turn in turns if turn.pressed]
    requests = [turn for turn in pressed if turn.failure is None]
    used = [turn.retention for turn in pressed if turn.retention is not None]
    named = [one for one in used if one.names]
    sent = sum(turn.sent for turn in requests)
    return Figures(
        turns=len(pressed),
        failed=len(pressed) - len(requests),
        hit=sum(turn.hit for turn in requests) / max(sent, 1),
        sent=sent / max(len(requests), 1),
        price=fsum(turn.price for turn in requests) / max(len(requests), 1),
        over=sum(turn.over for turn in requests),
        invalid=sum(turn.invalid for turn in requests),
        unsent=sum(turn.unsent for turn in requests),
        facts=sum(one.kept for one in used) / max(sum(one.facts for one in used), 1),
        whole=sum(one.whole for one in used) / max(len(used), 1),
        context=sum(one.in_context for one in named) / max(len(named), 1),
        reach=sum(one.reached == one.facts for one in used) / max(len(used), 1),
        steps=len(used),
    )


def replay(
    recordings: Recording | Iterable[Recording],
    strategies: Mapping[str, WindowStrategy],
    budget: int,
    *,
    prices: Prices | None = None,
    counter: TokenCounter | None = None,
    every: int = 1,
    on_progress: Callable[[int, int], object] | None = None,
) -> Replay:
    """Compute the requests that each strategy would have sent before each step of recorded conversations.

    A step is an answer of the model, before which one request is sent; its tool calls show the facts that it used. A
    strategy that raises a SelectionError has no request on that turn; the turn counts as failed.

    Args:
        recordings: One conversation or several.
        strategies: Names, each with a function that starts a conversation.
        budget: Tokens of the window.
        prices: Of cached and written tokens; by default those of the first recording's provider.
        counter: Counts the tokens of all strategies alike.
        every: Measure retention on every nth pressed turn only, which is faster.
        on_progress: Called after each turn with how many of how many are done.

    >>> from cupel.evaluation import EverythingStrategy, Recording, TailStrategy
    >>> history = [{"role": "user", "content": "Which gate for LH123?"}]
    >>> for turn in range(9):
    ...     look = {"name": "look", "arguments": '{"page": "gate-B12"}'}
    ...     call = {"id": f"{turn}", "type": "function", "function": look}
    ...     history.append({"role": "assistant", "content": None, "tool_calls": [call]})
    ...     history.append({"role": "tool", "tool_call_id": f"{turn}", "content": "gate-B12 is open. " * 9})
    >>> strategies = {"everything": EverythingStrategy(), "tail": TailStrategy()}
    >>> figures = replay(Recording(history), strategies, 200).figures
    >>> figures["everything"].over > 0, figures["tail"].over, figures["tail"].facts
    (True, 0, 1.0)
    """
    known = (recordings,) if isinstance(recordings, Recording) else as_tuple("recordings", recordings, Recording)
    budget = as_integer("budget", budget, least=1, error=EvaluationError)
    every = as_integer("every", every, least=1, error=EvaluationError)
    if on_progress is not None:
        as_function("on_progress", on_progress)
    if prices is None:
        prices = default_prices(known[0].provider if known else "anthropic")
    prices = as_instance("prices", prices, Prices)
    starts = _checked(strategies)
    conversations: list[Reader] = []
    for recording in known:
        with _named(recording):
            conversations.append(Reader(recording, counter))
    stages = sum(len(one.steps) for one in conversations) * len(starts)
    if not stages:
        msg = f"no step to replay: in {plural(len(known), 'recording')} the model answers no message"
        raise EvaluationError(msg)
    found: dict[str, tuple[ReplayedTurn, ...]] = {}
    done = 0
    for name, strategy in starts.items():
        measured = cycle([*[False] * (every - 1), True])
        turns: list[ReplayedTurn] = []
        for one in conversations:
            with _named(one.recording):
                fill = as_function(f"the result of strategies[{name!r}]", strategy(one.recording, budget))
                for turn in _turns(one, fill, budget, prices, measured):
                    turns.append(turn)
                    done += 1
                    if on_progress is not None:
                        on_progress(done, stages)
        found[name] = tuple(turns)
    return Replay(budget, prices, found, known, counter)


@contextmanager
def _named(recording: Recording) -> Generator[None, None, None]:
    """Name the conversation in errors about its messages."""
    try:
        yield
    except CupelError as error:
        raise EvaluationError(f"{recording.label}: {error}") from error
    except TypeError as error:
        raise TypeError(f"{recording.label}: {error}") from error


def _checked(strategies: Mapping[str, WindowStrategy]) -> dict[str, WindowStrategy]:
    starts: dict[str, WindowStrategy] = {}
    for name, strategy in as_mapping("strategies", strategies).items():
        starts[as_text("every key of strategies", name)] = as_function(f"strategies[{name!r}]", strategy)
    if not starts:
        raise EvaluationError("strategies is empty: pass at least one, such as {'session': SessionStrategy()}")
    return starts


def _turns(reader: Reader, fill: Fill, budget: int, prices: Prices, measured: Iterator[bool]) -> Iterator[ReplayedTurn]:
    """Yield the turns of one conversation; `measured` says of each pressed turn whether to measure its retention."""
    before: list[bytes] = []
    last: SentRequest | None = None
    start = 0
    for step in reader.steps:
        history = list(reader.recording.messages[: step.at])
        size = reader.sizes[step.at]
        pressed = size > budget and step.at >= reader.recording.replay_from
        turn = ReplayedTurn(reader.recording.name, step.at, size, pressed=pressed, retention=None)
        known = [*reader.opening, *reader.messages[: step.at]] if turn.pressed and next(measured) else None
        try:
            request = request_of(fill(history), history, last)
        except SelectionError as error:
            lost = None if known is None else retention(step.arguments, known, ())
            yield replace(turn, retention=lost, failure=str(error))
            continue
        if (bill := request.bill) is not None:
            turn = replace(turn, request=request, sent=bill.sent, hit=bill.read, new=bill.new, price=bill.price)
            yield replace(turn, over=bill.sent > budget)
            continue
        keys = reader.keys(request.messages)
        said = list(map(reader.read, request.messages))
        recalled = partial(within_reach, history=history, provider=reader.provider)
        kept = None if known is None else retention(step.arguments, known, [*reader.opening, *said], recalled)
        turn = replace(turn, retention=kept, request=request)
        yield _priced(turn, reader, said, budget, prices, same=_common(before, keys), start=start)
        before, last, start = keys, request, step.at


def _priced(
    turn: ReplayedTurn,
    reader: Reader,
    said: Sequence[Message],
    budget: int,
    prices: Prices,
    *,
    same: int,
    start: int,
) -> ReplayedTurn:
    """Add the cost of a request whose first `same` messages are cached; `start` is the place of the last answer."""
    costs = list(map(reader.cost, said))
    sent, hit = reader.opening_tokens + sum(costs), sum(costs[:same])
    if start and (reader.opening or reader.unlogged):
        hit += reader.opening_tokens
    hit = min(hit, reader.served.get(turn.at, hit))
    cached = prices.cached(hit)
    positions = turn.request.positions if turn.request is not None else ()
    new = (cost for at, cost in zip(positions, costs, strict=True) if at is None or at >= start)
    newest, wanted = (said[-1] if said else None), reader.messages[turn.at - 1]
    return replace(
        turn,
        sent=sent,
        hit=hit,
        new=sum(new) if start else sent,
        price=prices.read * cached + prices.write * (sent - cached),
        over=sent > budget,
        invalid=not has_all_pairs(said, reader.provider),
        unsent=newest is None or (newest.role, newest.results) != (wanted.role, wanted.results),
    )


def _common(before: Sequence[bytes], now: Sequence[bytes]) -> int:
    """Return the length of the common prefix of two requests."""
    pairs = zip(before, now, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
