"""A number of items for each kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cupel._checks import shown
from cupel.errors import SlicerConfigError
from cupel.model import ContextKind
from cupel.slicers._entries import as_amount, as_kind


class ScarcityBehavior(Enum):
    """What a count slicer does when a kind has fewer candidates than it requires."""

    DEGRADE = "degrade"
    """Take what there is and record a shortfall."""
    THROW = "throw"
    """Raise `ScarcityError`."""


@dataclass(frozen=True, slots=True)
class CountQuotaEntry:
    """One kind's number of items: at least `require_count`, whatever they cost, and at most `cap_count`.

    >>> CountQuotaEntry("ToolOutput", 1, 4).cap_count
    4
    """

    kind: ContextKind
    require_count: int
    cap_count: int

    if TYPE_CHECKING:

        def __init__(self, kind: ContextKind | str, require_count: int, cap_count: int) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", as_kind(self.kind))
        for name in ("require_count", "cap_count"):
            object.__setattr__(self, name, as_amount(name, getattr(self, name), self.kind))
        if self.require_count > self.cap_count:
            msg = (
                f"require_count must not exceed cap_count for kind '{self.kind}', "
                f"got require_count={shown(self.require_count)}, cap_count={shown(self.cap_count)}"
            )
            raise SlicerConfigError(msg)
