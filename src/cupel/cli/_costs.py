"""What the conversations of agents' logs cost, and why the cache was missed: tables, and a document."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from math import fsum
from pathlib import Path
from typing import Any, Final, NamedTuple

from cupel._internal.text import plural
from cupel.cli._output import Cell, Column, Table, print_table, say
from cupel.errors import ConfigurationError
from cupel.evaluation import LoggedCall, Recording
from cupel.messages import Bill, default_prices

_HOMES: Final = (("CLAUDE_CONFIG_DIR", "~/.claude", "projects"), ("CODEX_HOME", "~/.codex", "sessions"))
_MOST_ROWS: Final = 20
_MOST_DEAREST: Final = 10


class _Call(NamedTuple):
    """A request of a log, and where it is."""

    recording: Recording
    number: int
    call: LoggedCall
    extra: float
    """What it cost that a token was written again and not read."""


def log_folders() -> list[str]:
    """Return the folders of Claude Code's and of Codex' logs that there are."""
    homes = [Path(os.environ.get(name) or home).expanduser() / inside for name, home, inside in _HOMES]
    found = [str(folder) for folder in homes if folder.is_dir()]
    if not found:
        raise ConfigurationError(f"SESSIONS is missing, and there are no logs in {' or '.join(map(str, homes))}")
    return found


def costs_document(recordings: Sequence[Recording]) -> dict[str, Any]:
    """Return what each conversation cost, and the causes of cache misses, as plain values."""
    talks = _conversations(recordings)
    return {
        "conversations": [
            {
                "name": own[0].recording.name,
                "log": own[0].recording.where,
                "requests": [
                    {
                        "time": one.call.time,
                        "model": one.call.model,
                        **_amounts(one.call.bill),
                        "causes": dict(one.call.causes),
                    }
                    for one in own
                ],
                **_amounts(_total(own)),
            }
            for own in talks
        ],
        "causes": [
            {
                "cause": cause,
                "tokens": _rewritten(cause, own),
                "price": fsum(one.call.causes[cause] * one.extra for one in own),
                "requests": len(own),
                "dearest": [
                    {"conversation": one.recording.name, "request": one.number, "tokens": one.call.causes[cause]}
                    for one in own[:_MOST_DEAREST]
                ],
            }
            for cause, own in _causes(talks)
        ],
    }


def print_costs(recordings: Sequence[Recording]) -> None:
    """Print what each conversation cost, and the causes of cache misses."""
    talks = _conversations(recordings)
    numbers = ("requests", "sent", "cached", "written again", "new", "price")
    calls = sum(map(len, talks))
    title = f"{plural(len(talks), 'conversation')}, {plural(calls, 'request')}, by the provider's own count"
    table = Table([Column("conversation"), Column("model"), *(Column(name, number=True) for name in numbers)], title)
    talks.sort(key=lambda own: -_total(own).price)
    for own in talks[:_MOST_ROWS]:
        models = dict.fromkeys(one.call.model for one in own)
        table.add(Cell(own[0].recording.name, "bold"), ", ".join(models), *_cells(len(own), _total(own)))
    if len(talks) > _MOST_ROWS:
        rest = [one for own in talks[_MOST_ROWS:] for one in own]
        table.add(f"{len(talks) - _MOST_ROWS:,} others", "", *_cells(len(rest), _total(rest)))
    everything = [one for own in talks for one in own]
    table.add("all", "", *_cells(calls, _total(everything)))
    print_table(table)
    say("\nPrices are in uncached input tokens; answers are not counted.\n")
    causes = _causes(talks)
    if not causes:
        say("Nothing was written again: the cache served all that had been sent before.")
        return
    columns = (Column("tokens", number=True), Column("price", number=True), Column("requests", number=True))
    table = Table([Column("why tokens were written again"), *columns, Column("the most at once")])
    for cause, own in causes:
        lost = [one.call.causes[cause] for one in own]
        extra = fsum(tokens * one.extra for tokens, one in zip(lost, own, strict=True))
        table.add(Cell(cause, "bold"), f"{sum(lost):,}", f"{extra:,.0f}", f"{len(own):,}", _place(own[0], cause))
    print_table(table)
    say("\nTheir price is what they cost more than if the cache had served them.")


def _conversations(recordings: Sequence[Recording]) -> list[list[_Call]]:
    """Return the requests of each conversation; what became of one history is one conversation."""
    found: dict[str, list[_Call]] = {}
    for recording in recordings:
        own = found.setdefault(recording.where, [])
        prices = default_prices(recording.provider)
        for call in recording.calls:
            own.append(_Call(recording, len(own) + 1, call, prices.write - prices.read))
    return list(found.values())


def _causes(talks: Sequence[Sequence[_Call]]) -> list[tuple[str, list[_Call]]]:
    """Return the causes, the one with most tokens first, and for each its requests, the dearest first."""
    found: dict[str, list[_Call]] = {}
    for one in (one for own in talks for one in own):
        for cause in one.call.causes:
            found.setdefault(cause, []).append(one)
    for cause, own in found.items():
        own.sort(key=lambda one: -one.call.causes[cause])
    return sorted(found.items(), key=lambda pair: -_rewritten(*pair))


def _rewritten(cause: str, calls: Iterable[_Call]) -> int:
    """Return the tokens that a cause had written again."""
    tokens = 0
    for one in calls:
        tokens += one.call.causes[cause]
    return tokens


def _place(own: _Call, cause: str) -> str:
    when = datetime.fromtimestamp(own.call.time).astimezone()
    after = f" after {timedelta(seconds=round(own.call.idle))}" if cause.startswith("idle") else ""
    return f"{own.call.causes[cause]:,} in request {own.number:,} of {own.recording.name}, {when:%Y-%m-%d %H:%M}{after}"


def _total(own: Sequence[_Call]) -> Bill:
    return sum((one.call.bill for one in own), Bill())


def _cells(requests: int, bill: Bill) -> tuple[str, ...]:
    cached = f"{bill.read / bill.sent:.0%}" if bill.sent else "–"
    return f"{requests:,}", f"{bill.sent:,}", cached, f"{bill.rewritten:,}", f"{bill.new:,}", f"{bill.price:,.0f}"


def _amounts(bill: Bill) -> dict[str, float]:
    return {name: getattr(bill, name) for name in ("sent", "read", "rewritten", "new", "price")}
