"""`--set PATH=VALUE`: changes to a policy document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from cupel.errors import PolicyConfigError
from cupel.policy import Policy

_DEFAULTS: Final[dict[str, Any]] = {"slicer": "greedy", "placer": "chronological"}
"""What a document leaves out when it is the default, for paths that lead into it."""


def overridden(policy: Policy, assignments: Sequence[str]) -> Policy:
    """Give the policy with the assignments applied to its document, from left to right.

    >>> from cupel import presets
    >>> overridden(presets.chat(), ["slicer=knapsack", "slicer.bucket_size=10"]).slicer
    KnapsackSlice(bucket_size=10, max_cells=50000000)
    """
    if not assignments:
        return policy
    document: dict[str, Any] = json.loads(policy.to_json())
    for assignment in assignments:
        path, mark, value = assignment.partition("=")
        if not mark or not path:
            raise PolicyConfigError(f"--set {assignment}: expected PATH=VALUE, such as slicer=knapsack")
        _assign(document, path, _value(value), assignment)
    return Policy.from_dict(document)


def _value(text: str) -> Any:
    """Read a value as JSON, or as the bare word it is."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _assign(document: dict[str, Any], path: str, value: Any, assignment: str) -> None:
    *parents, last = path.split(".")
    node: Any = document
    for depth, step in enumerate(parents):
        if depth == 0 and step in _DEFAULTS:
            node.setdefault(step, _DEFAULTS[step])
        child = _child(node, step, assignment)
        if isinstance(child, str):  # a bare tag is short for an object with only a type
            child = {"type": child}
            _put(node, step, child, assignment)
        node = child
    _put(node, last, value, assignment)


def _child(node: Any, step: str, assignment: str) -> Any:
    try:
        child: Any = node[int(step) if isinstance(node, list) else step]
    except (KeyError, IndexError, ValueError, TypeError):
        raise PolicyConfigError(f"--set {assignment}: the policy has nothing at {step!r}") from None
    return child


def _put(node: Any, step: str, value: Any, assignment: str) -> None:
    if isinstance(node, dict):
        node[step] = value
        return
    try:
        node[int(step)] = value
    except (IndexError, ValueError, TypeError):
        raise PolicyConfigError(f"--set {assignment}: {step!r} is not a place in a list of {len(node)}") from None
