"""Nine ready pipelines for common jobs."""

from __future__ import annotations

from typing import Final

from cupel.model import OverflowStrategy
from cupel.pipeline import PinRule, Pipeline
from cupel.placers import Placer, SystemFirst, UShapedPlacer
from cupel.scorers import (
    CompositeScorer,
    FrequencyScorer,
    KindScorer,
    PriorityScorer,
    RecencyScorer,
    ReflexiveScorer,
    RelevanceScorer,
    ReuseScorer,
    Scorer,
)
from cupel.slicers import BestFirstSlice, GreedySlice

__all__ = [
    "agent",
    "chat",
    "code_review",
    "conversation",
    "debugging",
    "document_qa",
    "long_running",
    "rag",
    "tool_use",
]

_PINS: Final = (PinRule.system_prompts(), PinRule.newest_user_message(), PinRule.newest_tool_result())


def agent() -> Pipeline:
    """For agents that work on a task with tools: items relevant to the task first, then recent ones.

    It keeps .94 of a coding agent's steps whole in 16,000 tokens, and .69 of an airline agent's in 3,500, where what
    must stay leaves little room.
    It hurts when the query is not the task: only words that it shares with an item count.

    >>> from cupel import presets
    >>> presets.agent().name
    'agent'
    """
    return _preset("agent", (_relevance(), 2.0), (RecencyScorer(), 1.0))


def chat() -> Pipeline:
    """For conversations: items relevant to the query and their neighbours; without a query, the newest first.

    It keeps .79 of the evidence for a question on a long conversation in 2,000 of its 20,000 tokens, and .85 in 4,000;
    without the question, .06 and .14.
    It hurts when there is no query and a decisive message is old and not pinned.

    >>> from cupel import presets
    >>> presets.chat().name
    'chat'
    """
    return _preset("chat", (_relevance(0.5), 60.0), (RecencyScorer(), 3.0), (KindScorer(), 1.0))


def code_review() -> Pipeline:
    """For reviewing changes: relevance to the query, the caller's priorities and the kind of item; age last.

    It keeps .65 of the functions that a sentence describes in 2,000 of 200,000 tokens of code, and .73 in 4,000.
    It hurts when there is neither a query nor priorities: then kinds decide, and items of one kind by age alone.
    """
    return _preset(
        "code-review",
        (_relevance(0.2), 4.0),
        (KindScorer(), 2.0),
        (PriorityScorer(), 2.0),
        (RecencyScorer(), 0.25),
    )


def conversation() -> Pipeline:
    """For one long conversation with tools, turn by turn: steps that the next calls are likely to use.

    The default of `cupel.fit` and `cupel.MessageSession`, which offer each step in several lengths. Equal messages are
    normal in a conversation, so nothing is deduplicated.
    It keeps .95 of a coding agent's steps whole in 16,000 tokens, and .71 of an airline agent's in 3,500.
    It hurts when the messages that matter for a question are old and no call ever used them: use `chat` then.

    >>> from cupel import presets
    >>> presets.conversation().scorer
    ReuseScorer(calls=8, words=8.0)
    """
    return Pipeline(
        scorer=ReuseScorer(),
        slicer=GreedySlice(),
        placer=SystemFirst(),
        deduplicate=False,
        overflow=OverflowStrategy.TRUNCATE,
        pins=_PINS,
        name="conversation",
        description="For one long conversation with tools, turn by turn: steps that the next calls are likely to use.",
    )


def rag() -> Pipeline:
    """For retrieval: the retriever's scores and the query's words together, the best passages at both ends.

    It keeps .66 of the evidence for a question on a long conversation in 2,000 of its 20,000 tokens, and .73 in 4,000,
    by the words alone; a retriever's scores were not measured.
    It hurts when there is no query and `future_relevance_hint` is not filled in: then only the kinds differ. Not for
    conversations, since the U-shaped order is not chronological.
    """
    return _preset(
        "rag",
        (ReflexiveScorer(), 3.0),
        (_relevance(), 3.0),
        (KindScorer(), 1.0),
        placer=UShapedPlacer(),
    )


def document_qa() -> Pipeline:
    """For questions about documents in pieces: pieces relevant to the query and their neighbours, the best at the ends.

    It keeps .75 of the evidence for a question on a long conversation in 2,000 of its 20,000 tokens, and .65 of the
    functions that a sentence describes in 2,000 of 200,000 tokens of code.
    It hurts when the pieces are not given in the order of their document, or not with one source for each document.
    """
    return _preset(
        "document-qa",
        (_relevance(0.2), 4.0),
        (KindScorer(), 2.0),
        (ReflexiveScorer(), 2.0),
        (PriorityScorer(), 1.0),
        placer=UShapedPlacer(),
    )


def tool_use() -> Pipeline:
    """For assistants that call tools for a user: items relevant to the query, then recent turns and tool output.

    It keeps .69 of an airline agent's steps whole in 3,500 tokens, where what must stay leaves little room.
    It hurts when one tool returns a flood: nothing caps a kind. Wrap the slicer in a count quota then.
    """
    return _preset(
        "tool-use", (_relevance(), 8.0), (RecencyScorer(), 2.0), (KindScorer(), 1.0), (PriorityScorer(), 1.0)
    )


def long_running() -> Pipeline:
    """For sessions of many hours: items relevant to the query, then recent ones and those whose tags recur.

    It keeps .79 of the evidence for a question on a long conversation in 2,000 of its 20,000 tokens, and .85 in 4,000.
    It hurts when there is no query and items carry no tags: age and kind alone decide then.
    """
    return _preset(
        "long-running", (_relevance(0.5), 60.0), (RecencyScorer(), 3.0), (FrequencyScorer(), 1.0), (KindScorer(), 1.0)
    )


def debugging() -> Pipeline:
    """For debugging: items relevant to the query or with a high priority, then kind and age.

    It keeps .93 of a coding agent's steps whole in 16,000 tokens, and .76 of the evidence for a question on a long
    conversation in 2,000 of its 20,000.
    It hurts when there is no query and everything has the same priority: kinds decide then.
    """
    return _preset(
        "debugging",
        (_relevance(0.3), 8.0),
        (PriorityScorer(), 3.0),
        (KindScorer(), 2.0),
        (RecencyScorer(), 0.5),
    )


def _relevance(neighbours: float = 0.0) -> RelevanceScorer:
    """Return a relevance scorer that needs neither an extra nor a query."""
    return RelevanceScorer(neighbours=neighbours, stem=False, optional=True)


def _preset(name: str, *scorers: tuple[Scorer, float], placer: Placer | None = None) -> Pipeline:
    """Return a pipeline: best score first, system prompts in front; pins may exceed the target, up to the window."""
    about: str = globals()[name.replace("-", "_")].__doc__ or ""  # empty under python -OO
    return Pipeline(
        scorer=CompositeScorer(scorers),
        slicer=BestFirstSlice(),
        placer=SystemFirst() if placer is None else SystemFirst(placer),
        overflow=OverflowStrategy.TRUNCATE,
        name=name,
        description=about.partition("\n")[0] or None,
        pins=_PINS,
    )
