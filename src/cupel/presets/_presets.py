"""The ready policies."""

from __future__ import annotations

from cupel.placers import ChronologicalPlacer, Placer, UShapedPlacer
from cupel.policy import Policy
from cupel.scorers import (
    CompositeScorer,
    FrequencyScorer,
    KindScorer,
    PriorityScorer,
    RecencyScorer,
    ReflexiveScorer,
    Scorer,
)
from cupel.slicers import GreedySlice, KnapsackSlice, Slicer

__all__ = ["chat", "code_review", "debugging", "document_qa", "long_running", "rag", "tool_use"]


def chat() -> Policy:
    """For conversations: what was said last matters most, memories and tool output a little more than small talk.

    It hurts when something decisive was said long ago and not pinned: recency outweighs everything else three to one.

    >>> from cupel import presets
    >>> presets.chat().name
    'chat'
    """
    return _preset("chat", (RecencyScorer(), 3.0), (KindScorer(), 1.0))


def code_review() -> Policy:
    """For reviewing changes: the kind of item and the caller's priorities lead, recency breaks what is left.

    It hurts when priorities are not set: a third of the score is then the same for every item.
    """
    return _preset("code-review", (KindScorer(), 2.0), (PriorityScorer(), 2.0), (RecencyScorer(), 1.0))


def rag() -> Policy:
    """For retrieval: the retriever's own relevance decides, and the best passages sit at both ends of the prompt.

    It hurts when `future_relevance_hint` is not filled in: then only the kinds differ. Not for conversations, since
    the U-shaped order is not chronological.
    """
    return _preset("rag", (ReflexiveScorer(), 3.0), (KindScorer(), 1.0), placer=UShapedPlacer())


def document_qa() -> Policy:
    """For questions about documents: packs the window by value instead of by density, best passages at both ends.

    It hurts with small windows or many candidates: items are measured in steps of 100 tokens, so a target below 100
    selects nothing with a size, and the table grows with candidates times target.
    """
    return _preset(
        "document-qa",
        (KindScorer(), 2.0),
        (ReflexiveScorer(), 2.0),
        (PriorityScorer(), 1.0),
        slicer=KnapsackSlice(100),
        placer=UShapedPlacer(),
    )


def tool_use() -> Policy:
    """For agents that call tools: tool output and recent turns first, the caller's priorities as a tie-breaker.

    It hurts when one tool returns a flood: nothing caps a kind. Wrap the slicer in a count quota then.
    """
    return _preset("tool-use", (KindScorer(), 2.0), (RecencyScorer(), 2.0), (PriorityScorer(), 1.0))


def long_running() -> Policy:
    """For sessions of many hours: recent items, and those whose tags keep coming back.

    It hurts when items carry no tags: a fifth of the score is then zero for all.
    """
    return _preset("long-running", (RecencyScorer(), 3.0), (FrequencyScorer(), 1.0), (KindScorer(), 1.0))


def debugging() -> Policy:
    """For hunting a fault: what the caller marked as important comes first, then by kind, then by age.

    It hurts when everything has the same priority: half of the score is then the same for every item.
    """
    return _preset("debugging", (PriorityScorer(), 3.0), (KindScorer(), 2.0), (RecencyScorer(), 1.0))


def _preset(
    name: str,
    *scorers: tuple[Scorer, float],
    slicer: Slicer | None = None,
    placer: Placer | None = None,
) -> Policy:
    return Policy(
        CompositeScorer(scorers),
        slicer=slicer or GreedySlice(),
        placer=placer or ChronologicalPlacer(),
        name=name,
    )
