"""What the modules of chat frameworks share: a framework's messages and tools, read as a provider's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cupel._checks import wrong_type
from cupel.integrations.messages._dialect import DIALECTS, FRAMEWORK, Dialect
from cupel.integrations.messages._fit import fit_view

if TYPE_CHECKING:
    from cupel.integrations.messages import Fitted
    from cupel.model import ContextBudget
    from cupel.pipeline import Pipeline
    from cupel.policy import Policy
    from cupel.tokens import TokenCounter

__all__ = ["ANTHROPIC", "ANY_PROVIDER", "Framework"]

M = TypeVar("M")

ANY_PROVIDER = FRAMEWORK
"""For views like chat-completions messages, whichever provider they are sent to in the end."""
ANTHROPIC = DIALECTS["anthropic"]
"""For views like Anthropic's messages, where results and words may be one message."""


@dataclass(frozen=True, slots=True)
class Framework(Generic[M]):
    """One framework: what its messages are, and how they and its tools read; `fit` gives back the caller's objects."""

    message: type[M] | tuple[type[M], ...]
    views: Callable[[Sequence[M]], Iterable[Mapping[str, Any]]]
    """All messages of a history, translated into the dialect."""
    schema: Callable[[Any], Mapping[str, Any]]
    """The schema of one of the framework's tools."""
    dialect: Dialect = ANY_PROVIDER

    def fit(
        self,
        messages: Iterable[M],
        budget: int | ContextBudget,
        policy: Policy | Pipeline | None,
        counter: TokenCounter | None,
        tools: Iterable[Any] | None,
        *,
        pin: Callable[[M], bool] | None,
        system: str | None = None,
    ) -> Fitted[M]:
        """Fit a history into a budget."""
        history = list(messages)
        for position, message in enumerate(history):
            if not isinstance(message, self.message):
                raise wrong_type(f"messages[{position}]", "a message of the framework", message)
        views = iter(self.views(history))
        return fit_view(
            history,
            budget,
            dialect=self.dialect,
            view=lambda _: next(views),
            policy=policy,
            counter=counter,
            tools=[self._schema(position, tool) for position, tool in enumerate(tools or ())],
            system=system,
            pin=pin,
        )

    def _schema(self, position: int, tool: Any) -> Mapping[str, Any]:
        if isinstance(tool, Mapping):
            return tool  # pyright: ignore[reportUnknownVariableType]
        try:
            return self.schema(tool)
        except (AttributeError, TypeError, ValueError) as error:
            raise wrong_type(f"tools[{position}]", "a tool of the framework or its schema", tool) from error
