"""Kinds and sources: names that compare without ASCII case."""

from __future__ import annotations

from typing import ClassVar

from cupel._folded import FoldedName


class ContextKind(FoldedName):
    """The type of an item, such as `Message` or `Document`: an open set of names, compared without ASCII case.

    Any non-blank string is a kind; the five well-known ones are class attributes.

    >>> ContextKind("Message") == ContextKind("mEsSaGe")
    True
    >>> str(ContextKind("mEsSaGe"))
    'mEsSaGe'
    """

    __slots__ = ()
    noun = "kind"

    MESSAGE: ClassVar[ContextKind]
    DOCUMENT: ClassVar[ContextKind]
    TOOL_OUTPUT: ClassVar[ContextKind]
    MEMORY: ClassVar[ContextKind]
    SYSTEM_PROMPT: ClassVar[ContextKind]


ContextKind.MESSAGE = ContextKind.of("Message")
ContextKind.DOCUMENT = ContextKind.of("Document")
ContextKind.TOOL_OUTPUT = ContextKind.of("ToolOutput")
ContextKind.MEMORY = ContextKind.of("Memory")
ContextKind.SYSTEM_PROMPT = ContextKind.of("SystemPrompt")


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
