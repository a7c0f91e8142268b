"""Compare the selections of several pipelines over the same candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from cupel._internal.checks import as_text, shown, wrong_type
from cupel.analytics._search import as_items, prepared_of, quiet
from cupel.errors import PipelineConfigError
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline

if TYPE_CHECKING:
    from cupel.diagnostics import SelectionReport
    from cupel.model import ContextItem
    from cupel.pipeline import PreparedSelection


_EXPECTED = "a mapping of labels to policies or pipelines, or pairs of the two"
Variants: TypeAlias = "Mapping[str, Pipeline] | Iterable[tuple[str, Pipeline]]"


class ItemStatus(Enum):
    """Whether a variant selected a content."""

    INCLUDED = "Included"
    EXCLUDED = "Excluded"


@dataclass(frozen=True, slots=True)
class PolicySensitivityDiffEntry:
    """One content on which the variants disagree."""

    content: str
    statuses: list[tuple[str, ItemStatus]]


PolicySensitivityDiff = PolicySensitivityDiffEntry
"""The shorter name of `PolicySensitivityDiffEntry`."""


@dataclass(frozen=True, slots=True)
class PolicySensitivityReport:
    """Each variant's report in the order given, and the contents that swing, in the order of the items."""

    variants: list[tuple[str, SelectionReport]]
    diffs: list[PolicySensitivityDiffEntry]


def dry_run_with_policy(
    items: Iterable[ContextItem],
    budget: ContextBudget | int,
    policy: Pipeline,
    *,
    query: str | None = None,
) -> SelectionReport:
    """Report the selection of a policy, without telling its pipeline's `on_overflow`.

    >>> from cupel import ContextItem, Pipeline, RecencyScorer
    >>> dry_run_with_policy([ContextItem("a", 60), ContextItem("b", 30)], 50, Pipeline(scorer=RecencyScorer()))
    <SelectionReport: 1 in (30 tokens), 1 out: 1 BudgetExceeded>
    """
    return prepared_of(Pipeline.of(policy), items, query).dry_run(ContextBudget.of(budget))


def policy_sensitivity(
    items: Iterable[ContextItem],
    budget: ContextBudget | int,
    variants: Variants,
    *,
    query: str | None = None,
) -> PolicySensitivityReport:
    """Run every variant on the same candidates and list the contents on which at least two disagree.

    Variants are pipelines by label; labels may repeat in a list of pairs. Items are matched by
    content, and a content counts as included if any copy of it was. Variants with an equal scorer, the same
    deduplication and the same pins share one scoring pass. The first variant that fails ends the call with its error.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, PriorityScorer, ReflexiveScorer
    >>> items = [
    ...     ContextItem("spec", 40, priority=9, future_relevance_hint=0.1),
    ...     ContextItem("log", 40, priority=1, future_relevance_hint=0.9),
    ... ]
    >>> variants = {"urgent": Pipeline(scorer=PriorityScorer()), "relevant": Pipeline(scorer=ReflexiveScorer())}
    >>> for diff in policy_sensitivity(items, ContextBudget(50, 40), variants).diffs:
    ...     print(diff.content, [status.value for _, status in diff.statuses])
    spec ['Included', 'Excluded']
    log ['Excluded', 'Included']
    """
    pipelines = [(label, pipeline.bind(query)) for label, pipeline in _pipelines(variants)]
    if len(pipelines) < 2:  # noqa: PLR2004 - one variant has nothing to differ from
        raise PipelineConfigError("policy_sensitivity requires at least 2 variants")
    candidates = as_items(items)
    reports = _reports(candidates, ContextBudget.of(budget), pipelines)
    return PolicySensitivityReport(reports, _diffs(candidates, reports))


def _pipelines(variants: Variants) -> list[tuple[str, Pipeline]]:
    """Check the variants and give each its pipeline."""
    if isinstance(variants, str) or not isinstance(variants, Iterable):
        raise wrong_type("variants", _EXPECTED, variants)
    given: Any = variants
    has_labels = isinstance(variants, Mapping)
    pairs: list[Any] = list(given.items() if has_labels else given)
    pipelines: list[tuple[str, Pipeline]] = []
    for position, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(cast("Sequence[object]", pair)) != 2:  # noqa: PLR2004
            raise wrong_type(f"variants[{position}]", "a pair of a label and a Pipeline", cast("object", pair))
        label, variant = cast("Sequence[object]", pair)
        label = as_text(f"variants[{position}][0]", label)
        pipelines.append((label, quiet(Pipeline.of(variant, name=f"variants: {shown(label)}"))))
    return pipelines


def _reports(
    items: Sequence[ContextItem], budget: ContextBudget, pipelines: list[tuple[str, Pipeline]]
) -> list[tuple[str, SelectionReport]]:
    prepared: list[PreparedSelection] = []
    reports: list[tuple[str, SelectionReport]] = []
    for label, pipeline in pipelines:
        shared = next((one for one in prepared if _same_ranking(one.pipeline, pipeline)), None)
        if shared is None:
            own = pipeline.prepare(items)
            prepared.append(own)
        else:
            own = shared.with_pipeline(pipeline)
        reports.append((label, own.dry_run(budget)))
    return reports


def _same_ranking(one: Pipeline, other: Pipeline) -> bool:
    """Whether two pipelines score, deduplicate and sort alike.

    Equality is not enough: mappings of weights are equal in any order, but floats add up differently.
    """
    if (one.deduplicate, one.pins) != (other.deduplicate, other.pins):
        return False
    return one.scorer is other.scorer or (one.scorer == other.scorer and repr(one.scorer) == repr(other.scorer))


def _diffs(
    items: Sequence[ContextItem], reports: list[tuple[str, SelectionReport]]
) -> list[PolicySensitivityDiffEntry]:
    selected = [(label, {entry.item.content for entry in report.included}) for label, report in reports]
    diffs: list[PolicySensitivityDiffEntry] = []
    for content in dict.fromkeys(item.content for item in items):
        inclusions = [content in contents for _, contents in selected]
        if any(inclusions) and not all(inclusions):
            statuses = [
                (label, ItemStatus.INCLUDED if included else ItemStatus.EXCLUDED)
                for (label, _), included in zip(selected, inclusions, strict=True)
            ]
            diffs.append(PolicySensitivityDiffEntry(content, statuses))
    return diffs
