"""Replay recorded conversations under other windows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any, Final

from cupel._checks import as_flag, as_function, as_instance, as_integer, as_mapping, as_text, as_tuple, shown
from cupel._documents import is_object
from cupel._planning import MOST_TOKENS
from cupel._text import plural
from cupel.errors import SelectionError
from cupel.evaluation._cases import EvaluationError
from cupel.evaluation._page import turns_payload
from cupel.evaluation._recordings import Reader, Recording
from cupel.evaluation._retention import Retention, retention
from cupel.evaluation._spoken import costing, is_valid
from cupel.evaluation._strategies import Request, request_of
from cupel.page import write_page
from cupel.sessions import Prices

if TYPE_CHECKING:
    import os

    from cupel.evaluation._spoken import Spoken, ToolStep
    from cupel.evaluation._strategies import Fill, Way
    from cupel.tokens import TokenCounter


_COLUMNS = ("way", "sent a turn", "cached", "price a turn", "facts held", "over", "failed")


def replay_html(replay: Replay) -> str:
    """Return the compact view of a replay: what each way sends, pays and keeps on the turns that count."""
    figures = replay.figures
    turns = max((one.turns for one in figures.values()), default=0)
    head = f"{plural(turns, 'turn')} over {plural(replay.budget, 'token')}"
    heads = "".join(f'<th scope="col" style="text-align:{_side(at)}">{name}</th>' for at, name in enumerate(_COLUMNS))
    rows = "".join(_row(name, one) for name, one in figures.items())
    return (
        f"<div><p><strong>{escape(head)}</strong></p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(name: str, one: Figures) -> str:
    priced = (f"{one.sent:,.0f}", f"{one.hit:.0%}", f"{one.price:,.0f}") if one.turns > one.failed else ("–",) * 3
    kept = f"{one.facts:.0%}" if one.steps else "–"
    cells = (name, *priced, kept, f"{one.over:,}", f"{one.failed:,}")
    return (
        "<tr>" + "".join(f'<td style="text-align:{_side(at)}">{escape(c)}</td>' for at, c in enumerate(cells)) + "</tr>"
    )


def _side(column: int) -> str:
    return "right" if column else "left"


@dataclass(frozen=True, slots=True)
class Turn:
    """One request that a way would have sent."""

    recording: str
    at: int
    """The position of the message that the model answered with."""
    history: int
    """Tokens of the whole history before it."""
    pressed: bool
    """Whether the history exceeds the budget: only such turns count."""
    retention: Retention | None
    """What the step used; None where nothing was used, or nobody looked."""
    failure: str | None = None
    """Why nothing could be sent; then the turn has no price, and everything the step used counts as lost."""
    sent: int = 0
    hit: int = 0
    """Tokens of the longest common run of messages with the request before: what a prompt cache serves."""
    new: int = 0
    """Tokens of the messages that came since the request before."""
    price: float = 0.0
    """In units of one uncached input token."""
    over: bool = False
    invalid: bool = False
    """Whether a call has no answer or an answer no call."""
    unsent: bool = False
    """Whether the newest message is missing."""
    request: Request | None = field(default=None, repr=False)
    """What was sent; None where nothing could be."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a way costs on average over pressed turns, and what it keeps."""

    turns: int
    failed: int
    """Turns on which the way had no request to send; they have no share in hit, sent and price."""
    hit: float
    sent: float
    price: float
    over: int
    invalid: int
    unsent: int
    facts: float
    """The share of what the steps used that the window held."""
    whole: float
    """The share of steps whose window held all of it."""
    context: float
    """The share of steps whose window held all names as where they came from."""
    steps: int
    """Steps that used something, on which the last three are measured."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The ways side by side."""

    budget: int
    prices: Prices
    ways: Mapping[str, tuple[Turn, ...]] = field(repr=False)
    """Every turn of each way, recording after recording."""
    recordings: tuple[Recording, ...] = field(default=(), repr=False)
    counter: TokenCounter | None = field(default=None, repr=False)
    answers: bool = field(default=False, repr=False)
    """Whether all that the model said is a step, not its calls alone."""

    @property
    def figures(self) -> dict[str, Figures]:
        """The figures of each way."""
        return {name: _figures(turns) for name, turns in self.ways.items()}

    def save_page(self, path: str | os.PathLike[str], *, title: str = "A conversation") -> None:
        """Write the page of the turns: what each request costs, what enters and leaves, and the request as text."""
        write_page({"title": as_text("title", title), "turns": self.page_payload()}, path)

    def page_payload(self) -> dict[str, Any]:
        """Return what the page shows of the turns as plain values, the part `turns` of a page's data."""
        return turns_payload(self)

    def _repr_html_(self) -> str:
        return replay_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: the figures of each way, and its turns."""
        return {
            "budget": self.budget,
            "prices": {"read": self.prices.read, "write": self.prices.write},
            "ways": [
                {"way": name, **asdict(figures), "each_turn": [_turn_to_dict(turn) for turn in self.ways[name]]}
                for name, figures in self.figures.items()
            ],
        }


def _turn_to_dict(turn: Turn) -> dict[str, Any]:
    kept = None if turn.retention is None else {**asdict(turn.retention), "whole": turn.retention.whole}
    plain = asdict(replace(turn, request=None))  # messages are not copied
    del plain["request"]
    return {**plain, "retention": kept}


def _figures(turns: Sequence[Turn]) -> Figures:
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
        price=sum(turn.price for turn in requests) / max(len(requests), 1),
        over=sum(turn.over for turn in requests),
        invalid=sum(turn.invalid for turn in requests),
        unsent=sum(turn.unsent for turn in requests),
        facts=sum(one.kept for one in used) / max(sum(one.facts for one in used), 1),
        whole=sum(one.whole for one in used) / max(len(used), 1),
        context=sum(one.in_context for one in named) / max(len(named), 1),
        steps=len(used),
    )


_OVER: Final = 1.02
"""Counts differ a little between counters; a request is over the budget from here on."""


def replay(
    recordings: Recording | Iterable[Recording],
    ways: Mapping[str, Way],
    budget: int,
    *,
    prices: Prices | None = None,
    counter: TokenCounter | None = None,
    every: int = 1,
    answers: bool = False,
    on_progress: Callable[[int, int], object] | None = None,
) -> Replay:
    """Ask each way what it would have sent before each step of recorded conversations.

    A step is an answer in which the model calls tools. `every` looks at what was kept on every nth pressed turn only,
    which is faster. With `answers`, whatever the model says is a step, and nothing is measured of what it used:
    for conversations without tools. A way that raises a SelectionError has no request on that turn, which is counted as
    failed.

    >>> from cupel.evaluation import AppendWay, Recording, TailWay
    >>> history = [{"role": "user", "content": "Which gate for LH123?"}]
    >>> for turn in range(9):
    ...     look = {"name": "look", "arguments": '{"page": "gate-B12"}'}
    ...     call = {"id": f"{turn}", "type": "function", "function": look}
    ...     history.append({"role": "assistant", "content": None, "tool_calls": [call]})
    ...     history.append({"role": "tool", "tool_call_id": f"{turn}", "content": "gate-B12 is open. " * 9})
    >>> figures = replay(Recording(history), {"append": AppendWay(), "tail": TailWay()}, 200).figures
    >>> figures["append"].over > 0, figures["tail"].over, figures["tail"].facts
    (True, 0, 1.0)
    """
    known = (recordings,) if isinstance(recordings, Recording) else as_tuple("recordings", recordings, Recording)
    budget = as_integer("budget", budget, least=1, error=EvaluationError)
    if budget > MOST_TOKENS:
        raise EvaluationError(f"budget must be at most 2**53 tokens, got {shown(budget)}")
    every = as_integer("every", every, least=1, error=EvaluationError)
    if on_progress is not None:
        as_function("on_progress", on_progress)
    prices = Prices.marked() if prices is None else as_instance("prices", prices, Prices)
    starts = _checked(ways)
    as_flag("answers", answers)
    conversations = [_Conversation(recording, costing(counter), answers=answers) for recording in known]
    stages = sum(len(one.steps) for one in conversations) * len(starts)
    if not stages:
        raise EvaluationError(f"no step to replay: in {len(known)} recordings the model calls no tool after a message")
    found: dict[str, tuple[Turn, ...]] = {}
    done = 0
    for name, way in starts.items():
        meter = _Meter(budget, prices, every)
        turns: list[Turn] = []
        for one in conversations:
            fill = as_function(f"what ways[{name!r}] returned", way(one.recording, budget))
            for turn in meter.turns(one, fill):
                turns.append(turn)
                done += 1
                if on_progress is not None:
                    on_progress(done, stages)
        found[name] = tuple(turns)
    return Replay(budget, prices, found, known, counter, answers)


def _checked(ways: Mapping[str, Way]) -> dict[str, Way]:
    starts: dict[str, Way] = {}
    for name, way in as_mapping("ways", ways).items():
        starts[as_text("every key of ways", name)] = as_function(f"ways[{name!r}]", way)
    if not starts:
        raise EvaluationError("ways is empty: name at least one way to fill the window")
    return starts


class _Conversation:
    """A recording as every way meets it: its steps, and the tokens of its messages."""

    def __init__(self, recording: Recording, cost: Callable[[Spoken], int], *, answers: bool) -> None:
        self.recording = recording
        self.reader = Reader(recording)
        self.steps = self.reader.steps(answers=answers)
        self.cost = cost
        self.sizes = list(accumulate(map(cost, self.reader.messages), initial=sum(map(cost, self.reader.opening))))
        """Tokens of the history before each message."""
        self._keys = {id(message): _key(message) for message in recording.messages}

    def keys(self, messages: Iterable[Any]) -> list[str]:
        """Return what tells messages apart."""
        return [self._keys.get(id(message)) or _key(message) for message in messages]

    def retention(self, step: ToolStep, window: Sequence[Spoken]) -> Retention | None:
        """Say what a window has of what a step used."""
        history = [*self.reader.opening, *self.reader.messages[: step.at]]
        return retention(step.arguments, history, window)


class _Meter:
    """Measures one way over all conversations."""

    def __init__(self, budget: int, prices: Prices, every: int) -> None:
        self._budget = budget
        self._prices = prices
        self._every = every
        self._pressed = 0

    def turns(self, told: _Conversation, fill: Fill) -> Iterator[Turn]:
        """Yield the turns of one conversation."""
        before: list[str] = []
        last: Request | None = None
        start = 0
        for step in told.steps:
            history = list(told.recording.messages[: step.at])
            size = told.sizes[step.at]
            turn = Turn(told.recording.name, step.at, size, pressed=size > self._budget, retention=None)
            self._pressed += turn.pressed
            looks = turn.pressed and self._pressed % self._every == 0
            try:
                request = request_of(fill(history), history, last)
            except SelectionError as error:
                yield replace(turn, retention=told.retention(step, ()) if looks else None, failure=str(error))
                continue
            keys = told.keys(request.messages)
            same = 0 if last is None else len(told.reader.opening) + _common(before, keys)
            said = [*told.reader.opening, *map(told.reader.read, request.messages)]
            sent = self._sent(turn, told, request, said, same=same, start=start)
            yield replace(sent, retention=told.retention(step, said) if looks else None)
            before, last, start = keys, request, step.at

    def _sent(
        self, turn: Turn, told: _Conversation, request: Request, said: Sequence[Spoken], *, same: int, start: int
    ) -> Turn:
        """Add what a request costs; its first `same` messages stood in the last one, which was made before `start`."""
        costs = list(map(told.cost, said))
        places = zip(request.positions, costs[len(told.reader.opening) :], strict=True)
        sent, hit = sum(costs), sum(costs[:same])
        cached = self._prices.cached(hit)
        newest, wanted = (said[-1] if request.messages else None), told.reader.messages[turn.at - 1]
        return replace(
            turn,
            sent=sent,
            hit=hit,
            new=sum(cost for at, cost in places if at is None or at >= start) if start else sent,
            price=self._prices.read * cached + self._prices.write * (sent - cached),
            over=sent > _OVER * self._budget,
            invalid=not is_valid(said, told.reader.provider),
            unsent=newest is None or (newest.role, newest.answers) != (wanted.role, wanted.answers),
            request=request,
        )


def _key(message: Any) -> str:
    plain = message if is_object(message) else message.model_dump(mode="json", exclude_none=True)
    return json.dumps(plain, sort_keys=True, default=str)


def _common(before: Sequence[str], now: Sequence[str]) -> int:
    """Return how many messages two requests have in common from the start."""
    pairs = zip(before, now, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
