"""What changes when the policy changes: the same candidates and budget under several variants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from cupel._checks import as_list, shown, wrong_type
from cupel.analytics._arguments import check
from cupel.analytics._quiet import quiet
from cupel.errors import PipelineConfigError
from cupel.pipeline import Pipeline
from cupel.policy import Policy

if TYPE_CHECKING:
    from cupel.diagnostics import SelectionReport
    from cupel.model import ContextBudget, ContextItem
    from cupel.pipeline import PreparedSelection

Variants: TypeAlias = "Mapping[str, Policy | Pipeline] | Iterable[tuple[str, Policy | Pipeline]]"


class ItemStatus(Enum):
    """Whether a variant selected a content."""

    INCLUDED = "Included"
    EXCLUDED = "Excluded"


@dataclass(frozen=True, slots=True)
class PolicySensitivityDiff:
    """One content on which the variants disagree."""

    content: str
    statuses: list[tuple[str, ItemStatus]]


@dataclass(frozen=True, slots=True)
class PolicySensitivityReport:
    """Each variant's report in the order given, and the contents that swing, in the order of the items."""

    variants: list[tuple[str, SelectionReport]]
    diffs: list[PolicySensitivityDiff]


def policy_sensitivity(
    items: Iterable[ContextItem], budget: ContextBudget, variants: Variants
) -> PolicySensitivityReport:
    """Run every variant on the same candidates and list what at least two of them disagree about.

    Variants are policies, pipelines or both, by label; labels may repeat in a list of pairs. Items are matched by
    content, and a content counts as included if any copy of it was. Variants with an equal scorer and the same
    deduplication share one scoring pass. The first variant that fails ends the call with its error.

    >>> from cupel import ContextBudget, ContextItem, Policy, PriorityScorer, ReflexiveScorer
    >>> items = [
    ...     ContextItem("spec", 40, priority=9, future_relevance_hint=0.1),
    ...     ContextItem("log", 40, priority=1, future_relevance_hint=0.9),
    ... ]
    >>> variants = {"urgent": Policy(PriorityScorer()), "relevant": Policy(ReflexiveScorer())}
    >>> for diff in policy_sensitivity(items, ContextBudget(50, 40), variants).diffs:
    ...     print(diff.content, [status.value for _, status in diff.statuses])
    spec ['Included', 'Excluded']
    log ['Excluded', 'Included']
    """
    check(budget=budget)
    pipelines = _pipelines(variants)
    if len(pipelines) < 2:  # noqa: PLR2004 - one variant has nothing to differ from
        raise PipelineConfigError("policy_sensitivity requires at least 2 variants")
    candidates = as_list("items", items, "an iterable of ContextItem")
    reports = _reports(candidates, budget, pipelines)
    return PolicySensitivityReport(reports, _diffs(candidates, reports))


def _pipelines(variants: Variants) -> list[tuple[str, Pipeline]]:
    given = cast("Iterable[Any]", variants.items() if isinstance(variants, Mapping) else variants)
    pipelines: list[tuple[str, Pipeline]] = []
    pair: Any
    for position, pair in enumerate(as_list("variants", given, "a mapping or an iterable of (label, variant) pairs")):
        try:
            label, variant = pair
        except (TypeError, ValueError):
            raise wrong_type(f"variants[{position}]", "a (label, variant) pair", pair) from None
        if not isinstance(variant, (Policy, Pipeline)):
            raise TypeError(f"variants: {shown(label)} must be a Policy or a Pipeline, got {shown(variant)}")
        pipelines.append((label, variant.pipeline() if isinstance(variant, Policy) else quiet(variant)))
    return pipelines


def _reports(
    items: list[ContextItem], budget: ContextBudget, pipelines: list[tuple[str, Pipeline]]
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
    if one.deduplicate != other.deduplicate:
        return False
    return one.scorer is other.scorer or (one.scorer == other.scorer and repr(one.scorer) == repr(other.scorer))


def _diffs(items: list[ContextItem], reports: list[tuple[str, SelectionReport]]) -> list[PolicySensitivityDiff]:
    selected = [(label, {entry.item.content for entry in report.included}) for label, report in reports]
    diffs: list[PolicySensitivityDiff] = []
    for content in dict.fromkeys(item.content for item in items):
        inclusions = [content in contents for _, contents in selected]
        if any(inclusions) and not all(inclusions):
            statuses = [
                (label, ItemStatus.INCLUDED if included else ItemStatus.EXCLUDED)
                for (label, _), included in zip(selected, inclusions, strict=True)
            ]
            diffs.append(PolicySensitivityDiff(content, statuses))
    return diffs
