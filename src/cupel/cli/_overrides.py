"""`--set PATH=VALUE`: changes to a policy document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from cupel._checks import shown
from cupel._documents import TOO_DEEP, is_list, is_object, strict_decoder
from cupel.errors import PolicyConfigError
from cupel.policy import Policy

_DEFAULTS: Final[dict[str, Any]] = {"slicer": "greedy", "placer": "chronological"}
"""What a document leaves out when it is the default, for paths that lead into it."""


def overridden(policy: Policy, assignments: Sequence[str]) -> Policy:
    """Return the policy with the assignments applied to its document, from left to right.

    >>> from cupel import presets
    >>> overridden(presets.chat(), ["slicer=knapsack", "slicer.bucket_size=10"]).slicer
    KnapsackSlice(bucket_size=10, max_cells=50000000)
    """
    if not assignments:
        return policy
    document: dict[str, Any] = json.loads(policy.to_json())
    for assignment in assignments:
        try:
            _apply(document, assignment)
        except ValueError as error:
            raise PolicyConfigError(f"--set {shown(assignment)[1:-1]}: {error}") from None
    return Policy.from_dict(document)


def _apply(document: dict[str, Any], assignment: str) -> None:
    path, mark, text = assignment.partition("=")
    if not mark or not path:
        raise ValueError("expected PATH=VALUE, such as slicer=knapsack")
    value = _value(text)
    *parents, last = path.split(".")
    if parents and parents[0] in _DEFAULTS:
        document.setdefault(parents[0], _DEFAULTS[parents[0]])
    node: Any = document
    for step in parents:
        child = _child(node, step)
        if isinstance(child, str):  # a bare tag is short for an object with only a type
            child = {"type": child}
            _put(node, step, child)
        node = child
    _put(node, last, value)


def _value(text: str) -> Any:
    """Read a value as JSON, or as the bare word it is."""
    try:
        return strict_decoder().decode(text)
    except json.JSONDecodeError:
        return text
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def _child(node: Any, step: str) -> Any:
    try:
        child: Any = node[int(step) if is_list(node) else step]
    except (KeyError, IndexError, ValueError, TypeError):
        raise ValueError(f"the policy has nothing at {shown(step)}") from None
    return child


def _put(node: Any, step: str, value: Any) -> None:
    try:
        node[step if is_object(node) else int(step)] = value
    except (IndexError, ValueError, TypeError):
        where = f"is not a place in a list of {len(node)}" if is_list(node) else f"cannot be set in {shown(node)}"
        raise ValueError(f"{shown(step)} {where}") from None
