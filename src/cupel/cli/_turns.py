"""A recorded conversation, turn by turn, for the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from cupel.evaluation import AppendWay, EvaluationError, FitWay, Recording, SessionWay, Way, replay
from cupel.policy import Policy
from cupel.tokens import TokenCounter


def conversation_ways(policy: Policy | None = None, counter: TokenCounter | None = None) -> dict[str, Way]:
    """Return a session, and what it is measured against; without a policy each way has its own default."""
    return {
        "dropping nothing": AppendWay(),
        "choosing anew every turn": FitWay(policy, counter),
        "a session": SessionWay(policy, options={"counter": counter}),
    }


def turns_of(
    messages: Sequence[object],
    budget: int,
    policy: Policy | None,
    counter: TokenCounter | None,
    on_progress: Callable[[int, int], object],
) -> dict[str, Any] | None:
    """Return the turns of a conversation for the page: the model's calls, or its answers where it calls nothing.

    None if it never speaks.
    """
    ways, recording = conversation_ways(policy, counter), Recording(messages)
    for answers in (False, True):
        with suppress(EvaluationError):
            found = replay(recording, ways, budget, counter=counter, answers=answers, on_progress=on_progress)
            return found.page_payload()
    return None
