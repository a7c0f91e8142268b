"""What goes wrong when fitting messages."""

from __future__ import annotations

from cupel.errors import PinnedExceedsBudgetError


class PinnedMessagesExceedBudgetError(PinnedExceedsBudgetError):
    """What must be sent does not fit; `parts` says what that is, as pairs of a description and its tokens."""

    def __init__(self, pinned_tokens: int, available_tokens: int, parts: tuple[tuple[str, int], ...]) -> None:
        super().__init__(pinned_tokens, available_tokens)
        self.args = (pinned_tokens, available_tokens, parts)  # what pickling rebuilds it from
        self.parts = parts

    @property
    def excess_tokens(self) -> int:
        """By how much it does not fit."""
        return self.pinned_tokens - self.available_tokens

    def __str__(self) -> str:
        listed = "; ".join(f"{description}: {tokens}" for description, tokens in self.parts)
        return (
            f"the pinned messages need {self.pinned_tokens} tokens, {self.excess_tokens} more than the "
            f"{self.available_tokens} available ({listed})"
        )
