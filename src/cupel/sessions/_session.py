"""A window of items, turn by turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING

from cupel._internal.checks import as_function, as_text, as_tuple, shown
from cupel._internal.columns import descending
from cupel._internal.relations import Form, read_relations, relation_of
from cupel._planning import Action, BaseSession, Bill, Candidate, Change, FormOption, Opening, decide, turn_html
from cupel.diagnostics import ExcludedItem, IncludedItem, InclusionReason, NegativeTokens, SelectionReport
from cupel.errors import InvalidItemError, PinnedExceedsBudgetError
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import ContextResult, Pipeline

if TYPE_CHECKING:
    from cupel._planning import Decision, Prices, TurnTerms

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


class Session(BaseSession):
    """Keeps a window of items from turn to turn: each selection changes the last one only where that pays.

    The pipeline's scorer gives items their worth; the planner compares it with the cost of keeping them. Items with a
    timestamp are sent in its order. Others, such as documents, stay where they were first sent, and those that come
    back come last. Forms of one item are alternatives; a group is kept or evicted as a whole, at the place of its first
    item, and all its members change their forms together.

    Args:
        policy: the pipeline whose scorer and pins are used.
        budget: the tokens of a selection.
        prices: how the provider caches, by default `Prices.marked()`.
        worth: raise it to keep more context at a higher cost.
        key: returns the identity of an item, by default a hash of its content and kind.

    >>> from cupel import ContextItem, Pipeline, ReflexiveScorer
    >>> session = Session(Pipeline(scorer=ReflexiveScorer()), 100)
    >>> notes = [ContextItem(f"note {n}", 30, future_relevance_hint=n / 10) for n in range(1, 6)]
    >>> [item.content for item in session.select(notes)]
    ['note 5', 'note 4', 'note 3']
    >>> result = session.select(notes, new=[ContextItem("a question", 10)])
    >>> [item.content for item in result], result.action, result.bill.read
    (['note 5', 'note 4', 'note 3', 'a question'], 'append', 90)
    """

    def __init__(
        self,
        policy: Pipeline,
        budget: int | ContextBudget,
        *,
        prices: Prices | None = None,
        worth: float = 1.0,
        key: Key | None = None,
    ) -> None:
        self._pipeline = Pipeline.of(policy)
        super().__init__(ContextBudget.of(budget), prices, worth)
        self._key: Key = identity if key is None else as_function("key", key)

    def select(
        self,
        items: Iterable[ContextItem],
        *,
        new: Iterable[ContextItem] = (),
        query: str | None = None,
        idle: float | None = None,
    ) -> SessionResult:
        """Return the next window, and remember it as sent.

        Args:
            items: all candidates.
            new: the items that came since the last selection; they are sent whole, and come last.
            query: the text that a scorer looks for.
            idle: how many seconds ago the last window was sent; after the `ttl` of the prices the provider has
                forgotten it.
        """
        old, added = as_tuple("items", items, ContextItem), as_tuple("new", new, ContextItem)
        with self._only_writer():
            turn = ItemTurn(self._pipeline, old, added, query, self._key)
            room = self._window(self._budget)
            step = decide(
                self._state,
                turn.candidates,
                prices=self._prices,
                worth=self._worth,
                room=room,
                opening=Opening("", 0),
                idle=idle,
            )
            if step is None:
                held = sum(candidate.whole.tokens for candidate in turn.candidates if candidate.held)
                raise PinnedExceedsBudgetError(held, room)
            result = turn.result(step, self._budget, room, self._prices.marks)
            self._keep(step.state, step.reason, result.bill, result.changes)
        return result


@dataclass(frozen=True, slots=True)
class _Part:
    """Items that are sent together: one item in one of its forms, or a group."""

    positions: tuple[int, ...]
    """Positions of all its items, whatever their form."""
    forms: dict[str, list[int]]
    """Positions of the items of each form, by name."""
    candidate: Candidate


def identity(item: ContextItem) -> str:
    """Return the default key of an item: a hash of its content and kind."""
    text = f"{item.kind}\n{item.content}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=12).hexdigest()


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
            return as_text("the result of key", key(item))

        added = {known(item) for item in new}
        old = sorted((item for item in items if known(item) not in added), key=lambda item: _order(item, known))
        pool = [*old, *sorted(new, key=_time)]
        self.items = [item for item in pool if item.tokens >= 0]
        self.unusable = [item for item in pool if item.tokens < 0]
        pipeline = pipeline.bind(query)
        self.scores = pipeline.scorer.checked_scores(self.items) if self.items else []
        self.pinned = pipeline.pinned(self.items)
        first_new = len(self.items) - sum(1 for item in new if item.tokens >= 0)
        seen = Counter[str]()
        self.parts = sorted((self._part(group, first_new, known, seen) for group in self._groups()), key=_place)
        self.candidates = [part.candidate for part in self.parts]

    def _groups(self) -> list[list[Sequence[Form]]]:
        """Return the items that are sent together: for each of them its forms, from the fewest tokens up."""
        relations = read_relations(self.items, self.scores)
        if relations is None:
            return [[[Form(at, item.tokens, self.scores[at])]] for at, item in enumerate(self.items)]
        return [[relations.entities[entity].forms for entity in group.entities] for group in relations.groups]

    def _part(self, group: Sequence[Sequence[Form]], first_new: int, key: Key, seen: Counter[str]) -> _Part:
        positions = tuple(sorted(form.position for forms in group for form in forms))
        name, label = self._named(positions[0], key, seen)
        is_new = positions[-1] >= first_new
        if is_new and positions[0] < first_new:
            msg = f"all {label} must be among the items, or all among the new ones"
            raise InvalidItemError(msg)
        # The shortest form of each item, then the next of each, up to the longest of all.
        sizes = range(max(map(len, group)))
        levels = [[forms[min(size, len(forms) - 1)] for forms in group] for size in sizes]
        worths = [sum(max(form.value, 0.0) for form in level) for level in levels]
        value = max(worths)
        forms = {self._digest(level): [form.position for form in level] for level in levels}
        tokens = [sum(form.tokens for form in level) for level in levels]
        shares = [worth / value if value else 1.0 for worth in worths]
        candidate = Candidate(
            name,
            value,
            tuple(sorted(map(FormOption, forms, tokens, shares), key=lambda option: (option.tokens, option.form))),
            held=is_new or not self.pinned.isdisjoint(positions),
            new=is_new,
            free=all(self.items[at].timestamp is None for at in positions),
        )
        return _Part(positions, forms, candidate)

    def _named(self, first: int, key: Key, seen: Counter[str]) -> tuple[str, str]:
        """Return the key of a part by its first item, and its name in words; equal items are numbered."""
        item = self.items[first]
        relation, name = relation_of(item), key(item)
        if relation.group is not None:
            return f"group:{relation.group}", f"members of group {shown(relation.group)}"
        if relation.id is not None:
            return f"id:{relation.id}", f"forms of {shown(relation.id)}"
        seen[name] += 1
        return (f"{name}#{seen[name]}" if seen[name] > 1 else name), shown(item.content)

    def _digest(self, forms: Iterable[Form]) -> str:
        """Return a short hash of contents."""
        digest = blake2b(digest_size=6)
        for form in forms:
            digest.update(self.items[form.position].content.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def result(self, step: Decision, budget: ContextBudget, room: int, marks: int) -> SessionResult:
        """Return a decision as a selection of items."""
        sent = [self.parts[index].forms[form] for index, form in step.chosen.items()]
        positions = [at for together in sent for at in together]
        joint = sum(map(len, sent[: step.common])) - 1
        places = dict.fromkeys(place for place in (len(positions) - 1, joint) if place >= 0)
        first = {part.candidate.key: self.items[part.positions[0]] for part in self.parts}
        return SessionResult(
            [self.items[at] for at in positions],
            self._report(positions, room, step.terms),
            budget,
            action=step.action,
            reason=step.reason,
            changes=tuple(replace(change, label=shown(first[change.key].content)) for change in step.changes),
            marks=tuple(sorted([*places][:marks])),
            bill=step.bill,
        )

    def _report(self, positions: Sequence[int], room: int, terms: TurnTerms) -> SelectionReport:
        chosen = set(positions)
        left = room - sum(self.items[at].tokens for at in positions)
        excluded: list[ExcludedItem] = []
        for at, item in enumerate(self.items):
            if at not in chosen:
                worth = terms.gain * max(self.scores[at], 0.0) / max(item.tokens, 1)
                excluded.append(ExcludedItem(item, self.scores[at], terms.exclusion(item.tokens, worth, left)))
        excluded += [ExcludedItem(item, 0.0, NegativeTokens(item.tokens)) for item in self.unusable]
        return SelectionReport(
            events=(),
            included=tuple(IncludedItem(self.items[at], self.scores[at], self._reason(at)) for at in positions),
            excluded=tuple(excluded[at] for at in descending([entry.score for entry in excluded])),
            total_candidates=len(self.items) + len(self.unusable),
            total_tokens_considered=sum(item.tokens for item in (*self.items, *self.unusable)),
        )

    def _reason(self, at: int) -> InclusionReason:
        if at in self.pinned:
            return InclusionReason.PINNED
        return InclusionReason.SCORED if self.items[at].tokens else InclusionReason.ZERO_TOKEN


def _place(part: _Part) -> tuple[bool, bool, float]:
    """Order parts without a place after the others, the best first: nothing else decides on their order."""
    candidate = part.candidate
    return (True, not candidate.new, -candidate.value) if candidate.free else (False, False, 0.0)


def _time(item: ContextItem) -> datetime:
    return item.timestamp or _EPOCH


def _order(item: ContextItem, key: Key) -> tuple[bool, datetime, str, int, str]:
    """Order items with a time by it, then the others, whatever order they are given in."""
    return item.timestamp is None, _time(item), key(item), item.tokens, item.content
