"""`--set PATH=VALUE`: changes to a policy document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from cupel._checks import shown
from cupel._wire import TOO_DEEP, RefusedError, strict_decoder
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
        path, mark, value = assignment.partition("=")
        if not mark or not path:
            raise PolicyConfigError(f"--set {_short(assignment)}: expected PATH=VALUE, such as slicer=knapsack")
        _assign(document, path, _value(value, assignment), assignment)
    return Policy.from_dict(document)


def _value(text: str, assignment: str) -> Any:
    """Read a value as JSON, or as the bare word it is."""
    try:
        return strict_decoder().decode(text)
    except json.JSONDecodeError:
        return text
    except (RecursionError, RefusedError) as error:
        problem = TOO_DEEP if isinstance(error, RecursionError) else error
        raise PolicyConfigError(f"--set {_short(assignment)}: {problem}") from None


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
        raise PolicyConfigError(f"--set {_short(assignment)}: the policy has nothing at {shown(step)}") from None
    return child


def _put(node: Any, step: str, value: Any, assignment: str) -> None:
    if isinstance(node, dict):
        node[step] = value
        return
    try:
        node[int(step)] = value
    except (IndexError, ValueError, TypeError):
        raise PolicyConfigError(f"--set {_short(assignment)}: {_no_place(node, step)}") from None


def _no_place(node: Any, step: str) -> str:
    entries: list[Any] = node
    if isinstance(node, list):
        return f"{shown(step)} is not a place in a list of {len(entries)}"
    return f"{shown(step)} cannot be set in {shown(node)}"


def _short(assignment: str) -> str:
    return shown(assignment)[1:-1]
