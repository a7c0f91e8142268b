"""How many tokens a selection may use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self, cast

import msgspec
from msgspec.structs import force_setattr

from cupel._checks import MOST_TOKENS, as_finite, as_integer, shown
from cupel._folded import folded_map
from cupel._frozen import EMPTY
from cupel._portable import Portable
from cupel.errors import InvalidBudgetError
from cupel.model._kind import ContextKind

_NO_MARGIN: Final = 0.0
_WHOLE: Final = cast("int", msgspec.UNSET)
"""The target of a budget that names none: the whole window."""


class _Required(msgspec.Struct, frozen=True):
    """The two positional fields; a separate base because msgspec makes keyword-only fields per class."""

    max_tokens: int
    target_tokens: int = _WHOLE


class ContextBudget(_Required, Portable, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The token budget of a selection; frozen, validated once.

    `max_tokens` is the model's window, `target_tokens` the size that the selection aims for, by default the whole
    window, `output_reserve` the tokens that the answer needs. `reserved_slots` are token amounts held back per kind;
    they shrink the budget even if no such item exists. They may exceed the window: then nothing but pinned items is
    selected. `estimation_safety_margin_percent` shrinks the rest, for token counts that are estimates.

    >>> ContextBudget(8000, 6000, output_reserve=1000).unreserved_capacity
    7000
    """

    _document = "cupel._documents:BUDGET"

    output_reserve: int = 0
    reserved_slots: Mapping[ContextKind, int] = EMPTY
    estimation_safety_margin_percent: float = _NO_MARGIN

    if TYPE_CHECKING:

        def __init__(
            self,
            max_tokens: int,
            target_tokens: int = ...,
            *,
            output_reserve: int = ...,
            reserved_slots: Mapping[ContextKind, int] | Mapping[str, int] = ...,
            estimation_safety_margin_percent: float = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        # A well-formed budget passes by comparisons alone, because every run makes some; the rest is for messages.
        if self.target_tokens is _WHOLE:
            force_setattr(self, "target_tokens", self.max_tokens)
        most, target, reserve = self.max_tokens, self.target_tokens, self.output_reserve
        is_whole = type(most) is type(target) is type(reserve) is int
        if not (is_whole and 0 <= target <= most <= MOST_TOKENS and 0 <= reserve <= most):
            for field, value in _checked(max_tokens=most, target_tokens=target, output_reserve=reserve).items():
                force_setattr(self, field, value)
        if self.reserved_slots is not EMPTY:
            slots = folded_map(
                self.reserved_slots,  # type: ignore[arg-type]
                ContextKind,
                lambda value, where: _whole(where, value),
                field="reserved_slots",
                error=InvalidBudgetError,
            )
            force_setattr(self, "reserved_slots", slots or EMPTY)  # the repr leaves out what is the default itself
        margin = self.estimation_safety_margin_percent
        if margin is not _NO_MARGIN:
            percent = as_finite(
                "estimation_safety_margin_percent", margin, error=InvalidBudgetError, least=0.0, most=100.0
            )
            force_setattr(self, "estimation_safety_margin_percent", percent or _NO_MARGIN)

    @classmethod
    def of(cls, budget: ContextBudget | int, *, name: str = "budget") -> ContextBudget:
        """Return the budget; turn an integer into a window of that many tokens with the same target.

        >>> ContextBudget.of(8000)
        ContextBudget(max_tokens=8000, target_tokens=8000)
        """
        if isinstance(budget, ContextBudget):
            return budget
        tokens = as_integer(name, budget, expected="a ContextBudget or an integer", least=0, error=InvalidBudgetError)
        return cls(tokens, tokens)

    @property
    def total_reserved(self) -> int:
        """Output reserve plus all reserved slots."""
        return self.output_reserve + sum(self.reserved_slots.values())

    @property
    def unreserved_capacity(self) -> int:
        """The tokens of the window that are not reserved; negative when the reservations exceed it."""
        return self.max_tokens - self.total_reserved

    @property
    def has_capacity(self) -> bool:
        """Whether anything is left after everything reserved."""
        return self.unreserved_capacity > 0

    def extended(self, tokens: int) -> ContextBudget:
        """Return the same budget with `tokens` more in both the window and the target (fewer when negative)."""
        more = as_integer("tokens", tokens)
        return self.replace(max_tokens=self.max_tokens + more, target_tokens=self.target_tokens + more)

    def replace(self, **changes: Any) -> Self:
        """Make a copy with some fields changed, checked like any budget.

        >>> ContextBudget(8000, 6000).replace(output_reserve=500)
        ContextBudget(max_tokens=8000, target_tokens=6000, output_reserve=500)
        """
        return msgspec.structs.replace(self, **changes)

    def __hash__(self) -> int:
        return hash((self.max_tokens, self.target_tokens, self.output_reserve, self.estimation_safety_margin_percent))


def _checked(**parts: object) -> dict[str, int]:
    checked = {field: _whole(field, value) for field, value in parts.items()}
    for field, value in checked.items():
        if value > checked["max_tokens"]:
            msg = f"{field} must not exceed max_tokens={shown(checked['max_tokens'])}, got {shown(value)}"
            raise InvalidBudgetError(msg)
    return checked


def _whole(field: str, value: object) -> int:
    return as_integer(field, value, least=0, most=MOST_TOKENS, error=InvalidBudgetError)
