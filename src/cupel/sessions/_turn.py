"""Items as candidates of one turn, and the decision about them as a result.

Forms of one entity are alternatives, and a group is sent whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING

from cupel._checks import as_text, shown
from cupel._columns import descending
from cupel._planning import MOST_TOKENS, Action, Bill, Candidate, Change, FormOption, turn_html
from cupel._relations import Relation, relation_of
from cupel.diagnostics import (
    BudgetExceeded,
    ExcludedItem,
    ExclusionReason,
    IncludedItem,
    InclusionReason,
    NegativeTokens,
    NotWorthItsPlace,
    SelectionReport,
)
from cupel.errors import InvalidItemError
from cupel.model import GROUP_KEY, ID_KEY, ContextItem
from cupel.pipeline import ContextResult

if TYPE_CHECKING:
    from cupel._planning import Decision, TurnTerms
    from cupel.model import ContextBudget
    from cupel.pipeline import Pipeline

Key = Callable[[ContextItem], str]
_EPOCH = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, repr=False)
class SessionResult(ContextResult):
    """A `ContextResult` with the changes since the last one, and the cost; the items are in order of sending."""

    action: Action = "append"
    """`"append"` where the items begin with the whole of the last selection, else `"repack"`."""
    reason: str = ""
    """The decision in one line."""
    changes: tuple[Change, ...] = ()
    """Everything that was evicted, shortened, restored or recalled."""
    marks: tuple[int, ...] = ()
    """Positions in `items` of the cache breakpoints; none where the provider finds prefixes by itself."""
    bill: Bill = field(default_factory=Bill)
    """The cost of sending the items: an estimate, until `observe` settles it in the session's `total`."""

    def _repr_html_(self) -> str:
        return turn_html(self.bill, self.reason, self.changes) + ContextResult._repr_html_(self)


@dataclass(slots=True)
class EntityForm:
    """Items that are sent together, by position, and their worth."""

    positions: list[int]
    worth: float

    def name(self, items: Sequence[ContextItem]) -> str:
        """Return a short hash of its content."""
        digest = blake2b(digest_size=6)
        for at in self.positions:
            digest.update(items[at].content.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


@dataclass(slots=True)
class SessionEntity:
    """One or more forms of the same content; a group has one form, and any other item is a separate entity."""

    key: str
    new: bool
    forms: list[EntityForm]

    @property
    def positions(self) -> list[int]:
        """Positions of its items among all."""
        return [at for form in self.forms for at in form.positions]

    def candidate(self, items: Sequence[ContextItem], *, pinned: bool) -> Candidate:
        """Return the entity as a candidate; the form with most tokens is the whole."""
        value = max(form.worth for form in self.forms)
        options = [
            FormOption(
                form.name(items), sum(items[at].tokens for at in form.positions), form.worth / value if value else 1
            )
            for form in self.forms
        ]
        options.sort(key=lambda option: (option.tokens, option.form))
        free = all(items[at].timestamp is None for at in self.positions)
        return Candidate(self.key, value, tuple(options), held=pinned or self.new, new=self.new, free=free)


def identity(item: ContextItem) -> str:
    """Return the default key of an item: a hash of its content and kind."""
    text = f"{item.kind}\n{item.content}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=12).hexdigest()


def entities_of(items: Sequence[ContextItem], scores: Sequence[float], new: range, key: Key) -> list[SessionEntity]:
    """Return the entities of items; the items at the positions `new` came since the last selection."""
    found: dict[str, SessionEntity] = {}
    seen: dict[str, int] = {}
    for position, item in enumerate(items):
        marks = relation_of(item)
        _check(item, marks)
        name = key(item)
        if marks.id is not None or marks.group is not None:
            name = f"group:{marks.group}" if marks.id is None else f"id:{marks.id}"
        else:
            seen[name] = number = seen.get(name, 0) + 1
            name = f"{name}#{number}" if number > 1 else name
        worth = max(scores[position] * marks.worth, 0.0)
        entity = found.setdefault(name, SessionEntity(name, position in new, []))
        if entity.new is not (position in new):
            what = f"forms of {shown(marks.id)}" if marks.group is None else f"members of group {shown(marks.group)}"
            msg = f"all {what} must be among the items, or all among the new ones"
            raise InvalidItemError(msg)
        if marks.group is not None and entity.forms:
            entity.forms[0].positions.append(position)
            entity.forms[0].worth += worth
        else:
            entity.forms.append(EntityForm([position], worth))
    return list(found.values())


def _check(item: ContextItem, marks: Relation) -> None:
    if item.tokens > MOST_TOKENS:
        msg = f"item {shown(item.content)}: a session counts at most 2**53 tokens, got {shown(item.tokens)}"
        raise InvalidItemError(msg)
    if marks.id is not None and marks.group is not None:
        msg = (
            f"item {shown(item.content)}: a session takes forms or groups, "
            f"but not metadata[{GROUP_KEY!r}] beside metadata[{ID_KEY!r}]"
        )
        raise InvalidItemError(msg)


class ItemTurn:
    """Items as candidates, and the decision about them as a result."""

    def __init__(
        self,
        pipeline: Pipeline,
        items: Sequence[ContextItem],
        new: Sequence[ContextItem],
        query: str | None,
        key: Key,
    ) -> None:
        def known(item: ContextItem) -> str:
            return as_text("what key returned", key(item))

        added = {known(item) for item in new}
        old = sorted((item for item in items if known(item) not in added), key=lambda item: _order(item, known))
        pool = [*old, *sorted(new, key=_time)]
        self.items = [item for item in pool if item.tokens >= 0]
        self.unusable = [item for item in pool if item.tokens < 0]
        pipeline = pipeline.bind(query)
        self.scores = pipeline.scorer.checked_scores(self.items) if self.items else []
        first_new = len(self.items) - sum(1 for item in new if item.tokens >= 0)
        entities = entities_of(self.items, self.scores, range(first_new, len(self.items)), known)
        self.pinned = pipeline.pinned(self.items)
        found = [
            (entity, entity.candidate(self.items, pinned=not self.pinned.isdisjoint(entity.positions)))
            for entity in entities
        ]
        # Best first among those without a place: they are sent in this order when nothing else decides.
        found.sort(key=lambda pair: (pair[1].free, not pair[1].new, -pair[1].value) if pair[1].free else (False,))
        self.entities = [entity for entity, _ in found]
        self.candidates: list[Candidate] = [candidate for _, candidate in found]

    def result(self, step: Decision, budget: ContextBudget, room: int, marks: int) -> SessionResult:
        """Return a decision as a selection of items."""
        sent = [self._positions(index, form) for index, form in step.chosen.items()]
        positions = [at for together in sent for at in together]
        joint = sum(map(len, sent[: step.common])) - 1
        places = dict.fromkeys(place for place in (len(positions) - 1, joint) if place >= 0)
        return SessionResult(
            [self.items[at] for at in positions],
            self._report(positions, room, step.terms),
            budget,
            action=step.action,
            reason=step.reason,
            changes=tuple(self._named(step.changes)),
            marks=tuple(sorted([*places][:marks])),
            bill=step.bill,
        )

    def _positions(self, index: int, name: str) -> list[int]:
        return next(form.positions for form in self.entities[index].forms if form.name(self.items) == name)

    def _report(self, positions: Sequence[int], room: int, terms: TurnTerms) -> SelectionReport:
        chosen = set(positions)
        left = room - sum(self.items[at].tokens for at in positions)
        excluded = [
            ExcludedItem(item, self.scores[at], self._exclusion(at, terms, left))
            for at, item in enumerate(self.items)
            if at not in chosen
        ]
        excluded += [ExcludedItem(item, 0.0, NegativeTokens(item.tokens)) for item in self.unusable]
        return SelectionReport(
            events=(),
            included=tuple(IncludedItem(self.items[at], self.scores[at], self._reason(at)) for at in positions),
            excluded=tuple(excluded[at] for at in descending([entry.score for entry in excluded])),
            total_candidates=len(self.items) + len(self.unusable),
            total_tokens_considered=sum(item.tokens for item in (*self.items, *self.unusable)),
        )

    def _exclusion(self, at: int, terms: TurnTerms, left: int) -> ExclusionReason:
        tokens = self.items[at].tokens
        if tokens > left:
            return BudgetExceeded(tokens, left)
        worth = terms.gain * max(self.scores[at], 0.0) / max(tokens, 1)
        return NotWorthItsPlace(worth, terms.place(terms.room - left + tokens))

    def _reason(self, at: int) -> InclusionReason:
        if at in self.pinned:
            return InclusionReason.PINNED
        return InclusionReason.SCORED if self.items[at].tokens else InclusionReason.ZERO_TOKEN

    def _named(self, changes: Iterable[Change]) -> Iterator[Change]:
        entities = {entity.key: entity for entity in self.entities}
        for change in changes:
            first = entities[change.key].positions[0]
            yield replace(change, label=shown(self.items[first].content))


def _time(item: ContextItem) -> datetime:
    return item.timestamp or _EPOCH


def _order(item: ContextItem, key: Key) -> tuple[bool, datetime, str, int, str]:
    """Order items with a time by it, then the others, whatever order they are given in."""
    return item.timestamp is None, _time(item), key(item), item.tokens, item.content
