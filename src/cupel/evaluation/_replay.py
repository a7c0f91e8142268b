"""Recorded conversations, replayed with other windows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from cupel._checks import as_flag, as_function, as_instance, as_integer, as_mapping, as_text, as_tuple, shown
from cupel._planning import MOST_TOKENS
from cupel.errors import SelectionError
from cupel.evaluation._errors import EvaluationError
from cupel.evaluation._plain import is_object
from cupel.evaluation._recording import Reader, Recording
from cupel.evaluation._request import Request, request_of
from cupel.evaluation._retention import retention
from cupel.evaluation._spoken import FRAME, is_valid
from cupel.evaluation._turns import Replay, Turn
from cupel.evaluation._ways import Way, counting
from cupel.session import Prices

if TYPE_CHECKING:
    from cupel.evaluation._spoken import Spoken, Step
    from cupel.evaluation._ways import Fill
    from cupel.tokens import TokenCounter

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
    starts: dict[str, Way] = {}
    for name, way in as_mapping("ways", ways).items():
        starts[as_text("every key of ways", name)] = as_function(f"ways[{name!r}]", way)
    if not starts:
        raise EvaluationError("ways is empty: name at least one way to fill the window")
    readers = [Reader(recording) for recording in known]
    stages = sum(len(reader.steps(answers=as_flag("answers", answers))) for reader in readers) * len(starts)
    if not stages:
        raise EvaluationError(f"no step to replay: in {len(known)} recordings the model calls no tool after a message")
    count = counting(counter)
    found: dict[str, tuple[Turn, ...]] = {}
    done = 0
    for name, way in starts.items():
        meter = _Meter(budget, prices, count, every, answers=answers)
        for recording, reader in zip(known, readers, strict=True):
            fill = as_function(f"what ways[{name!r}] returned", way(recording, budget))
            for turn in meter.turns(recording, reader, fill):
                meter.found.append(turn)
                done += 1
                if on_progress is not None:
                    on_progress(done, stages)
        found[name] = tuple(meter.found)
    return Replay(budget, prices, found, known, counter, answers)


class _Meter:
    """Measures one way over all conversations."""

    def __init__(self, budget: int, prices: Prices, count: Callable[[str], int], every: int, *, answers: bool) -> None:
        self.found: list[Turn] = []
        self._budget = budget
        self._prices = prices
        self._count = count
        self._every = every
        self._answers = answers
        self._pressed = 0

    def turns(self, recording: Recording, reader: Reader, fill: Fill) -> Iterable[Turn]:
        """Yield the turns of one conversation."""
        sizes = [self._count(message.text) + FRAME for message in reader.messages]
        opening = sum(self._count(message.text) + FRAME for message in reader.opening)
        known = {id(message): _key(message) for message in recording.messages}
        before: list[str] | None = None
        last: Request | None = None
        start = 0
        for step in reader.steps(answers=self._answers):
            history = list(recording.messages[: step.at])
            size = opening + sum(sizes[: step.at])
            looks = self._looks(pressed=size > self._budget)
            try:
                request = request_of(fill(history), history, last)
            except SelectionError as error:
                yield self._failed(recording.name, reader, step, size, str(error), looks=looks)
                continue
            keys = [known.get(id(message)) or _key(message) for message in request.messages]
            same = 0 if before is None else len(reader.opening) + _common(before, keys)
            yield self._sent(recording.name, reader, step, size, (request, same, start), looks=looks)
            before, last, start = keys, request, step.at

    def _looks(self, *, pressed: bool) -> bool:
        self._pressed += pressed
        return pressed and self._pressed % self._every == 0

    def _failed(self, name: str, reader: Reader, step: Step, size: int, failure: str, *, looks: bool) -> Turn:
        lost = retention(step.arguments, _history(reader, step), ()) if looks else None
        return Turn(name, step.at, size, size > self._budget, lost, failure)

    def _sent(
        self, name: str, reader: Reader, step: Step, size: int, window: tuple[Request, int, int], *, looks: bool
    ) -> Turn:
        request, same, start = window
        said = [*reader.opening, *(reader.read(message) for message in request.messages)]
        costs = [self._count(message.text) + FRAME for message in said]
        places = zip(request.positions, costs[len(reader.opening) :], strict=True)
        sent = sum(costs)
        hit = sum(costs[:same])
        cached = self._prices.cached(hit)
        newest, wanted = (said[-1] if request.messages else None), reader.messages[step.at - 1]
        return Turn(
            recording=name,
            at=step.at,
            history=size,
            pressed=size > self._budget,
            sent=sent,
            hit=hit,
            new=sum(cost for at, cost in places if at is None or at >= start) if start else sent,
            price=self._prices.read * cached + self._prices.write * (sent - cached),
            over=sent > _OVER * self._budget,
            invalid=not is_valid(said, reader.provider),
            unsent=newest is None or (newest.role, newest.answers) != (wanted.role, wanted.answers),
            retention=retention(step.arguments, _history(reader, step), said) if looks else None,
            request=request,
        )


def _history(reader: Reader, step: Step) -> list[Spoken]:
    return [*reader.opening, *reader.messages[: step.at]]


def _key(message: Any) -> str:
    plain = message if is_object(message) else message.model_dump(mode="json", exclude_none=True)
    return json.dumps(plain, sort_keys=True, default=str)


def _common(before: Sequence[str], now: Sequence[str]) -> int:
    """Return how many messages two requests have in common from the start."""
    same = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            break
        same += 1
    return same
