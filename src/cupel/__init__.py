"""Choose what goes into a context window: deterministically, explainably, fast.

Candidates and a token budget go in; an ordered selection comes out, with the reason for every item. The everyday names
are here; each family has a namespace of its own: `cupel.scorers`, `cupel.slicers`, `cupel.placers`,
`cupel.diagnostics`, `cupel.policy`, `cupel.presets`, `cupel.analytics`,
`cupel.tokens`, `cupel.shorten`, `cupel.sessions`, `cupel.testing`.
"""

from __future__ import annotations

from cupel._version import __version__

TYPE_CHECKING = False  # what type checkers look for; the real one would load typing, most of what this import costs
if TYPE_CHECKING:
    from cupel import presets
    from cupel.diagnostics import (
        DiagnosticTraceCollector,
        ExcludedItem,
        IncludedItem,
        InclusionReason,
        NullTraceCollector,
        OverflowEvent,
        PipelineStage,
        SelectionReport,
        TraceCollector,
        TraceDetailLevel,
        TraceEvent,
    )
    from cupel.errors import (
        BudgetOverflowError,
        ConfigurationError,
        CupelError,
        InvalidBudgetError,
        InvalidItemError,
        MissingExtraError,
        PinnedExceedsBudgetError,
        PipelineConfigError,
        PolicyConfigError,
        ReportFormatError,
        ScarcityError,
        ScorerConfigError,
        SearchStoppedError,
        SelectionError,
        SlicerConfigError,
        StrategyContractError,
        TableTooLargeError,
    )
    from cupel.messages import MessageSession, fit
    from cupel.model import (
        EXCLUSIVE_KEY,
        GROUP_KEY,
        ID_KEY,
        PRIORITY_KEY,
        REQUIRES_KEY,
        SOURCE_TYPE_KEY,
        TRUST_KEY,
        WORTH_KEY,
        ContextBudget,
        ContextItem,
        ContextKind,
        ContextSource,
        OverflowStrategy,
        ScoredItem,
    )
    from cupel.pipeline import ContextResult, PinRule, Pipeline, PreparedSelection
    from cupel.placers import ChronologicalPlacer, Placer, SystemFirst, UShapedPlacer
    from cupel.scorers import (
        CompositeScorer,
        DecayScorer,
        EmbeddingScorer,
        Exponential,
        FixedClock,
        FrequencyScorer,
        KindScorer,
        MetadataKeyScorer,
        MetadataTrustScorer,
        PriorityScorer,
        RecencyScorer,
        ReflexiveScorer,
        RelevanceScorer,
        ScaledScorer,
        Scorer,
        Step,
        SystemClock,
        TagScorer,
        Window,
    )
    from cupel.sessions import Prices, Session
    from cupel.shorten import forms
    from cupel.slicers import (
        BestFirstSlice,
        CountConstrainedKnapsackSlice,
        CountQuotaEntry,
        CountQuotaSlice,
        GreedySlice,
        KindLimit,
        KnapsackSlice,
        OptimalSlice,
        QuotaEntry,
        QuotaSlice,
        ScarcityBehavior,
        Slicer,
        StreamSlice,
    )

__all__ = [
    "EXCLUSIVE_KEY",
    "GROUP_KEY",
    "ID_KEY",
    "PRIORITY_KEY",
    "REQUIRES_KEY",
    "SOURCE_TYPE_KEY",
    "TRUST_KEY",
    "WORTH_KEY",
    "BestFirstSlice",
    "BudgetOverflowError",
    "ChronologicalPlacer",
    "CompositeScorer",
    "ConfigurationError",
    "ContextBudget",
    "ContextItem",
    "ContextKind",
    "ContextResult",
    "ContextSource",
    "CountConstrainedKnapsackSlice",
    "CountQuotaEntry",
    "CountQuotaSlice",
    "CupelError",
    "DecayScorer",
    "DiagnosticTraceCollector",
    "EmbeddingScorer",
    "ExcludedItem",
    "Exponential",
    "FixedClock",
    "FrequencyScorer",
    "GreedySlice",
    "IncludedItem",
    "InclusionReason",
    "InvalidBudgetError",
    "InvalidItemError",
    "KindLimit",
    "KindScorer",
    "KnapsackSlice",
    "MessageSession",
    "MetadataKeyScorer",
    "MetadataTrustScorer",
    "MissingExtraError",
    "NullTraceCollector",
    "OptimalSlice",
    "OverflowEvent",
    "OverflowStrategy",
    "PinRule",
    "PinnedExceedsBudgetError",
    "Pipeline",
    "PipelineConfigError",
    "PipelineStage",
    "Placer",
    "PolicyConfigError",
    "PreparedSelection",
    "Prices",
    "PriorityScorer",
    "QuotaEntry",
    "QuotaSlice",
    "RecencyScorer",
    "ReflexiveScorer",
    "RelevanceScorer",
    "ReportFormatError",
    "ScaledScorer",
    "ScarcityBehavior",
    "ScarcityError",
    "ScoredItem",
    "Scorer",
    "ScorerConfigError",
    "SearchStoppedError",
    "SelectionError",
    "SelectionReport",
    "Session",
    "Slicer",
    "SlicerConfigError",
    "Step",
    "StrategyContractError",
    "StreamSlice",
    "SystemClock",
    "SystemFirst",
    "TableTooLargeError",
    "TagScorer",
    "TraceCollector",
    "TraceDetailLevel",
    "TraceEvent",
    "UShapedPlacer",
    "Window",
    "__version__",
    "fit",
    "forms",
    "presets",
]

_NAMESPACES = frozenset(
    {
        "analytics",
        "batch",
        "conformance",
        "diagnostics",
        "errors",
        "evaluation",
        "integrations",
        "messages",
        "model",
        "page",
        "pipeline",
        "placers",
        "policy",
        "presets",
        "scorers",
        "sessions",
        "shorten",
        "slicers",
        "testing",
        "tokens",
    }
)
_FAMILIES = (
    "errors",
    "model",
    "diagnostics",
    "scorers",
    "slicers",
    "placers",
    "pipeline",
    "policy",
    "shorten",
    "sessions",
    "messages",
)


def __getattr__(name: str) -> object:
    """Load a name's family on first use, lowest layer first, so that `import cupel` costs next to nothing."""
    from importlib import import_module

    if name in _NAMESPACES:
        return import_module(f"cupel.{name}")
    if name in __all__:
        for family in _FAMILIES:
            module = import_module(f"cupel.{family}")
            if name in module.__all__:
                value = globals()[name] = getattr(module, name)
                return value
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
