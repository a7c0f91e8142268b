"""Selecting from a stream that may never end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cupel._checks import as_integer
from cupel._columns import Candidates, descending
from cupel.diagnostics import BudgetExceeded, Deduplicated, ExcludedItem, NegativeTokens, OverflowEvent, PinnedOverride
from cupel.errors import PipelineConfigError
from cupel.model import ScoredItem
from cupel.pipeline._classify import check_pinned, classify
from cupel.pipeline._deduplicate import deduplicate
from cupel.pipeline._place import settle
from cupel.pipeline._score import score
from cupel.pipeline._slice import effective_budget
from cupel.pipeline._sort import sort
from cupel.slicers import GreedySlice, StreamSlice
from cupel.slicers._stream import check_batch_size, fill, next_batch, opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterator, Mapping

    from cupel.diagnostics import ExclusionReason
    from cupel.model import ContextBudget, ContextItem
    from cupel.pipeline._pipeline import Pipeline

    OnExcluded = Callable[[ExcludedItem], object]


@dataclass(frozen=True, slots=True)
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
    _check_slack(slack_tokens)
    selection = StreamSelection(pipeline, budget, on_excluded)
    consumed, exhausted = 0, False
    async with opened(source) as items:
        while not (exhausted or selection.is_full(slack_tokens)):
            batch = await next_batch(items, size)
            exhausted = len(batch) < size
            consumed += len(batch)
            selection.take(batch)
    return StreamResult(selection.place(), budget, consumed, exhausted, selection.excluded)


@dataclass(slots=True)
class StreamSelection:
    """What was chosen so far. Nothing else of the stream is kept, so memory is bounded by the budget."""

    pipeline: Pipeline
    budget: ContextBudget
    on_excluded: OnExcluded | None
    pinned: list[ContextItem] = field(default_factory=list["ContextItem"])
    chosen: list[ScoredItem] = field(default_factory=list[ScoredItem])
    """In the order of choice."""
    remaining: int = 0
    excluded: dict[str, int] = field(default_factory=dict[str, int])
    _pinned_tokens: int = 0
    _contents: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.remaining = effective_budget(self.budget, 0).target_tokens

    def is_full(self, slack_tokens: int) -> bool:
        """Say whether to stop: hardly a token is left, or items without tokens are as many as the budget has tokens."""
        return self.remaining <= slack_tokens or len(self.chosen) + len(self.pinned) >= self.budget.target_tokens

    def take(self, batch: list[ContextItem]) -> None:
        """Classify, score, deduplicate and choose among one batch; scores are relative to the batch (ruling 14.10)."""
        classified = classify(batch)
        for item in classified.negative:
            self._exclude(item, 0.0, NegativeTokens(item.tokens))
        self._pin(classified.pinned)
        scoreable = classified.scoreable
        candidates = Candidates(scoreable, score(scoreable, self.pipeline.scorer), classified.tokens)
        if self.pipeline.deduplicate:
            candidates = self._deduplicated(candidates)
        taken = fill(candidates.scores, candidates.tokens, self.remaining)
        self._choose(candidates, taken)

    def place(self) -> list[ContextItem]:
        """Handle overflow and put the selection in its final order, as a run does."""
        pipeline, budget = self.pipeline, self.budget
        settled = settle(self.pinned, sort(Candidates.of(self.chosen)), budget.target_tokens, pipeline.overflow)
        selected = settled.selected
        if settled.excess > 0 and pipeline.on_overflow is not None:
            pipeline.on_overflow(OverflowEvent(settled.excess, tuple(selected.items), budget))
        return [selected.items[position] for position in pipeline.placer.arrange(selected)]

    def _pin(self, pinned: list[ContextItem]) -> None:
        """Reserve room for pinned items; what was chosen before them makes way, from the lowest score up."""
        if not pinned:
            return
        self.pinned += pinned
        self._pinned_tokens += sum(item.tokens for item in pinned)
        check_pinned(self._pinned_tokens, self.budget)
        chosen, room = self.chosen, effective_budget(self.budget, self._pinned_tokens).target_tokens
        used = sum(entry.item.tokens for entry in chosen)
        leaving: set[int] = set()
        reason = PinnedOverride(next((item.content for item in pinned if item.tokens > 0), ""))
        for position in reversed(descending([entry.score for entry in chosen])):
            if used <= room:
                break
            item = chosen[position].item
            if item.tokens > 0:
                leaving.add(position)
                used -= item.tokens
                self._contents.discard(item.content)
                self._exclude(item, chosen[position].score, reason)
        if leaving:
            self.chosen = [entry for position, entry in enumerate(chosen) if position not in leaving]
        self.remaining = room - used

    def _deduplicated(self, candidates: Candidates) -> Candidates:
        """Drop copies within the batch, and of what is chosen already.

        A copy of an item that was passed over repeats nothing in the selection, so only chosen contents are remembered.
        """
        found = deduplicate(candidates.items, candidates.scores)
        kept = list(range(len(candidates))) if found is None else found.kept
        kept = [position for position in kept if candidates.items[position].content not in self._contents]
        if len(kept) == len(candidates):
            return candidates
        staying = set(kept)
        for position, item in enumerate(candidates.items):
            if position not in staying:
                self._exclude(item, candidates.scores[position], Deduplicated(item.content))
        return candidates.at(kept)

    def _choose(self, candidates: Candidates, taken: list[int]) -> None:
        added = candidates.at(taken)
        self.chosen += added.scored()
        self._contents.update(item.content for item in added.items)
        self.remaining -= sum(added.tokens)
        chosen = set(taken)
        for position, item in enumerate(candidates.items):
            if position not in chosen:
                self._exclude(item, candidates.scores[position], BudgetExceeded(item.tokens, self.remaining))

    def _exclude(self, item: ContextItem, item_score: float, reason: ExclusionReason) -> None:
        self.excluded[reason.name] = self.excluded.get(reason.name, 0) + 1
        if self.on_excluded is not None:
            self.on_excluded(ExcludedItem(item, item_score, reason))


def _batch_size(pipeline: Pipeline, batch_size: int | None) -> int:
    slicer = pipeline.slicer
    if not isinstance(slicer, (StreamSlice, GreedySlice)):
        msg = (
            f"a stream is chosen from a batch at a time, which {type(slicer).__name__} cannot do: "
            "use StreamSlice or GreedySlice, or read the sources whole with arun"
        )
        raise PipelineConfigError(msg)
    if batch_size is not None:
        return check_batch_size(batch_size)
    return slicer.batch_size if isinstance(slicer, StreamSlice) else StreamSlice().batch_size


def _check_slack(slack_tokens: object) -> None:
    as_integer("slack_tokens", slack_tokens, least=0, error=PipelineConfigError)
