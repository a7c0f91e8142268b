"""Conversations as requests: a line of messages, of which `fit` keeps what the budget allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cupel.batch._choice import Choice, written_report
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Conversation:
    """A selection of messages, in any format that `fit` reads."""

    messages: Any
    budget: ContextBudget
    query: str | None = None
    system: Any = None
    tools: Any = None

    def select(self, pipeline: Pipeline, *, report: bool) -> Choice:
        """Fit the messages; what is selected are their positions."""
        from cupel.integrations.messages import fit  # for those who have messages

        fitted = fit(self.messages, self.budget, pipeline, system=self.system, tools=self.tools, query=self.query)
        dropped = {position for unit in fitted.dropped for position in unit.positions}
        kept = [position for position in range(len(self.messages)) if position not in dropped]
        text = written_report(fitted.report) if report else None
        return Choice(kept, fitted.total_tokens, len(self.messages), text)
