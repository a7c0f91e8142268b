"""What a replay finds, turn by turn and in sum."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cupel._checks import as_text
from cupel.evaluation._notebook import replay_html
from cupel.evaluation._page import turns_payload
from cupel.page import write_page

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from cupel.evaluation._recording import Recording
    from cupel.evaluation._request import Request
    from cupel.evaluation._retention import Retention
    from cupel.sessions import Prices
    from cupel.tokens import TokenCounter


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
