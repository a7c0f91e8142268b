"""Placers decide in which order the model reads the selection."""

from cupel.placers._base import Placer
from cupel.placers._chronological import ChronologicalPlacer
from cupel.placers._system_first import SystemFirst
from cupel.placers._u_shaped import UShapedPlacer

__all__ = ["ChronologicalPlacer", "Placer", "SystemFirst", "UShapedPlacer"]
