"""Selecting from a stream that may never end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cupel._checks import as_integer, shown
from cupel._columns import Candidates, descending
from cupel._relations import are_related, check_batch
from cupel._streams import fill, next_batch, opened
from cupel.diagnostics import ExcludedItem
from cupel.errors import PipelineConfigError, SelectionError
from cupel.model import ContextBudget, ScoredItem
from cupel.pipeline._classify import check_pinned, classify
from cupel.pipeline._place import place
from cupel.pipeline._reasons import classified_out, deduplicated_out, displaced_by, sliced_out, truncated_out
from cupel.pipeline._result import short_repr
from cupel.pipeline._slice import effective_budget
from cupel.pipeline._stages import rank
from cupel.pipeline._watch import Watch
from cupel.slicers import BestFirstSlice, GreedySlice, Selection, Slicer, StreamSlice

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping

    from cupel.model import ContextItem
    from cupel.pipeline._classify import Classified
    from cupel.pipeline._deduplicate import Copies
    from cupel.pipeline._pipeline import Pipeline

    OnExcluded = Callable[[ExcludedItem], object]


@dataclass(frozen=True, slots=True, repr=False)
class StreamResult:
    """What `Pipeline.stream` returns: the items in placed order, and how many of the others went for which reason."""

    items: list[ContextItem]
    budget: ContextBudget
    consumed: int
    """How many items were read."""
    exhausted: bool
    """Whether the stream ended before the budget was full."""
    excluded: Mapping[str, int]
    """Items left out, counted by the name of the reason."""

    @property
    def total_tokens(self) -> int:
        """The tokens of the selected items."""
        return sum(item.tokens for item in self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[ContextItem]:
        return iter(self.items)

    def __repr__(self) -> str:
        return short_repr(self, self.items, self.budget)


async def stream(
    pipeline: Pipeline,
    source: AsyncIterable[ContextItem],
    budget: ContextBudget,
    *,
    batch_size: int | None,
    slack_tokens: int,
    on_excluded: OnExcluded | None,
) -> StreamResult:
    """Read batch after batch until no more than `slack_tokens` are free, then place what was chosen."""
    size = _batch_size(pipeline, batch_size)
    as_integer("slack_tokens", slack_tokens, least=0, error=PipelineConfigError)
    tally = Tally(on_excluded)
    selection = StreamSelection(pipeline, budget, tally)
    consumed, exhausted = 0, False
    async with opened(source) as items:
        while not (exhausted or selection.is_full(slack_tokens)):
            batch = await next_batch(items, size)
            exhausted = len(batch) < size
            consumed += len(batch)
            selection.take(batch)
    return StreamResult(selection.place(), budget, consumed, exhausted, tally.counts)


class Tally(Watch):
    """Counts what the stages drop, and passes it on; an item is kept by nobody."""

    __slots__ = ("_on_excluded", "counts")

    def __init__(self, on_excluded: OnExcluded | None) -> None:
        self._on_excluded = on_excluded
        self.counts: dict[str, int] = {}

    def classified(self, classified: Classified) -> None:
        """Count the items with a negative count."""
        self.add(classified_out(classified.negative))

    def deduplicated(self, candidates: Candidates, copies: Copies | None) -> None:
        """Count the copies."""
        if copies is not None:
            self.add(deduplicated_out(candidates, copies.dropped))

    def add(self, excluded: Iterable[ExcludedItem]) -> None:
        """Count each by the name of its reason."""
        for entry in excluded:
            self.counts[entry.reason.name] = self.counts.get(entry.reason.name, 0) + 1
            if self._on_excluded is not None:
                self._on_excluded(entry)


@dataclass(slots=True)
class StreamSelection:
    """What was chosen so far. Nothing else of the stream is kept, so memory is bounded by the budget."""

    pipeline: Pipeline
    budget: ContextBudget
    tally: Tally
    pinned: list[ContextItem] = field(default_factory=list["ContextItem"])
    chosen: list[ScoredItem] = field(default_factory=list[ScoredItem])
    """In the order of choice."""
    remaining: int = 0
    _contents: set[str] = field(default_factory=set[str])
    _labels: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """The names of related things and sets, which must not come again."""

    def __post_init__(self) -> None:
        self.remaining = effective_budget(self.budget, 0).target_tokens

    def is_full(self, slack_tokens: int) -> bool:
        """Say whether to stop: hardly a token is left, or items without tokens are as many as the budget has tokens."""
        return self.remaining <= slack_tokens or len(self.chosen) + len(self.pinned) >= self.budget.target_tokens

    def take(self, batch: list[ContextItem]) -> None:
        """Choose among one batch; scores are relative to it (ruling 14.10).

        A copy of an item that was passed over repeats nothing in the selection, so only chosen contents are known.
        """
        classified = classify(batch, self.pipeline.pins)
        check_batch(batch, self._labels)
        self._pin(classified)
        self.tally.classified(classified)
        candidates = rank(self.pipeline, classified, self.tally, self._contents)
        chosen = self._fitting(candidates)
        self.tally.add(sliced_out(candidates, chosen, Selection(chosen), (), (self.remaining, 0)))
        added = candidates.at(chosen)
        self.chosen += added.scored()
        self._contents.update(item.content for item in added.items)
        self.remaining -= sum(added.tokens)

    def _fitting(self, candidates: Candidates) -> list[int]:
        if candidates.relations is None:
            return fill(candidates.scores, candidates.tokens, self.remaining)
        return BestFirstSlice().fit(candidates)(ContextBudget(self.remaining, self.remaining)).chosen

    def place(self) -> list[ContextItem]:
        """Handle overflow and put the selection in its final order, as a run does."""
        chosen = Candidates.of(self.chosen)
        placed = place(self.pipeline, self.pinned, chosen.at(descending(chosen.scores)), self.budget)
        self.tally.add(truncated_out(placed, self.budget.target_tokens))
        return placed.items

    def _pin(self, classified: Classified) -> None:
        """Reserve room for pinned items; what was chosen before them makes way, from the lowest score up."""
        pinned = classified.pinned
        if not pinned:
            return
        self.pinned += pinned
        pinned_tokens = sum(item.tokens for item in self.pinned)
        check_pinned(pinned_tokens, self.budget)
        chosen, room = self.chosen, effective_budget(self.budget, pinned_tokens).target_tokens
        used = sum(entry.item.tokens for entry in chosen)
        leaving: set[int] = set()
        for position in reversed(descending([entry.score for entry in chosen])):
            if used <= room:
                break
            entry = chosen[position]
            if entry.item.tokens > 0:
                _check_unrelated(entry.item, pinned)
                leaving.add(position)
                used -= entry.item.tokens
                self._contents.discard(entry.item.content)
                self.tally.add([ExcludedItem(entry.item, entry.score, displaced_by(pinned))])
        self.chosen = [entry for position, entry in enumerate(chosen) if position not in leaving]
        self.remaining = room - used


def _batch_size(pipeline: Pipeline, batch_size: int | None) -> int:
    slicer = pipeline.slicer
    # A subclass with a `slice` of its own would not be asked.
    if not isinstance(slicer, (StreamSlice, GreedySlice)) or type(slicer).fit is Slicer.fit:
        msg = (
            f"a stream is chosen from a batch at a time, which {type(slicer).__name__} cannot do: "
            "use StreamSlice or GreedySlice, or read the sources whole with arun"
        )
        raise PipelineConfigError(msg)
    if batch_size is not None:
        return StreamSlice(batch_size).batch_size
    return slicer.batch_size if isinstance(slicer, StreamSlice) else StreamSlice().batch_size


def _check_unrelated(item: ContextItem, pinned: list[ContextItem]) -> None:
    """Refuse to take back an item without which others may be incomplete."""
    if are_related([item]):
        msg = (
            f"pinned item {shown(pinned[0].content)} needs the room of {shown(item.content)}, which has relations and "
            "was chosen from an earlier batch; let pinned items come first, or read the sources whole with arun"
        )
        raise SelectionError(msg)
