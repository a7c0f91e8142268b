"""Policies as values: written to JSON and TOML, read back strictly, extended by tags."""

from cupel.policy._policy import Policy
from cupel.policy._registry import (
    register_placer,
    register_scorer,
    register_slicer,
    registered,
)
from cupel.policy._schema import json_schema

__all__ = [
    "Policy",
    "json_schema",
    "register_placer",
    "register_scorer",
    "register_slicer",
    "registered",
]
