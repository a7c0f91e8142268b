"""LangChain and LangGraph: message lists, a runnable, a pre-model hook and a document transformer.

Needs `cupel-context[langchain]`.
"""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from cupel.errors import MissingExtraError
from cupel.integrations._documents import select_documents
from cupel.messages import FitOptions, Fitted
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline
from cupel.tokens import TokenCounter

try:
    from langchain_core.documents import BaseDocumentTransformer, Document
    from langchain_core.messages import BaseMessage, convert_to_messages
    from langchain_core.prompt_values import PromptValue
    from langchain_core.runnables import Runnable, RunnableLambda
except ImportError:
    raise MissingExtraError("langchain-core", "langchain") from None

from cupel.integrations._langchain import LANGCHAIN

__all__ = ["DocumentSelector", "fit_messages", "message_fitter", "pre_model_hook"]


def fit_messages(
    messages: Sequence[BaseMessage],
    budget: int | ContextBudget,
    policy: Pipeline | None = None,
    counter: TokenCounter | None = None,
    tools: Sequence[Any] | None = None,
    **options: Unpack[FitOptions[BaseMessage]],
) -> Fitted[BaseMessage]:
    """Fit LangChain messages as `cupel.messages.fit` does: the same objects come back.

    The result suits every chat model: calls stay with their results, and the first message after the system prompts is
    a human one.
    """
    return LANGCHAIN.fit(messages, budget, policy, counter, tools, **options)


def message_fitter(
    budget: int | ContextBudget,
    policy: Pipeline | None = None,
    counter: TokenCounter | None = None,
    tools: Sequence[Any] | None = None,
    **options: Unpack[FitOptions[BaseMessage]],
) -> Runnable[Any, list[BaseMessage]]:
    """Return a runnable that fits what passes through it: a prompt, messages, or a text, as a model would take them.

    It stands between a prompt and a model: `prompt | message_fitter(8000) | model`.
    """

    def fit_input(value: Any) -> list[BaseMessage]:
        return fit_messages(_messages(value), budget, policy, counter, tools, **options).messages

    return RunnableLambda(fit_input, name="cupel.message_fitter")


def pre_model_hook(
    budget: int | ContextBudget,
    policy: Pipeline | None = None,
    counter: TokenCounter | None = None,
    tools: Sequence[Any] | None = None,
    **options: Unpack[FitOptions[BaseMessage]],
) -> Callable[[Any], dict[str, list[BaseMessage]]]:
    """Return a `pre_model_hook` for LangGraph agents: the model sees what fits, the graph's state keeps everything."""

    def hook(state: Any) -> dict[str, list[BaseMessage]]:
        messages: Sequence[BaseMessage] = state["messages"] if isinstance(state, Mapping) else state.messages
        fitted = fit_messages(messages, budget, policy, counter, tools, **options)
        return {"llm_input_messages": fitted.messages}

    return hook


class DocumentSelector(BaseDocumentTransformer):  # type: ignore[misc, unused-ignore]
    """Keeps the documents that fit a budget, the best of them at both ends unless the policy says otherwise.

    A document's relevance is its metadata's `score_key`, or else its rank.
    """

    def __init__(
        self,
        budget: int | ContextBudget,
        policy: Pipeline | None = None,
        counter: TokenCounter | None = None,
        *,
        score_key: str = "relevance_score",
    ) -> None:
        self.budget = budget
        self.policy = policy
        self.counter = counter
        self.score_key = score_key

    def transform_documents(
        self, documents: Sequence[Document], *, query: str | None = None, **_kwargs: Any
    ) -> Sequence[Document]:
        """Return the documents that fit; `query` is what a policy that scores by relevance looks for."""
        return select_documents(
            documents,
            self.budget,
            self.policy,
            self.counter,
            text=lambda document: document.page_content,
            score=lambda document: document.metadata.get(self.score_key),
            query=query,
        )


def _messages(value: Any) -> list[BaseMessage]:
    """Whatever a model takes, as messages; messages stay the objects they are."""
    if isinstance(value, PromptValue):
        return list(value.to_messages())
    return list(convert_to_messages([value] if isinstance(value, str) else value))
