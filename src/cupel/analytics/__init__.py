"""Questions about selections: how good, how full, and what would change under another budget or policy."""

from cupel.analytics._metrics import (
    OptimalityGap,
    QuotaMode,
    QuotaUtilization,
    budget_utilization,
    kind_diversity,
    optimality_gap,
    quota_utilization,
    timestamp_coverage,
)
from cupel.analytics._sensitivity import (
    ItemStatus,
    PolicySensitivityDiff,
    PolicySensitivityDiffEntry,
    PolicySensitivityReport,
    dry_run_with_policy,
    policy_sensitivity,
)
from cupel.analytics._simulation import (
    Counterfactual,
    SweepRow,
    counterfactual,
    counterfactuals,
    find_min_budget_for,
    get_marginal_items,
    sweep,
)

__all__ = [
    "Counterfactual",
    "ItemStatus",
    "OptimalityGap",
    "PolicySensitivityDiff",
    "PolicySensitivityDiffEntry",
    "PolicySensitivityReport",
    "QuotaMode",
    "QuotaUtilization",
    "SweepRow",
    "budget_utilization",
    "counterfactual",
    "counterfactuals",
    "dry_run_with_policy",
    "find_min_budget_for",
    "get_marginal_items",
    "kind_diversity",
    "optimality_gap",
    "policy_sensitivity",
    "quota_utilization",
    "sweep",
    "timestamp_coverage",
]
