"""`python -m benchmarks`: measure, print, and write the figures, the curves and the tables of the documentation."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import (
    chart,
    conversation_peers,
    conversation_speed,
    estimate,
    forms,
    knapsack_solver,
    optimal,
    presets,
    quality,
    recordings,
    relevance,
    sessions,
    surprise,
    tables,
)
from benchmarks.construction import measure_construction
from benchmarks.growth import measure_growth
from benchmarks.language_model import LanguageModel
from benchmarks.machine import facts
from benchmarks.memory import measure_import, measure_memory
from benchmarks.naive import measure_naive
from benchmarks.peers import measure_peers
from benchmarks.recordings import KINDS
from benchmarks.speed import measure_report, measure_rows

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
RESULTS = HERE / "results.json"
README = HERE.parent / "README.md"
EVIDENCE_PAGE = DOCS / "explanation" / "evidence.md"
PERFORMANCE_PAGE = DOCS / "explanation" / "performance.md"
QUALITY_PAGE = DOCS / "explanation" / "choosing-a-slicer.md"
GROWTH_CHART = DOCS / "assets" / "growth.svg"
NAIVE_CHART = DOCS / "assets" / "growth-naive.svg"


def main() -> None:
    """Measure what is asked for; only a complete run writes anything."""
    options = _options()
    found: dict[str, Any] = {"machine": facts()}
    for part in options.parts or PARTS:
        print(f"== {part}", flush=True)
        more = {"turns": options.turns} if part == "surprise" else {}
        figures = MEASUREMENTS[part](quick=options.quick, **more)
        if part not in OWN:
            found[part] = figures
        elif figures and not options.quick:
            OWN[part].write(figures)
    if options.quick or options.parts:
        print("not everything was measured in full, so no other figures are written")
        return
    RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    write_pages(found)


class Place(NamedTuple):
    """Where a page shows figures: between the marks of this name."""

    page: Path
    mark: str
    render: Callable[[Any], str]


class Own:
    """Figures that are kept apart, because a part makes them by itself, and the pages that show them."""

    def __init__(self, figures: Path, *places: Place) -> None:
        self.figures = figures
        self.places = places

    def write(self, found: Any) -> None:
        """Keep the figures, and bring the pages up to date."""
        self.figures.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
        for place in self.places:
            place.page.write_text(self.filled(place), "utf-8")

    def filled(self, place: Place) -> str:
        """The page with its table made anew."""
        found = json.loads(self.figures.read_text("utf-8"))
        return tables.put(place.page.read_text("utf-8"), place.mark, place.render(found))


OWN = {
    "estimate": Own(HERE / "estimate.json", Place(DOCS / "how-to" / "token-counting.md", "estimate", estimate.table)),
    "forms": Own(HERE / "forms.json", Place(DOCS / "how-to" / "forms.md", "forms", forms.show)),
    "optimal": Own(HERE / "optimal.json", Place(QUALITY_PAGE, "optimal", optimal.table)),
    "sessions": Own(
        HERE / "sessions.json",
        Place(README, "sessions", sessions.summary),
        Place(EVIDENCE_PAGE, "sessions", sessions.by_kind),
    ),
    "conversation-speed": Own(
        HERE / "conversation_speed.json", Place(PERFORMANCE_PAGE, "conversation-speed", conversation_speed.table)
    ),
    "conversation-peers": Own(
        HERE / "conversation_peers.json", Place(EVIDENCE_PAGE, "conversation-peers", conversation_peers.table)
    ),
    "surprise": Own(
        HERE / "surprise.json",
        Place(README, "surprise", surprise.sentence),
        Place(EVIDENCE_PAGE, "surprise", surprise.table),
    ),
}


def speed(*, quick: bool) -> Any:
    print("best of several runs, in microseconds of processor time")
    return measure_rows(10_000 if quick else 1_000_000, seconds=_seconds(quick=quick))


def growth(*, quick: bool) -> Any:
    return _shown(tables.growth_table, measure_growth(seconds=_seconds(quick=quick)))


def items(*, quick: bool) -> Any:
    return _shown(tables.items_table, measure_construction(seconds=_seconds(quick=quick)))


def footprint(*, quick: bool) -> Any:
    figures = {
        "memory": measure_memory(),
        "import": measure_import(3 if quick else 9),
        "report": measure_report(seconds=_seconds(quick=quick)),
    }
    return _shown(tables.footprint_table, figures)


def naive(*, quick: bool) -> Any:
    return _shown(tables.naive_table, measure_naive(100 if quick else 1_000, seconds=_seconds(quick=quick)))


def peers(*, quick: bool) -> Any:
    sizes = (100, 1_000) if quick else (100, 1_000, 10_000)
    return _shown(tables.peers_table, measure_peers(sizes, seconds=_seconds(quick=quick)))


def selected(*, quick: bool) -> Any:
    return _shown(quality.table, quality.measure_quality(3 if quick else quality.REPETITIONS))


def evidence(*, quick: bool) -> Any:
    return _shown(relevance.table, relevance.measure_relevance(5 if quick else relevance.QUESTIONS))


def solver(*, quick: bool) -> Any:
    knapsack_solver.main(1 if quick else 3)


def conversation_times(*, quick: bool) -> Any:
    lengths, most = ((100, 300), 1) if quick else (conversation_speed.LENGTHS, conversation_speed.REPETITIONS)
    rows = conversation_speed.measure_conversations(lengths, most)
    starts = conversation_speed.measure_starts(2 if quick else 7)
    return _shown(conversation_speed.table, {"machine": facts(), "sessions": rows, "starts": starts})


def conversations(*, quick: bool) -> Any:
    return _of_recordings(_shown(sessions.table, sessions.measure_sessions(quick=quick)))


def conversation_beside_peers(*, quick: bool) -> Any:
    most = 1 if quick else conversation_peers.CONVERSATIONS
    return _of_recordings(_shown(conversation_peers.table, conversation_peers.measure_conversation_peers(most)))


def surprised(*, quick: bool, turns: int = surprise.TURNS) -> Any:
    most, questions = (1, 1) if quick else (turns, surprise.QUESTIONS)
    return _of_recordings(_shown(surprise.table, surprise.measure_surprise(LanguageModel.load(), most, questions)))


def peers_surprised(*, quick: bool) -> Any:
    turns = 1 if quick else surprise.PEER_TURNS
    sent = conversation_peers.requests_of_peers(turns)
    return _shown(surprise.peers_table, surprise.measure_peers_surprise(LanguageModel.load(), sent, turns))


def shortened(*, quick: bool) -> Any:
    return _of_recordings(_shown(forms.show, forms.measure_forms(quick=quick)))


def _of_recordings(found: Any) -> Any:
    """Return the figures if every kind of recordings was measured; a page shows no others."""
    there = {kind.title for kind in recordings.kinds(1)}
    if missing := [kind.title for kind in KINDS.values() if kind.title not in there]:
        print(f"no page is written: there are no recordings of {', '.join(missing)} in {recordings.RECORDINGS}")
        return None
    return found


def estimated(*, quick: bool) -> Any:
    del quick
    return _shown(estimate.table, estimate.measure_estimate())


def optimised(*, quick: bool) -> Any:
    return _shown(optimal.table, optimal.measure_optimal(1 if quick else optimal.POOLS))


def ready(*, quick: bool) -> Any:
    return _shown(presets.table, presets.measure_presets(quick=quick))


MEASUREMENTS: dict[str, Callable[..., Any]] = {
    "speed": speed,
    "growth": growth,
    "items": items,
    "footprint": footprint,
    "naive": naive,
    "peers": peers,
    "conversation-speed": conversation_times,
    "quality": selected,
    "solver": solver,
    "relevance": evidence,
    "sessions": conversations,
    "conversation-peers": conversation_beside_peers,
    "surprise": surprised,
    "surprise-peers": peers_surprised,
    "forms": shortened,
    "estimate": estimated,
    "presets": ready,
    "optimal": optimised,
}
# On request only: what takes a solver, and what is told by data that is not part of the project.
ON_REQUEST = {
    "solver",
    "relevance",
    "sessions",
    "conversation-peers",
    "surprise",
    "forms",
    "estimate",
    "presets",
    "optimal",
}
PARTS = tuple(part for part in MEASUREMENTS if part not in ON_REQUEST)


def write_pages(found: dict[str, Any]) -> None:
    """Bring the tables and curves of the documentation up to date with the figures."""
    for path, fill in ((PERFORMANCE_PAGE, performance_page), (QUALITY_PAGE, quality_page)):
        path.write_text(fill(path.read_text("utf-8"), found), "utf-8")
    for path, svg in charts(found).items():
        path.write_text(svg, "utf-8")


def quality_page(page: str, found: dict[str, Any]) -> str:
    """The page about choosing a slicer with its table made anew."""
    return tables.put(page, "quality", quality.table(found["quality"]))


def performance_page(page: str, found: dict[str, Any]) -> str:
    """The page with every table made anew."""
    machine = found["machine"]
    about = (
        f"Measured on {machine['date']} with cupel {machine['cupel']} on {machine['python']}, {machine['system']} "
        f"{machine['architecture']}, {machine['cores']} cores of “{machine['processor']}”."
    )
    contents = {
        "machine": about,
        "speed": tables.speed_table(found["speed"]),
        "traced": tables.speed_table(found["speed"], "traced"),
        "growth": tables.growth_table(found["growth"]),
        "items": tables.items_table(found["items"]),
        "footprint": tables.footprint_table(found["footprint"]),
        "naive": tables.naive_table(found["naive"]),
        "peers": tables.peers_table(found["peers"]),
    }
    for name, content in contents.items():
        page = tables.put(page, name, content)
    return page


def charts(found: dict[str, Any]) -> dict[Path, str]:
    """The two drawings: every row by itself, and the pseudocode beside the library."""
    own: dict[str, list[tuple[float, float]]] = {}
    for cell in found["speed"]:
        own.setdefault(cell["row"], []).append((cell["items"], cell["gc on"]["best"]))
    beside: dict[str, list[tuple[float, float]]] = {}
    for cell in found["naive"]:
        if cell["row"].startswith(("recency", "scaled", "frequency")):
            beside.setdefault(f"pseudocode: {_short(cell['row'])}", []).append((cell["items"], cell["naive"]))
            beside.setdefault(f"cupel: {_short(cell['row'])}", []).append((cell["items"], cell["cupel"]))
    curves = {_short(name): points for name, points in own.items() if len(points) > 1}
    return {
        GROWTH_CHART: chart.draw("Time of a run by number of items", curves),
        NAIVE_CHART: chart.draw("The library beside the pseudocode", beside),
    }


def _short(row: str) -> str:
    return row.replace(" + chronological", "").replace(" (recency, priority, kind)", "").replace("reflexive + ", "")


def _shown(render: Callable[[Any], str], figures: Any) -> Any:
    print(render(figures), flush=True)
    return figures


def _seconds(*, quick: bool) -> float:
    return 0.1 if quick else 0.4


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"measure only these, and write nothing: {', '.join(MEASUREMENTS)}"
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer runs; writes nothing")
    parser.add_argument(
        "--turns", type=int, default=surprise.TURNS, help="the turns of each kind that surprise judges (%(default)s)"
    )
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in MEASUREMENTS]:
        parser.error(f"unknown: {', '.join(unknown)} (choose from {', '.join(MEASUREMENTS)})")
    return options


if __name__ == "__main__":
    main()
