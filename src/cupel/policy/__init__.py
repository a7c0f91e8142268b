"""Policies as values: written to JSON and TOML, read back strictly, extended by tags."""

from cupel.policy._policy import Policy, json_schema
from cupel.policy._registry import (
    register_placer,
    register_scorer,
    register_slicer,
    registered,
)

__all__ = [
    "Policy",
    "json_schema",
    "register_placer",
    "register_scorer",
    "register_slicer",
    "registered",
]
