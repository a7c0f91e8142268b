"""Where context items come from."""

from __future__ import annotations

from typing import ClassVar

from cupel._folded import FoldedName


class ContextSource(FoldedName):
    """Where an item came from: an open set of names, compared without ASCII case.

    >>> ContextSource("RAG") == ContextSource.RAG
    True
    """

    __slots__ = ()
    noun = "source"

    CHAT: ClassVar[ContextSource]
    TOOL: ClassVar[ContextSource]
    RAG: ClassVar[ContextSource]


ContextSource.CHAT = ContextSource.of("Chat")
ContextSource.TOOL = ContextSource.of("Tool")
ContextSource.RAG = ContextSource.of("Rag")
