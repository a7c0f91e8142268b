"""The documents of the built-in placers, one declaration each."""

from __future__ import annotations

from cupel.placers import ChronologicalPlacer, SystemFirst, UShapedPlacer
from cupel.policy._record import Key
from cupel.policy._registry import PLACERS

__all__ = ["PLACERS"]

PLACERS.declare("chronological", ChronologicalPlacer)
PLACERS.declare("u_shaped", UShapedPlacer)
PLACERS.declare("system_first", SystemFirst, Key("inner", PLACERS))
