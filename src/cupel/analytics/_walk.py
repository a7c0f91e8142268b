"""One budget after another: for slicers that have to be asked, and where an overflow strategy has a say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cupel._relations import lawful
from cupel.errors import ScarcityError, TableTooLargeError
from cupel.model import OverflowStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cupel._targets import Work
    from cupel.analytics._extensions import Extensions
    from cupel.pipeline import PreparedSelection

_REFUSALS = (TableTooLargeError, ScarcityError)
_RUN, _CANDIDATE = 20_000, 300  # what a run costs, and what each candidate adds


class Stop(NamedTuple):
    """What one budget selects, and the next one that may select something else (None: there is none)."""

    extra: int
    positions: frozenset[int]
    pinned: bool
    following: int | None


@dataclass(frozen=True, slots=True)
class Walk:
    """Runs budgets in ascending order, and passes over those that are sure to select the same."""

    prepared: PreparedSelection
    extensions: Extensions
    raising: bool
    """Whether a refusal ends the walk; otherwise such a budget selects nothing."""

    def steps(self, last: int | None, work: Work) -> Iterator[Stop]:
        """Go from the first extension to the last."""
        extra: int | None = 0
        while extra is not None and (last is None or extra <= last):
            step = self.at(extra, work)
            yield step
            extra = step.following

    def at(self, extra: int, work: Work) -> Stop:
        """Run one budget; one that cannot be run selects nothing."""
        extensions, prepared = self.extensions, self.prepared
        pins_fit = extensions.holding_pins()
        if extra < pins_fit:
            return Stop(extra, frozenset(), pinned=False, following=pins_fit)  # ruling 9.6
        effective = extensions.effective(extra)
        effort = prepared.chooser.effort(effective.target_tokens)
        work.spend(_RUN + _CANDIDATE * len(prepared.candidates) + effort)
        try:
            chosen = prepared.chooser(effective).chosen
        except _REFUSALS:
            if self.raising:
                raise
            return Stop(extra, frozenset(), pinned=False, following=self._after_refusal(extra, work))
        step = self._settled(extra, chosen)
        span = prepared.chooser.span(effective)
        if span == (effective.target_tokens, effective.target_tokens + 1):  # a slicer that promises nothing
            return step._replace(following=extra + 1)
        stop = None if span.stop is None else extensions.reaching(span.stop)
        return step._replace(following=min((end for end in (stop, step.following) if end is not None), default=None))

    def _after_refusal(self, extra: int, work: Work) -> int | None:
        refused = self.prepared.chooser.refused(work)
        if refused is None:
            return extra + 1
        free = refused.next(self.extensions.effective(extra).target_tokens, inside=False)
        return None if free is None else max(extra + 1, self.extensions.reaching(free) or 0)

    def _settled(self, extra: int, chosen: list[int]) -> Stop:
        """Apply the overflow strategy, and say at which budget its effect can change."""
        tokens, pinned_tokens = self.prepared.candidates.tokens, self.extensions.pinned_tokens
        target = self.extensions.at(extra).target_tokens
        total = pinned_tokens + sum(tokens[position] for position in chosen)
        overflow = self.prepared.pipeline.overflow
        if total <= target or overflow is OverflowStrategy.PROCEED:
            return Stop(extra, frozenset(chosen), pinned=True, following=None)
        if overflow is OverflowStrategy.THROW:  # a budget that cannot be run selects nothing
            return Stop(extra, frozenset(), pinned=False, following=extra + total - target)
        used, kept, following = pinned_tokens, set[int](), total
        for position in sorted(chosen):  # from the highest score down, as truncation goes
            needed = used + tokens[position]
            if needed <= target:
                used = needed
                kept.add(position)
            else:
                following = min(following, needed)
        relations = self.prepared.candidates.relations
        if relations is not None:  # what depends on something truncated goes as well
            kept = set(lawful(relations, sorted(kept)))
        return Stop(extra, frozenset(kept), pinned=True, following=extra + following - target)
