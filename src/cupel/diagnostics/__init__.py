"""Why each item is in or out: events, reasons, reports and the collectors that receive them."""

from cupel.diagnostics._certificate import Certificate, Proof, TokenRequirementShortfall
from cupel.diagnostics._events import CountRequirementShortfall, OverflowEvent, TraceEvent
from cupel.diagnostics._reasons import (
    KNOWN_REASONS,
    BudgetExceeded,
    Conflict,
    CountCapExceeded,
    CountRequireCandidatesExhausted,
    Deduplicated,
    ExclusionReason,
    Filtered,
    InclusionReason,
    NegativeTokens,
    PinnedOverride,
    QuotaCapExceeded,
    QuotaRequireDisplaced,
    RequirementMissing,
    ScoredTooLow,
    Superseded,
    UnknownInclusionReason,
    UnknownReason,
    vocabulary,
)
from cupel.diagnostics._report import ExcludedItem, IncludedItem, SelectionReport
from cupel.diagnostics._schema import report_schema
from cupel.diagnostics._stage import PipelineStage, UnknownStage
from cupel.diagnostics._trace import (
    DiagnosticTraceCollector,
    NullTraceCollector,
    StageSnapshot,
    TraceCollector,
    TraceDetailLevel,
    TraceSink,
)
from cupel.diagnostics._wire import item_to_dict

__all__ = [
    "KNOWN_REASONS",
    "BudgetExceeded",
    "Certificate",
    "Conflict",
    "CountCapExceeded",
    "CountRequireCandidatesExhausted",
    "CountRequirementShortfall",
    "Deduplicated",
    "DiagnosticTraceCollector",
    "ExcludedItem",
    "ExclusionReason",
    "Filtered",
    "IncludedItem",
    "InclusionReason",
    "NegativeTokens",
    "NullTraceCollector",
    "OverflowEvent",
    "PinnedOverride",
    "PipelineStage",
    "Proof",
    "QuotaCapExceeded",
    "QuotaRequireDisplaced",
    "RequirementMissing",
    "ScoredTooLow",
    "SelectionReport",
    "StageSnapshot",
    "Superseded",
    "TokenRequirementShortfall",
    "TraceCollector",
    "TraceDetailLevel",
    "TraceEvent",
    "TraceSink",
    "UnknownInclusionReason",
    "UnknownReason",
    "UnknownStage",
    "item_to_dict",
    "report_schema",
    "vocabulary",
]
