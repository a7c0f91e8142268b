"""Assertions about reports."""

from __future__ import annotations

from itertools import pairwise
from math import isnan
from typing import TYPE_CHECKING, Any

from cupel._internal.checks import as_function, as_instance, as_integer, as_number, shown
from cupel._internal.columns import descending
from cupel.analytics import budget_utilization
from cupel.diagnostics import BudgetExceeded, ExcludedItem, ExclusionReason, SelectionReport
from cupel.model import ContextBudget, ContextKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from cupel.diagnostics import IncludedItem
    from cupel.model import ContextItem


class SelectionReportAssertionException(AssertionError):  # noqa: N818  (the specification's name)
    """A report is not what a test expects; test runners show it as a failure, not as an error.

    The message follows the specification's template; further details are notes (`__notes__`), and `report` is the
    report in question, which the pytest plugin prints as a table.

    >>> str(SelectionReportAssertionException("HaveAtLeastNExclusions(1) failed: …"))
    'HaveAtLeastNExclusions(1) failed: …'
    """

    __module__ = "cupel.testing"

    def __init__(self, message: str, *, report: SelectionReport | None = None) -> None:
        super().__init__(message)
        self.report = report


class SnapshotMismatchError(SelectionReportAssertionException):
    """A report differs from its snapshot; the message is a unified diff of the two texts."""

    __module__ = "cupel.testing"

    def __init__(
        self,
        message: str,
        *,
        report: SelectionReport | None = None,
        name: str = "",
        path: Path | None = None,
        expected: str | None = None,
        actual: str = "",
    ) -> None:
        super().__init__(message, report=report)
        self.name = name
        self.path = path
        self.expected = expected
        """The stored text; None when a snapshot was required and there was none."""
        self.actual = actual


class ContractViolation(AssertionError):  # noqa: N818  (a finding, as the assertion above)
    """A strategy breaks a law of its contract; the message shows the smallest case found.

    `law` names the law, `strategy` is the repr of the strategy.
    """

    __module__ = "cupel.testing"

    def __init__(self, message: str, *, law: str = "", strategy: str = "") -> None:
        super().__init__(message)
        self.law = law
        self.strategy = strategy


def distinct_kinds(entries: Iterable[IncludedItem]) -> str:
    """List the kinds in the order in which they first occur."""
    # A dict keeps the first spelling of kinds that differ in case only (ruling 12.6).
    return ", ".join(str(kind) for kind in dict.fromkeys(entry.item.kind for entry in entries))


def distinct_reasons(entries: Iterable[ExcludedItem]) -> str:
    """List the names of the reasons in the order in which they first occur."""
    return ", ".join(dict.fromkeys(entry.reason.name for entry in entries))


def budget_details(reason: BudgetExceeded) -> str:
    """Return the two numbers of a budget exclusion."""
    return f"item_tokens={reason.item_tokens}, available_tokens={reason.available_tokens}"


def summary(title: str, entries: Sequence[IncludedItem | ExcludedItem], most: int = 5) -> str:
    """Return kind, score and reason of the first entries; a note, because the specification's template is exact."""
    if not entries:
        return ""
    lines = [f"  kind={entry.item.kind}, score={entry.score:.4f}, reason={_reason(entry)}" for entry in entries[:most]]
    if len(entries) > most:
        lines.append(f"  … and {len(entries) - most} more")
    return "\n".join([f"{title}:", *lines])


def _reason(entry: IncludedItem | ExcludedItem) -> str:
    if not isinstance(entry, ExcludedItem):
        return entry.reason.value
    reason = entry.reason
    return f"{reason.name}, {budget_details(reason)}" if isinstance(reason, BudgetExceeded) else reason.name


def edges(count: int, n: int) -> list[int]:
    """Return the `n` outermost of `count` positions, alternating between both ends.

    >>> edges(5, 3)
    [0, 4, 1]
    """
    inward = (side for left in range(count) for side in (left, count - 1 - left))
    return list(dict.fromkeys(inward))[:n]


def misplaced(scores: list[float], n: int) -> int:
    """Count the `n` highest scores that are not at an edge.

    Items that tie with the n-th highest score are interchangeable: any of them may hold the edges that the strictly
    higher ones leave (ruling 12.11).

    >>> misplaced([0.9, 0.5, 0.5, 0.9], 3), misplaced([0.5, 0.9, 0.5], 2)
    (0, 1)
    """
    top, outer = descending(scores)[:n], set(edges(len(scores), n))
    keys = [(isnan(score), 0.0 if isnan(score) else score) for score in scores]  # NaN ties with NaN only
    tied = {index for index, key in enumerate(keys) if top and key == keys[top[-1]]}
    above = {index for index in top if index not in tied}
    return len(above - outer) + max(0, n - len(above) - len(tied & outer))


__tracebackhide__ = True  # pytest leaves these frames out of a failure


def should(report: SelectionReport) -> SelectionReportAssertionChain:
    """Start a chain of assertions about a report; the same as `report.should()`.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer
    >>> report = Pipeline(scorer=RecencyScorer()).dry_run([ContextItem("hi", 1)], ContextBudget(10, 10))
    >>> _ = should(report).include_item_with_kind("Message").have_at_least_n_exclusions(0)
    """
    return SelectionReportAssertionChain(report)


class SelectionReportAssertionChain:
    """Assertions about one report: each returns the chain, or raises `SelectionReportAssertionException`.

    Kinds may be plain strings. A reason is given as a class (`BudgetExceeded`), an instance (its fields are ignored) or
    a name. Messages use the specification's names of the assertions.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer
    >>> report = Pipeline(scorer=RecencyScorer()).dry_run([ContextItem("hi", 1)], ContextBudget(10, 10))
    >>> report.should().include_item_with_kind("Message").have_at_least_n_exclusions(1)
    Traceback (most recent call last):
    cupel.testing.SelectionReportAssertionException: HaveAtLeastNExclusions(1) failed: expected ...
    """

    __slots__ = ("_report",)

    def __init__(self, report: SelectionReport) -> None:
        as_instance("report", report, SelectionReport)
        self._report = report

    @property
    def report(self) -> SelectionReport:
        """The report the chain asserts about."""
        return self._report

    def include_item_with_kind(self, kind: ContextKind | str) -> SelectionReportAssertionChain:
        """Assert that at least one item of the kind was selected."""
        kind = ContextKind.of(kind)
        included = self._report.included
        if any(entry.item.kind == kind for entry in included):
            return self
        raise self._failure(
            f"IncludeItemWithKind({kind}) failed: Included contained 0 items with Kind={kind}. "
            f"Included had {len(included)} items with kinds: [{distinct_kinds(included)}]."
        )

    def include_item_matching(self, predicate: Callable[[IncludedItem], bool]) -> SelectionReportAssertionChain:
        """Assert that a selected item satisfies the predicate, which sees the item with its score and reason."""
        as_function("predicate", predicate)
        included = self._report.included
        if any(predicate(entry) for entry in included):
            return self
        raise self._failure(
            "IncludeItemMatching failed: no item in Included matched the predicate. "
            f"Included had {len(included)} items.",
            summary("Included", included),
        )

    def include_exactly_n_items_with_kind(self, kind: ContextKind | str, n: int) -> SelectionReportAssertionChain:
        """Assert that exactly `n` items of the kind were selected."""
        kind, n = ContextKind.of(kind), as_integer("n", n, least=0)
        included = self._report.included
        actual = sum(entry.item.kind == kind for entry in included)
        if actual == n:
            return self
        raise self._failure(
            f"IncludeExactlyNItemsWithKind({kind}, {n}) failed: expected {n} items with Kind={kind} in Included, "
            f"but found {actual}. Included had {len(included)} items total."
        )

    def exclude_item_with_reason(
        self, reason: type[ExclusionReason] | ExclusionReason | str
    ) -> SelectionReportAssertionChain:
        """Assert that at least one item was excluded for this reason."""
        name, carries = _named(reason)
        excluded = self._report.excluded
        if any(carries(entry.reason) for entry in excluded):
            return self
        raise self._failure(
            f"ExcludeItemWithReason({name}) failed: no excluded item had reason {name}. "
            f"Excluded had {len(excluded)} items with reasons: [{distinct_reasons(excluded)}]."
        )

    def exclude_item_matching_with_reason(
        self, predicate: Callable[[ContextItem], bool], reason: type[ExclusionReason] | ExclusionReason | str
    ) -> SelectionReportAssertionChain:
        """Assert that at least one item that satisfies the predicate was excluded for this reason."""
        as_function("predicate", predicate)
        name, carries = _named(reason)
        matched = [entry for entry in self._report.excluded if predicate(entry.item)]
        if any(carries(entry.reason) for entry in matched):
            return self
        raise self._failure(
            f"ExcludeItemMatchingWithReason(reason={name}) failed: predicate matched {len(matched)} excluded item(s) "
            f"but none had reason {name}. Matched items had reasons: [{distinct_reasons(matched)}]."
        )

    def exclude_item_with_budget_details(
        self, predicate: Callable[[ContextItem], bool], expected_item_tokens: int, expected_available_tokens: int
    ) -> SelectionReportAssertionChain:
        """Assert that an item that satisfies the predicate was excluded as `BudgetExceeded` with these numbers."""
        as_function("predicate", predicate)
        expected = BudgetExceeded(
            item_tokens=as_integer("expected_item_tokens", expected_item_tokens),
            available_tokens=as_integer("expected_available_tokens", expected_available_tokens),
        )
        matched = [entry for entry in self._report.excluded if predicate(entry.item)]
        found = [entry.reason for entry in matched if isinstance(entry.reason, BudgetExceeded)]
        if expected in found:
            return self
        but = f"found {budget_details(found[0])}" if found else "no matching item had reason BudgetExceeded"
        raise self._failure(
            f"ExcludeItemWithBudgetDetails failed: expected BudgetExceeded with {budget_details(expected)}, but {but}.",
            summary("Matching items in Excluded", matched, most=len(matched)),
        )

    def have_no_exclusions_for_kind(self, kind: ContextKind | str) -> SelectionReportAssertionChain:
        """Assert that no item of the kind was excluded."""
        kind = ContextKind.of(kind)
        found = [entry for entry in self._report.excluded if entry.item.kind == kind]
        if not found:
            return self
        raise self._failure(
            f"HaveNoExclusionsForKind({kind}) failed: found {len(found)} excluded item(s) with Kind={kind}. "
            f"First: score={found[0].score:.4f}, reason={found[0].reason.name}."
        )

    def have_at_least_n_exclusions(self, n: int) -> SelectionReportAssertionChain:
        """Assert that at least `n` items were excluded."""
        actual = len(self._report.excluded)
        if actual >= as_integer("n", n, least=0):
            return self
        raise self._failure(
            f"HaveAtLeastNExclusions({n}) failed: expected at least {n} excluded items, but Excluded had {actual}."
        )

    def excluded_items_are_sorted_by_score_descending(self) -> SelectionReportAssertionChain:
        """Assert that excluded items are in descending order of their scores, as a pipeline reports them."""
        scores = [entry.score for entry in self._report.excluded]
        for index, (score, following) in enumerate(pairwise(scores)):
            if following > score:  # only a proven increase fails: NaN, which comes last, passes (ruling 12.13)
                raise self._failure(
                    f"ExcludedItemsAreSortedByScoreDescending failed: item at index {index + 1} "
                    f"(score={following:.6f}) is higher than item at index {index} (score={score:.6f}). "
                    "Expected non-increasing scores."
                )
        return self

    def have_budget_utilization_above(self, threshold: float, budget: ContextBudget) -> SelectionReportAssertionChain:
        """Assert that the selected tokens are at least this fraction of `max_tokens`, without a tolerance."""
        threshold = as_number("threshold", threshold)
        as_instance("budget", budget, ContextBudget)
        actual = budget_utilization(self._report, budget)
        if actual >= threshold:
            return self
        raise self._failure(
            f"HaveBudgetUtilizationAbove({threshold!r}) failed: computed utilization was {actual:.6f} "
            f"(includedTokens={self._report.total_tokens}, budget.MaxTokens={budget.max_tokens})."
        )

    def have_kind_coverage_count(self, n: int) -> SelectionReportAssertionChain:
        """Assert that at least `n` different kinds were selected."""
        included = self._report.included
        actual = len({entry.item.kind for entry in included})
        if actual >= as_integer("n", n, least=0):
            return self
        raise self._failure(
            f"HaveKindCoverageCount({n}) failed: expected at least {n} distinct ContextKind values in Included, "
            f"but found {actual}: [{distinct_kinds(included)}]."
        )

    def place_item_at_edge(self, predicate: Callable[[IncludedItem], bool]) -> SelectionReportAssertionChain:
        """Assert that the first or the last selected item satisfies the predicate."""
        as_function("predicate", predicate)
        included = self._report.included
        # Both ends count, also when an earlier match lies between them (ruling 12.10).
        if included and (predicate(included[0]) or predicate(included[-1])):
            return self
        first = next((index for index, entry in enumerate(included) if predicate(entry)), None)
        if first is None:
            raise self._failure(
                "PlaceItemAtEdge failed: no item in Included matched the predicate.", summary("Included", included)
            )
        raise self._failure(
            f"PlaceItemAtEdge failed: item matching predicate was at index {first} (not at edge). "
            f"Edge positions: 0 and {len(included) - 1}. Included had {len(included)} items."
        )

    def place_top_n_scored_at_edges(self, n: int) -> SelectionReportAssertionChain:
        """Assert that the `n` highest scores are at the outermost positions, alternating between both ends."""
        included = self._report.included
        if as_integer("n", n, least=0) > len(included):
            raise self._failure(f"PlaceTopNScoredAtEdges({n}) failed: n={n} exceeds Included count={len(included)}.")
        scores = [entry.score for entry in included]
        wrong = misplaced(scores, n)
        if not wrong:
            return self
        top = ", ".join(
            f"(kind={included[index].item.kind}, score={scores[index]:.6f}, idx={index})"
            for index in descending(scores)[:n]
        )
        raise self._failure(
            f"PlaceTopNScoredAtEdges({n}) failed: {wrong} of the top-{n} scored items were not at expected "
            f"edge positions. Top-{n} items (by score): [{top}]. "
            f"Expected edge positions: [{', '.join(map(str, edges(len(included), n)))}]."
        )

    def __repr__(self) -> str:
        return f"should({self._report!r})"

    def _failure(self, message: str, note: str = "") -> SelectionReportAssertionException:
        failure = SelectionReportAssertionException(message, report=self._report)
        if note:
            failure.add_note(note)
        return failure


def _named(reason: Any) -> tuple[str, Callable[[ExclusionReason], bool]]:
    """Return the reason's name and a test for it, which ignores the reason's fields (ruling 12.5)."""
    given: object = reason
    if isinstance(reason, type) and issubclass(reason, ExclusionReason) and reason is not ExclusionReason:
        wanted = reason
        return wanted.__name__, lambda found: isinstance(found, wanted)
    if isinstance(reason, ExclusionReason):
        variant, label = type(reason), reason.name
        return label, lambda found: type(found) is variant and found.name == label
    if isinstance(reason, str) and reason:
        return reason, lambda found: found.name == reason
    raise TypeError(f"reason must be a class of ExclusionReason, an instance or a name, got {shown(given)}")
