"""What the conversations of agents' logs cost, and why the cache was missed: tables, and a document."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import fsum
from pathlib import Path
from typing import Any, Final

from cupel._internal.text import plural
from cupel.cli._output import Cell, Column, Table, print_table, say
from cupel.errors import ConfigurationError
from cupel.evaluation import Recording
from cupel.messages import default_prices

_HOMES: Final = (("CLAUDE_CONFIG_DIR", "~/.claude", "projects"), ("CODEX_HOME", "~/.codex", "sessions"))
_AMOUNTS: Final = ("sent", "read", "rewritten", "new", "price")
_MOST_ROWS: Final = 20
_MOST_DEAREST: Final = 10


def log_folders() -> list[str]:
    """Return the folders of Claude Code's and of Codex' logs that there are."""
    homes = [Path(os.environ.get(name) or home).expanduser() / inside for name, home, inside in _HOMES]
    found = [str(folder) for folder in homes if folder.is_dir()]
    if not found:
        raise ConfigurationError(f"SESSIONS is missing, and there are no logs in {' or '.join(map(str, homes))}")
    return found


def costs_document(recordings: Sequence[Recording]) -> dict[str, Any]:
    """Return what each conversation cost, and the causes of cache misses, as plain values."""
    talks: dict[str, list[dict[str, Any]]] = {}  # what became of one history is one conversation
    causes: dict[str, list[dict[str, Any]]] = {}
    for recording in recordings:
        own, prices = talks.setdefault(recording.where, []), default_prices(recording.provider)
        for call in recording.calls:
            amounts = {name: getattr(call.bill, name) for name in _AMOUNTS}
            row = {"time": call.time, "model": call.model, **amounts, "causes": dict(call.causes)}
            own.append({"name": recording.name, **row})
            for cause, tokens in call.causes.items():
                place = {"conversation": recording.name, "request": len(own), "time": call.time, "idle": call.idle}
                extra = tokens * (prices.write - prices.read)
                causes.setdefault(cause, []).append({**place, "tokens": tokens, "price": extra})
    rows: list[dict[str, Any]] = []
    for cause, own in causes.items():
        own.sort(key=lambda one: -one["tokens"])
        amounts = {"tokens": _sum(own, "tokens"), "price": _sum(own, "price"), "requests": len(own)}
        rows.append({"cause": cause, **amounts, "dearest": own[:_MOST_DEAREST]})
    rows.sort(key=lambda row: -row["tokens"])
    named = [{"name": own[0]["name"], "log": where, "requests": own, **_sums(own)} for where, own in talks.items()]
    return {"conversations": named, "causes": rows}


def print_costs(document: Mapping[str, Any]) -> None:
    """Print what each conversation cost, and the causes of cache misses."""
    talks, causes = sorted(document["conversations"], key=lambda talk: -talk["price"]), document["causes"]
    everything = [one for talk in talks for one in talk["requests"]]
    numbers = ("requests", "sent", "cached", "written again", "new", "price")
    title = f"{plural(len(talks), 'conversation')}, {plural(len(everything), 'request')}, by the provider's own count"
    table = Table([Column("conversation"), Column("model"), *(Column(name, number=True) for name in numbers)], title)
    for talk in talks[:_MOST_ROWS]:
        models = dict.fromkeys(one["model"] for one in talk["requests"])
        table.add(Cell(talk["name"], "bold"), ", ".join(models), *_cells(talk["requests"]))
    if others := talks[_MOST_ROWS:]:
        table.add(f"{len(others):,} others", "", *_cells([one for talk in others for one in talk["requests"]]))
    table.add("all", "", *_cells(everything))
    print_table(table)
    say("\nPrices are in uncached input tokens; answers are not counted.\n")
    if not causes:
        say("Nothing was written again: the cache served all that had been sent before.")
        return
    columns = (Column("tokens", number=True), Column("price", number=True), Column("requests", number=True))
    table = Table([Column("why tokens were written again"), *columns, Column("the most at once")])
    for row in causes:
        amounts = (f"{row['tokens']:,}", f"{row['price']:,.0f}", f"{row['requests']:,}")
        table.add(Cell(row["cause"], "bold"), *amounts, _place(row["cause"], row["dearest"][0]))
    print_table(table)
    say("\nTheir price is what they cost more than if the cache had served them.")


def _place(cause: str, one: Mapping[str, Any]) -> str:
    when = datetime.fromtimestamp(one["time"]).astimezone()
    after = f" after {timedelta(seconds=round(one['idle']))}" if cause.startswith("idle") else ""
    return f"{one['tokens']:,} in request {one['request']:,} of {one['conversation']}, {when:%Y-%m-%d %H:%M}{after}"


def _sums(requests: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return {name: _sum(requests, name) for name in _AMOUNTS}


def _sum(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    """Add numbers up; tokens are whole ones."""
    total = fsum(row[name] for row in rows)
    return total if name == "price" else int(total)


def _cells(requests: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    sums = _sums(requests)
    cached = f"{sums['read'] / sums['sent']:.0%}" if sums["sent"] else "–"
    return (
        f"{len(requests):,}",
        f"{sums['sent']:,}",
        cached,
        f"{sums['rewritten']:,}",
        f"{sums['new']:,}",
        f"{sums['price']:,.0f}",
    )
