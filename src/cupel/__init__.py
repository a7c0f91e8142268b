"""Choose what goes into a context window: deterministically, explainably, fast.

Candidates and a token budget go in; an ordered selection comes out, with the reason for every item. The most used names
are here; each family has its own namespace: `cupel.scorers`, `cupel.slicers`, `cupel.placers`,
`cupel.diagnostics`, `cupel.policy`, `cupel.presets`, `cupel.analytics`,
`cupel.tokens`, `cupel.shorten`, `cupel.messages`, `cupel.testing`.
"""

from __future__ import annotations

from cupel._version import __version__ as __version__

TYPE_CHECKING = False  # what type checkers look for; the real one would load typing, most of what this import costs
if TYPE_CHECKING:
    from cupel import presets as presets
    from cupel.diagnostics import DiagnosticTraceCollector as DiagnosticTraceCollector
    from cupel.diagnostics import ExcludedItem as ExcludedItem
    from cupel.diagnostics import IncludedItem as IncludedItem
    from cupel.diagnostics import InclusionReason as InclusionReason
    from cupel.diagnostics import NullTraceCollector as NullTraceCollector
    from cupel.diagnostics import OverflowEvent as OverflowEvent
    from cupel.diagnostics import PipelineStage as PipelineStage
    from cupel.diagnostics import SelectionReport as SelectionReport
    from cupel.diagnostics import TraceCollector as TraceCollector
    from cupel.diagnostics import TraceDetailLevel as TraceDetailLevel
    from cupel.diagnostics import TraceEvent as TraceEvent
    from cupel.errors import *  # whole families: their `__all__` is the only list of their names
    from cupel.messages import MessageSession as MessageSession
    from cupel.messages import Prices as Prices
    from cupel.messages import fit as fit
    from cupel.model import *
    from cupel.pipeline import ContextResult as ContextResult
    from cupel.pipeline import PinRule as PinRule
    from cupel.pipeline import Pipeline as Pipeline
    from cupel.pipeline import PreparedSelection as PreparedSelection
    from cupel.placers import *
    from cupel.scorers import *
    from cupel.shorten import forms as forms
    from cupel.slicers import *

    __all__: list[str]

_WHOLE = ("errors", "model", "scorers", "slicers", "placers")
"""The families whose names are all here, lowest layer first."""
_SINGLE = {
    "ContextResult": "pipeline",
    "DiagnosticTraceCollector": "diagnostics",
    "ExcludedItem": "diagnostics",
    "IncludedItem": "diagnostics",
    "InclusionReason": "diagnostics",
    "MessageSession": "messages",
    "NullTraceCollector": "diagnostics",
    "OverflowEvent": "diagnostics",
    "PinRule": "pipeline",
    "Pipeline": "pipeline",
    "PipelineStage": "diagnostics",
    "PreparedSelection": "pipeline",
    "Prices": "messages",
    "SelectionReport": "diagnostics",
    "TraceCollector": "diagnostics",
    "TraceDetailLevel": "diagnostics",
    "TraceEvent": "diagnostics",
    "fit": "messages",
    "forms": "shorten",
}
"""The everyday names of other families."""
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
        "shorten",
        "slicers",
        "testing",
        "tokens",
        "watch",
    }
)


def __getattr__(name: str) -> object:
    """Load a name's family on first use, so that `import cupel` costs next to nothing."""
    from importlib import import_module

    if name in _NAMESPACES:
        return import_module(f"cupel.{name}")
    if name == "__all__":
        whole = (name for family in _WHOLE for name in import_module(f"cupel.{family}").__all__)
        return sorted({*whole, *_SINGLE, "__version__", "presets"}, key=lambda name: (not name.isupper(), name))
    for family in () if name.startswith("_") else (_SINGLE.get(name), *_WHOLE):
        module = family and import_module(f"cupel.{family}")
        if module and name in module.__all__:
            value = globals()[name] = getattr(module, name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})  # type: ignore[misc]
