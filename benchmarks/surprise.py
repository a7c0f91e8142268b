"""A language model as judge: how surprising is the recorded next action after the request of each strategy?

For turns of every kind of conversation, the surprise is the mean of −ln p over the first tokens of what the agent
really wrote next: its words, and its calls with their arguments. A request that lost what the action is made of leaves
more to be surprised at. Turns, seeds and the one thread are fixed: two runs on a machine print the same figures.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from time import process_time
from typing import Any, Final, Protocol

from benchmarks.machine import facts
from benchmarks.recordings import COUNTER, EVIDENCE, RECORDINGS, Kind, Message, head_of, kinds, read, text_of, tokens
from benchmarks.ruler import answers, requests
from benchmarks.rulers import turns_of
from benchmarks.sessions import STRATEGIES
from benchmarks.tables import markdown
from cupel import BestFirstSlice, ContextItem, Pipeline, RecencyScorer, RelevanceScorer, Scorer
from cupel.evaluation import Recording, WindowStrategy

TURNS: Final = 8
"""The turns of each kind that are judged, unless somebody asks for more."""
PEER_TURNS: Final = 2
"""The turns of each kind whose requests other packages make too."""
SHARE: Final = 0.44
"""What a window has room for, of everything that was said after the task."""
SHORTEST, LONGEST = 1_500, 3_000
"""Tokens that were said after the task, before a turn that is judged."""
LEAST: Final = 8
"""The fewest tokens of an action that is judged."""
QUESTIONS, ROOM = 6, 500
"""The questions of each conversation whose selections are judged, and the tokens of these."""
RESAMPLED: Final = 10_000


class Judge(Protocol):
    """What a language model does here."""

    def surprise(self, before: str, text: str) -> tuple[float, int]:
        """Return the mean surprise at the tokens of a text after another, and how many these are."""
        ...


def opening_and_newest(recording: Recording, budget: int) -> Callable[[list[Message]], list[Message]]:
    """Send the opening, up to the task, and the newest message alone."""
    del recording, budget
    return lambda history: [*history[: head_of(history)], *history[max(len(history) - 1, head_of(history)) :]]


JUDGED: Final[dict[str, WindowStrategy]] = {
    **{name: STRATEGIES[name] for name in ("everything", "fit every turn", "session", "tail")},
    "task and newest message": opening_and_newest,
}
PAIRS: Final = (
    ("session", "tail"),
    ("session", "fit every turn"),
    ("session", "everything"),
    ("tail", "everything"),
)
WAYS: Final[dict[str, Callable[[], Scorer]]] = {
    "relevance, neighbours 0.5": lambda: RelevanceScorer(neighbours=0.5),
    "relevance (BM25)": RelevanceScorer,
    "the newest turns": RecencyScorer,
}
EVIDENCE_ALONE: Final = "the evidence alone"


@dataclass(frozen=True)
class Turn:
    """An action to judge, and the tokens of the window before it."""

    kind: str
    conversation: int
    messages: Sequence[Message]
    at: int
    budget: int

    @property
    def action(self) -> str:
        """What the model wrote at this turn."""
        said: list[str] = []
        for message in self.messages[self.at :]:
            if message["role"] != "assistant":
                break
            said.append(text_of(message).strip())
        return "\n".join(said)

    def request(self, strategy: WindowStrategy) -> list[Message]:
        """Return what a strategy sends, having seen the conversation from its beginning."""
        *_, last = requests(self.messages[: self.at + 1], strategy, self.budget)
        return last.messages


def turns_to_judge(kind: Kind, most: int) -> list[Turn]:
    """Return turns of one kind: of each conversation in turn one whose history is long enough, drawn by seed."""
    waiting = [list(_candidates(kind, number)) for number in range(len(kind.sessions))]
    found: list[Turn] = []
    while len(found) < most and any(waiting):
        found += [candidates.pop() for candidates in waiting if candidates]
    return found[:most]


def _candidates(kind: Kind, number: int) -> Iterator[Turn]:
    messages = kind.sessions[number]
    sizes = list(map(tokens, messages))
    head = sum(sizes[: head_of(messages)])
    places = answers(messages)
    Random(f"{kind.title} {number}").shuffle(places)
    for at in places:
        rest = sum(sizes[:at]) - head
        turn = Turn(kind.title, number, messages, at, head + int(SHARE * rest))
        if SHORTEST <= rest <= LONGEST and COUNTER.count(turn.action) >= LEAST:
            yield turn


def told(messages: Sequence[Message]) -> str:
    """Return a request as the text that the model reads, up to where it is to answer."""
    return "".join(f"{one['role']}:\n{text_of(one).strip()}\n\n" for one in messages) + "assistant:\n"


def measure_surprise(
    judge: Judge, turns: int = TURNS, questions: int = QUESTIONS, *, folder: Path = RECORDINGS
) -> dict[str, Any]:
    """Return the surprise of every turn after every strategy, and at questions after what was selected for them."""
    started, rows = process_time(), list[dict[str, Any]]()
    for kind in kinds(None, folder):
        for turn in turns_to_judge(kind, turns):
            nats, size = dict[str, float](), 0
            for name, strategy in JUDGED.items():
                found, size = judge.surprise(told(turn.request(strategy)), turn.action)
                nats[name] = round(found, 4)
            rows.append({"kind": turn.kind, "conversation": turn.conversation, "at": turn.at, "tokens": size, **nats})
            print(rows[-1], flush=True)
    asked = list(_retrieved(judge, questions, folder))
    minutes = round((process_time() - started) / 60, 1)
    return {"machine": facts(), "turns": rows, "questions": asked, "minutes": minutes}


def measure_peers_surprise(judge: Judge, sent: Mapping[str, Sequence[str]], turns: int) -> list[dict[str, Any]]:
    """Return the surprise after the requests of other packages, beside everything, the session and the tail."""
    judged = [turn for kind in kinds() for turn in turns_to_judge(kind, turns)]
    ours = {name: [told(turn.request(JUDGED[name])) for turn in judged] for name in ("everything", "session", "tail")}
    rows: list[dict[str, Any]] = []
    for at, turn in enumerate(judged):
        nats = {name: round(judge.surprise(one[at], turn.action)[0], 4) for name, one in {**ours, **sent}.items()}
        rows.append({"kind": turn.kind, "conversation": turn.conversation, "at": turn.at, **nats})
        print(rows[-1], flush=True)
    return rows


def peers_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the mean after every package's request, and how much more it is than after a session's."""
    names = [name for name, value in rows[0].items() if isinstance(value, float)]
    return markdown(
        [f"{len(rows)} turns", "nats a token", "more than the session, 95 %"],
        [[name, _mean(rows, name), _more(rows, name, "session")] for name in names],
    )


def _retrieved(judge: Judge, most: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the surprise at questions about conversations, after the turns that each way selected for them."""
    path = folder / EVIDENCE
    if not path.exists():
        return
    for number, record in enumerate(read(path)):
        items = turns_of(record)
        every = max(1, len(record["questions"]) // most)
        for question in record["questions"][::every][:most]:
            nats: dict[str, float] = {}
            needed = [item for item in items if item.metadata["id"] in question["needed"]]
            for name, chosen in {**_selected(items, question["query"]), EVIDENCE_ALONE: needed}.items():
                before = "".join(f"{item.content}\n" for item in chosen) + "\nQuestion:\n"
                nats[name] = round(judge.surprise(before, question["query"])[0], 4)
            yield {"conversation": number, **nats}
            print(nats, flush=True)


def _selected(items: Sequence[ContextItem], query: str) -> dict[str, list[ContextItem]]:
    pipelines = {
        name: Pipeline(scorer=make(), slicer=BestFirstSlice(), deduplicate=False) for name, make in WAYS.items()
    }
    return {name: list(one.prepare(items, query=query).run(ROOM)) for name, one in pipelines.items()}


def interval(differences: Mapping[object, Sequence[float]]) -> tuple[float, float, float]:
    """Return a mean and its 95 % interval; conversations, the keys, are drawn again with all that belongs to them."""
    clusters = [list(values) for values in differences.values()]
    random, means = Random(0), list[float]()
    for _ in range(RESAMPLED):
        drawn = [value for one in random.choices(clusters, k=len(clusters)) for value in one]
        means.append(fmean(drawn))
    means.sort()
    low, high = (means[int(share * (RESAMPLED - 1))] for share in (0.025, 0.975))
    return fmean(value for one in clusters for value in one), low, high


def differences(rows: Sequence[Mapping[str, Any]], first: str, second: str) -> dict[object, list[float]]:
    """Return how much more surprise there is after one strategy than after another, turn by turn."""
    found: dict[object, list[float]] = {}
    for row in rows:
        found.setdefault((row.get("kind"), row["conversation"]), []).append(row[first] - row[second])
    return found


def table(found: Mapping[str, Any]) -> str:
    """Return the mean of every strategy, by kind and in all, and the differences that matter with their intervals."""
    rows = found["turns"]
    titles = list(dict.fromkeys(row["kind"] for row in rows))
    by_kind = {title: [row for row in rows if row["kind"] == title] for title in titles}
    parts = [
        markdown(
            ["nats a token", *titles, "all"],
            [
                ["turns, of conversations", *map(_sizes, by_kind.values()), _sizes(rows)],
                *([name, *(_mean(mine, name) for mine in by_kind.values()), _mean(rows, name)] for name in JUDGED),
            ],
        ),
        markdown(
            ["difference", "nats a token", "95 % interval"],
            [_paired(rows, *pair) for pair in PAIRS],
        ),
    ]
    if asked := found["questions"]:
        best, *others = WAYS
        parts.append(
            markdown(
                [
                    "turns selected for a question, 500 tokens",
                    "nats a token of the question",
                    "more than the first, 95 %",
                ],
                [[name, _mean(asked, name), _more(asked, name, best)] for name in (best, *others, EVIDENCE_ALONE)],
            )
        )
    return "\n\n".join(parts)


def _sizes(rows: Sequence[Mapping[str, Any]]) -> str:
    return f"{len(rows)}, {len({(row['kind'], row['conversation']) for row in rows})}"


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    return f"{fmean(row[name] for row in rows):.2f}"


def _paired(rows: Sequence[Mapping[str, Any]], first: str, second: str) -> list[str]:
    mean, low, high = interval(differences(rows, first, second))
    return [f"{first} − {second}", f"{mean:+.3f}".replace("-", "−"), f"{low:+.3f} to {high:+.3f}".replace("-", "−")]


def _more(rows: Sequence[Mapping[str, Any]], name: str, best: str) -> str:
    if name == best:
        return "–"
    mean, low, high = interval(differences(rows, name, best))
    return f"{mean:+.2f} ({low:+.2f} to {high:+.2f})".replace("-", "−")


def sentence(found: Mapping[str, Any]) -> str:
    """Say how a session compares with everything and with the tail."""
    rows = found["turns"]
    told = {name: f"{fmean(row[name] for row in rows):.2f}" for name in JUDGED}
    more, less = (interval(differences(rows, "session", other)) for other in ("everything", "tail"))
    said = (
        f"A small language model as judge is surprised at the recorded next action by {told['session']} nats a token "
        f"after a session's request, by {told['everything']} after everything and by {told['tail']} after the tail's "
        f"({len(rows)} turns, windows for 44 % of what followed the task; session − everything {_signed(*more)}, "
        f"session − tail {_signed(*less)}, 95 % intervals)."
    )
    return textwrap.fill(said, 120)


def _signed(mean: float, low: float, high: float) -> str:
    return f"{mean:+.2f}, {low:+.2f} to {high:+.2f}".replace("-", "−")
